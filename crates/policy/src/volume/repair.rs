//! Repair: choice of the next damaged file to repair.
//!
//! Files are repaired in the order of [`repair_order`] at the time of the damage. Failed repairs are retried after a
//! delay.

use crate::ids::FileId;
use crate::protect::repair_order::{self, Candidate, Turn};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Delay before a failed repair is retried. A guess: a device is replaced in minutes.
const AGAIN: Time = Time::from_secs(30);

#[derive(Debug, Default)]
pub struct Repair {
    /// Files that wait for repair.
    order: BTreeSet<Turn>,
    turns: BTreeMap<FileId, Turn>,
    begun: BTreeSet<FileId>,
    retries: BTreeSet<(Time, FileId)>,
}

impl Repair {
    /// Adds a damaged file.
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

    /// Removes an intact or removed file.
    pub fn whole(&mut self, file: FileId) {
        self.forget(file);
        self.retries.retain(|(_, other)| *other != file);
    }

    /// Returns the next file and its number of intact mirrors, if fewer than `max` repairs are under way.
    pub fn next(&mut self, max: usize) -> Option<(FileId, usize)> {
        if self.begun.len() >= max {
            return None;
        }
        let (_, intact, _, file, _) = self.order.pop_first()?;
        self.turns.remove(&file);
        self.begun.insert(file);
        Some((file, intact as usize))
    }

    /// Ends a repair.
    pub fn ended(&mut self, now: Time, file: FileId, mended: bool) {
        if self.begun.remove(&file) && !mended {
            self.retries.insert((now + AGAIN, file));
        }
    }

    /// Returns the next failed file whose retry is due.
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
