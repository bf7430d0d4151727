//! `.lis` of the ARC paper: `start_block n_blocks ignored request_number`, all reads, no times.
//!
//! A line is one request of `n_blocks` references. The size of a block is not given (512 bytes for the P traces, a
//! page for OLTP).

use super::fields::{self, Fields, need};
use super::lines::{Line, LineFormat};
use super::{Passed, Reason, Record};

/// Parser for blocks of a given size.
pub(super) struct Arc {
    pub(super) block_bytes: u32,
}

impl LineFormat for Arc {
    const EXPECTED: &'static str = "start_block n_blocks ignored request_number";

    fn has_times(&self) -> bool {
        false
    }

    fn line(&mut self, line: &[u8]) -> Result<Line, Reason> {
        let mut f = Fields(line);
        let Some(start) = f.next() else { return Ok(Line::Passed(Passed::Blank)) };
        let start = fields::integer(start)?;
        let blocks = fields::integer(need(&mut f)?)?;
        need(&mut f)?;
        need(&mut f)?;
        let offset = fields::blocks_offset(start, self.block_bytes)?;
        let length = fields::blocks_length(blocks, self.block_bytes)?;
        Ok(Line::Record(Record { offset, length, ..Record::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_spans_its_blocks() {
        let mut arc = Arc { block_bytes: 512 };
        let expected = Record { offset: 100 * 512, length: 64 * 512, ..Record::default() };
        assert_eq!(arc.line(b"100 64 0 1"), Ok(Line::Record(expected)));
        assert_eq!(arc.line(b"100 64 0"), Err(Reason::FieldsMissing));
        assert_eq!(arc.line(b"100 8388608 0 1"), Err(Reason::OutOfRange));
        assert_eq!(arc.line(b"36028797018963968 2 0 1"), Err(Reason::BeyondEnd));
    }
}
