//! Permanent losses of some files, one object at a time, for callers that schedule the recovery themselves.

use super::Checker;
use super::look::{Candidate, Found};
use crate::Result;
use crate::stage::Stop;
use crate::stage::place::names;
use parking_lot::Mutex;
use policy::protect::repair_order;
use policy::{FileId, Time};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Files that waiting jobs read, each with the place of the first such job in the order of starts.
#[derive(Debug, Default)]
pub struct Starts {
    starts: Mutex<BTreeMap<FileId, Time>>,
    edition: AtomicU64,
}

impl Starts {
    /// Replaces the list.
    pub fn set(&self, starts: BTreeMap<FileId, Time>) {
        let mut now = self.starts.lock();
        if *now != starts {
            *now = starts;
            self.edition.fetch_add(1, Ordering::Release);
        }
    }

    /// Time when a file is needed; `None` if no job waits for it.
    pub fn of(&self, file: FileId) -> Option<Time> {
        self.starts.lock().get(&file).copied()
    }

    /// Number of changes of the list.
    pub fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }
}

/// A recoverable object that a file has lost.
#[derive(Clone)]
pub struct Lost(Candidate);

impl Lost {
    /// Input for the order of repair; the start of a waiting job is unknown here.
    pub fn candidate(&self) -> repair_order::Candidate {
        self.0.to_be_ordered(None)
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {} of {}", self.0.object.id, self.0.path.join("/"))
    }
}

impl Checker {
    /// The files at or below each group of paths, and their losses. An object on an absent target that is not given
    /// up is not lost. The targets are probed once.
    pub fn lost(&self, groups: &[Vec<String>]) -> Result<Vec<(Vec<FileId>, Vec<Lost>)>> {
        let mut asked = Found::default();
        self.ask_targets(&mut asked, false);
        let mut all = Vec::with_capacity(groups.len());
        for group in groups {
            let mut found = Found { there: std::mem::take(&mut asked.there), ..Found::default() };
            for path in group {
                let names = names(path).map_err(|e| crate::Error::Invalid(e.to_string()))?;
                self.walk(&names, &mut found, &Stop::default())?;
            }
            let given_up = |target| self.volume.targets().get(target).is_none_or(|t| t.is_given_up());
            let there = found.there;
            let is_lost = |target| there.contains_key(&target) || given_up(target);
            let lost = found.candidates.into_iter().filter(|c| c.recoverable && is_lost(c.object.target));
            all.push((found.files, lost.map(Lost).collect()));
            asked.there = there;
        }
        Ok(all)
    }

    /// Recovers one object, from another mirror or from the source. An object that is in order by now needs no work.
    pub fn bring_back(&self, lost: &Lost) -> Result<()> {
        self.repair_one(&lost.0)
    }
}
