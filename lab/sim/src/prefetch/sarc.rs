//! SARC's prefetcher: run counters in pages, a fixed degree and a fixed trigger distance (section 3.5).
//!
//! A missed block is sequential if its run, including itself, is at least `threshold` blocks long. It and the
//! `degree` blocks after it go to the sequential list, with a trigger `distance` before the last. Touching the trigger
//! prefetches the next `degree`. Prefetched blocks carry a full counter, so that a run continues through them.
//!
//! Blocks of only an upper level's prefetcher are read, fire triggers, and count in no run. A set trigger distance `T`
//! counts the block being read: the trigger is on `e - T + 1`. The distance may have changed since the trigger
//! was set, so the next prefetch begins at the first absent block.

use policy::cache::{Block, Reason, Span};
use policy::prefetch::Pages;
use policy::prefetch::page::{PLANNED, SEQUENTIAL, count, with_count};
use policy::prefetch::{Ahead, Context, Verdict};

/// Parameters of SARC; all state is in pages.
#[derive(Clone, Copy, Debug)]
pub struct Sarc {
    pub(crate) degree: u32,
    pub(crate) distance: u32,
    pub(crate) threshold: u8,
}

impl Sarc {
    fn run(&self, pages: &Pages, block: Block) -> u8 {
        match pages.find_before(block) {
            Some(slot) => count(pages.flags(slot)).saturating_add(1).min(self.threshold),
            None => 1,
        }
    }

    /// Handles a missing block; `slot` is its frame, if it got one.
    pub(crate) fn missed(&self, pages: &mut Pages, slot: Option<u32>, block: Block, context: &Context) -> Verdict {
        if !context.labelled(block) {
            return Verdict::default();
        }
        let run = self.run(pages, block);
        if let Some(slot) = slot {
            let flags = pages.flags_mut(slot);
            *flags = with_count(*flags, run);
        }
        if run < self.threshold {
            return Verdict::default();
        }
        let ahead = Ahead::new(block.plus(1), self.degree, Reason::Ahead);
        Verdict { sequential: true, leave: false, ahead: Some(ahead) }
    }

    /// Handles a block that is here.
    pub(crate) fn hit(&self, pages: &mut Pages, slot: u32, block: Block, context: &Context) -> Verdict {
        if pages.flags(slot) & SEQUENTIAL == 0 {
            return Verdict::default();
        }
        if context.labelled(block) {
            let run = self.run(pages, block);
            let flags = pages.flags_mut(slot);
            *flags = with_count(*flags, run);
        }
        if !pages.take_trigger(slot) {
            return Verdict { sequential: true, ..Verdict::default() };
        }
        let from = match context.distance {
            None => u64::from(self.distance) + 1,
            Some(_) => {
                let absent = |n: &u64| !pages.contains(block.plus(*n));
                (1..=u64::from(self.degree)).find(absent).unwrap_or(u64::from(self.degree))
            }
        };
        let ahead = Ahead::new(block.plus(from), self.degree, Reason::Triggered);
        Verdict { sequential: true, leave: false, ahead: Some(ahead) }
    }

    /// Records that a set was placed.
    pub(crate) fn placed(&self, pages: &mut Pages, set: Span, context: &Context) {
        for block in set.blocks() {
            if let Some(slot) = pages.find(block) {
                let flags = pages.flags_mut(slot);
                if *flags & PLANNED != 0 {
                    *flags = with_count(*flags, self.threshold);
                }
            }
        }
        let distance = context.distance.map_or(self.distance, |distance| distance.max(1) - 1).min(set.len - 1);
        pages.set_trigger(set.first.plus(u64::from(set.len - 1 - distance)));
    }
}
