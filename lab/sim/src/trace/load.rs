//! blkreplay's `.load`: a preamble of prose, a line of headings, then `start ; sector ; length ; op ; delay ; duration`.
//!
//! Start is decimal seconds, sector and length count 512 bytes, op is R, RA (read-ahead of the traced kernel) or W.
//! The preamble is everything before the first line with three semicolons; there may be several, or none.

use super::fields::{self, Separated, need};
use super::lines::LineFormat;
use super::records::Line;
use super::{Flags, Op, Passed, Reason, Record};

const SECOND_NS: u64 = 1_000_000_000;

/// Parser, with its position in the file.
#[derive(Default)]
pub(super) struct Load {
    in_data: bool,
}

impl LineFormat for Load {
    const EXPECTED: &'static str = "seconds ; sector ; sectors ; R|W [; delay ; duration]";

    fn line(&mut self, line: &[u8]) -> Result<Line, Reason> {
        let line = line.trim_ascii();
        if line.starts_with(b"start") {
            return Ok(Line::Passed(Passed::Header));
        }
        if line.is_empty() {
            return Ok(Line::Passed(Passed::Blank));
        }
        if line.starts_with(b"#") {
            return Ok(Line::Passed(Passed::Comment));
        }
        self.in_data = self.in_data || line.iter().filter(|b| **b == b';').count() >= 3;
        if !self.in_data {
            return Ok(Line::Passed(Passed::Header));
        }
        let mut f = Separated::new(line, b';');
        let time_ns = fields::time_ns(need(&mut f)?, SECOND_NS)?;
        let sector = fields::integer(need(&mut f)?)?;
        let sectors = fields::integer(need(&mut f)?)?;
        let (op, flags) = match need(&mut f)? {
            b"R" | b"r" => (Op::Read, Flags::NONE),
            b"W" | b"w" => (Op::Write, Flags::NONE),
            // As blktrace wrote it: read-ahead of the traced kernel.
            b"RA" => (Op::Read, Flags::SPECULATIVE),
            _ => return Err(Reason::UnknownOp),
        };
        let (offset, length) = (fields::blocks_offset(sector, 512)?, fields::blocks_length(sectors, 512)?);
        Ok(Line::Record(Record { time_ns, offset, length, op, flags, ..Record::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_headings_and_requests() {
        let mut load = Load::default();
        let preamble: [(&[u8], Passed); 5] = [
            (b"Copyright of somebody; 2012", Passed::Header),
            (b"", Passed::Blank),
            (b"#######", Passed::Comment),
            (b"start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0", Passed::Header),
            (b"more prose; of another hand", Passed::Header),
        ];
        for (line, passed) in preamble {
            assert_eq!(load.line(line), Ok(Line::Passed(passed)));
        }
        let expected =
            Record { time_ns: 449_518_165, offset: 1000 * 512, length: 7168, op: Op::Write, ..Record::default() };
        assert_eq!(load.line(b"      0.449518165 ;     1000 ;   14 ; W ; 0.0 ; 0.0"), Ok(Line::Record(expected)));
        let read_ahead = load.line(b"1.0 ; 8 ; 8 ;RA ; 0.0 ; 0.0");
        assert!(matches!(read_ahead, Ok(Line::Record(r)) if r.flags == Flags::SPECULATIVE), "{read_ahead:?}");
        assert_eq!(load.line(b"some words"), Err(Reason::NotANumber));
        assert_eq!(load.line(b"1.0 ; 3"), Err(Reason::FieldsMissing));
        assert_eq!(load.line(b"1.0 ; 3 ; 8388608 ; R"), Err(Reason::OutOfRange));
    }

    #[test]
    fn a_file_without_preamble_is_read_from_its_first_line() {
        let mut load = Load::default();
        assert!(matches!(load.line(b"0.5;8;16;R;0.0;0.0"), Ok(Line::Record(r)) if r.length == 8192));
    }
}
