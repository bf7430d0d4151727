//! Text of `blkparse` in its default layout: `major,minor cpu sequence seconds pid action RWBS sector + sectors [process]`.
//!
//! A request appears once per stage, so one action counts (Q by default: arrival of requests). A summary follows the
//! events. `A` in RWBS after the direction marks read-ahead of the traced kernel.

use super::fields::{self, Fields, need};
use super::interned::Names;
use super::lines::LineFormat;
use super::records::Line;
use super::{Flags, Op, Passed, Reason, Record};

const SECOND_NS: u64 = 1_000_000_000;

/// Actions that blkparse prints.
const ACTIONS: &[&[u8]] = &[
    b"Q", b"G", b"I", b"D", b"C", b"M", b"F", b"S", b"R", b"X", b"A", b"B", b"P", b"U", b"UT", b"T", b"m", b"N", b"H",
    b"E",
];

/// Parser for one action.
pub(super) struct Blkparse {
    action: u8,
    devices: Names,
    in_summary: bool,
}

impl Blkparse {
    pub(super) fn new(action: u8) -> Blkparse {
        Blkparse { action, devices: Names::of_devices(), in_summary: false }
    }
}

impl LineFormat for Blkparse {
    const EXPECTED: &'static str = "major,minor cpu sequence seconds pid action RWBS sector + sectors [process]";

    fn line(&mut self, line: &[u8]) -> Result<Line, Reason> {
        let mut f = Fields(line);
        let Some(device) = f.next() else { return Ok(Line::Passed(Passed::Blank)) };
        self.in_summary |= starts_summary(line);
        if self.in_summary {
            return Ok(Line::Passed(Passed::Summary));
        }
        if device.starts_with(b"#") {
            return Ok(Line::Passed(Passed::Comment));
        }
        let mut numbers = fields::Separated::new(device, b',');
        fields::integer(need(&mut numbers)?)?;
        fields::integer(need(&mut numbers)?)?;
        fields::integer(need(&mut f)?)?;
        fields::integer(need(&mut f)?)?;
        let time_ns = fields::time_ns(need(&mut f)?, SECOND_NS)?;
        let client = fields::integer32(need(&mut f)?)?;
        let action = need(&mut f)?;
        if action != [self.action] {
            let known = ACTIONS.contains(&action);
            return if known { Ok(Line::Passed(Passed::OtherAction)) } else { Err(Reason::UnknownOp) };
        }
        let Some((op, flags)) = direction(need(&mut f)?)? else { return Ok(Line::Passed(Passed::NotATransfer)) };
        // A request without data has no sector, or the process right after it.
        let Some(sector) = f.next().filter(|s| !s.starts_with(b"[")) else {
            return Ok(Line::Passed(Passed::NotATransfer));
        };
        let offset = fields::blocks_offset(fields::integer(sector)?, 512)?;
        if need(&mut f)? != b"+" {
            return Err(Reason::FieldsMissing);
        }
        let length = fields::blocks_length(fields::integer(need(&mut f)?)?, 512)?;
        let device = self.devices.device(device)?;
        Ok(Line::Record(Record { time_ns, offset, length, client, device, op, flags, file: 0 }))
    }
}

/// Returns whether a line begins the summary: `CPU0 (sda):` or `Total (...)`.
pub(super) fn starts_summary(line: &[u8]) -> bool {
    (line.starts_with(b"CPU") || line.starts_with(b"Total (")) && line.trim_ascii_end().ends_with(b":")
}

/// Parses the letters of RWBS; `None` if no data move.
fn direction(rwbs: &[u8]) -> Result<Option<(Op, Flags)>, Reason> {
    let mut letters = rwbs;
    // A flush may precede the direction (`FWS`); the rest are suffixes.
    if let [b'F', rest @ ..] = letters {
        letters = rest;
    }
    let (op, marks) = match letters {
        [b'R', rest @ ..] => (Op::Read, rest),
        [b'W', rest @ ..] => (Op::Write, rest),
        [b'D', b'E', rest @ ..] | [b'D', rest @ ..] => (Op::Trim, rest),
        [] | [b'N' | b'S', ..] => return Ok(None),
        _ => return Err(Reason::UnknownOp),
    };
    let mut flags = Flags::NONE;
    for mark in marks {
        match mark {
            b'A' => flags = flags.with(Flags::SPECULATIVE),
            b'S' => flags = flags.with(Flags::SYNC),
            b'M' => flags = flags.with(Flags::META),
            b'F' | b'B' | b'E' | b'N' => {}
            _ => return Err(Reason::UnknownOp),
        }
    }
    Ok(Some((op, flags)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
  8,0    3        1     0.000000000   697  A   W 223490 + 8 <- (8,1) 223427
  8,0    3        2     0.000010000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        3     0.000020000   697  G   W 223490 + 8 [kjournald]
  8,0    3        4     0.000030000   697  P   N [kjournald]
  8,16   1        1     0.500000000   12   Q  RA 1000 + 256 [cat]
  8,16   1        2     0.600000000   12   Q WSM 8 + 8 [cat]
  8,16   1        3     0.700000000   12   Q FWS [jbd2]
  8,0    3        5     0.800000000     0  C   W 223490 + 8 [0]
CPU3 (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:         1,        4KiB
Total (8,0):
 Reads Queued:           0,        0KiB
";

    fn records(action: u8) -> Vec<Record> {
        let mut blkparse = Blkparse::new(action);
        let lines = LOG.lines().map(|l| blkparse.line(l.as_bytes()).unwrap_or_else(|e| panic!("{l}: {e:?}")));
        lines.filter_map(|l| if let Line::Record(r) = l { Some(r) } else { None }).collect()
    }

    #[test]
    fn one_action_counts_and_read_ahead_is_marked() {
        let seen = records(b'Q');
        assert_eq!(seen.len(), 3);
        let first = Record {
            time_ns: 10_000,
            offset: 223_490 * 512,
            length: 4096,
            client: 697,
            op: Op::Write,
            ..Record::default()
        };
        assert_eq!(seen[0], first);
        assert_eq!((seen[1].device, seen[1].op, seen[1].flags), (1, Op::Read, Flags::SPECULATIVE));
        assert_eq!(seen[2].flags, Flags::SYNC.with(Flags::META));
        assert_eq!(records(b'C').len(), 1);
    }

    #[test]
    fn damages() {
        let mut blkparse = Blkparse::new(b'Q');
        assert_eq!(blkparse.line(b"8,0 3 1 0.0 697 Q W 100 8"), Err(Reason::FieldsMissing));
        assert_eq!(blkparse.line(b"8,0 3 1 0.0 697 Q"), Err(Reason::FieldsMissing));
        assert_eq!(blkparse.line(b"8,0 3 1 0.0 697 ZZ W 1 + 8"), Err(Reason::UnknownOp));
        assert_eq!(blkparse.line(b"8,0 3 1 0.0 697 Q Wq 1 + 8"), Err(Reason::UnknownOp));
        assert_eq!(blkparse.line(b"80 3 1 0.0 697 Q W 1 + 8"), Err(Reason::FieldsMissing));
    }
}
