//! Replays: requests whose fetches are done at once, a level without a device below.
//!
//! A large cache's table and lists do not fit the processor's own cache, so most of a replay's time goes into waiting for memory: for the
//! table, then for the block's node, then for its two neighbours in the list. Who knows what will be asked for next says so with
//! [`Level::foresee`], and these waits overlap.

use super::Level;
use crate::cache::block::{Block, Span};
use crate::cache::event::{Outcome, Request};
use crate::cache::page::USED;
use crate::time::Time;

impl Level {
    /// A request whose fetches, if any, are done at once: a level without a device below. Causes no actions but, with
    /// `announce`, `Hit`, `Evict` and, for writes, `Store`. Not to be mixed with requests that are under way.
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

    /// Says which blocks will be asked for next, at best some dozens. Changes nothing; what is known of them is only nearer then.
    #[inline]
    pub fn foresee(&self, blocks: &[Block]) {
        self.pages.foresee(blocks);
    }

    /// Table and lists alone, all fetches instant: the fast way of a replay.
    fn plain(&mut self, span: Span) -> Outcome {
        let mut hit = 0;
        for block in span.blocks() {
            match self.pages.find(block) {
                Some(slot) => {
                    hit += 1;
                    self.pages.lists.hit(&mut self.pages.slab, slot, true);
                }
                None if self.pages.used() == self.pages.capacity => {
                    self.stats.evicted += 1;
                    self.pages.reuse_victim(block, USED);
                }
                None => {
                    if let Some(slot) = self.frame(block, USED, 0) {
                        self.insert(slot);
                    }
                }
            }
        }
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
