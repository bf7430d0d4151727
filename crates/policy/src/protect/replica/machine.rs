//! The machine: jobs, their copies, and decisions on both.

use super::super::window::{Reach, takes_shortcut};
use super::prefix::Prefix;
use super::*;
use crate::machine::Machine;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// State of a job.
#[derive(Debug)]
pub(super) struct Job {
    pub rank: Rank,
    pub nodes: u32,
    pub files: Vec<FileId>,
    pub running: bool,
    /// Reason for choosing its input, if it was chosen.
    pub chosen: Option<CreateReason>,
    /// Whether it was dispatched before all its copies were complete.
    pub at_risk: bool,
}

/// State of a file.
#[derive(Debug)]
pub(super) struct File {
    /// State of the copy, independent of its users: never [`Life::InUse`].
    pub copy: Life,
    /// Chosen jobs that have not closed it yet.
    pub users: BTreeSet<JobId>,
    /// Number of running jobs among them.
    pub running: u32,
}

/// Temporal replication of one volume.
#[derive(Debug, Default)]
pub struct Replication {
    pub(super) config: Config,
    pub(super) jobs: BTreeMap<JobId, Job>,
    pub(super) files: BTreeMap<FileId, File>,
    waiting: Prefix,
    /// Number of running jobs by number of nodes.
    running: BTreeMap<u32, u32>,
    /// Copies to make, soonest first.
    pub(super) queued: BTreeSet<(Rank, FileId)>,
    pub(super) retries: BTreeSet<(Time, FileId)>,
    pub(super) creating: usize,
    pub(super) now: Time,
    look_at: Option<Time>,
    /// Whether copies were adopted that no job may need.
    adopted: bool,
    pub(super) dirty: bool,
    pub(super) actions: VecDeque<Action>,
    pub(super) stats: Stats,
}

impl Replication {
    /// Makes a machine without jobs and copies.
    pub fn new(config: Config) -> Replication {
        let config = Config { creating_max: config.creating_max.max(1), ..config };
        Replication { look_at: config.poll_every, config, ..Replication::default() }
    }

    /// Returns the protection of the inputs of a waiting or running job; empty for an unknown one.
    pub fn protection(&self, job: JobId) -> Vec<Protection> {
        let Some(entry) = self.jobs.get(&job) else { return Vec::new() };
        let of = |file: &FileId| Protection {
            file: *file,
            life: self.life(*file),
            reason: entry.chosen,
            at_risk: entry.at_risk,
        };
        entry.files.iter().map(of).collect()
    }

    /// Returns the input of all waiting and running jobs.
    pub fn inputs(&self) -> BTreeSet<FileId> {
        self.jobs.values().flat_map(|job| job.files.iter().copied()).collect()
    }

    /// Returns the rank of the first job that reads a file; running jobs come first.
    pub fn start_of(&self, file: FileId) -> Option<Time> {
        let readers = self.jobs.values().filter(|job| job.files.contains(&file));
        readers.map(|job| if job.running { Time::ZERO } else { Time(job.rank.0) }).min()
    }

    /// Returns the progress of a file's copy.
    pub fn life(&self, file: FileId) -> Option<Life> {
        let file = self.files.get(&file)?;
        Some(if file.copy == Life::Complete && file.running > 0 { Life::InUse } else { file.copy })
    }

    /// Returns counts since the start.
    pub fn stats(&self) -> Stats {
        Stats { window: self.waiting.length() as u64, ..self.stats }
    }

    /// Panics if an invariant is broken.
    pub fn check(&self) {
        let mut creating = 0;
        for (id, file) in &self.files {
            creating += usize::from(matches!(file.copy, Life::Creating { .. }));
            for job in &file.users {
                let job = &self.jobs[job];
                assert!(job.chosen.is_some() && job.files.contains(id), "only jobs that were chosen use a copy");
            }
            let running = file.users.iter().filter(|job| self.jobs[job].running).count();
            assert_eq!(file.running as usize, running, "{id}: jobs that run");
            let retries = self.retries.iter().any(|(_, f)| f == id);
            assert_eq!(matches!(file.copy, Life::Failed { .. }), retries, "{id}: what failed is tried again");
            let queued = self.queued.iter().any(|(_, f)| f == id);
            assert_eq!(matches!(file.copy, Life::Queued { .. }), queued, "{id}: what is wanted has a turn");
        }
        assert_eq!(self.creating, creating, "copies being made");
        let bytes = |f: &&File| matches!(f.copy, Life::Creating { .. } | Life::Complete | Life::Removing);
        assert_eq!(self.stats.copies as usize, self.files.values().filter(bytes).count(), "copies there are");
        if !self.dirty && !matches!(self.config.strategy, Strategy::None | Strategy::All) {
            assert_eq!(self.waiting.length(), super::super::window::window(self.waiting.nodes(), self.reach()));
        }
    }

    fn reach(&self) -> Reach {
        let largest = self.running.last_key_value().map_or(0, |(nodes, _)| *nodes);
        Reach::new(largest, self.config.system_nodes, self.config.alpha)
    }

