//! Replays: requests whose fetches are done at once, a level without a device below.
//!
//! A large cache's table and lists do not fit the processor's own cache, so most of a replay's time goes into waiting for memory: for the
//! table, then for the block's node, then for its two neighbours in the list. Who knows what will be asked for next says so with
//! [`Level::foresee`], and these waits overlap. Where LRU is all there is, [`crate::cache::InstantLru`] is faster.

use super::Level;
use crate::cache::block::Block;
use crate::cache::event::{Outcome, Request};
use crate::time::Time;

impl Level {
    /// A request whose fetches, if any, are done at once: a level without a device below. Causes no actions but, with
    /// `announce`, `Hit`, `Evict` and, for writes, `Store`. Not to be mixed with requests that are under way.
    #[inline]
    pub fn replay(&mut self, now: Time, request: &Request) -> Outcome {
        if request.span.len == 0 {
            return Outcome::default();
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
}
