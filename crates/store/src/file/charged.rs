//! What a file counts for: its owner, its group and the directories above it pay for its length and for itself.
//!
//! A file counts with its length, whatever of it are holes and however many mirrors it has: that is what its user sees, and
//! mirrors come and go without them. What it grows by is taken before it grows, so it stays as it was where that is refused.

use super::File;
use crate::Result;
use crate::quota::{Changed, Payers};
use parking_lot::Mutex;
use policy::Time;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is known of who pays.
#[derive(Default)]
pub(super) struct Charges {
    /// As of an edition of the table of all who may pay, and of a time.
    payers: Mutex<Option<(u64, Time, Payers)>>,
    /// It lost its last name, and counts no more.
    is_over: AtomicBool,
}

/// So long it is believed whose a file is that another node may give away or move.
const BELIEVED: Time = Time::from_secs(1);

fn bytes(bytes: u64) -> Changed {
    Changed { bytes, files: 0 }
}

impl File {
    /// Whether anything is counted in this volume.
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
        let place = self.stub.owner().zip(self.stub.path());
        let payers = place.map_or_else(Payers::default, |(owner, place)| match self.staged_as.get() {
            // The path of its stub is that of its staging.
            Some(path) => quotas.payers(owner.0, owner.1, Path::new(&**path).parent().unwrap_or(Path::new(""))),
            None => quotas.payers_at(owner, &place),
        });
        *known = Some((edition, now, payers.clone()));
        payers
    }

    /// From now on it is known who pays for it, whatever becomes of its name.
    pub(crate) fn learn_payers(&self) {
        self.has_payers();
    }

    /// What a file counts for that has lost its last name, while somebody has it open.
    pub(crate) fn counts_without_name(&self) -> Option<(Payers, Changed)> {
        let counts = !self.charges.is_over.load(Ordering::Acquire) && self.is_nameless(|| self.stub.links());
        (counts && self.has_payers()).then(|| (self.payers(), Changed { bytes: self.size(), files: 1 }))
    }

    /// Whether somebody pays for it.
    pub(crate) fn has_payers(&self) -> bool {
        self.is_charged() && !self.payers().is_empty()
    }

    /// Does something with its length, which does not change meanwhile; who pays is found out anew afterwards.
    pub(crate) fn change_payers<T>(&self, change: impl FnOnce(u64) -> T) -> T {
        let _extend = self.extend.lock();
        let changed = change(self.size());
        self.forget_payers();
        changed
    }

    /// It has another place.
    pub(crate) fn forget_payers(&self) {
        *self.charges.payers.lock() = None;
    }

    /// Whether the file may become so long as far as is known at once. No says nothing: ask [`File::may_reach`].
    pub(super) fn surely_reaches(&self, end: u64) -> bool {
        if !self.is_charged() {
            return true;
        }
        let more = end.saturating_sub(self.size());
        more == 0 || self.payers().admit(bytes(more)).is_ok()
    }

    /// Whether the file may become so long; it may always be as long as it is.
    pub(super) fn may_reach(&self, end: u64) -> Result<()> {
        if !self.is_charged() {
            return Ok(());
        }
        match end.saturating_sub(self.size()) {
            0 => Ok(()),
            more => Ok(self.pool.quotas.admit(&self.payers(), bytes(more))?),
        }
    }

    /// Changes the length from one to another, which is counted if it is changed, and refused if it may not grow. The caller
    /// lets nobody else on this node change it meanwhile; what another node added is that one's to count.
    pub(super) fn charged(&self, from: u64, to: u64, set: impl FnOnce() -> Result<()>) -> Result<()> {
        let payers = if from == to || !self.is_charged() { Payers::default() } else { self.payers() };
        if payers.is_empty() {
            return set(); // no length needs to be asked for
        }
        let from = if to > from { self.length(from).min(to) } else { from };
        if to < from {
            return set().inspect(|()| payers.give(bytes(from - to)));
        }
        self.pool.quotas.take(&payers, bytes(to - from))?;
        set().inspect_err(|_| payers.give(bytes(to - from)))
    }

    /// The length as all nodes see it, where this one thinks it is `known`.
    fn length(&self, known: u64) -> u64 {
        if self.is_shared() { self.stub.size().map_or(known, |size| size.max(known)) } else { known }
    }

    /// The kernel changed the length by itself: nobody was asked.
    pub(super) fn was_charged_late(&self, from: u64, to: u64) {
        if self.is_charged() {
            let payers = self.payers();
            payers.force(bytes(to.saturating_sub(from)));
            payers.give(bytes(from.saturating_sub(to)));
        }
    }

    /// It lost its last name, and nobody has it open any more.
    pub(crate) fn counts_no_more(&self) {
        if self.is_charged() && !self.charges.is_over.swap(true, Ordering::AcqRel) {
            self.payers().give(Changed { bytes: self.length(self.size()), files: 1 });
        }
    }
}