    fn submitted(&mut self, id: JobId, rank: Rank, nodes: u32, mut files: Vec<FileId>) {
        if self.jobs.contains_key(&id) {
            return self.ranked(id, rank);
        }
        files.sort_unstable();
        files.dedup();
        self.jobs.insert(id, Job { rank, nodes, files, running: false, chosen: None, at_risk: false });
        self.waiting.insert((rank, id), nodes);
        self.dirty = true;
        match self.config.strategy {
            Strategy::All => self.choose_job(id, CreateReason::All),
            Strategy::Shortcut(threshold) if takes_shortcut(nodes, self.config.system_nodes, threshold) => {
                self.choose_job(id, CreateReason::Shortcut);
            }
            Strategy::None | Strategy::Window | Strategy::Shortcut(_) => {}
        }
    }

    fn ranked(&mut self, id: JobId, rank: Rank) {
        let Some(job) = self.jobs.get_mut(&id).filter(|j| !j.running && j.rank != rank) else { return };
        self.waiting.remove((job.rank, id));
        job.rank = rank;
        self.waiting.insert((rank, id), job.nodes);
        self.dirty = true;
        for file in job.files.clone() {
            self.requeue(file);
        }
    }

    fn dispatched(&mut self, id: JobId, nodes: u32) {
        let fresh = Job { rank: Rank(0), nodes, files: vec![], running: false, chosen: None, at_risk: false };
        let job = self.jobs.entry(id).or_insert(fresh);
        if std::mem::replace(&mut job.running, true) {
            return;
        }
        self.waiting.remove((job.rank, id));
        job.nodes = nodes;
        *self.running.entry(nodes).or_default() += 1;
        self.dirty = true;
        for file in &job.files {
            let Some(file) = self.files.get_mut(file) else { continue };
            // An existing copy of another job is kept for this one, too.
            if file.copy == Life::Complete && file.users.insert(id) {
                job.chosen = job.chosen.or(Some(CreateReason::Shared));
            }
            file.running += u32::from(file.users.contains(&id));
        }
        if !job.files.is_empty() {
            let complete = |file: &FileId| self.files.get(file).is_some_and(|f| f.copy == Life::Complete);
            job.at_risk = !job.files.iter().all(complete);
            self.stats.dispatched += 1;
            self.stats.at_risk += u64::from(job.at_risk);
        }
    }

    fn ended(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        if job.running {
            if let Some(count) = self.running.get_mut(&job.nodes) {
                *count -= 1;
                if *count == 0 {
                    self.running.remove(&job.nodes);
                }
            }
        } else {
            self.waiting.remove((job.rank, id));
        }
        self.dirty = true;
        for file in job.files.clone() {
            self.unused(file, id, RemoveReason::JobEnded(id));
        }
        self.jobs.remove(&id);
    }

    fn tick(&mut self) {
        self.dirty = true;
        if let Some(every) = self.config.poll_every.filter(|_| self.look_at.is_some_and(|at| at <= self.now)) {
            self.look_at = Some(self.now + every);
        }
        self.retry();
        if self.config.system_nodes > 0 && std::mem::take(&mut self.adopted) {
            self.remove_unwanted();
        }
    }

    /// Chooses the jobs that have entered the window.
    fn choose(&mut self) {
        let reach = self.reach();
        if self.config.strategy == Strategy::None || self.config.strategy == Strategy::All {
            return;
        }
        let mut entered = Vec::new();
        self.waiting.settle(reach, |job| entered.push(job));
        let reason = CreateReason::InWindow { window: u32::try_from(self.waiting.length()).unwrap_or(u32::MAX) };
        for job in entered {
            self.choose_job(job, reason);
        }
    }

    /// Chooses a job's input, once.
    fn choose_job(&mut self, id: JobId, reason: CreateReason) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.chosen.is_none()) else { return };
        job.chosen = Some(reason);
        for file in job.files.clone() {
            self.want(file, id);
        }
    }
}

impl Machine for Replication {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        self.now = self.now.max(now);
        match event {
            Event::System(nodes) => self.config.system_nodes = nodes,
            Event::Submitted { job, rank, nodes, files } => self.submitted(job, rank, nodes, files),
            Event::Ranked { job, rank } => self.ranked(job, rank),
            Event::Dispatched { job, nodes } => self.dispatched(job, nodes),
            Event::Closed { job, file } => {
                if self.config.removal == Removal::Eager && self.jobs.get(&job).is_some_and(|j| j.running) {
                    self.unused(file, job, RemoveReason::Closed(job));
                }
            }
            Event::Ended(job) => self.ended(job),
            Event::Created(file) => self.created(file),
            Event::CreateFailed(file) => self.create_failed(file),
            Event::Removed(file) => self.removed(file),
            Event::Lost(file) => self.lost(file),
            Event::Adopted(file) => {
                self.adopted = true;
                self.adopt(file);
            }
            Event::Tick => self.tick(),
        }
    }

    fn poll(&mut self) -> Option<Action> {
        if self.dirty && self.actions.is_empty() {
            self.dirty = false;
            self.choose();
            self.create();
        }
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        let retry = self.retries.first().map(|(at, _)| *at);
        self.look_at.into_iter().chain(retry).min()
    }
}
