//! State that the threads of a backend share: its jobs under one lock, and the scheduler of their parts or transfers.
//! Jobs are kept in the state store.
//!
//! Under the lock are only memory, the state store and the start of processes. Waiting for processes, and requests to
//! the volume or a scheduler, happen on separate threads.

mod arrival;
mod clearing;
mod data;
mod facts;
mod supervised;
mod watching;

pub(crate) use arrival::Now;

use crate::arrivals::QueueKind;
use crate::config::{Config, Recogniser};
use crate::error::{Error, Result};
use crate::everywhere::Everywhere;
use crate::exec::Spec;
use crate::exec::outside::Supervisor;
use crate::job::Job;
use crate::known::{KnownJob, KnownJobs};
use crate::notice::Over;
use crate::request::{Caller, JobId, JobState, Kind};
use crate::volume::Volume;
use meta::records;
use meta::state::State;
use node::calls::Calls;
use node::control::Handler;
use object::now_ms;
use object::workers::Periodic;
use parking_lot::{Condvar, Mutex};
use policy::Time;
use policy::schedule::easy::{self, Easy};
use policy::schedule::retention::{Finished, Retention};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;
use supervised::Supervised;

/// Backend that runs jobs: the built-in runner, another scheduler on our behalf, or Slurm through its hooks.
pub trait Backend: Sized + Send + Sync + 'static {
    /// Prefix of the job's number in the name by which the volume lists a job.
    const NAME: &'static str;
    /// Kind under which its jobs are kept in the state store.
    const RECORDS: &'static str;
    /// Directory for sending results early.
    const EARLY: &'static str;
    /// Data that the backend keeps of each job beside the common ones.
    type JobData: Clone + Send + Serialize + DeserializeOwned;
    /// Data that the backend keeps under the lock beside the jobs.
    type Shelf: Default + Send;

    /// Queue whose estimates apply to the job.
    fn queue_of(job: &Job<Self::JobData>) -> QueueKind;
    /// Queue of another scheduler in which the job waits, and its number there.
    fn queued(job: &Job<Self::JobData>) -> Option<(Kind, String)>;
    /// Whether the files that a job names must stay.
    fn needs_files(job: &Job<Self::JobData>) -> bool;
    /// Whether the job's script runs, so that results may be sent early.
    fn runs(job: &Job<Self::JobData>) -> bool;
    /// Cause of a job's failure.
    fn why(job: &Job<Self::JobData>) -> Option<String>;
    /// Owner, directory and environment of the stage-out commands of a job.
    fn stage_out(config: &Config, job: &Job<Self::JobData>) -> Result<Spec, String>;
}

/// The jobs of a backend. They outlive [`Jobs::shut_down`] and drop.
pub struct Jobs<B: Backend> {
    pub(crate) core: Arc<Core<B>>,
}

impl<B: Backend> Jobs<B> {
    /// Kind of the records in which its jobs are kept.
    pub const RECORDS: &str = B::RECORDS;

    /// Handler of requests about its jobs; on a volume of several nodes it also forwards to other nodes.
    pub fn handler(self: &Arc<Self>, calls: Option<&Arc<Calls>>) -> Arc<dyn Handler>
    where
        Jobs<B>: Handler,
    {
        Everywhere::over(self.clone(), B::NAME, B::RECORDS, self.core.config.known.as_ref(), calls)
    }

    /// The paths in the volume that unfinished jobs read or write.
    pub fn needed_paths(&self) -> Vec<PathBuf> {
        let table = self.core.table.lock();
        table.jobs.values().filter(|job| B::needs_files(job)).flat_map(Job::needed_paths).collect()
    }

    /// User id of the owner of a job.
    pub fn owner_of(&self, id: JobId) -> Option<u32> {
        self.core.table.lock().jobs.get(&id).map(|job| job.owner.uid)
    }

    /// Reads a job that the caller may see.
    pub(crate) fn look<T>(&self, caller: Caller, id: JobId, read: impl FnOnce(&Job<B::JobData>) -> T) -> Result<T> {
        let table = self.core.table.lock();
        table.jobs.get(&id).filter(|job| job.is_open_to(caller)).map(read).ok_or(Error::NoJob(id))
    }

    /// Number of unfinished jobs in each state.
    pub fn states(&self) -> BTreeMap<JobState, u64> {
        let mut states = BTreeMap::new();
        let table = self.core.table.lock();
        let unfinished = table.jobs.values().filter(|job| !job.state.is_final());
        unfinished.for_each(|job| *states.entry(job.state).or_default() += 1);
        states
    }

