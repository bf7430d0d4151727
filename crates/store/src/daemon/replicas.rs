//! Replicas of input files, for as long as jobs need them: made, failed over to, rebuilt, removed.
//!
//! A replica is the mirror behind those that the file had before; a record in the state store says which, so that a
//! restart finds it. When a target fails, the twins of what it held are swapped into the file's own mirror at once, and
//! what the replica lacks then is made anew after a delay; [`Failover`] decides, one request for each file and target.

mod failing;
mod uses;

pub use uses::JOB_VARIABLES;
pub(super) use uses::Uses;

use super::{Core, now_ns};
use crate::file::{Adviser, File};
use crate::mount::Openers;
use crate::state::State;
use crate::stats::Metric;
use crate::target;
use crate::workers::Workers;
use crate::{Error, Result};
use parking_lot::Mutex;
use policy::layout::MirrorState;
use policy::protect::failover::{self, Failover};
use policy::volume::ownership::Mechanism;
use policy::{FileId, TargetId, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// The name under which replicas are kept in the state store.
const RECORDS: &str = "replica";

/// One replica, as it is remembered.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Replica {
    /// The file's path when it was made, relative to the mount's root; a rename does not change it.
    path: String,
    /// Its number among the mirrors: how many there were before.
    mirror: usize,
    /// When it was begun, in nanoseconds since 1970.
    since_ns: u64,
}

/// What the worker is told.
enum Word {
    Event(failover::Event),
    TargetFailed(TargetId),
    Stop,
}

/// The replicas of a volume.
pub struct Replicas {
    state: Arc<dyn State>,
    held: Mutex<BTreeMap<FileId, Replica>>,
    /// Which jobs have these files open.
    uses: Uses,
    machine: Mutex<Failover>,
    began: Instant,
    tell: Mutex<Sender<Word>>,
    told: Mutex<Option<Receiver<Word>>>,
    core: OnceLock<Weak<Core>>,
    workers: Workers,
}

impl Adviser for Replicas {
    fn claims(&self, file: &File, mechanism: Mechanism) -> bool {
        mechanism == Mechanism::Replicas && file.id().is_some_and(|id| self.has(id))
    }
}

impl Replicas {
    /// Those that the state store remembers. `delay` is the time from a swap to the making of a new twin.
    pub(super) fn open(state: Arc<dyn State>, delay: Duration) -> Result<Arc<Replicas>> {
        let mut held = BTreeMap::new();
        for (key, bytes) in state.records(RECORDS)? {
            match (u64::from_str_radix(&key, 16), serde_json::from_slice(&bytes)) {
                (Ok(file), Ok(replica)) => drop(held.insert(FileId(file), replica)),
                _ => tracing::warn!(
                    "the record of replica {key} is not understood; the copy stays until it is dropped by hand"
                ),
            }
        }
        let config = failover::Config { rebuild_delay: Time(delay.as_nanos() as u64), ..failover::Config::default() };
        let (tell, told) = channel();
        let uses = Uses::default();
        held.keys().for_each(|file| uses.watch(*file));
        Ok(Arc::new(Replicas {
            state,
            held: Mutex::new(held),
            uses,
            machine: Mutex::new(Failover::new(config)),
            began: Instant::now(),
            tell: Mutex::new(tell),
            told: Mutex::new(Some(told)),
            core: OnceLock::new(),
            workers: Workers::of("the replicas"),
        }))
    }

    /// Starts the worker and listens for changes of targets.
    pub(super) fn start(self: &Arc<Replicas>, core: &Arc<Core>) {
        drop(self.core.set(Arc::downgrade(core)));
        let weak = Arc::downgrade(self);
        core.volume.targets().on_change(move |change| {
            let Some(replicas) = weak.upgrade() else { return };
            match change.to {
                target::State::Failed => replicas.say(Word::TargetFailed(change.target)),
                target::State::Ok => {
                    replicas.say(Word::Event(failover::Event::TargetReturned { target: change.target }))
                }
                _ => {}
            }
        });
        let Some(told) = self.told.lock().take() else { return };
        let this = self.clone();
        self.workers.start("replicas", move || this.work(&told));
    }

    /// Ends the worker. The mover must have been stopped before.
    pub(super) fn stop(&self) {
        self.say(Word::Stop);
        self.workers.stop();
    }

    fn say(&self, word: Word) {
        // Nobody listens at the end.
        drop(self.tell.lock().send(word));
    }

