//! Replays: requests whose fetches are done at once, as in a level without a device below.
//!
//! The table and lists of a large cache exceed the processor's cache, so a replay mostly waits for memory. It waits for
//! the table, then for the block's node, then for the node's two neighbours. A caller that can look ahead names the
//! next blocks with [`Level::foresee`], so that these waits overlap.

use super::Level;
use crate::block::Request;
use crate::block::page::USED;
use crate::block::{Block, Span};
use crate::cache::event::Outcome;
use crate::prefetch::Algorithm;
use crate::time::Time;

/// Number of blocks per group to look ahead.
const AHEAD: usize = 32;

impl<A: Algorithm> Level<A> {
    /// Serves a request whose fetches, if any, are done at once. The only actions are, with `announce`, `Hit`, `Evict`
    /// and, for writes, `Store`. It must not be mixed with requests under way.
    #[inline]
    pub fn replay(&mut self, now: Time, request: &Request) -> Outcome {
        if request.span.len == 0 {
            return Outcome::default();
        }
        if self.plain && !request.write {
            return self.plain(request.span);
        }
        self.instant = true;
        let outcome = self.request(now, request);
        self.instant = false;
        outcome
    }

    /// Prefetches the state of the next blocks, ideally some dozens, into the processor's cache. Changes nothing else.
    #[inline]
    pub fn foresee(&self, blocks: &[Block]) {
        self.pages.foresee(blocks);
    }

    /// Whether reads use only the table and the lists: neither time nor stream matters.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Serves reads of one block each, like single calls of [`Level::replay`], but faster, by looking ahead.
    pub fn replay_blocks(&mut self, now: Time, blocks: &[Block]) -> Outcome {
        let mut sum = Outcome::default();
        if !self.plain || self.config.coordination.du {
            for &first in blocks {
                let Outcome { hit, late, missed } = self.replay(now, &Request::read(0, Span { first, len: 1 }));
                sum = Outcome { hit: sum.hit + hit, late: sum.late + late, missed: sum.missed + missed };
            }
            return sum;
        }
        for group in blocks.chunks(AHEAD) {
            self.foresee(group);
            for &block in group {
                sum.hit += u32::from(self.touch(block));
            }
        }
        let (asked, missed) = (blocks.len() as u64, blocks.len() as u32 - sum.hit);
        self.stats.requests += asked;
        self.stats.asked += asked;
        self.stats.hit += u64::from(sum.hit);
        self.stats.missed += u64::from(missed);
        self.stats.fetched += u64::from(missed);
        self.stats.fetches += u64::from(missed);
        Outcome { missed, ..sum }
    }

    /// Makes a block resident and the most recently used. Returns whether it was resident.
    #[inline]
    fn touch(&mut self, block: Block) -> bool {
        if let Some(slot) = self.pages.find(block) {
            self.pages.lists.hit(&mut self.pages.slab, slot, true);
            return true;
        }
        if self.pages.used() == self.pages.capacity {
            self.stats.evicted += 1;
            self.pages.reuse_victim(block, USED);
        } else if let Some(slot) = self.frame(block, USED, 0) {
            self.insert(slot);
        }
        false
    }

    /// Fast path of a replay: table and lists only, with instant fetches.
    fn plain(&mut self, span: Span) -> Outcome {
        let hit = span.blocks().map(|block| u32::from(self.touch(block))).sum();
        let missed = span.len - hit;
        self.stats.requests += 1;
        self.stats.asked += u64::from(span.len);
        self.stats.hit += u64::from(hit);
        self.stats.missed += u64::from(missed);
        self.stats.fetched += u64::from(missed);
        self.stats.fetches += u64::from(missed > 0);
        if self.config.coordination.du {
            crate::coordinate::du::sent(&mut self.pages, span);
        }
        Outcome { hit, late: 0, missed }
    }
}
