//! Slow copies of locations on the fast tier: existing ones, and those made while the devices are idle.
//!
//! A location with a copy can leave the fast tier without cost until it is written. A promotion may leave a copy
//! behind. Other locations of the fast tier get one after a time without access, while the devices are idle:
//!
//! ```text
//!   no copy --(not accessed for `copy_after`)--> due --(idle, budget, room, no move waits)--> Action::Copy
//!      ^                                                                                          |
//!      '-------------- a write, or the copy failed --------- copy <--------- Event::Copied -------'
//! ```
//! The location with the oldest access comes first: it is the next to leave. A location that is likely to be written
//! soon, as learned from others ([`crate::tier::hit_rate`]), is checked again later. So copies use only idle device
//! time, and are rarely wasted.

use super::Reorganizer;
use crate::tier::tuned::Tuned;
use crate::tier::{Location, Region, Tier};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Expected further writes above which a location is not copied: the copy is as likely as not to become stale.
const WRITES_MAX: f64 = 0.5;

/// Least delay before another attempt after a copy failed or was refused.
const AGAIN: Time = Time(1_000_000_000);

/// Slow copies of the locations that lie on the fast tier. If copies are made at all, each such location is in one of
/// `held`, `due` and `making`.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Time without access before a copy; `None`: only promotions leave copies.
    after: Option<Time>,
    /// Locations with a copy, with their last access.
    held: BTreeMap<Location, Time>,
    used: BTreeSet<(Time, Location)>,
    /// Locations without a copy, with the earliest time of one.
    due: BTreeMap<Location, Time>,
    order: BTreeSet<(Time, Location)>,
    /// Copies under way, and whether the location was written since they began.
    making: BTreeMap<Location, bool>,
    /// Bytes available for further copies.
    room_bytes: u64,
}

impl Copies {
    pub(super) fn new(after: Option<Time>) -> Copies {
        Copies { after, room_bytes: u64::MAX, ..Copies::default() }
    }

    /// Returns the locations with a copy.
    pub(super) fn held(&self) -> &BTreeMap<Location, Time> {
        &self.held
    }

    pub(super) fn contains(&self, location: Location) -> bool {
        self.held.contains_key(&location)
    }

    /// Whether a copy of the location is under way.
    pub(super) fn is_making(&self, location: Location) -> bool {
        self.making.contains_key(&location)
    }

    pub(super) fn making(&self) -> usize {
        self.making.len()
    }

    /// Sets the available room; copies under way are subtracted.
    pub(super) fn set_room(&mut self, bytes: u64, block_bytes: u64) {
        self.room_bytes = bytes.saturating_sub(self.making.len() as u64 * block_bytes);
    }

    /// Adds a location of the fast tier without a copy.
    pub(super) fn bare(&mut self, now: Time, location: Location) {
        self.held_since(location, None);
        if !self.is_making(location) {
            self.due_at(location, self.after.map(|after| now + after));
        }
    }

    /// Adds the copy of a location, with the last access.
    pub(super) fn hold(&mut self, location: Location, last: Time) {
        self.due_at(location, None);
        self.held_since(location, Some(last));
    }

    /// Removes a location that left the fast tier.
    pub(super) fn left(&mut self, location: Location) {
        self.due_at(location, None);
        self.held_since(location, None);
    }

    /// Records an access to a location on the fast tier.
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

    /// Ends a copy under way. Returns whether it is valid: nothing was written since it began.
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

    /// Returns the time at which the next copy is due.
    fn next_due(&self, block_bytes: u64) -> Option<Time> {
        self.order.first().map(|(at, _)| *at).filter(|_| self.room_bytes >= block_bytes)
    }

    /// Returns the next due location that is unlikely to be written. `further_writes` returns the expected writes of a
    /// location.
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
    /// Returns the next copy to make, if the devices are idle and no move waits.
    pub(super) fn poll_copy(&mut self, now: Time) -> Option<Location> {
        if now < self.copy_at()? {
            return None;
        }
        let (tuned, moving, away) = (self.tuned.as_ref(), &self.moving, &self.away);
        let further = |at: Location| match tuned {
            _ if moving.contains_key(&at) || away.contains(&at) => f64::INFINITY,
            Some(tuned) => Tuned::further_writes(tuned, at),
            None => 0.0,
        };
        let location = self.copies.take(now, further)?;
        self.copies.making.insert(location, false);
        self.copies.room_bytes = self.copies.room_bytes.saturating_sub(self.config.block_bytes);
        self.spend(now, self.config.block_bytes);
        Some(location)
    }

    /// Returns the time of the next copy; `None` if it depends on events.
    pub(super) fn copy_at(&self) -> Option<Time> {
        let waits = self.plan.is_empty() && self.urgent.is_empty() && self.under_way() < self.config.moves_max;
        let due = self.copies.next_due(self.config.block_bytes).filter(|_| waits)?;
        Some(due.max(self.idle_at()?).max(self.budget_at))
    }

    /// Records a copy, made by this machine or earlier.
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

    /// Ends a copy under way that was given up.
    pub(super) fn copy_failed(&mut self, now: Time, location: Location) {
        if self.copies.making.remove(&location).is_some() {
            self.stats.copies_failed += 1;
            if self.tier(location) == Tier::Fast {
                self.copies.later(now, location);
            }
        }
    }

    /// Returns the locations with slow copies, in the order in which copies are dropped when space is short. The latest
    /// accessed goes first: it stays on the fast tier for longest, so that its copy is of the least use. Measured on a
    /// hot spot that moves, with half of the room for copies: 3 % fewer moves than in numerical order, and 12 % fewer
    /// than with the coldest first.
    pub fn copies_to_give_up(&self) -> Vec<Location> {
        self.copies.used.iter().rev().map(|(_, location)| *location).collect()
    }

    /// Whether a location on the fast tier has a slow copy.
    pub fn has_copy(&self, location: Location) -> bool {
        self.copies.contains(location)
    }

    /// Returns the numbers of locations with a slow copy, and of copies under way.
    pub fn copies(&self) -> (usize, usize) {
        (self.copies.held.len(), self.copies.making())
    }

    /// Checks that every location of the fast tier is accounted for.
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
