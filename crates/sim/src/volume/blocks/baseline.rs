//! What other schemes than the volume's machine say about where a block is served.

use super::World;
use super::lru::Lru;
use super::optimum::{self, Tiers};
use super::requests::{Piece, Requests};
use policy::TargetId;
use policy::tier::Tier;
use std::collections::BTreeSet;

/// Where a block is served, wherever it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Baseline {
    /// The fast tier is a cache of so many bytes: least recently used leaves, writes stay until they leave.
    Lru {
        /// Its bytes.
        fast_bytes: u64,
    },
    /// Each window, the best placement for the requests to come, at no cost: the limit.
    Optimum {
        /// Requests of a window.
        window: u64,
        /// Until both tiers are busy for equally long, or else until the fast one is full.
        balanced: bool,
        /// What it knows of the tiers.
        tiers: Tiers,
    },
}

/// A baseline, and what it remembers.
#[derive(Debug)]
pub(super) enum Says {
    Lru(Lru),
    Optimum { window: u64, balanced: bool, tiers: Tiers, held: BTreeSet<u32> },
}

impl Says {
    pub(super) fn new(of: Baseline, block_bytes: u64) -> Says {
        match of {
            Baseline::Lru { fast_bytes } => Says::Lru(Lru::new((fast_bytes / block_bytes) as usize)),
            Baseline::Optimum { window, balanced, tiers } => {
                Says::Optimum { window: window.max(1), balanced, tiers, held: BTreeSet::new() }
            }
        }
    }

    /// Before request `n`: the optimum knows what comes.
    pub(super) fn looks_ahead(&mut self, requests: &Requests, n: usize) {
        if let Says::Optimum { window, balanced, tiers, held } = self
            && (n as u64).is_multiple_of(*window)
        {
            *held = optimum::best(requests, tiers, n, n + *window as usize, *balanced).into_iter().collect();
        }
    }
}

impl World<'_> {
    /// The target that serves a piece of a block that lies on `home`.
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

    /// The same where the fast tier is a cache: the block is there, or comes, and another may leave.
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
        // The rest of the block is read as well, and the whole stored: what leaves later is written back as a whole.
        let rest = block - u64::from(piece.bytes);
        self.beside(home, rest, false);
        if write {
            self.beside(fast, rest, true);
            return fast;
        }
        self.beside(fast, block, true);
        home
    }

    /// What no client waits for.
    fn beside(&mut self, target: TargetId, bytes: u64, write: bool) {
        if bytes > 0 {
            self.targets.serve(self.now, target, bytes, write, 1);
            self.playing.iter_mut().for_each(|playing| playing.moved(bytes));
        }
    }
}
