//! Replicas of jobs' input: mirrors behind those that a file had before, made and dropped, and swapped in when a target
//! fails.
//!
//! A record in the state store names the mirror that is a replica, so that a restart finds it. Readers do not wait for
//! a swap: they read the replica by themselves until the layout names its objects.

mod uses;

pub use uses::{FileUse, JOB_VARIABLES, Uses};

use super::Adapt;
use super::driver::Driver;
use super::jobs::Lane;
use super::records::Records;
use crate::{Error, Result};
use engine::events::Kind;
use engine::file::File;
use engine::mover::Mover;
use engine::stats::Metric;
use meta::state::State;
use object::target;
use parking_lot::Mutex;
use policy::layout::{Layout, Mirror, Reason};
use policy::protect::replica::{self, JobId, Protection};
use policy::volume::{Change, Event, FileEvent, Verb};
use policy::{FileId, TargetId, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// Record of one replica.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    /// The file's path when it was made, relative to the mount's root; a rename does not change it.
    path: String,
    /// Index of the replica among the mirrors: the number of mirrors before it was made.
    mirror: usize,
    /// Start of the replica's creation, in nanoseconds since 1970.
    since_ns: u64,
}

/// The replicas of a volume.
pub struct Replicas {
    records: Records<Record>,
    /// Jobs that have these files open.
    uses: Uses,
    driver: Arc<Driver>,
    /// Unreported complaints, at most one per file and target, so that many readers do not delay a swap.
    complaints: Mutex<BTreeSet<(FileId, TargetId)>>,
    /// Held while a mirror is dropped: the indices of the mirrors behind it change.
    dropping: Mutex<()>,
}

impl Replicas {
    /// Loads the replicas recorded in the state store.
    pub(super) fn open(state: Arc<dyn State>, driver: Arc<Driver>) -> Result<Arc<Replicas>> {
        let (records, uses) = (Records::<Record>::open(state, "replica")?, Uses::default());
        records.held().keys().for_each(|file| uses.watch(*file));
        Ok(Arc::new(Replicas { records, uses, driver, complaints: Mutex::default(), dropping: Mutex::default() }))
    }

    /// Index of a file's mirror that is a replica, if there is one.
    pub(super) fn mirror_of(&self, file: FileId) -> Option<usize> {
        self.records.held().get(&file).map(|record| record.mirror)
    }

    /// Whether any file has a replica.
    pub fn any(&self) -> bool {
        !self.records.held().is_empty()
    }

    /// Jobs that have files with a replica open.
    pub(crate) fn uses(&self) -> Uses {
        self.uses.clone()
    }

    /// Whether all processes of a job that opened the file since it has a replica have closed it. `variable` is one of
    /// [`JOB_VARIABLES`]. For a job whose processes cannot be identified, the result is false.
    pub fn has_closed(&self, file: FileId, variable: &str, job: &str, uid: u32) -> bool {
        self.uses.has_closed(file, variable, job, uid)
    }

    /// Records that a target did not serve a reader.
    pub(crate) fn complain(&self, file: &File, target: TargetId) {
        let Some(file) = file.id().filter(|id| self.mirror_of(*id).is_some()) else { return };
        if self.complaints.lock().insert((file, target)) {
            self.driver.jobs.later(Lane::Failover, move |adapt| {
                adapt.replicas.complaints.lock().remove(&(file, target));
                adapt.complained([file], target);
            });
        }
    }

    /// Handles the failure or return of a target.
    pub(super) fn target_changed(&self, change: &target::Change) {
        let target = change.target;
        match change.to {
            target::State::Failed => self.driver.jobs.later(Lane::Failover, move |adapt| {
                let files: Vec<FileId> = adapt.replicas.records.held().keys().copied().collect();
                adapt.complained(files, target);
            }),
            target::State::Ok => self.driver.tell(Event::TargetReturned(target)),
            _ => {}
        }
    }

