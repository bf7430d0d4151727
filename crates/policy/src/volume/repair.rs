//! Repair: which damaged file is mended next.
//!
//! They go in the order of [`repair_order`], as it is when the damage is seen. What failed is tried again after a while.

use crate::ids::FileId;
use crate::protect::repair_order::{self, Candidate, Turn};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// From a repair that failed to the next. A guess: a device is replaced in minutes.
const AGAIN: Time = Time::from_secs(30);

#[derive(Debug, Default)]
pub struct Repair {
    /// Those that wait.
    order: BTreeSet<Turn>,
    turns: BTreeMap<FileId, Turn>,
    begun: BTreeSet<FileId>,
    retries: BTreeSet<(Time, FileId)>,
}

impl Repair {
    /// A file is damaged.
    pub fn damaged(&mut self, of: &Candidate) {
        let file = of.file;
        if self.begun.contains(&file) || self.retries.iter().any(|(_, other)| *other == file) {
            return;
        }
        self.forget(file);
        let turn = repair_order::turn(of);
        self.turns.insert(file, turn);
        self.order.insert(turn);
    }

    /// A file is whole, or gone.
    pub fn whole(&mut self, file: FileId) {
        self.forget(file);
        self.retries.retain(|(_, other)| *other != file);
    }

    /// The next one and its intact mirrors, if fewer than `max` are begun.
    pub fn next(&mut self, max: usize) -> Option<(FileId, usize)> {
        if self.begun.len() >= max {
            return None;
        }
        let (_, intact, _, file, _) = self.order.pop_first()?;
        self.turns.remove(&file);
        self.begun.insert(file);
        Some((file, intact as usize))
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

    fn forget(&mut self, file: FileId) {
        if let Some(turn) = self.turns.remove(&file) {
            self.order.remove(&turn);
        }
    }
}
