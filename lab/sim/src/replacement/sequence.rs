//! The accesses of a trace as numbers of blocks.

use crate::replay::{blocks, is_request};
use crate::trace::{Accounting, Error, Op, Reader};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::OnceLock;

/// Accesses to blocks. It takes four bytes for each access.
#[derive(Debug, Default)]
pub struct Sequence {
    accesses: Vec<u32>,
    blocks: usize,
    requests: u64,
    nexts: OnceLock<Vec<u64>>,
}

/// Reason why a trace has no sequence.
#[derive(Debug, thiserror::Error)]
pub enum SequenceError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] Error),
    /// The trace has too many blocks.
    #[error("the trace has more than {} distinct blocks; nothing was simulated. Choose a larger --block", u32::MAX)]
    Blocks,
    /// The trace has no requests.
    #[error(
        "the trace has no reads or writes; nothing was simulated. Check its format with `entrepot-lab trace stats`"
    )]
    Empty,
}

impl Sequence {
    /// "Not accessed again" in [`Sequence::nexts`].
    pub const NEVER: u64 = u64::MAX;

    /// Adds the requests of a trace, up to `requests_max`, and returns the reader's accounts. Several traces have
    /// blocks of their own.
    ///
    /// # Errors
    /// The trace is unreadable, or has too many blocks or no requests.
    pub fn read(
        readers: impl IntoIterator<Item = Box<dyn Reader>>,
        block_bytes: u32,
        requests_max: Option<u64>,
        reads_only: bool,
    ) -> Result<(Sequence, Vec<Accounting>), SequenceError> {
        let (mut sequence, mut accounts) = (Sequence::default(), Vec::new());
        let mut numbers: HashMap<(u64, u64), u32, BuildHasherDefault<Mix>> = HashMap::default();
        for (trace, mut reader) in readers.into_iter().enumerate() {
            for record in reader.by_ref() {
                let record = record?;
                if !is_request(&record) || reads_only && record.op != Op::Read {
                    continue;
                }
                if requests_max.is_some_and(|max| sequence.requests >= max) {
                    break;
                }
                sequence.requests += 1;
                let space = record.space() ^ (trace as u64) << 48;
                let (first, count) = blocks(&record, block_bytes);
                for block in first..first + count {
                    let new = u32::try_from(numbers.len()).ok().filter(|new| *new < u32::MAX);
                    let number = match numbers.get(&(space, block)) {
                        Some(number) => *number,
                        None => *numbers.entry((space, block)).or_insert(new.ok_or(SequenceError::Blocks)?),
                    };
                    sequence.accesses.push(number);
                }
            }
            accounts.push(reader.accounting().clone());
        }
        sequence.blocks = numbers.len();
        if sequence.accesses.is_empty() { Err(SequenceError::Empty) } else { Ok((sequence, accounts)) }
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

/// Hasher for pairs of numbers.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mixed(number, self.0);
    }
}