    /// Removes the record of a file that has no replica any more, or that was removed.
    pub(super) fn forget(&self, file: FileId) -> Result<()> {
        self.uses.forget(file);
        self.records.forget(file)
    }

    /// Makes a change to a file's replica.
    pub(super) fn make(&self, adapt: &Adapt, change: &Change, file: &Arc<File>) -> Result<u64> {
        let made = |metric| adapt.stats.add(metric, 1);
        match change.verb {
            Verb::AddMirror { .. } => {
                made(Metric::ReplicasBegun);
                let added = self.add(adapt, file);
                made(if added.is_ok() { Metric::ReplicasCompleted } else { Metric::ReplicasFailed });
                added.map(|()| file.size())
            }
            Verb::DropMirror(mirror) => {
                let _dropping = self.dropping.lock();
                if self.mirror_of(change.file) != Some(mirror) {
                    return Err(Error::Busy("its mirrors changed".into()));
                }
                self.drop_mirror(&adapt.mover, file, mirror)?;
                made(Metric::ReplicasRemoved);
                Ok(0)
            }
            Verb::Swap { replica, target } if self.mirror_of(change.file) == Some(replica) => {
                self.swap(adapt, change.file, file, target, replica)
            }
            Verb::ReplaceTarget(target) => {
                adapt.mover.replace_target(file, target, Reason::FailedOver(target))?;
                made(Metric::ReplicasRebuilt);
                Ok(file.size())
            }
            _ => Err(Error::Busy("its mirrors changed".into())),
        }
    }

    /// The record is written first: a copy without a record would stay forever.
    fn add(&self, adapt: &Adapt, file: &Arc<File>) -> Result<()> {
        let layout = file.layout().ok_or_else(|| Error::Busy("its bytes are in its stub".into()))?;
        let (id, pool) = (layout.file, file.pool());
        let record = Record { path: pool.name_of(id), mirror: layout.mirrors.len(), since_ns: (pool.clock)().0 };
        self.records.put(id, record.clone())?;
        self.uses.watch(id);
        match adapt.mover.add_replica(file) {
            // A user added or dropped a mirror before the copy began.
            Ok(layout) if layout.mirrors.len() != record.mirror + 1 => {
                self.records.put(id, Record { mirror: layout.mirrors.len() - 1, ..record })
            }
            Ok(_) => Ok(()),
            Err(error) => {
                self.forget(id)?;
                Err(error)
            }
        }
    }

    /// Drops a mirror of a file, and updates the index of its replica. The last mirror left is no replica any more. The
    /// caller holds `dropping`.
    fn drop_mirror(&self, mover: &Mover, file: &Arc<File>, mirror: usize) -> Result<Arc<Layout>> {
        let found = file.layout().and_then(|layout| {
            let record = self.records.held().get(&layout.file)?.clone();
            let objects = layout.mirrors.get(record.mirror)?.segments.first()?.objects.clone();
            Some((layout, record, objects))
        });
        let Some((before, record, objects)) = found else { return mover.drop_mirror(file, mirror) };
        // After a crash in between, the record must not name a mirror behind the replica: that one is a user's.
        if record.mirror + 1 < before.mirrors.len() {
            self.records.forget(before.file)?;
        }
        let dropped = mover.drop_mirror(file, mirror);
        let is_replica = |of: &Mirror| of.segments.first().is_some_and(|segment| segment.objects == objects);
        let left = file.layout().filter(|layout| layout.mirrors.len() > 1);
        let updated = match left.and_then(|layout| layout.mirrors.iter().position(is_replica)) {
            Some(mirror) => self.records.put(before.file, Record { mirror, ..record }),
            None => self.forget(before.file),
        };
        dropped.and_then(|layout| updated.map(|()| layout))
    }

