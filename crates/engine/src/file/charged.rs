//! Quota charges of a file: its owner, its group and the directories above it are charged for its length and for one
//! file.
//!
//! The charge is the length, including holes and regardless of the number of mirrors. Users see the length, and mirrors
//! are added and dropped automatically. Growth is charged before it takes place, so a refused file keeps its length.

use super::File;
use crate::Result;
use meta::quota::{Changed, Payers};
use parking_lot::Mutex;
use policy::Time;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Cached payers of a file.
#[derive(Default)]
pub(super) struct Charges {
    /// Payers, with the edition of the quota table and the time of the look-up.
    payers: Mutex<Option<(u64, Time, Payers)>>,
    /// The file lost its last name and is no longer charged.
    is_over: AtomicBool,
    /// This node has removed a name of the file.
    lost_name_here: AtomicBool,
}

/// Validity of cached payers where another node may move the file or change its owner.
const BELIEVED: Time = Time::from_secs(1);

fn bytes(bytes: u64) -> Changed {
    Changed { bytes, files: 0 }
}

impl File {
    /// Whether the volume counts usage.
    pub(super) fn is_charged(&self) -> bool {
        self.pool.quotas.is_on()
    }

    fn payers(&self) -> Payers {
        let quotas = &self.pool.quotas;
        let edition = quotas.edition();
        let mut known = self.charges.payers.lock();
        let now = (self.pool.clock)();
        if let Some((of, at, payers)) = &*known
            && *of == edition
            && (!self.is_shared() || now.since(*at) < BELIEVED)
        {
            return payers.clone();
        }
        let Some(owner) = self.stub.owner() else {
            return known.as_ref().map_or_else(Payers::default, |(_, _, payers)| payers.clone());
        };
        let payers = match (self.staged_as.get(), self.stub.path()) {
            // A file being staged in is charged at the place of its staging.
            (Some(path), _) => quotas.payers(owner.0, owner.1, Path::new(&**path).parent().unwrap_or(Path::new(""))),
            (None, Some(place)) => quotas.payers_at(owner, &place),
            (None, None) => quotas.payers_anywhere(owner),
        };
        *known = Some((edition, now, payers.clone()));
        payers
    }

    /// Counts the file as moved before it loses a name, since it stays charged until its close. The payers are resolved
    /// by the name and stay cached.
    pub fn loses_name(&self) {
        self.charges.lost_name_here.store(true, Ordering::Release);
        if self.is_charged() {
            self.payers().moves(Changed { bytes: self.size(), files: 1 });
        }
    }

    /// Charge of a file that has lost its last name and is still open.
    pub fn counts_without_name(&self) -> Option<(Payers, Changed)> {
        let counts = !self.charges.is_over.load(Ordering::Acquire) && self.is_nameless(|| self.stub.links());
        (counts && self.has_payers()).then(|| (self.payers(), Changed { bytes: self.size(), files: 1 }))
    }

    /// Whether any quota covers the file.
    pub(crate) fn has_payers(&self) -> bool {
        self.is_charged() && !self.payers().is_empty()
    }

    /// Runs `change`, which sets the file's owner or group, with the file's length. No write makes the file longer
    /// during the call. Then drops the cached payers.
    pub fn change_payers<T>(&self, change: impl FnOnce(u64) -> T) -> T {
        let _extend = self.extend.lock();
        let changed = change(self.size());
        self.forget_payers();
        changed
    }

    /// Drops the cached payers, after a move.
    pub(crate) fn forget_payers(&self) {
        *self.charges.payers.lock() = None;
    }

    /// Whether this node can admit growth to `end` at once. If not, [`File::may_reach`] decides.
    pub(super) fn surely_reaches(&self, end: u64) -> bool {
        if !self.is_charged() {
            return true;
        }
        let more = end.saturating_sub(self.size());
        more == 0 || self.payers().admit(bytes(more)).is_ok()
    }

    /// Checks that the file may grow to `end`. The current length is always allowed.
    pub(super) fn may_reach(&self, end: u64) -> Result<()> {
        if !self.is_charged() {
            return Ok(());
        }
        match end.saturating_sub(self.size()) {
            0 => Ok(()),
            more => Ok(self.pool.quotas.admit(&self.payers(), bytes(more))?),
        }
    }

    /// Changes the length and its charge; refused if the file may not grow. The caller excludes other changes of the
    /// length on this node. Another node charges its own changes.
    pub(super) fn charged(&self, from: u64, to: u64, set: impl FnOnce() -> Result<()>) -> Result<()> {
        let payers = if from == to || !self.is_charged() { Payers::default() } else { self.payers() };
        if payers.is_empty() {
            return set(); // the length isn't needed
        }
        let from = if to > from { self.length(from).min(to) } else { from };
        if to < from {
            let counts = !self.is_counted_off_elsewhere();
            return set().inspect(|()| payers.give(bytes(if counts { from - to } else { 0 })));
        }
        self.pool.quotas.take(&payers, bytes(to - from))?;
        set().inspect_err(|_| payers.give(bytes(to - from)))
    }

    /// Whether another node removed the last name, and subtracts the whole length.
    fn is_counted_off_elsewhere(&self) -> bool {
        let here = self.charges.lost_name_here.load(Ordering::Acquire);
        self.is_shared() && !here && self.is_nameless(|| self.stub.links())
    }

    /// Length as all nodes see it; `known` is this node's value.
    fn length(&self, known: u64) -> u64 {
        if self.is_shared() { self.stub.size().map_or(known, |size| size.max(known)) } else { known }
    }

    /// Charges a change of length that the kernel made by itself, without a check.
    pub(super) fn was_charged_late(&self, from: u64, to: u64) {
        if self.is_charged() {
            let payers = self.payers();
            payers.force(bytes(to.saturating_sub(from)));
            payers.give(bytes(from.saturating_sub(to)));
        }
    }

    /// Marks the file as no longer charged. Returns whether it was charged until now.
    pub(crate) fn stops_counting(&self) -> bool {
        !self.charges.is_over.swap(true, Ordering::AcqRel)
    }

    /// Releases the charge of a closed file without a name.
    pub fn counts_no_more(&self) {
        if self.is_charged() && self.stops_counting() {
            self.payers().give(Changed { bytes: self.length(self.size()), files: 1 });
        }
    }
}
