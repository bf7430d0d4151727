//! Other schemes than the volume's machine, which decide where a block is served.

use super::World;
use super::lru::Lru;
use super::optimum::{self, Tiers};
use super::requests::{Piece, Requests};
use crate::volume::targets::Origin;
use policy::TargetId;
use policy::tier::Tier;
use policy::volume::ownership::Mechanism;
use std::collections::BTreeSet;

/// Place where a block is served, whatever its home.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Baseline {
    /// The fast tier is a cache: LRU eviction, write-back.
    Lru {
        /// Size of the cache.
        fast_bytes: u64,
        /// Whether a write that misses goes around the cache; otherwise its whole block is cached.
        around: bool,
    },
    /// The best placement for the requests of each window, without cost: the limit.
    Optimum {
        /// Number of requests in a window.
        window: u64,
        /// Whether the fast tier is filled until both tiers are equally busy, instead of completely.
        balanced: bool,
        /// Properties of the tiers.
        tiers: Tiers,
    },
}

/// State of a baseline.
#[derive(Debug)]
pub(super) enum Says {
    Lru(Lru),
    Optimum { window: u64, balanced: bool, tiers: Tiers, held: BTreeSet<u32> },
}

impl Says {
    pub(super) fn new(of: Baseline, block_bytes: u64) -> Says {
        match of {
            Baseline::Lru { fast_bytes, around } => Says::Lru(Lru::new((fast_bytes / block_bytes) as usize, around)),
            Baseline::Optimum { window, balanced, tiers } => {
                Says::Optimum { window: window.max(1), balanced, tiers, held: BTreeSet::new() }
            }
        }
    }

    /// Prepares for request `n`: the optimum uses future requests.
    pub(super) fn looks_ahead(&mut self, requests: &Requests, n: usize) {
        if let Says::Optimum { window, balanced, tiers, held } = self
            && (n as u64).is_multiple_of(*window)
        {
            *held = optimum::best(requests, tiers, n, n + *window as usize, *balanced).into_iter().collect();
        }
    }
}

impl World<'_> {
    /// Returns the target that serves a piece of a block whose home is `home`.
    pub(super) fn served_by(&mut self, piece: Piece, write: bool, home: TargetId) -> TargetId {
        let fast = self.target_of(piece.at, Tier::Fast as u8);
        match self.playing.as_mut().and_then(|playing| playing.says.as_mut()) {
            None => home,
            Some(Says::Optimum { held, .. }) if held.contains(&piece.at) => fast,
            Some(Says::Optimum { .. }) => home,
            Some(Says::Lru(lru)) => match lru.access(piece.at, write) {
                None => home,
                Some((hit, left)) => self.cached(piece, write, home, hit, left),
            },
        }
    }

    /// Returns the target if the fast tier is a cache: the block is cached or inserted, and another may be evicted.
    fn cached(&mut self, piece: Piece, write: bool, home: TargetId, hit: bool, left: Option<(u32, bool)>) -> TargetId {
        let block = self.setup.segment_bytes;
        let fast = self.target_of(piece.at, Tier::Fast as u8);
        if let Some((victim, true)) = left {
            let (from, to) = (self.target_of(victim, Tier::Fast as u8), self.block(victim).1);
            self.beside(from, block, false);
            self.beside(to, block, true);
        }
        if hit {
            return fast;
        }
        // The rest of the block is read as well, and the whole block is stored: an evicted block is written back as a
        // whole.
        let rest = block - u64::from(piece.bytes);
        self.beside(home, rest, false);
        if write {
            self.beside(fast, rest, true);
            return fast;
        }
        self.beside(fast, block, true);
        home
    }

    /// Adds background work, whose completion no client awaits.
    fn beside(&mut self, target: TargetId, bytes: u64, write: bool) {
        if bytes > 0 {
            self.targets.serve(self.now, target, bytes, write, Origin::Change(Mechanism::Tiers));
            self.playing.iter_mut().for_each(|playing| playing.moved(bytes));
        }
    }
}