    fn swap(&self, adapt: &Adapt, id: FileId, file: &Arc<File>, target: TargetId, replica: usize) -> Result<u64> {
        let (began, pool) = (Instant::now(), file.pool());
        let path = pool.name_of(id);
        let name = pool.targets.get(target).map_or(target.to_string(), |target| target.name().to_string());
        let of_replica =
            || file.layout().is_some_and(|l| l.objects().any(|(at, o)| (at.mirror, o.target) == (replica, target)));
        match adapt.mover.swap_replica(file, replica, target) {
            // Only the replica failed: no swap is needed, and the replica is made again.
            Ok(0) if of_replica() => Ok(0),
            Ok(0) => Err(Error::Busy("its replica is not complete".into())),
            Ok(objects) => {
                let took = began.elapsed();
                adapt.stats.add(Metric::Failovers, 1);
                adapt.stats.add(Metric::FailoverNs, took.as_nanos() as u64);
                adapt.news(
                    Kind::Recovery,
                    format!(
                        "{path}: target {name} failed, {objects} object(s) of its replica took over in {:.1} ms",
                        took.as_secs_f64() * 1e3
                    ),
                );
                Ok(0)
            }
            Err(error) => {
                adapt.news(Kind::Recovery, format!("{path}: its replica cannot take over for target {name}: {error}"));
                Err(error)
            }
        }
    }
}

impl Adapt {
    /// Drops a mirror at a user's request.
    pub fn drop_mirror(&self, file: &Arc<File>, mirror: usize) -> Result<Arc<Layout>> {
        let dropping = self.replicas.dropping.lock();
        let has_replica = file.id().is_some_and(|id| self.replicas.mirror_of(id).is_some());
        let dropped = self.replicas.drop_mirror(&self.mover, file, mirror);
        drop(dropping);
        if has_replica {
            self.driver.tell_all(self.lies(file));
        }
        dropped
    }

    /// Passes events of jobs to the machine, after the layouts of their input files.
    pub fn tell_of_jobs(&self, events: impl IntoIterator<Item = replica::Event>) {
        let mut told = Vec::new();
        for event in events {
            if let replica::Event::Submitted { files, .. } = &event {
                told.extend(files.iter().filter_map(|file| self.lies(&*self.files.find(*file)?)));
            }
            told.push(Event::Job(event));
        }
        self.driver.tell_all(told);
        let machine = self.driver.machine();
        if let Some(stats) = machine.replication().map(|all| all.stats()) {
            self.raise(Metric::ReplicationDispatched, stats.dispatched);
            self.raise(Metric::ReplicationAtRisk, stats.at_risk);
        }
    }

    /// Protection of a job's input, and the machine's time.
    pub fn protection(&self, job: JobId) -> (Vec<Protection>, Time) {
        let machine = self.driver.machine();
        (machine.replication().map(|all| all.protection(job)).unwrap_or_default(), self.driver.now())
    }

    /// Reports the replicas of an earlier daemon to the machine.
    pub(super) fn adopt_replicas(&self) {
        let all: Vec<FileId> = self.replicas.records.held().keys().copied().collect();
        for id in all {
            let lies = self.files.find(id).and_then(|file| {
                let layout = file.layout()?;
                self.replicas.mirror_of(id).filter(|mirror| *mirror < layout.mirrors.len())?;
                self.lies(&file)
            });
            match lies {
                Some(lies) => self.driver.tell_all([lies, Event::Job(replica::Event::Adopted(id))]),
                None => {
                    if let Err(error) = self.replicas.forget(id) {
                        tracing::info!("the record of the replica of file {id} stays for now: {error}");
                    }
                }
            }
        }
    }

    /// Reports to the machine the files with objects on a target that failed or did not serve a reader.
    fn complained(&self, files: impl IntoIterator<Item = FileId>, target: TargetId) {
        for id in files {
            let Some(file) = self.files.find(id) else { continue };
            if file.layout().is_some_and(|layout| layout.objects().any(|(_, object)| object.target == target)) {
                let complained = Event::File(id, FileEvent::Complained(target));
                self.driver.tell_all(self.lies(&file).into_iter().chain([complained]));
            }
        }
    }
}

#[cfg(test)]
mod tests;
