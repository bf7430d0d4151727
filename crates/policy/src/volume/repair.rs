//! Repair: which damaged file is mended next.
//!
//! The fewer intact mirrors a file has the sooner, since the next failure may be its last; of like ones those that
//! somebody has open. What failed is tried again after a while.

use crate::ids::FileId;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// From a repair that failed to the next. A guess: a device is replaced in minutes.
const AGAIN: Time = Time::from_secs(30);

#[derive(Debug, Default)]
pub struct Repair {
    /// Those that wait, by intact mirrors and whether they are closed.
    order: BTreeSet<(usize, bool, FileId)>,
    keys: BTreeMap<FileId, (usize, bool)>,
    begun: BTreeSet<FileId>,
    retries: BTreeSet<(Time, FileId)>,
}

impl Repair {
    /// A file is damaged. How many of its mirrors are intact, and whether it is open.
    pub fn damaged(&mut self, file: FileId, intact: usize, open: bool) {
        if self.begun.contains(&file) || self.retries.iter().any(|(_, other)| *other == file) {
            return;
        }
        self.forget_key(file);
        self.keys.insert(file, (intact, !open));
        self.order.insert((intact, !open, file));
    }

    /// A file is whole, or gone.
    pub fn whole(&mut self, file: FileId) {
        self.forget_key(file);
        self.retries.retain(|(_, other)| *other != file);
    }

    /// The next one, if fewer than `max` are begun.
    pub fn next(&mut self, max: usize) -> Option<(FileId, usize)> {
        if self.begun.len() >= max {
            return None;
        }
        let (intact, _, file) = self.order.pop_first()?;
        self.keys.remove(&file);
        self.begun.insert(file);
        Some((file, intact))
    }

    /// One is over.
    pub fn ended(&mut self, now: Time, file: FileId, mended: bool) {
        if self.begun.remove(&file) && !mended {
            self.retries.insert((now + AGAIN, file));
        }
    }

    /// The next one that failed and is to be tried again now.
    pub fn again(&mut self, now: Time) -> Option<FileId> {
        let (at, file) = *self.retries.first()?;
        (at <= now).then(|| {
            self.retries.pop_first();
            file
        })
    }

    pub fn next_deadline(&self) -> Option<Time> {
        self.retries.first().map(|(at, _)| *at)
    }

    fn forget_key(&mut self, file: FileId) {
        if let Some((intact, closed)) = self.keys.remove(&file) {
            self.order.remove(&(intact, closed, file));
        }
    }
}
