//! Converts snapshots of a queue to events for the policy's machine, and its numbers back to names.

use crate::queue::{QueuedJob, Snapshot, State, WaitsFor};
use policy::FileId;
use policy::protect::replica::{Event, JobId, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// State of the queue for replication. No I/O happens here.
#[derive(Default)]
pub struct ReplicaTable {
    /// Whether a first snapshot was applied.
    seen: bool,
    numbers: BTreeMap<String, JobId>,
    jobs: BTreeMap<JobId, Known>,
    next_number: u64,
    told: Vec<Event>,
}

struct Known {
    running: bool,
    rank: Rank,
    user: String,
    files: Vec<FileId>,
    /// Files that the job had open and has closed.
    closed: BTreeSet<FileId>,
}

impl ReplicaTable {
    /// Waiting and running jobs of a snapshot that are new, or had no input so far, with the paths of their input.
    pub fn unknown(&self, picture: &Snapshot) -> Vec<(String, Vec<PathBuf>)> {
        let counts = |job: &&QueuedJob| match job.state {
            State::Running => true,
            State::Pending => job.waits_for == WaitsFor::Nodes,
            State::Ending | State::Ended => false,
        };
        let without_files = |id| self.jobs.get(id).is_some_and(|known| !known.running && known.files.is_empty());
        let fresh = |job: &&QueuedJob| match self.numbers.get(&job.id) {
            None => true,
            Some(id) => !job.inputs.is_empty() && without_files(id),
        };
        let fresh = picture.jobs.iter().filter(counts).filter(fresh);
        fresh.map(|job| (job.id.clone(), job.inputs.clone())).collect()
    }

    /// Applies a snapshot, and returns the events. `inputs` are the files of jobs from [`ReplicaTable::unknown`].
    pub fn take(&mut self, picture: &Snapshot, inputs: BTreeMap<String, Vec<FileId>>) -> Vec<Event> {
        let first = !self.seen;
        // A scheduler that reports no nodes leaves the system's size open.
        if first && picture.nodes == 0 {
            return Vec::new();
        }
        if first {
            self.seen = true;
            self.told.push(Event::System(picture.nodes));
        }
        let mut present = BTreeSet::new();
        for job in picture.running() {
            let id = self.known(job, Rank(0), &inputs);
            present.insert(id);
            if let Some(known) = self.jobs.get_mut(&id).filter(|known| !known.running) {
                known.running = true;
                self.told.push(Event::Dispatched { job: id, nodes: job.nodes });
            }
        }
        for (place, job) in picture.in_line().enumerate() {
            let rank = Rank(place as u64 + 1);
            let has_come = inputs.get(&job.id).is_some_and(|files| !files.is_empty());
            if let Some(id) = self.numbers.get(&job.id).copied().filter(|id| has_come || self.jobs[id].running) {
                self.end(id); // it went back into the queue, or its input has come meanwhile: it begins anew
            }
            let id = self.known(job, rank, &inputs);
            present.insert(id);
            if let Some(known) = self.jobs.get_mut(&id).filter(|known| known.rank != rank) {
                known.rank = rank;
                self.told.push(Event::Ranked { job: id, rank });
            }
        }
        // A job that now waits for something else keeps its copies, until it ends.
        let waits = |job: &&QueuedJob| job.state == State::Pending;
        present.extend(picture.jobs.iter().filter(waits).filter_map(|job| self.numbers.get(&job.id)));
        let gone: Vec<JobId> = self.jobs.keys().filter(|id| !present.contains(id)).copied().collect();
        for id in gone {
            self.end(id);
        }
        if first {
            self.told.push(Event::Tick);
        }
        std::mem::take(&mut self.told)
    }

    fn known(&mut self, job: &QueuedJob, rank: Rank, inputs: &BTreeMap<String, Vec<FileId>>) -> JobId {
        let (name, nodes) = (&job.id, job.nodes);
        if let Some(id) = self.numbers.get(name) {
            return *id;
        }
        self.next_number += 1;
        let id = JobId(self.next_number);
        self.numbers.insert(name.clone(), id);
        let files = inputs.get(name).cloned().unwrap_or_default();
        let user = job.user.clone();
        let known = Known { running: false, rank, user, files: files.clone(), closed: BTreeSet::new() };
        self.jobs.insert(id, known);
        self.told.push(Event::Submitted { job: id, rank, nodes, files });
        id
    }

    fn end(&mut self, id: JobId) {
        self.jobs.remove(&id);
        self.numbers.retain(|_, number| *number != id);
        self.told.push(Event::Ended(id));
    }

    /// The number of a job that waits or runs.
    pub fn number(&self, job: &str) -> Option<JobId> {
        self.numbers.get(job).copied()
    }

    /// The input files of running jobs that they have not closed, with the jobs' names and owners.
    pub fn in_use(&self) -> Vec<(JobId, String, String, FileId)> {
        let known = self.numbers.iter().filter_map(|(name, id)| Some((name, id, self.jobs.get(id)?)));
        let open = known.filter(|(.., known)| known.running).flat_map(|(name, id, known)| {
            let files = known.files.iter().filter(|file| !known.closed.contains(file));
            files.map(|file| (*id, name.clone(), known.user.clone(), *file))
        });
        open.collect()
    }

    /// Records that a running job has closed an input file; returns whether that is new.
    pub fn closed(&mut self, job: JobId, file: FileId) -> bool {
        self.jobs.get_mut(&job).is_some_and(|known| known.closed.insert(file))
    }
}
