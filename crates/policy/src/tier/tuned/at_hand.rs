//! What it is worth to promote a location at the access, when its bytes are at hand.
//!
//! ```text
//!   saves  trust * (further reads * time that a read saves + further writes * time that a write saves)
//!   costs  reading what is not at hand + writing all of it to the fast tier + writing it back, as likely as it is to be written
//! ```
//! Further accesses are learned ([`crate::tier::comeback`]); trust in them, from what such promotions saved. Device time counts at its price: where there is
//! time to spare it costs less. What would have to leave is worth what it is expected to save within the next half pane, since
//! it can come back as cheaply as it went.

use super::{AT_HAND_PANES, BESIDE_HAND, Tuned};
use crate::tier::{Region, Tier};

impl Tuned {
    /// A location has been accessed `n` times within the window now.
    pub fn accessed(&mut self, region: Region, n: u32) {
        self.comeback[region as usize].reach(n);
    }

    /// What it saves and costs, in device time at its price, to promote a location of so many reads and writes at the access; `rest_bytes`
    /// of it are not at hand.
    pub fn at_hand(&self, reads: u32, writes: u32, rest_bytes: f64, block_bytes: f64) -> (f64, f64) {
        let further = |region: Region, n: u32| if n == 0 { 0.0 } else { self.comeback[region as usize].further(n) };
        let (reads, writes) = (further(Region::Read, reads), further(Region::Write, writes));
        let saved = |region: Region| self.saved_ns(region, self.bytes[region as usize]);
        let saves = reads * saved(Region::Read) + writes * saved(Region::Write);
        let rest = if rest_bytes > 0.0 { self.costs.slow.access_ns(Region::Read, rest_bytes) } else { 0.0 };
        let stays_clean = (-writes - self.writes * reads).exp();
        // The write to the fast tier counts in full, however much time that has to spare: nothing moves for next to nothing.
        let costs = self.prices[Tier::Slow as usize] * rest
            + self.costs.fast.access_ns(Region::Write, block_bytes)
            + (1.0 - stays_clean) * self.write_back_ns(block_bytes);
        (self.hand_trust * saves, costs)
    }

    /// Further writes to expect of a location that was written so often in its stay.
    pub fn further_writes(&self, writes: u32) -> f64 {
        if writes == 0 { 0.0 } else { self.comeback[Region::Write as usize].further(writes) }
    }

    /// How far past promotions at the access kept what was expected of them, from 0.05 to 1.
    pub fn trust_at_hand(&self) -> f64 {
        self.hand_trust.min(1.0)
    }

    /// What it costs to write a location back to the slow tier, in device time at its price.
    pub fn write_back_ns(&self, block_bytes: f64) -> f64 {
        self.moving_ns(Tier::Slow, block_bytes)
    }

    /// What a location that is worth so much within the horizon is worth beside what is at hand.
    pub fn beside_hand(&self, worth: f64) -> f64 {
        worth * BESIDE_HAND
    }

    /// Panes within which a promotion is to pay.
    pub(super) fn horizon(&self, at_hand: bool) -> u32 {
        if at_hand { AT_HAND_PANES } else { self.config.horizon_panes.max(1) }
    }
}
