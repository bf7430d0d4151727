//! Slow copies of what lies on the fast tier: which there are, and which are made while the devices are idle.
//!
//! What has a copy leaves the fast tier for nothing, until it is written. A promotion may leave one behind; what was placed on the fast tier
//! first, or was written there, gets one when it has not been accessed for a while and the devices have nothing else to do:
//!
//! ```text
//!   on the fast tier, no copy --(not accessed for `copy_after`)--> due --(idle, budget, room, no move waits)--> Action::Copy
//!        ^                                                                                                       |
//!        '------------------ a write, or the copy failed ------------------ copy <--------- Event::Copied -------'
//! ```
//! What was not accessed for longest comes first: it is the next to leave. What is likely to be written again soon, as learned from how often
//! others were ([`crate::tier::hit_rate`]), is looked at again later. So a copy costs device time that nothing else wants, and is not made
//! to be thrown away.

use super::Reorganizer;
use crate::tier::tuned::Tuned;
use crate::tier::{Location, Region, Tier};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Further writes to expect of a location above which it is not copied: then it is as likely as not that the copy is written over.
const WRITES_MAX: f64 = 0.5;

/// How long a location is left alone at least after its copy failed or was refused.
const AGAIN: Time = Time(1_000_000_000);

/// The copies of what lies on the fast tier. Each of its locations is in one of `held`, `due` and `making`, if copies are made at all.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// How long a location must not have been accessed; `None` makes no copies but those that promotions leave.
    after: Option<Time>,
    /// Those with a copy: when each was last accessed.
    held: BTreeMap<Location, Time>,
    used: BTreeSet<(Time, Location)>,
    /// Those without a copy: when each may get one.
    due: BTreeMap<Location, Time>,
    order: BTreeSet<(Time, Location)>,
    /// Copies under way, and whether the location was written meanwhile.
    making: BTreeMap<Location, bool>,
    /// Bytes that further copies may take.
    room_bytes: u64,
}

impl Copies {
    pub(super) fn new(after: Option<Time>) -> Copies {
        Copies { after, room_bytes: u64::MAX, ..Copies::default() }
    }

    /// The locations with a copy.
    pub(super) fn held(&self) -> &BTreeMap<Location, Time> {
        &self.held
    }

    pub(super) fn contains(&self, location: Location) -> bool {
        self.held.contains_key(&location)
    }

    /// Whether its copy is being made.
    pub(super) fn is_making(&self, location: Location) -> bool {
        self.making.contains_key(&location)
    }

    pub(super) fn making(&self) -> usize {
        self.making.len()
    }

    /// There is so much room; the copies under way take theirs from it.
    pub(super) fn set_room(&mut self, bytes: u64, block_bytes: u64) {
        self.room_bytes = bytes.saturating_sub(self.making.len() as u64 * block_bytes);
    }

    /// A location lies on the fast tier, and has no copy.
    pub(super) fn bare(&mut self, now: Time, location: Location) {
        self.held_since(location, None);
        if !self.is_making(location) {
            self.due_at(location, self.after.map(|after| now + after));
        }
    }

    /// It has one, and was last accessed then.
    pub(super) fn hold(&mut self, location: Location, last: Time) {
        self.due_at(location, None);
        self.held_since(location, Some(last));
    }

    /// It is not on the fast tier any more.
    pub(super) fn left(&mut self, location: Location) {
        self.due_at(location, None);
        self.held_since(location, None);
    }

    /// A location on the fast tier was accessed.
    pub(super) fn accessed(&mut self, now: Time, location: Location, region: Region) {
        if region == Region::Write {
            if let Some(written) = self.making.get_mut(&location) {
                *written = true;
            }
            if self.contains(location) {
                self.bare(now, location);
            }
        } else if self.contains(location) {
            self.held_since(location, Some(now));
        }
        if self.due.contains_key(&location) {
            self.bare(now, location);
        }
    }

    /// A copy under way has ended. Whether it is one: nothing was written since it began.
    fn made(&mut self, location: Location) -> bool {
        self.making.remove(&location).is_some_and(|written| !written)
    }

    fn held_since(&mut self, location: Location, last: Option<Time>) {
        let before = match last {
            Some(last) => self.held.insert(location, last),
            None => self.held.remove(&location),
        };
        if let Some(before) = before {
            self.used.remove(&(before, location));
        }
        self.used.extend(last.map(|last| (last, location)));
    }

