//! Forks: the mirrors of a file behind those that it had before its first fork was made.

use super::Adapt;
use super::records::Records;
use crate::{Error, Result};
use engine::file::File;
use engine::mover::Mover;
use meta::state::State;
use parking_lot::Mutex;
use policy::FileId;
use policy::layout::{Layout, Placement};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Record {
    /// Number of mirrors that are no forks.
    keep: usize,
}

/// The files that have forks.
pub struct Forks {
    records: Records<Record>,
    /// The unused file that was returned last.
    looked: Mutex<FileId>,
}

impl Forks {
    /// Loads the forks recorded in the state store.
    pub fn open(state: Arc<dyn State>) -> Result<Forks> {
        Ok(Forks { records: Records::open(state, "fork")?, looked: Mutex::new(FileId(0)) })
    }

    /// Whether the file has a fork.
    pub fn has(&self, file: FileId) -> bool {
        self.records.held().contains_key(&file)
    }

    /// Number of files with forks.
    pub fn count(&self) -> usize {
        self.records.held().len()
    }

    /// Number of a file's mirrors that are no forks, out of `mirrors`.
    pub fn keep(&self, file: FileId, mirrors: usize) -> usize {
        self.records.held().get(&file).map_or(mirrors, |record| record.keep.min(mirrors))
    }

    /// Makes a fork. Its record is written first: a copy without a record would stay for ever.
    pub fn add(&self, mover: &Mover, file: &Arc<File>, place: &Placement) -> Result<()> {
        let layout = file.layout().ok_or_else(|| Error::Busy("its bytes are in its stub".into()))?;
        let id = layout.file;
        let first = !self.has(id);
        if first {
            self.records.put(id, Record { keep: layout.mirrors.len() })?;
        }
        match mover.add_fork(file, place) {
            Ok(layout) => {
                // A user may have added or dropped a mirror before the copy began.
                let keep = layout.mirrors.len() - 1;
                let current = self.records.held().get(&id).is_some_and(|record| !first || record.keep == keep);
                if current { Ok(()) } else { self.records.put(id, Record { keep }) }
            }
            Err(error) => {
                if first {
                    self.forget(id)?;
                }
                Err(error)
            }
        }
    }

    /// Drops a fork; the file's record is removed with its last fork.
    pub fn drop_one(&self, mover: &Mover, file: &Arc<File>, mirror: usize) -> Result<()> {
        let before = file.layout().ok_or_else(|| Error::Busy("its bytes are in its stub".into()))?;
        if mirror < self.keep(before.file, before.mirrors.len()) {
            return Err(Error::Busy("its layout changed before its turn".into()));
        }
        let layout = mover.drop_mirror(file, mirror)?;
        if layout.mirrors.len() <= self.keep(layout.file, layout.mirrors.len()) {
            file.load().set_chooser(None);
            self.forget(layout.file)?;
        }
        Ok(())
    }

    /// An unused file with forks; repeated calls go through all such files.
    pub fn next_at_rest(&self, in_use: &BTreeSet<FileId>) -> Option<FileId> {
        let (held, mut looked) = (self.records.held(), self.looked.lock());
        let after = held.range((Excluded(*looked), Unbounded)).chain(held.range(..=*looked));
        let next = after.map(|(id, _)| *id).find(|id| !in_use.contains(id));
        *looked = next.unwrap_or(*looked);
        next
    }

    /// Removes the record of a file that has no forks any more, or that was removed.
    pub fn forget(&self, id: FileId) -> Result<()> {
        self.records.forget(id)
    }
}

impl Adapt {
    /// Adds a mirror at a user's request. Forks are dropped first: a mirror behind a fork counts as one, and would be
    /// dropped like it.
    pub fn add_mirror(&self, file: &Arc<File>, place: &Placement) -> Result<Arc<Layout>> {
        let (forks, id) = (&self.recorder.forks, file.id());
        let last_fork = || {
            let layout = file.layout()?;
            let count = layout.mirrors.len();
            (forks.keep(layout.file, count) < count).then(|| count - 1)
        };
        let Some(id) = id.filter(|id| forks.has(*id) && self.replicas.mirror_of(*id).is_none()) else {
            return self.mover.add_mirror(file, place);
        };
        while let Some(fork) = last_fork() {
            forks.drop_one(&self.mover, file, fork)?;
        }
        forks.forget(id)?;
        let added = self.mover.add_mirror(file, place);
        self.driver.tell_all(self.lies(file));
        added
    }
}