    /// Ends the backend's own threads. Parts that run go on under their supervisors, and the next start adopts them.
    pub fn shut_down(&self) {
        self.core.table.lock().closed = true;
        self.core.changed.notify_all();
        self.core.supervised.close();
    }
}

impl<B: Backend> Drop for Jobs<B> {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// State that the threads share.
pub(crate) struct Core<B: Backend> {
    pub config: Config,
    pub state: Arc<dyn State>,
    pub volume: Arc<dyn Volume>,
    pub recogniser: Recogniser,
    pub table: Mutex<JobTable<B>>,
    /// Jobs that have ended and whose resources in the volume are still being removed.
    pub clearing: Arc<clearing::Clearing>,
    /// Notified when a job changes, and at shutdown.
    pub changed: Condvar,
    /// Polls a scheduler while it has jobs.
    pub watcher: OnceLock<Periodic>,
    /// Looks for early results.
    pub early: OnceLock<Periodic>,
    supervised: Arc<Supervised>,
    /// Data of the backend that need no lock.
    pub own: B,
    /// State of each job as last reported to the volume.
    told: Mutex<BTreeMap<JobId, JobState>>,
    started: (u64, Instant),
}

pub(crate) struct JobTable<B: Backend> {
    pub machine: Easy,
    pub jobs: BTreeMap<JobId, Job<B::JobData>>,
    /// Running supervisors, by the machine's job numbers.
    pub running: BTreeMap<easy::JobId, Arc<OwnedFd>>,
    /// End and bytes of finished jobs, as last measured.
    measured: BTreeMap<JobId, (u64, u64)>,
    pub own: B::Shelf,
    /// Whether shutdown has begun: no more decisions are made.
    pub closed: bool,
}

impl<B: Backend> Core<B> {
    pub fn new(
        config: Config,
        state: Arc<dyn State>,
        volume: Arc<dyn Volume>,
        recogniser: Recogniser,
        queues: &[easy::Queue],
        own: B,
    ) -> std::io::Result<Arc<Core<B>>> {
        let machine = Easy::new(queues);
        let (jobs, running) = (BTreeMap::new(), BTreeMap::new());
        let supervised = Supervised::new(config.threads.clone())?;
        Ok(Arc::new(Core {
            config,
            state,
            volume,
            recogniser,
            table: Mutex::new(JobTable {
                machine,
                jobs,
                running,
                measured: BTreeMap::new(),
                own: B::Shelf::default(),
                closed: false,
            }),
            clearing: Arc::default(),
            changed: Condvar::new(),
            watcher: OnceLock::new(),
            early: OnceLock::new(),
            supervised,
            own,
            told: Mutex::default(),
            started: (now_ms(), Instant::now()),
        }))
    }

    /// The scheduler's time: the wall clock at the start and steady from then on.
    pub fn now(&self) -> Time {
        Time::from_millis(self.started.0 + self.started.1.elapsed().as_millis() as u64)
    }

    /// All records of one kind that the last daemon kept.
    pub fn records<T: DeserializeOwned>(&self, kind: &str) -> object::Result<Vec<T>> {
        Ok(records::all(&*self.state, kind)?.into_iter().map(|(_, record)| record).collect())
    }

    /// Saves a new job, after its publication to the other nodes.
    pub fn remember(&self, job: &Job<B::JobData>) -> object::Result<()> {
        self.tell_other_nodes(job)?;
        records::put(&*self.state, B::RECORDS, &key(job.id.0), job)?;
        self.tell_volume(job);
        Ok(())
    }

    /// Reports the job's state to the volume, each state once.
    fn tell_volume(&self, job: &Job<B::JobData>) {
        if self.told.lock().insert(job.id, job.state) != Some(job.state) {
            let why = B::why(job).filter(|_| job.state == JobState::Failed);
            self.volume.job_changed(B::NAME, job.id, job.owner, job.state, why.as_ref().unwrap_or(&job.detail));
            self.volume.account(Self::mark(job.id), job.owner, job.needed_paths(), facts::facts(job));
        }
    }

    /// Saves a change of a job. If that fails, the job goes on; a restart then finds its processes and status files.
    pub fn keep(&self, job: &Job<B::JobData>) {
        self.keep_as(B::RECORDS, job.id.0, job);
        self.tell_volume(job);
        if let Err(error) = self.tell_other_nodes(job) {
            tracing::warn!("other nodes do not get the state of job {}: {error}", job.id);
        }
    }

    /// Sends the notices of a job that is over with its staging: the operator's command and its owner's mail.
    /// `scheduled`: a scheduler reads the lines of its script, too.
    pub fn is_over(&self, job: &Job<B::JobData>, scheduled: bool) {
        if let Some(notices) = &self.config.notices {
            let why = B::why(job).filter(|_| job.state == JobState::Failed);
            notices.over(Over::new(B::NAME, job, why, scheduled));
        }
    }

