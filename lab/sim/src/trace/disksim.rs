//! DiskSim ASCII: `arrival device block sectors flags`, in a unit of time that the user must give.
//!
//! Blocks are sectors of 512 bytes; bit 0 of the flags means a read. DiskSim writes milliseconds with decimals, MQSim and
//! SSDsim use the same columns with integer nanoseconds.

use super::fields::{self, Fields, need};
use super::lines::{Line, LineFormat};
use super::{Op, Passed, Reason, Record, TimeUnit};

/// Parser for a given unit.
pub(super) struct Disksim {
    unit_ns: u64,
}

impl Disksim {
    pub(super) fn new(unit: TimeUnit) -> Disksim {
        Disksim { unit_ns: unit.ns() }
    }
}

impl LineFormat for Disksim {
    const EXPECTED: &'static str = "arrival device sector sectors flags (bit 0: read)";

    fn line(&mut self, line: &[u8]) -> Result<Line, Reason> {
        let mut f = Fields(line);
        let Some(time) = f.next() else { return Ok(Line::Passed(Passed::Blank)) };
        if time.starts_with(b"#") {
            return Ok(Line::Passed(Passed::Comment));
        }
        let time_ns = fields::time_ns(time, self.unit_ns)?;
        let device = u16::try_from(fields::integer(need(&mut f)?)?).map_err(|_| Reason::OutOfRange)?;
        let offset = fields::blocks_offset(fields::integer(need(&mut f)?)?, 512)?;
        let length = fields::blocks_length(fields::integer(need(&mut f)?)?, 512)?;
        let op = if flags(need(&mut f)?)? & 1 == 1 { Op::Read } else { Op::Write };
        Ok(Line::Record(Record { time_ns, offset, length, device, op, ..Record::default() }))
    }
}

/// Parses the flags, which DiskSim takes as hexadecimal; the bit is in the last digit.
fn flags(field: &[u8]) -> Result<u64, Reason> {
    let text = std::str::from_utf8(field).map_err(|_| Reason::NotANumber)?;
    if text.starts_with('+') {
        return Err(Reason::NotANumber);
    }
    u64::from_str_radix(text, 16).map_err(|_| Reason::NotANumber)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_given_from_outside() {
        let expected = Record { time_ns: 2_500_000, offset: 80 * 512, length: 4096, device: 1, ..Record::default() };
        assert_eq!(Disksim::new(TimeUnit::Ms).line(b"2.5 1 80 8 1"), Ok(Line::Record(expected)));
        assert_eq!(Disksim::new(TimeUnit::Ns).line(b"2500000\t1 80 8 1\t"), Ok(Line::Record(expected)));
        let write = Record { op: Op::Write, ..expected };
        assert_eq!(Disksim::new(TimeUnit::Ms).line(b"2.500000 1 80 8 0"), Ok(Line::Record(write)));
        assert_eq!(Disksim::new(TimeUnit::Ms).line(b"2.500000 1 80 8 4"), Ok(Line::Record(write)));
    }

    #[test]
    fn damages() {
        let mut disksim = Disksim::new(TimeUnit::S);
        assert_eq!(disksim.line(b"1 0 80 8"), Err(Reason::FieldsMissing));
        assert_eq!(disksim.line(b"1 0 80 8 read"), Err(Reason::NotANumber));
        assert_eq!(disksim.line(b"1 -1 80 8 1"), Err(Reason::OutOfRange));
        assert_eq!(disksim.line(b"20000000000 0 80 8 1"), Err(Reason::OutOfRange));
    }
}
