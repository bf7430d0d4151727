//! What some files have lost for good, one piece at a time: for whoever decides by itself when which of it comes back.

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

/// The files that waiting jobs read, with the places of the first of these in the order of starts.
#[derive(Debug, Default)]
pub struct Starts(Mutex<BTreeMap<FileId, Time>>);

impl Starts {
    /// All of them, in place of those before.
    pub fn set(&self, starts: BTreeMap<FileId, Time>) {
        *self.0.lock() = starts;
    }

    /// When a file is needed; nothing if no job waits for it.
    pub fn of(&self, file: FileId) -> Option<Time> {
        self.0.lock().get(&file).copied()
    }
}

/// Something that a file has lost and that can be brought back.
#[derive(Clone)]
pub struct Lost(Candidate);

impl Lost {
    /// What the order of repair goes by; who wants the file is not known here.
    pub fn candidate(&self) -> repair_order::Candidate {
        let Candidate { file, object, healthy_copies, bytes, .. } = &self.0;
        repair_order::Candidate {
            file: *file,
            object: object.id,
            job_start: None,
            healthy_copies: *healthy_copies,
            bytes: *bytes,
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "object {} of {}", self.0.object.id, self.0.path.join("/"))
    }
}

impl Checker {
    /// The files at or below each group of paths, and what they have lost. What lies on a target that is away and not
    /// given up yet is not lost. Targets are asked once.
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

    /// Brings one back, from another mirror or from the source. What is in order by now needs nothing.
    pub fn bring_back(&self, lost: &Lost) -> Result<()> {
        self.repair_one(&lost.0)
    }
}
