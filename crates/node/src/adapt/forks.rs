//! Forks: the mirrors of a file behind those that it had before its first fork was made.

use super::records::Records;
use crate::{Error, Result};
use engine::file::File;
use engine::mover::Mover;
use meta::state::State;
use parking_lot::Mutex;
use policy::FileId;
use policy::layout::Placement;
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
        let made = mover.add_fork(file, place);
        if made.is_err() && first {
            self.forget(id)?;
        }
        made.map(|_| ())
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
