//! From pictures of a queue to events for the machine, and back to names.

use crate::queue::{QueuedJob, Snapshot, State, WaitsFor};
use policy::machine::Machine;
use policy::protect::replica::{Action, Config, Event, JobId, Protection, Rank, Replication};
use policy::{FileId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What replication knows. No I/O happens here.
pub struct ReplicaTable {
    config: Config,
    machine: Option<Replication>,
    /// Copies that were there before the first picture.
    adopted: Vec<FileId>,
    numbers: BTreeMap<String, JobId>,
    jobs: BTreeMap<JobId, Known>,
    paths: BTreeMap<FileId, PathBuf>,
    /// Copies being made, or begun before the machine changed its mind.
    making: BTreeSet<FileId>,
    removing: BTreeSet<FileId>,
    counted: (u64, u64),
    next_number: u64,
}

struct Known {
    running: bool,
    rank: Rank,
    user: String,
    files: Vec<FileId>,
    /// What it had open and has closed.
    closed: BTreeSet<FileId>,
}

impl ReplicaTable {
    pub fn new(config: Config) -> ReplicaTable {
        ReplicaTable {
            config,
            machine: None,
            adopted: Vec::new(),
            numbers: BTreeMap::new(),
            jobs: BTreeMap::new(),
            paths: BTreeMap::new(),
            making: BTreeSet::new(),
            removing: BTreeSet::new(),
            counted: (0, 0),
            next_number: 0,
        }
    }

    /// Copies that an earlier daemon left.
    pub fn adopt(&mut self, _: Time, there: Vec<FileId>) {
        self.adopted = there;
    }

    /// The jobs of a picture that count and are not known yet, or whose input was not there yet, with their inputs.
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

    /// Takes in a picture. `inputs` are the files of the jobs that [`ReplicaTable::unknown`] named.
    pub fn take(&mut self, now: Time, picture: &Snapshot, inputs: BTreeMap<String, Vec<(FileId, PathBuf)>>) {
        let first = self.machine.is_none();
        // A scheduler that knows no node yet says nothing about the system's size.
        if first && picture.nodes == 0 {
            return;
        }
        if first {
            let mut machine = Replication::new(Config { system_nodes: picture.nodes, ..self.config.clone() });
            for file in std::mem::take(&mut self.adopted) {
                machine.handle(now, Event::Adopted { file });
            }
            self.machine = Some(machine);
        }
        let mut present = BTreeSet::new();
        for job in picture.running() {
            let id = self.known(now, job, Rank(0), &inputs);
            present.insert(id);
            if let Some(known) = self.jobs.get_mut(&id).filter(|known| !known.running) {
                known.running = true;
                self.handle(now, Event::Dispatched { job: id, nodes: job.nodes });
            }
        }
        for (place, job) in picture.in_line().enumerate() {
            let rank = Rank(place as u64 + 1);
            if let Some(id) = self.numbers.get(&job.id).copied().filter(|id| self.jobs[id].running) {
                self.end(now, id); // it went back into the queue
            }
            if let Some(id) =
                self.numbers.get(&job.id).copied().filter(|_| inputs.get(&job.id).is_some_and(|f| !f.is_empty()))
            {
                self.end(now, id); // its input has come meanwhile: it begins anew, with it
            }
            let id = self.known(now, job, rank, &inputs);
            present.insert(id);
            if let Some(known) = self.jobs.get_mut(&id).filter(|known| known.rank != rank) {
                known.rank = rank;
                self.handle(now, Event::Ranked { job: id, rank });
            }
        }
        // A job that waits for something else now keeps what it has, until it ends.
        let waits = |job: &&QueuedJob| job.state == State::Pending;
        present.extend(picture.jobs.iter().filter(waits).filter_map(|job| self.numbers.get(&job.id)));
        let gone: Vec<JobId> = self.jobs.keys().filter(|id| !present.contains(id)).copied().collect();
        for id in gone {
            self.end(now, id);
        }
        if first {
            self.handle(now, Event::Tick);
        }
    }

    fn known(
        &mut self,
        now: Time,
        job: &QueuedJob,
        rank: Rank,
        inputs: &BTreeMap<String, Vec<(FileId, PathBuf)>>,
    ) -> JobId {
        let (name, nodes) = (&job.id, job.nodes);
        if let Some(id) = self.numbers.get(name) {
            return *id;
        }
        self.next_number += 1;
        let id = JobId(self.next_number);
        self.numbers.insert(name.clone(), id);
        let found = inputs.get(name).cloned().unwrap_or_default();
        let files: Vec<FileId> = found.iter().map(|(file, _)| *file).collect();
        self.paths.extend(found);
        let user = job.user.clone();
        let known = Known { running: false, rank, user, files: files.clone(), closed: BTreeSet::new() };
        self.jobs.insert(id, known);
        self.handle(now, Event::Submitted { job: id, rank, nodes, files });
        id
    }

    fn end(&mut self, now: Time, id: JobId) {
        self.jobs.remove(&id);
        self.numbers.retain(|_, number| *number != id);
        self.handle(now, Event::Ended { job: id });
        let used: BTreeSet<FileId> = self.jobs.values().flat_map(|known| known.files.iter().copied()).collect();
        self.paths.retain(|file, _| used.contains(file));
    }

    pub fn handle(&mut self, now: Time, event: Event) {
        if let Some(machine) = &mut self.machine {
            machine.handle(now, event);
        }
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

    /// A running job has closed an input file.
    pub fn closed(&mut self, now: Time, job: JobId, file: FileId) {
        if self.jobs.get_mut(&job).is_some_and(|known| known.closed.insert(file)) {
            self.handle(now, Event::Closed { job, file });
        }
    }

    /// What is due by the clock; and jobs dispatched and at risk that were not told yet.
    pub fn news(&mut self, now: Time) -> (u64, u64) {
        let Some(machine) = &mut self.machine else { return (0, 0) };
        if machine.next_deadline().is_some_and(|at| at <= now) {
            machine.handle(now, Event::Tick);
        }
        let stats = machine.stats();
        let before = std::mem::replace(&mut self.counted, (stats.dispatched, stats.at_risk));
        (stats.dispatched - before.0, stats.at_risk - before.1)
    }

    pub fn poll(&mut self) -> Option<Action> {
        let action = self.machine.as_mut()?.poll()?;
        if let Action::Create { file, .. } = action {
            self.making.insert(file);
        }
        Some(action)
    }

    pub fn path(&self, file: FileId) -> Option<PathBuf> {
        self.paths.get(&file).cloned()
    }

    /// A copy that was being made ended so. The machine hears of it unless it wanted it removed meanwhile.
    pub fn made(&mut self, now: Time, file: FileId, event: Event) {
        self.making.remove(&file);
        if !self.removing.contains(&file) {
            self.handle(now, event);
        }
    }

    pub fn is_being_made(&self, file: FileId) -> bool {
        self.making.contains(&file)
    }

    pub fn removing(&mut self, file: FileId) {
        self.removing.insert(file);
    }

    pub fn removed(&mut self, now: Time, file: FileId) {
        self.removing.remove(&file);
        self.handle(now, Event::Removed { file });
    }

    pub fn protection(&self, job: &str) -> Vec<Protection> {
        let id = self.numbers.get(job);
        id.zip(self.machine.as_ref()).map_or_else(Vec::new, |(id, machine)| machine.protection(*id))
    }
}
