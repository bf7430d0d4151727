//! The accesses of a trace as numbers of blocks.

use super::numbers::Numbers;
use crate::replay::{SurveyError, blocks, is_request};
use crate::trace::{Accounting, Op, Reader};
use std::sync::OnceLock;

/// Accesses to blocks. It takes four bytes for each access.
#[derive(Debug, Default)]
pub struct Sequence {
    accesses: Vec<u32>,
    blocks: usize,
    requests: u64,
    bytes: u64,
    nexts: OnceLock<Vec<u64>>,
}

impl Sequence {
    /// "Not accessed again" in [`Sequence::nexts`].
    pub const NEVER: u64 = u64::MAX;

    /// Adds the requests of a trace, up to `requests_max`, and returns the reader's accounts. Several traces have
    /// blocks of their own.
    ///
    /// # Errors
    /// The trace is unreadable, its accounts do not close, or it has too many blocks or no requests.
    pub fn read(
        readers: impl IntoIterator<Item = Box<dyn Reader>>,
        block_bytes: u32,
        requests_max: Option<u64>,
        reads_only: bool,
    ) -> Result<(Sequence, Vec<Accounting>), SurveyError> {
        let (mut sequence, mut accounts) = (Sequence::default(), Vec::new());
        let mut numbers = Numbers::default();
        for (trace, mut reader) in readers.into_iter().enumerate() {
            let (mut census, mut is_cut) = (0, false);
            for record in reader.by_ref() {
                let record = record?;
                let counts = is_request(&record) && !(reads_only && record.op != Op::Read);
                is_cut = counts && requests_max.is_some_and(|max| sequence.requests >= max);
                if is_cut {
                    break;
                }
                census += 1;
                if !counts {
                    continue;
                }
                sequence.requests += 1;
                let space = record.space() ^ (trace as u64) << 48;
                let (first, count) = blocks(&record, block_bytes);
                sequence.bytes += count * u64::from(block_bytes);
                numbers.of(space, first, count, &mut sequence.accesses).ok_or(SurveyError::Blocks)?;
            }
            let accounting = reader.accounting().clone();
            if !accounting.agrees(census, is_cut) {
                return Err(SurveyError::accounts(&accounting, census));
            }
            accounts.push(accounting);
        }
        sequence.blocks = numbers.len();
        let bytes = sequence.accesses.len() as u64 * u64::from(block_bytes);
        assert_eq!(bytes, sequence.bytes, "each block of a request is one access");
        if sequence.accesses.is_empty() { Err(SurveyError::Empty) } else { Ok((sequence, accounts)) }
    }

    /// A sequence of numbers that are dense from 0.
    pub fn of(accesses: Vec<u32>) -> Sequence {
        let blocks = accesses.iter().max().map_or(0, |max| *max as usize + 1);
        Sequence { requests: accesses.len() as u64, accesses, blocks, ..Sequence::default() }
    }

    /// Numbers of the accessed blocks, in order.
    pub fn accesses(&self) -> &[u32] {
        &self.accesses
    }

    /// Number of distinct blocks.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Number of requests; each accesses one or more blocks.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Bytes of the accessed blocks.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// For each access the position of the next access to the same block, or [`Sequence::NEVER`].
    /// Computed at the first call: eight bytes for each access.
    pub fn nexts(&self) -> &[u64] {
        self.nexts.get_or_init(|| {
            let mut nexts = vec![Sequence::NEVER; self.accesses.len()];
            let mut last = vec![Sequence::NEVER; self.blocks];
            for (at, block) in self.accesses.iter().enumerate().rev() {
                nexts[at] = std::mem::replace(&mut last[*block as usize], at as u64);
            }
            nexts
        })
    }

    /// The accesses to the blocks that a hash with this seed selects, with dense numbers.
    pub fn sample(&self, rate: f64, seed: u64) -> Sequence {
        let limit = (rate.clamp(0.0, 1.0) * u64::MAX as f64) as u64;
        let mut numbers = vec![u32::MAX; self.blocks];
        let mut blocks = 0;
        let mut accesses = Vec::new();
        for block in self.accesses.iter().filter(|block| mixed(u64::from(**block), seed) <= limit) {
            let number = &mut numbers[*block as usize];
            if *number == u32::MAX {
                *number = blocks;
                blocks += 1;
            }
            accesses.push(*number);
        }
        Sequence { requests: accesses.len() as u64, blocks: blocks as usize, accesses, ..Sequence::default() }
    }
}

/// Mixes a number and a seed: the finaliser of SplitMix64.
pub(super) fn mixed(number: u64, seed: u64) -> u64 {
    let mut z = number.wrapping_add(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Error, Record};

    /// Requests of three blocks each, with any accounts.
    struct Requests(u64, Accounting);

    impl Iterator for Requests {
        type Item = Result<Record, Error>;
        fn next(&mut self) -> Option<Self::Item> {
            self.0 = self.0.checked_sub(1)?;
            Some(Ok(Record { offset: self.0 * 8192, length: 12_288, ..Record::default() }))
        }
    }

    impl Reader for Requests {
        fn accounting(&self) -> &Accounting {
            &self.1
        }
    }

    #[test]
    fn a_trace_whose_accounts_do_not_close_is_refused() {
        let read = |lines, records, max| {
            let mut accounting = Accounting::default();
            (accounting.lines, accounting.records) = (lines, records);
            Sequence::read([Box::new(Requests(4, accounting)) as Box<dyn Reader>], 4096, max, false)
        };
        let (sequence, _) = read(4, 4, None).unwrap();
        assert_eq!((sequence.accesses(), sequence.bytes()), (&[0, 1, 2, 3, 4, 0, 5, 6, 3, 7, 8, 5][..], 12 * 4096));
        assert_eq!(read(3, 3, Some(2)).unwrap().0.requests(), 2);
        for (lines, records, max) in [(5, 4, None), (3, 3, None), (5, 5, None), (2, 2, Some(2))] {
            let error = read(lines, records, max).unwrap_err();
            assert!(matches!(error, SurveyError::Accounts { .. }), "{error}");
        }
    }
}
