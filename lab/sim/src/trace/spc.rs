//! SPC ASCII 1.0.1: `ASU,LBA,Size,Opcode,Timestamp[,...]`, as in the UMass repository.
//!
//! LBA counts sectors of 512 bytes within the unit (ASU), Size is bytes, Opcode r, R, w or W, Timestamp decimal seconds.

use super::fields::{self, Separated, need};
use super::lines::{Line, LineFormat};
use super::{Op, Passed, Reason, Record};

const SECOND_NS: u64 = 1_000_000_000;

/// Parser; the unit is the device.
pub(super) struct Spc;

impl LineFormat for Spc {
    const EXPECTED: &'static str = "ASU,LBA,bytes,r|w,seconds";

    fn line(&mut self, line: &[u8]) -> Result<Line, Reason> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(Line::Passed(Passed::Blank));
        }
        let mut f = Separated::new(line, b',');
        let device = fields::integer(need(&mut f)?)?;
        let sector = fields::integer(need(&mut f)?)?;
        let length = fields::integer32(need(&mut f)?)?;
        let op = match need(&mut f)? {
            b"r" | b"R" => Op::Read,
            b"w" | b"W" => Op::Write,
            _ => return Err(Reason::UnknownOp),
        };
        Ok(Line::Record(Record {
            time_ns: fields::time_ns(need(&mut f)?, SECOND_NS)?,
            offset: fields::blocks_offset(sector, 512)?,
            length,
            device: u16::try_from(device).map_err(|_| Reason::OutOfRange)?,
            op,
            ..Record::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_and_its_damages() {
        let expected = Record {
            time_ns: 1_500_000,
            offset: 1000 * 512,
            length: 3584,
            device: 2,
            op: Op::Write,
            ..Record::default()
        };
        assert_eq!(Spc.line(b"2,1000,3584,w,0.0015"), Ok(Line::Record(expected)));
        assert_eq!(Spc.line(b" 2, 1000 ,3584, W ,0.001500,more,fields"), Ok(Line::Record(expected)));
        assert_eq!(Spc.line(b"   "), Ok(Line::Passed(Passed::Blank)));
        let damages: [(&[u8], Reason); 6] = [
            (b"2,1000,3584,w", Reason::FieldsMissing),
            (b"2,1000,3584,x,0.1", Reason::UnknownOp),
            (b"2,,3584,r,0.1", Reason::NotANumber),
            (b"70000,1,512,r,0.1", Reason::OutOfRange),
            (b"0,36028797018963968,512,r,0.1", Reason::BeyondEnd),
            (b"0,1,512,r,later", Reason::NotANumber),
        ];
        for (line, reason) in damages {
            assert_eq!(Spc.line(line), Err(reason), "{}", String::from_utf8_lossy(line));
        }
    }
}
