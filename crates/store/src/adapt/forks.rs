//! Mirrors of a file that are forks: those behind the ones that it had before the first fork was made.

use super::records::Records;
use crate::file::File;
use crate::mover::Mover;
use crate::state::State;
use crate::{Error, Result};
use parking_lot::Mutex;
use policy::FileId;
use policy::layout::Placement;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Record {
    /// Mirrors that the file has for other reasons.
    keep: usize,
}

/// The files that have forks.
pub struct Forks {
    records: Records<Record>,
    /// The file at rest that was looked at last.
    looked: Mutex<FileId>,
}

impl Forks {
    /// Loads the forks recorded in the state store.
    pub fn open(state: Arc<dyn State>) -> Result<Forks> {
        Ok(Forks { records: Records::open(state, "fork")?, looked: Mutex::new(FileId(0)) })
    }

    /// Whether the file has any.
    pub fn has(&self, file: FileId) -> bool {
        self.records.held().contains_key(&file)
    }

    /// How many files have one.
    pub fn count(&self) -> usize {
        self.records.held().len()
    }

    /// Number of a file's mirrors that are no forks, out of `mirrors`.
    pub fn keep(&self, file: FileId, mirrors: usize) -> usize {
        self.records.held().get(&file).map_or(mirrors, |record| record.keep.min(mirrors))
    }

    /// Makes one. First the record: a copy that nothing remembers would stay for ever.
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

    /// Gives one up; with the last of a file goes its record.
    pub fn drop_one(&self, mover: &Mover, file: &Arc<File>, mirror: usize) -> Result<()> {
        let before = file.layout().ok_or_else(|| Error::Busy("its bytes are in its stub".into()))?;
        if mirror < self.keep(before.file, before.mirrors.len()) {
            return Err(Error::Busy("its layout was changed meanwhile".into()));
        }
        let layout = mover.drop_mirror(file, mirror)?;
        if layout.mirrors.len() <= self.keep(layout.file, layout.mirrors.len()) {
            file.load().set_chooser(None);
            self.forget(layout.file)?;
        }
        Ok(())
    }

    /// One of the files that have forks and are not in use, another each time.
    pub fn next_at_rest(&self, in_use: &BTreeSet<FileId>) -> Option<FileId> {
        let (held, mut looked) = (self.records.held(), self.looked.lock());
        let after = held.range((Excluded(*looked), Unbounded)).chain(held.range(..=*looked));
        let next = after.map(|(id, _)| *id).find(|id| !in_use.contains(id));
        *looked = next.unwrap_or(*looked);
        next
    }

    /// The record of a file without forks, or of one that is gone, is of no use.
    pub fn forget(&self, id: FileId) -> Result<()> {
        self.records.forget(id)
    }
}
