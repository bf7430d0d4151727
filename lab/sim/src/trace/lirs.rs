//! References of the LIRS distribution: one block number per line; `*` marks places where its authors print state.

use super::fields;
use super::lines::{Line, LineFormat};
use super::{Passed, Reason, Record};

/// Parser for blocks of a given size.
pub(super) struct Lirs {
    pub(super) block_bytes: u32,
}

impl LineFormat for Lirs {
    const EXPECTED: &'static str = "a block number, or *";

    fn has_times(&self) -> bool {
        false
    }

    fn line(&mut self, line: &[u8]) -> Result<Line, Reason> {
        match line.trim_ascii() {
            b"" => Ok(Line::Passed(Passed::Blank)),
            b"*" => Ok(Line::Passed(Passed::Mark)),
            number => {
                let offset = fields::blocks_offset(fields::integer(number)?, self.block_bytes)?;
                Ok(Line::Record(Record { offset, length: self.block_bytes, ..Record::default() }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_blocks_and_stars_are_marks() {
        let mut lirs = Lirs { block_bytes: 4096 };
        let expected = Record { offset: 7 * 4096, length: 4096, ..Record::default() };
        assert_eq!(lirs.line(b"7 "), Ok(Line::Record(expected)));
        assert_eq!(lirs.line(b"*"), Ok(Line::Passed(Passed::Mark)));
        assert_eq!(lirs.line(b"7 8"), Err(Reason::NotANumber));
        assert_eq!(lirs.line(b"9999999999999999"), Err(Reason::BeyondEnd));
    }
}
