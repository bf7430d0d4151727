//! Which mirrors of a file are forks: those behind the ones that it had before the first was made.

use crate::daemon::Core;
use crate::file::File;
use crate::state::State;
use crate::stats::Metric;
use crate::{Error, Result};
use parking_lot::Mutex;
use policy::FileId;
use policy::layout::Placement;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name under which forks are kept in the state store.
const RECORDS: &str = "fork";

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Record {
    /// Mirrors that the file has for other reasons.
    keep: usize,
}

/// The files that have forks.
pub struct Forks {
    state: Arc<dyn State>,
    held: Mutex<BTreeMap<FileId, Record>>,
}

impl Forks {
    /// Those that the state store remembers.
    pub fn open(state: Arc<dyn State>) -> Result<Forks> {
        let mut held = BTreeMap::new();
        for (key, bytes) in state.records(RECORDS)? {
            match (u64::from_str_radix(&key, 16), serde_json::from_slice(&bytes)) {
                (Ok(file), Ok(record)) => drop(held.insert(FileId(file), record)),
                _ => tracing::warn!(
                    "the record of fork {key} is not understood; the copy stays until it is dropped by hand"
                ),
            }
        }
        Ok(Forks { state, held: Mutex::new(held) })
    }

    /// Whether the file has any.
    pub fn has(&self, file: FileId) -> bool {
        self.held.lock().contains_key(&file)
    }

    /// How many files have one.
    pub fn count(&self) -> usize {
        self.held.lock().len()
    }

    /// How many of so many mirrors are there for other reasons.
    pub fn keep(&self, file: FileId, mirrors: usize) -> usize {
        self.held.lock().get(&file).map_or(mirrors, |record| record.keep.min(mirrors))
    }

    /// Makes one. First the record: a copy that nobody remembers would stay for ever.
    pub fn add(&self, core: &Core, file: &Arc<File>, place: &Placement) -> Result<()> {
        let layout = file.layout().ok_or_else(|| Error::Busy("its bytes are in its stub".into()))?;
        let id = layout.file;
        let first = !self.has(id);
        if first {
            self.remember(id, Record { keep: layout.mirrors.len() })?;
        }
        let made = core.mover.add_fork(file, place);
        if made.is_err() && first {
            self.forget(id)?;
        }
        made.map(|_| ())
    }

    /// Gives one up; with the last of a file goes its record.
    pub fn drop_one(&self, core: &Core, file: &Arc<File>, mirror: usize) -> Result<()> {
        let id = file.id().ok_or_else(|| Error::Busy("its bytes are in its stub".into()))?;
        let layout = core.mover.drop_mirror(file, mirror)?;
        if layout.mirrors.len() <= self.keep(id, layout.mirrors.len()) {
            file.load().set_chooser(None);
            self.forget(id)?;
        }
        Ok(())
    }

    /// Space is scarce: gives up a fork of a file that nobody uses, one at a time. The files in use are the striper's business.
    pub fn give_up_one_at_rest(&self, core: &Core, in_use: &[(FileId, Arc<File>)]) {
        let resting = |id: &FileId| in_use.iter().all(|(used, _)| used != id);
        let Some(id) = self.held.lock().keys().copied().find(resting) else { return };
        let file = core.files.find(id);
        let done = match file.as_ref().and_then(|file| Some((file, file.layout()?.mirrors.len()))) {
            None => self.forget(id),
            Some((file, mirrors)) if mirrors > self.keep(id, mirrors) => {
                core.volume.stats().add(Metric::StripesForksDropped, 1);
                self.drop_one(core, file, mirrors - 1)
            }
            Some(_) => self.forget(id),
        };
        if let Err(error) = done {
            tracing::info!("stripes: the fork of file {id} stays for now: {error}");
        }
    }

    fn remember(&self, id: FileId, record: Record) -> Result<()> {
        let bytes = serde_json::to_vec(&record).expect("a number");
        self.state.record_put(RECORDS, &format!("{:016x}", id.0), &bytes)?;
        self.held.lock().insert(id, record);
        Ok(())
    }

    fn forget(&self, id: FileId) -> Result<()> {
        self.state.record_remove(RECORDS, &format!("{:016x}", id.0))?;
        self.held.lock().remove(&id);
        Ok(())
    }
}
