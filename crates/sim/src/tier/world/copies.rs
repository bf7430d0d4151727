//! Slow copies below what lies on the fast tier, as the live mover keeps, makes and gives them up; and what lay there before the trace.
//!
//! A copy that is made reads the location from its fast device and writes it to its slow one, queued with everything else; a write to the
//! location ends it after the step under way. Copies take room on the slow tier; when that is short of space as many go as it is short of.

use super::{Happening, Job, World};
use crate::event::Rank;
use crate::generate::Rng;
use policy::tier::machine::Event;
use policy::tier::room::{self, SlowTarget};
use policy::tier::yielding::Yielding;
use policy::tier::{Region, Tier};
use policy::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The copies of a world.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Locations on the fast tier with an equal copy on the slow one.
    pub held: BTreeSet<u32>,
    /// Copies under way, and whether the location was written meanwhile.
    making: BTreeMap<u32, bool>,
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

    /// The machine wants a copy of a location.
    pub(super) fn copy(&mut self, now: Time, at: u32, yielding: Option<(Yielding, u64)>) {
        self.copies.making.insert(at, false);
        if self.setup.free_moves {
            return self.copied(now, at);
        }
        if let Some(yielding) = yielding {
            return self.stepwise(now, at, yielding);
        }
        self.moved_bytes += self.setup.block_bytes;
        self.queue(now, self.device(at, Tier::Fast), Job::CopyRead { at }, Region::Read, self.setup.block_bytes);
    }

    /// Its bytes were read.
    pub(super) fn copy_read(&mut self, now: Time, at: u32) {
        if self.copies.making.get(&at) == Some(&true) {
            return self.give_copy_up(now, at);
        }
        let bytes = self.step_bytes(at);
        self.moved_bytes += bytes;
        self.queue(now, self.device(at, Tier::Slow), Job::CopyWrite { at }, Region::Write, bytes);
    }

    /// And written.
    pub(super) fn copy_written(&mut self, now: Time, at: u32) {
        if !self.step_done(now, at) {
            self.copied(now, at);
        }
    }

    /// It is not made after all.
    pub(super) fn give_copy_up(&mut self, now: Time, at: u32) {
        self.steps.remove(&at);
        self.copies.making.insert(at, true);
        self.copied(now, at);
    }

    fn copied(&mut self, now: Time, at: u32) {
        let location = self.requests.locations()[at as usize];
        match self.copies.making.remove(&at) {
            Some(false) => {
                self.hold(at);
                self.tell(now, Event::Copied { location });
            }
            _ => self.tell(now, Event::Failed { location }),
        }
        self.look_at_space(now);
    }

    /// A location has a copy from now on.
    pub(super) fn hold(&mut self, at: u32) {
        self.copies.held.insert(at);
        self.copies.most = self.copies.most.max(self.copies.held.len() as u64);
    }

    /// A location is written.
    pub(super) fn copy_over(&mut self, at: u32) {
        self.copies.held.remove(&at);
        self.copies.making.entry(at).and_modify(|written| *written = true);
    }

    /// What is left on the slow tier for copies; of those that take more than there is, some go. Locations are spread evenly
    /// over the devices, so the tier is as one target.
    pub(super) fn look_at_space(&mut self, now: Time) {
        let Some(total_bytes) = self.setup.slow_bytes.filter(|_| self.copies.kept) else { return };
        let (block, free_percent) = (self.setup.block_bytes, self.setup.copies_free_percent);
        let taken = |world: &Self, copies: usize| (world.slow_held + copies as u64) * block;
        let target = |taken: u64| SlowTarget { total_bytes, free_bytes: total_bytes.saturating_sub(taken) };
        let all = taken(self, self.copies.held.len() + self.copies.making.len());
        let short = target(all).short_bytes(free_percent) + all.saturating_sub(total_bytes);
        let go = self.machine.as_ref().map(|machine| room::give_up(machine.copies_to_give_up(), short, |_| block).0);
        for location in go.unwrap_or_default() {
            if let Some(at) = self.number(location) {
                self.copies.held.remove(&at);
            }
            self.tell(now, Event::CopyGone { location });
        }
        let room = room::room_bytes([target(taken(self, self.copies.held.len()))], free_percent, block);
        self.tell(now, Event::CopyBytes(room));
    }
}