    fn due_at(&mut self, location: Location, at: Option<Time>) {
        let before = match at {
            Some(at) => self.due.insert(location, at),
            None => self.due.remove(&location),
        };
        if let Some(before) = before {
            self.order.remove(&(before, location));
        }
        self.order.extend(at.map(|at| (at, location)));
    }

    /// When the next one is due.
    fn next_due(&self, block_bytes: u64) -> Option<Time> {
        self.order.first().map(|(at, _)| *at).filter(|_| self.room_bytes >= block_bytes)
    }

    /// The next one that is due and likely to stay as it is. `further_writes` says how many writes to expect of a location.
    fn take(&mut self, now: Time, further_writes: impl Fn(Location) -> f64) -> Option<Location> {
        loop {
            let &(at, location) = self.order.first()?;
            if at > now {
                return None;
            }
            if further_writes(location) <= WRITES_MAX {
                self.due_at(location, None);
                return Some(location);
            }
            self.later(now, location);
        }
    }

    fn later(&mut self, now: Time, location: Location) {
        self.due_at(location, self.after.map(|after| now + after.max(AGAIN)));
    }
}

impl Reorganizer {
    /// The next copy that is made, if the devices are idle and nothing is to be moved.
    pub(super) fn poll_copy(&mut self, now: Time) -> Option<Location> {
        if now < self.copy_at()? {
            return None;
        }
        let (tuned, moving) = (self.tuned.as_ref(), &self.moving);
        let further = |at: Location| match tuned {
            _ if moving.contains_key(&at) => f64::INFINITY,
            Some(tuned) => Tuned::further_writes(tuned, at),
            None => 0.0,
        };
        let location = self.copies.take(now, further)?;
        self.copies.making.insert(location, false);
        self.copies.room_bytes = self.copies.room_bytes.saturating_sub(self.config.block_bytes);
        self.spend(now, self.config.block_bytes);
        Some(location)
    }

    /// When the next copy may be made; `None` if only something that happens can tell.
    pub(super) fn copy_at(&self) -> Option<Time> {
        let waits = self.plan.is_empty() && self.urgent.is_empty() && self.under_way() < self.config.moves_max;
        let due = self.copies.next_due(self.config.block_bytes).filter(|_| waits)?;
        Some(due.max(self.idle_at()?).max(self.budget_at))
    }

    /// A copy was made, by us or before.
    pub(super) fn copied(&mut self, now: Time, location: Location) {
        let ours = self.copies.is_making(location);
        let equal = !ours || self.copies.made(location);
        if self.tier(location) == Tier::Slow {
            return;
        }
        if equal {
            self.stats.copied += u64::from(ours);
            self.copies.hold(location, self.last_access(location));
        } else {
            self.copies.bare(now, location);
        }
    }

    /// A copy under way was given up.
    pub(super) fn copy_failed(&mut self, now: Time, location: Location) {
        if self.copies.making.remove(&location).is_some() {
            self.stats.copies_failed += 1;
            if self.tier(location) == Tier::Fast {
                self.copies.later(now, location);
            }
        }
    }

    /// The locations with slow copies in the order in which those are given up where space is short. What was accessed
    /// last goes first: it stays on the fast tier for longest, so that its copy is of the least use. Measured on a hot
    /// spot that moves, with half of the room that copies could take: 3 % less is moved than when the first in number
    /// go, and 12 % less than when the coldest do.
    pub fn copies_to_give_up(&self) -> Vec<Location> {
        self.copies.used.iter().rev().map(|(_, location)| *location).collect()
    }

    /// Whether a location on the fast tier has a slow copy.
    pub fn has_copy(&self, location: Location) -> bool {
        self.copies.contains(location)
    }

    /// Locations with a slow copy, and those whose copy is being made.
    pub fn copies(&self) -> (usize, usize) {
        (self.copies.held.len(), self.copies.making())
    }

    /// Whether every location of the fast tier is accounted for.
    #[cfg(test)]
    pub(super) fn check_copies(&self) {
        let of = &self.copies;
        let known = of.held.keys().chain(of.due.keys()).chain(of.making.keys());
        let known: BTreeSet<Location> = known.copied().filter(|at| self.fast.contains(at)).collect();
        assert!(of.held.keys().chain(of.due.keys()).all(|at| self.fast.contains(at)), "a copy below nothing");
        assert!(of.due.keys().all(|at| !of.contains(*at) && !of.is_making(*at)), "a copy beside a copy");
        assert_eq!((of.order.len(), of.used.len()), (of.due.len(), of.held.len()));
        if self.config.keep_copies && of.after.is_some() {
            assert_eq!(known, self.fast, "one was forgotten");
        }
    }
}