    fn tell_other_nodes(&self, job: &Job<B::JobData>) -> object::Result<()> {
        self.config.known.as_ref().map_or(Ok(()), |known| known.put(known_job::<B>(known, job)))
    }

    /// Removes all records of a job.
    pub fn forget_job(&self, id: JobId) {
        self.told.lock().remove(&id);
        self.forget_as(B::RECORDS, id.0);
        let told = self.config.known.as_ref().map_or(Ok(()), |known| known.remove(B::RECORDS, id));
        if let Err(error) = told {
            tracing::warn!("other nodes still list job {id}: {error}");
        }
    }

    /// Loads the jobs that the last daemon kept, and publishes exactly these to the other nodes.
    pub fn kept_jobs(&self) -> object::Result<BTreeMap<JobId, Job<B::JobData>>> {
        let jobs = self.records(B::RECORDS)?.into_iter().map(|job: Job<B::JobData>| (job.id, job));
        let jobs: BTreeMap<_, _> = jobs.collect();
        if let Some(known) = &self.config.known {
            known.settle(B::RECORDS, jobs.values().map(|job| known_job::<B>(known, job)))?;
        }
        Ok(jobs)
    }

    /// Keeps a record with a number in the state store; failure is logged.
    pub fn keep_as(&self, kind: &str, number: u64, what: &impl Serialize) {
        if let Err(error) = records::put(&*self.state, kind, &key(number), what) {
            tracing::error!("{kind} {number} could not be saved: {error}; check the state directory's disk");
        }
    }

    /// Removes the record with a number; failure is logged.
    pub fn forget_as(&self, kind: &str, number: u64) {
        if let Err(error) = self.state.record_remove(kind, &key(number)) {
            tracing::warn!("the record of {kind} {number} could not be removed: {error}");
        }
    }

    /// The volume's name of a job.
    pub fn mark(id: JobId) -> String {
        format!("{} {id}", B::NAME)
    }

    /// Watches a supervisor until its end or shutdown.
    pub fn watch(
        self: &Arc<Self>,
        table: &mut JobTable<B>,
        number: easy::JobId,
        supervisor: Supervisor,
        ended: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        table.running.insert(number, supervisor.process.clone());
        let weak = Arc::downgrade(self);
        self.supervised.add(supervisor, move || {
            if let Some(core) = weak.upgrade() {
                ended(&core);
            }
        });
    }

    /// Changes jobs under the lock, unless the backend has ended.
    pub fn with_table(this: &Weak<Self>, change: impl FnOnce(&Arc<Self>, &mut JobTable<B>)) {
        let Some(core) = this.upgrade() else { return };
        let mut table = core.table.lock();
        if !table.closed {
            change(&core, &mut table);
        }
    }
}

/// Record of a job for other nodes.
fn known_job<B: Backend>(known: &KnownJobs, job: &Job<B::JobData>) -> KnownJob {
    let queued = B::queued(job);
    KnownJob {
        node: known.node.clone(),
        host: known.host.clone(),
        records: B::RECORDS.to_owned(),
        id: job.id,
        uid: job.owner.uid,
        inputs: if queued.is_some() { job.staged_paths() } else { Vec::new() },
        queued,
        needs: if B::needs_files(job) { job.needed_paths() } else { Vec::new() },
    }
}

impl<B: Backend> JobTable<B> {
    /// Finished jobs to forget. `bytes_of` measures a job's part of the state directory, once for each end.
    pub fn excess(
        &mut self,
        retention: &Retention,
        over: impl Fn(&Job<B::JobData>) -> bool,
        bytes_of: impl Fn(JobId) -> u64,
    ) -> Vec<JobId> {
        let over = self.jobs.values().filter(|job| job.state.is_final() && over(job));
        let mut measured = BTreeMap::new();
        let finished = over.map(|job| {
            let ended_ms = job.since_ms();
            let known = self.measured.get(&job.id).filter(|(end, _)| *end == ended_ms).map(|(_, bytes)| *bytes);
            let bytes = known.unwrap_or_else(|| bytes_of(job.id));
            measured.insert(job.id, (ended_ms, bytes));
            Finished { ended_ms, id: job.id.0, user: job.owner.uid, bytes }
        });
        let excess = retention.excess(finished.collect());
        self.measured = measured;
        excess.into_iter().map(JobId).collect()
    }
}

/// Keys are padded, so that they sort as numbers do.
fn key(number: u64) -> String {
    format!("{number:020}")
}
