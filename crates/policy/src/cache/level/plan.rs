//! Plan of one request: blocks that got frames and runs that pass through, later cut into fetches.

use crate::block::{Block, Span};
use crate::block::{Reason, RequestId};

/// Block that got a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) block: Block,
    pub(super) slot: u32,
    pub(super) reason: Reason,
}

/// Plan of one request; its arrays are reused.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) placed: Vec<Placed>,
    pub(super) through: Vec<(Span, Reason)>,
    /// Fetches that the request waits for.
    pub(super) waits: Vec<u32>,
    /// Run of blocks that are resident or arrive with a fetch, not yet announced.
    pub(super) verdict: Option<(Verdict, Span)>,
    pub(super) said_for: RequestId,
}

/// Kind of a run of announced blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Hit,
    Wait(u32),
    Written,
}

impl Plan {
    pub(super) fn clear(&mut self) {
        self.placed.clear();
        self.through.clear();
        self.waits.clear();
        self.verdict = None;
    }

    /// Adds a block that passes through, joined to the run before it.
    pub(super) fn pass(&mut self, block: Block, reason: Reason) {
        match self.through.last_mut() {
            Some((span, of)) if span.end() == block && *of == reason => span.len += 1,
            _ => self.through.push((Span { first: block, len: 1 }, reason)),
        }
    }

    /// Sorts the placed blocks; they almost always are.
    pub(super) fn sort(&mut self) {
        if !self.placed.is_sorted_by_key(|placed| placed.block) {
            self.placed.sort_unstable_by_key(|placed| placed.block);
        }
    }

    /// Returns the end of the run of neighbours that starts at `from`. A run does not cross the first block of the
    /// request, so that requested blocks come first in it.
    pub(super) fn run_end(&self, from: usize, first: Block) -> usize {
        let placed = &self.placed;
        let mut end = from + 1;
        while end < placed.len() && placed[end].block == placed[end - 1].block.plus(1) && placed[end].block != first {
            end += 1;
        }
        end
    }
}
