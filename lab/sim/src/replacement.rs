//! Replacement policies that the field compares, over caches of equal blocks without prefetching.
//!
//! ```text
//!   trace -> Sequence (a number for each access) -> Cache::access, hit or miss -> miss ratio
//! ```
//! A sequence is decoded once and serves any number of caches. Blocks are numbered densely from 0, so that policies
//! keep their state in arrays. The parameters and the misses are those of libCacheSim 0.3.5.
//! `lab/sim/tests/replacement.rs` holds misses of libCacheSim and compares with it.

mod adaptive;
mod curve;
mod frequency;
mod lirs;
mod numbers;
mod queues;
mod recency;
mod s3_fifo;
mod sequence;
mod tiny_lfu;
mod two_queues;

pub use curve::{Curve, Point, Samples, capacities, curves, lru_curve};
pub use sequence::Sequence;

use serde::Serialize;

/// A cache of equal blocks with one replacement policy.
pub trait Cache: Send {
    /// Accesses a block; returns whether it was there. `next` is the position of the next access to the same block, or
    /// [`Sequence::NEVER`]; only offline policies read it.
    fn access(&mut self, block: u32, next: u64) -> bool;

    /// Accesses a whole sequence, with the positions of next accesses if the policy reads them.
    fn run(&mut self, accesses: &[u32], nexts: Option<&[u64]>) -> Tally {
        let mut tally = Tally::default();
        for (at, block) in accesses.iter().enumerate() {
            let next = nexts.map_or(Sequence::NEVER, |nexts| nexts[at]);
            *if self.access(*block, next) { &mut tally.hits } else { &mut tally.misses } += 1;
        }
        tally
    }
}

/// A cache that keeps no block.
struct Nothing;

impl Cache for Nothing {
    fn access(&mut self, _: u32, _: u64) -> bool {
        false
    }
}

/// Accounts of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Accesses to blocks that were there.
    pub hits: u64,
    /// Accesses to blocks that were not.
    pub misses: u64,
}

impl Tally {
    /// Returns whether each access was a hit or a miss, and the first one to each block was a miss.
    pub fn closes(&self, sequence: &Sequence) -> bool {
        self.hits + self.misses == sequence.accesses().len() as u64 && self.misses >= sequence.blocks() as u64
    }
}

named! {
    /// A replacement policy, with its name on the command line.
    Policy {
        /// First in, first out.
        Fifo = "fifo",
        /// Least recently used.
        Lru = "lru",
        /// Second chance with one bit.
        Clock = "clock",
        /// Least frequently used; the least recent among equals.
        Lfu = "lfu",
        /// 2Q (Johnson and Shasha, VLDB 1994): Kin 25 %, Kout 50 %.
        TwoQ = "2q",
        /// ARC (Megiddo and Modha, FAST 2003).
        Arc = "arc",
        /// LIRS (Jiang and Zhang, SIGMETRICS 2002): 1 % for blocks of high inter-reference recency.
        Lirs = "lirs",
        /// S3-FIFO (Yang et al., SOSP 2023): small queue 10 %, ghost queue 90 %, two hits to enter the main queue.
        S3Fifo = "s3-fifo",
        /// SIEVE (Zhang et al., NSDI 2024).
        Sieve = "sieve",
        /// W-TinyLFU (Einziger et al., ACM TOS 2017): window 1 %, a segmented LRU behind it.
        WTinyLfu = "w-tinylfu",
        /// S3-FIFO as in libCacheSim, which caches nothing if the small queue has only one block.
        S3FifoAsLibCacheSim = "s3-fifo:libcachesim",
        /// W-TinyLFU as in libCacheSim, which caches nothing if 1 % is less than one block.
        WTinyLfuAsLibCacheSim = "w-tinylfu:libcachesim",
        /// Belady's offline optimum among policies that let every block enter.
        Belady = "belady",
    }
}

impl Policy {
    /// Returns an empty cache of `capacity` blocks for a sequence with `blocks` distinct blocks.
    pub fn cache(self, capacity: usize, blocks: usize) -> Box<dyn Cache> {
        match self {
            Policy::Fifo => Box::new(recency::Fifo::new(capacity, blocks)),
            Policy::Lru => Box::new(recency::Lru::new(capacity, blocks)),
            Policy::Clock => Box::new(recency::Clock::new(capacity, blocks)),
            Policy::Sieve => Box::new(recency::Sieve::new(capacity, blocks)),
            Policy::Lfu => Box::new(frequency::Lfu::new(capacity, blocks)),
            Policy::Belady => Box::new(frequency::Belady::new(capacity, blocks)),
            Policy::TwoQ => Box::new(two_queues::TwoQ::new(capacity, blocks)),
            Policy::Arc => Box::new(adaptive::Arc::new(capacity, blocks)),
            Policy::Lirs => Box::new(lirs::Lirs::new(capacity, blocks)),
            Policy::S3FifoAsLibCacheSim if capacity < 20 => Box::new(Nothing),
            Policy::WTinyLfuAsLibCacheSim if capacity < 100 => Box::new(Nothing),
            Policy::S3Fifo | Policy::S3FifoAsLibCacheSim => Box::new(s3_fifo::S3Fifo::new(capacity, blocks)),
            Policy::WTinyLfu | Policy::WTinyLfuAsLibCacheSim => Box::new(tiny_lfu::WTinyLfu::new(capacity, blocks)),
        }
    }

    /// Returns hits and misses of a cache of `capacity` blocks over a whole sequence.
    ///
    /// # Panics
    /// The accounts do not close: a bug of the policy.
    pub fn tally(self, sequence: &Sequence, capacity: usize) -> Tally {
        let nexts = (self == Policy::Belady).then(|| sequence.nexts());
        let tally = self.cache(capacity, sequence.blocks()).run(sequence.accesses(), nexts);
        assert!(tally.closes(sequence), "{} at {capacity} blocks: {tally:?}", self.text());
        tally
    }
}
