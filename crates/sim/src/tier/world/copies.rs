//! Slow copies below what lies on the fast tier, as the live mover keeps, makes and gives them up; and what lay there before the trace.
//!
//! Copies take room on the slow tier; when that is short of space as many go as it is short of.

use super::{Happening, World};
use crate::event::Rank;
use crate::generate::Rng;
use policy::tier::machine::Event;
use policy::tier::room::{self, SlowTarget};
use policy::time::Time;
use std::collections::BTreeSet;

/// The copies of a world.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Locations on the fast tier with an equal copy on the slow one.
    pub held: BTreeSet<u32>,
    /// Whether any are kept.
    pub kept: bool,
    /// The most that there were at a time.
    pub most: u64,
}

impl Copies {
    /// None yet.
    pub(super) fn new(kept: bool) -> Copies {
        Copies { kept, ..Copies::default() }
    }
}

impl World<'_> {
    /// What the trace reads before it writes it was there before it began: it is placed, and the devices are left alone for as long as the
    /// setup says. When the first request comes.
    pub(super) fn settle(&mut self) -> Time {
        if self.setup.before == Time::ZERO {
            return Time::ZERO;
        }
        let first = self.requests.first_writes();
        let mut there: Vec<u32> = (0..first.len() as u32).filter(|&at| !first[at as usize]).collect();
        // Where old data lie says nothing of when the trace will ask for them; the same order for every scheme.
        Rng::new(1, 0).shuffle(&mut there);
        for at in there {
            self.home(Time::ZERO, at);
        }
        self.events.push(Time::ZERO, Rank::Timer, Happening::Timer);
        self.setup.before
    }

    /// A location has a copy from now on.
    pub(super) fn hold(&mut self, at: u32) {
        self.copies.held.insert(at);
        self.copies.most = self.copies.most.max(self.copies.held.len() as u64);
    }

    /// What is left on the slow tier for copies; of those that take more than there is, some go. Locations are spread evenly
    /// over the devices, so the tier is as one target.
    pub(super) fn look_at_space(&mut self, now: Time) {
        let Some(total_bytes) = self.setup.slow_bytes.filter(|_| self.copies.kept) else { return };
        let (block, free_percent) = (self.setup.block_bytes, self.setup.copies_free_percent);
        let taken = |world: &Self, copies: usize| (world.lie[1] + copies as u64) * block;
        let target = |taken: u64| SlowTarget { total_bytes, free_bytes: total_bytes.saturating_sub(taken) };
        let all = taken(self, self.copies.held.len() + self.carries.keys().filter(|name| name.copy).count());
        let short = target(all).short_bytes(free_percent) + all.saturating_sub(total_bytes);
        let go = self.machine.as_ref().map(|machine| room::give_up(machine.copies_to_give_up(), short, |_| block).0);
        for location in go.unwrap_or_default() {
            if let Some(at) = self.requests.number_of(location) {
                self.copies.held.remove(&at);
            }
            self.tell(now, Event::CopyGone { location });
        }
        let room = room::room_bytes([target(taken(self, self.copies.held.len()))], free_percent, block);
        self.tell(now, Event::CopyBytes(room));
    }
}
