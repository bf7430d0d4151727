//! From pictures of a queue to events for the machine, and back to names.

use crate::queue::{Snapshot, State, WaitsFor};
use policy::protect::replica::{Action, Config, Event, JobId, Protection, Rank, Replication};
use policy::{FileId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What the keeper knows. No I/O happens here.
pub struct Book {
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
    files: Vec<FileId>,
    /// How often each file had been closed when it was first looked at.
    closes: BTreeMap<FileId, u64>,
}

impl Book {
    pub fn new(config: Config) -> Book {
        Book {
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

    /// Copies that an earlier keeper left.
    pub fn adopt(&mut self, _: Time, there: Vec<FileId>) {
        self.adopted = there;
    }

    /// The jobs of a picture that count and are not known yet, or whose input was not there yet, with their inputs.
    pub fn unknown(&self, picture: &Snapshot) -> Vec<(String, Vec<PathBuf>)> {
        let counts = |job: &&crate::queue::QueuedJob| match job.state {
            State::Running => true,
            State::Pending => job.waits_for == WaitsFor::Nodes,
            State::Ending | State::Ended => false,
        };
        let without_files = |id| self.jobs.get(id).is_some_and(|known| !known.running && known.files.is_empty());
        let fresh = |job: &&crate::queue::QueuedJob| match self.numbers.get(&job.id) {
            None => true,
            Some(id) => !job.inputs.is_empty() && without_files(id),
        };
        let fresh = picture.jobs.iter().filter(counts).filter(fresh);
        fresh.map(|job| (job.id.clone(), job.inputs.clone())).collect()
    }

    /// Takes in a picture. `inputs` are the files of the jobs that [`Book::unknown`] named.
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
            let id = self.known(now, &job.id, Rank(0), job.nodes, &inputs);
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
            let id = self.known(now, &job.id, rank, job.nodes, &inputs);
            present.insert(id);
            if let Some(known) = self.jobs.get_mut(&id).filter(|known| known.rank != rank) {
                known.rank = rank;
                self.handle(now, Event::Ranked { job: id, rank });
            }
        }
        // A job that waits for something else now keeps what it has, until it ends.
        let waits = |job: &&crate::queue::QueuedJob| job.state == State::Pending;
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
        name: &str,
        rank: Rank,
        nodes: u32,
        inputs: &BTreeMap<String, Vec<(FileId, PathBuf)>>,
    ) -> JobId {
        if let Some(id) = self.numbers.get(name) {
            return *id;
        }
        self.next_number += 1;
        let id = JobId(self.next_number);
        self.numbers.insert(name.to_string(), id);
        let found = inputs.get(name).cloned().unwrap_or_default();
        let files: Vec<FileId> = found.iter().map(|(file, _)| *file).collect();
        self.paths.extend(found);
        self.jobs.insert(id, Known { running: false, rank, files: files.clone(), closes: BTreeMap::new() });
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

    /// The input files of running jobs.
    pub fn in_use(&self) -> Vec<(JobId, FileId)> {
        let running = self.jobs.iter().filter(|(_, known)| known.running);
        running.flat_map(|(id, known)| known.files.iter().map(|file| (*id, *file))).collect()
    }

    /// How often a file was closed, as seen now; `None` while it is open.
    pub fn seen(&mut self, now: Time, job: JobId, file: FileId, closes: Option<u64>) {
        let Some(known) = self.jobs.get_mut(&job) else { return };
        // While it is open for the first look, it had been closed as often as it will have been: one less than next.
        let Some(closes) = closes else {
            known.closes.entry(file).or_insert(u64::MAX);
            return;
        };
        let before = *known.closes.entry(file).or_insert(closes);
        if before != closes {
            known.closes.insert(file, closes);
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