    /// A reader was not served by a target.
    pub(super) fn complain(&self, file: &File, target: TargetId) {
        if let Some(file) = file.id().filter(|id| self.held.lock().contains_key(id)) {
            let key = failover::Key { file, target };
            self.say(Word::Event(failover::Event::Complained { key }));
        }
    }

    /// Who hears of opens.
    pub(super) fn openers(&self) -> Arc<dyn Openers> {
        Arc::new(self.uses.clone())
    }

    /// Whether processes of a job had the file open since it has a replica, and none has now. `variable` is one of
    /// [`JOB_VARIABLES`]. A job whose processes cannot be told has closed nothing.
    pub fn has_closed(&self, file: FileId, variable: &str, job: &str, uid: u32) -> bool {
        self.uses.has_closed(file, variable, job, uid)
    }

    /// Whether there is a record of a replica of the file.
    pub fn has(&self, file: FileId) -> bool {
        self.held.lock().contains_key(&file)
    }

    /// The files that have one.
    pub fn all(&self) -> Vec<FileId> {
        self.held.lock().keys().copied().collect()
    }

    /// Makes the replica of a file; returns when it is complete and in sync. A file that has several mirrors already is
    /// protected as it is.
    pub fn create(&self, core: &Core, file: FileId, path: &str) -> Result<()> {
        let made = self.make(core, file, path);
        let stats = core.volume.stats();
        match &made {
            Ok(()) => stats.add(Metric::ReplicasCompleted, 1),
            Err(_) => stats.add(Metric::ReplicasFailed, 1),
        }
        made
    }

    fn make(&self, core: &Core, id: FileId, path: &str) -> Result<()> {
        core.volume.stats().add(Metric::ReplicasBegun, 1);
        let Some(file) = core.files.find(id) else { return Err(Error::Busy("the file is gone".into())) };
        let Some(layout) = file.layout() else { return Err(Error::Busy("its bytes are in its stub".into())) };
        if self.has(id) || layout.in_sync_count() > 1 {
            return Ok(());
        }
        let mirror = layout.mirrors.len();
        let replica = Replica { path: path.to_string(), mirror, since_ns: now_ns() };
        // First the record: a copy that nobody remembers would stay for ever.
        self.remember(id, &replica)?;
        match core.mover.add_replica(&file) {
            Ok(_) => Ok(()),
            Err(e) => {
                self.forget(id)?;
                Err(e)
            }
        }
    }

    /// Removes a file's replica. Done as well when the file is gone.
    ///
    /// # Errors
    /// `Busy` and what the targets say: to be tried again.
    pub fn remove(&self, core: &Core, id: FileId) -> Result<()> {
        let Some(replica) = self.held.lock().get(&id).cloned() else { return Ok(()) };
        self.say(Word::Event(failover::Event::Forget { file: id }));
        if let Some(file) = core.files.find(id)
            && file.layout().is_some_and(|layout| layout.mirrors.len() > replica.mirror)
        {
            core.mover.drop_mirror(&file, replica.mirror)?;
        }
        self.forget(id)?;
        core.volume.stats().add(Metric::ReplicasRemoved, 1);
        Ok(())
    }

    /// The replicas that are complete and in sync; of others the record is forgotten and what there is is removed.
    pub fn adopt(&self, core: &Core) -> Vec<FileId> {
        let all: Vec<(FileId, Replica)> = self.held.lock().iter().map(|(id, r)| (*id, r.clone())).collect();
        let mut adopted = Vec::new();
        for (id, replica) in all {
            let layout = core.files.find(id).and_then(|file| file.layout());
            let complete =
                layout.is_some_and(|l| l.mirrors.get(replica.mirror).is_some_and(|m| m.state == MirrorState::InSync));
            if complete {
                adopted.push(id);
            } else if let Err(error) = self.remove(core, id) {
                tracing::warn!("the replica of file {id} that an earlier daemon left stays for now: {error}");
            }
        }
        adopted
    }

    fn remember(&self, id: FileId, replica: &Replica) -> Result<()> {
        let bytes = serde_json::to_vec(replica).expect("a path and two numbers");
        self.state.record_put(RECORDS, &format!("{:016x}", id.0), &bytes)?;
        self.held.lock().insert(id, replica.clone());
        self.uses.watch(id);
        Ok(())
    }

    fn forget(&self, id: FileId) -> Result<()> {
        self.state.record_remove(RECORDS, &format!("{:016x}", id.0))?;
        self.held.lock().remove(&id);
        self.uses.forget(id);
        Ok(())
    }
}
