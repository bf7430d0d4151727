//! The burst buffer's versions as files: demoting a version adds a mirror to each of its files in turn, dropping it
//! removes one.
//!
//! Each operation on a version is a task that goes file by file. A demotion or a copy to the replica group ends with
//! the first file that fails, and admission retries later; a drop continues with the next file. A copy in the buffer
//! that is in use is retried several times before it counts as undeletable.

use super::changes::{Ask, Want, Wanted};
use super::event::{Action, Outcome, Purpose, Reason};
use super::file::File;
use super::ownership::Mechanism;
use crate::burst::admission::{self, Admission};
use crate::burst::buffer;
use crate::burst::tables::{Demotion, Version};
use crate::ids::FileId;
use crate::machine::Machine;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of attempts to drop a copy in use, and the interval between them. Guesses: together a second.
const DROPS_MAX: u32 = 20;
const DROP_AGAIN: Time = Time::from_millis(50);
/// Share of the free space that is counted on: more is written after the check, and file systems reserve some. A guess.
const FREE_SHARE: f64 = 0.95;
/// Factor for the interval of space checks without a checkpoint under way. A guess: an idle volume hardly wakes for them,
/// and the first check after a checkpoint begins does not wait for it.
const REST: u64 = 40;

/// Settings of a volume's burst buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Admission, and the buffer below it.
    pub admission: admission::Config,
    /// Interval between checks of free space while a checkpoint is under way.
    pub look_every: Time,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Versions that were demoted.
    pub demoted: u64,
    /// Bytes of the demoted versions.
    pub demoted_bytes: u64,
    /// Demotions that failed.
    pub failed: u64,
    /// Files copied to the replica group.
    pub replicated: u64,
    /// Restarts from a version in the buffer.
    pub hits: u64,
    /// Restarts from the capacity tier.
    pub misses: u64,
}

/// Operation on the files of a version.
#[derive(Clone, Copy, Debug)]
enum Errand {
    Demote(Demotion),
    Drop { bytes: u64 },
    Replicate,
}

/// An operation under way. Its change is requested for the first of the remaining files.
#[derive(Debug)]
struct Task {
    /// Serial number; later tasks have larger ones.
    number: u64,
    version: Version,
    errand: Errand,
    left: BTreeSet<FileId>,
    want: Want,
    /// Number of attempts that found the copy in use, and time of the next one.
    busy: u32,
    again: Option<Time>,
    failed: bool,
}

impl Task {
    fn is_drop(&self) -> bool {
        matches!(self.errand, Errand::Drop { .. })
    }

    fn reason(&self) -> Reason {
        match (self.errand, self.want) {
            (Errand::Demote(demotion), Want::Demote) => Reason::Demote(demotion.reason),
            (Errand::Replicate, _) => Reason::LacksReplica,
            _ => Reason::BufferRoom,
        }
    }
}

#[derive(Debug)]
pub struct Burst {
    pub admission: Admission,
    pub stats: Stats,
    replicates: bool,
    look_every: Time,
    look_at: Time,
    /// Files of checkpoints under way, and of complete ones.
    writing: BTreeMap<u64, BTreeSet<FileId>>,
    versions: BTreeMap<Version, BTreeSet<FileId>>,
    tasks: Vec<Task>,
    /// Number of the latest task.
    latest: u64,
    /// Checkpoints that wait for drops: (last task that makes room, request).
    prepares: Vec<(u64, u64)>,
    asks: Vec<Ask>,
}

impl Burst {
    pub fn new(config: Config, now: Time) -> Burst {
        Burst {
            admission: Admission::new(config.admission),
            stats: Stats::default(),
            replicates: config.admission.buffer.replicas,
            look_every: config.look_every,
            look_at: now,
            writing: BTreeMap::new(),
            versions: BTreeMap::new(),
            tasks: Vec::new(),
            latest: 0,
            prepares: Vec::new(),
            asks: Vec::new(),
        }
    }

    /// Whether a file is written for a checkpoint, or belongs to a complete one.
    pub fn holds(&self, file: FileId) -> bool {
        self.writing.values().chain(self.versions.values()).any(|files| files.contains(&file))
    }

    pub fn joins(&mut self, request: u64, file: FileId) {
        self.writing.entry(request).or_default().insert(file);
    }

    /// Adds a version from before the driver was restarted, by the layout of its files. A version that is complete on
    /// neither tier counts as being in the buffer.
    pub fn found(&mut self, now: Time, version: Version, bytes: u64, ids: Vec<FileId>, files: &BTreeMap<FileId, File>) {
        let lies: Vec<&File> = ids.iter().filter_map(|id| files.get(id)).collect();
        let all_have = |purpose| lies.iter().all(|file| file.has(purpose));
        let on_capacity = all_have(Purpose::Demoted);
        let in_buffer = !on_capacity || lies.iter().any(|file| file.mirror_for(Purpose::Data).is_some());
        let lacks_replica = on_capacity && self.replicates && !all_have(Purpose::Group);
        self.versions.insert(version, ids.into_iter().collect());
        self.tell(now, buffer::Event::Found { version, bytes, in_buffer, on_capacity, lacks_replica });
    }

    /// Handles an event of checkpoints. Returns files that may belong to no checkpoint any more.
    pub fn handle(&mut self, now: Time, event: admission::Event) -> BTreeSet<FileId> {
        use buffer::Event as Of;
        let mut left = BTreeSet::new();
        let event = match event {
            admission::Event::Buffer(Of::Free { bytes }) => {
                // Drops under way are already subtracted in the buffer's accounts, but not yet on the device.
                if self.tasks.iter().any(Task::is_drop) {
                    return left;
                }
                admission::Event::Buffer(Of::Free { bytes: bytes * FREE_SHARE })
            }
            other => other,
        };
        match event {
            admission::Event::Buffer(Of::Committed { request, .. }) => {
                let files = self.writing.remove(&request).unwrap_or_default();
                if let Some(version) = self.admission.request(request).and_then(|of| of.version) {
                    self.versions.insert(version, files);
                }
            }
            admission::Event::Buffer(Of::Abandoned { request }) => {
                left.extend(self.writing.remove(&request).into_iter().flatten());
            }
            admission::Event::Buffer(Of::Removed { version }) => left = self.forget(now, |of| of == version),
            admission::Event::HandOver => {
                left = self.forget(now, |_| true);
                left.extend(std::mem::take(&mut self.writing).into_values().flatten());
                self.prepares.clear();
            }
            _ => {}
        }
        self.admission.handle(now, event);
        left
    }

    fn tell(&mut self, now: Time, event: buffer::Event) {
        self.admission.handle(now, admission::Event::Buffer(event));
    }

    /// Forgets removed versions, with the tasks on their files.
    fn forget(&mut self, now: Time, is_gone: impl Fn(Version) -> bool) -> BTreeSet<FileId> {
        let tasks: Vec<Task> = self.tasks.extract_if(.., |task| is_gone(task.version)).collect();
        for task in tasks {
            self.asks.extend(task.left.first().map(|file| Ask::Withdraw(*file, task.want)));
            if matches!(task.errand, Errand::Replicate) {
                self.tell(now, buffer::Event::ReplicaFailed);
            }
        }
        let gone: Vec<Version> = self.versions.keys().copied().filter(|version| is_gone(*version)).collect();
        gone.into_iter().filter_map(|version| self.versions.remove(&version)).flatten().collect()
    }

    /// Handles the passing of time.
    pub fn tick(&mut self, now: Time) {
        if self.admission.next_deadline().is_some_and(|at| at <= now) {
            self.tell(now, buffer::Event::Tick);
        }
        for at in 0..self.tasks.len() {
            if self.tasks[at].again.take_if(|again| *again <= now).is_some() {
                self.want(at);
            }
        }
    }

    pub fn next_deadline(&self) -> Option<Time> {
        let again = self.tasks.iter().filter_map(|task| task.again);
        again.chain(self.admission.next_deadline()).chain([self.look_at]).min()
    }

    /// Collects the actions of admission, and the changes that they request.
    pub fn collect(&mut self, now: Time, says: &mut VecDeque<Action>) -> Vec<Ask> {
        let is_busy = self.admission.is_busy();
        if is_busy {
            self.look_at = self.look_at.min(now + self.look_every);
        }
        if self.look_at <= now {
            let rests = if is_busy { 1 } else { REST };
            self.look_at = now + Time(self.look_every.0.saturating_mul(rests));
            says.push_back(Action::LookAtSpace);
        }
        loop {
            while let Some(action) = self.admission.poll() {
                self.pass_on(now, action, says);
            }
            if !self.prepare(now, says) {
                return std::mem::take(&mut self.asks);
            }
        }
    }

    fn pass_on(&mut self, now: Time, action: admission::Action, says: &mut VecDeque<Action>) {
        match action {
            admission::Action::Release { write, verdict } => says.push_back(Action::Release { write, verdict }),
            admission::Action::Prepare { request } => self.prepares.push((self.latest, request)),
            admission::Action::Buffer(buffer::Action::Rates(rates)) => says.push_back(Action::SetRates(rates)),
            admission::Action::Buffer(buffer::Action::ReplicaRate(rate)) => {
                says.push_back(Action::SetReplicaRate(rate));
            }
            admission::Action::Buffer(buffer::Action::Demote(demotion)) => {
                self.begin(now, demotion.version, Errand::Demote(demotion), Want::Demote);
            }
            admission::Action::Buffer(buffer::Action::Drop { version, bytes }) => {
                self.begin(now, version, Errand::Drop { bytes }, Want::DropFast);
            }
            admission::Action::Buffer(buffer::Action::Replicate { version }) => {
                self.begin(now, version, Errand::Replicate, Want::Group);
            }
            admission::Action::Buffer(buffer::Action::Restart { hit, .. }) => {
                self.stats.hits += u64::from(hit);
                self.stats.misses += u64::from(!hit);
            }
            // The requesting driver polls the state of the request itself.
            admission::Action::Buffer(buffer::Action::Turn { .. } | buffer::Action::Go { .. }) => {}
        }
    }

    /// Grants room once it was made. A request whose room could not be made returns it in the same step, so that the
    /// total never exceeds the buffer. Returns whether one did.
    fn prepare(&mut self, now: Time, says: &mut VecDeque<Action>) -> bool {
        let first = self.tasks.iter().find(|task| task.is_drop()).map_or(u64::MAX, |task| task.number);
        let ready: Vec<_> = self.prepares.extract_if(.., |(latest, _)| *latest < first).collect();
        let mut gave_back = false;
        for (_, request) in ready {
            if self.admission.lacks_room(request) {
                self.admission.handle(now, admission::Event::Prepared { request });
                gave_back = true;
            } else {
                let direct = self.admission.request(request).is_some_and(|of| of.direct);
                says.push_back(Action::Prepare { request, direct });
            }
        }
        gave_back
    }

    fn begin(&mut self, now: Time, version: Version, errand: Errand, want: Want) {
        let left = self.versions.get(&version).cloned().unwrap_or_default();
        self.latest += 1;
        self.tasks.push(Task { number: self.latest, version, errand, left, want, busy: 0, again: None, failed: false });
        self.go_on(now, self.tasks.len() - 1);
    }

    fn want(&mut self, at: usize) {
        let task = &self.tasks[at];
        let wanted =
            |file: &FileId| Wanted { by: Mechanism::Burst, file: *file, want: task.want, reason: task.reason() };
        self.asks.extend(task.left.first().map(wanted).map(Ask::Want));
    }

    /// Begins the next file of a task, or ends the task.
    fn go_on(&mut self, now: Time, at: usize) {
        if !self.tasks[at].left.is_empty() {
            return self.want(at);
        }
        let Task { version, errand, failed, .. } = self.tasks.remove(at);
        let event = match (errand, failed) {
            (Errand::Drop { .. }, false) => return,
            (Errand::Drop { bytes }, true) => buffer::Event::DropFailed { version, bytes },
            (Errand::Demote(of), false) => {
                (self.stats.demoted, self.stats.demoted_bytes) =
                    (self.stats.demoted + 1, self.stats.demoted_bytes + of.bytes);
                buffer::Event::Demoted
            }
            (Errand::Demote(_), true) => {
                self.stats.failed += 1;
                buffer::Event::DemotionFailed
            }
            (Errand::Replicate, false) => buffer::Event::Replicated,
            (Errand::Replicate, true) => buffer::Event::ReplicaFailed,
        };
        self.tell(now, event);
    }

    /// Handles the end of a change of a file.
    pub fn ended(&mut self, now: Time, of: &Wanted, result: Outcome, file: Option<&File>) {
        let is_it = |task: &Task| task.want == of.want && task.left.first() == Some(&of.file);
        let Some(at) = self.tasks.iter().position(is_it) else { return };
        let task = &mut self.tasks[at];
        let made = matches!(result, Outcome::Made { .. });
        let left_there = file.is_some_and(|file| file.mirror_for(Purpose::Data).is_some());
        match (task.want, task.errand) {
            (Want::DropFast, _) if result == Outcome::Busy && task.busy < DROPS_MAX => {
                task.busy += 1;
                task.again = Some(now + DROP_AGAIN);
                return;
            }
            (Want::DropFast, _) if made && left_there => return self.want(at),
            (Want::Demote, Errand::Demote(demotion)) if made && demotion.delete => {
                task.want = Want::DropFast;
                return self.want(at);
            }
            (Want::Group, _) if matches!(result, Outcome::Made { bytes: 1.., .. }) => self.stats.replicated += 1,
            _ => {}
        }
        task.failed |= !made;
        task.left.remove(&of.file);
        task.busy = 0;
        match task.errand {
            Errand::Demote(_) => task.want = Want::Demote,
            Errand::Drop { .. } => return self.go_on(now, at),
            Errand::Replicate => {}
        }
        if task.failed {
            task.left.clear();
        }
        self.go_on(now, at);
    }

    /// Removes a file; its version is gone with its last file.
    pub fn removed(&mut self, now: Time, file: FileId) {
        self.writing.values_mut().for_each(|files| _ = files.remove(&file));
        let of = self.versions.iter_mut().find_map(|(version, files)| files.remove(&file).then_some(*version));
        let Some(version) = of else { return };
        // A removal ends at most one task, and a version has few tasks.
        for n in (0..self.tasks.len()).rev() {
            let task = &mut self.tasks[n];
            let is_now = task.left.first() == Some(&file);
            if task.left.remove(&file) && is_now {
                (task.busy, task.again) = (0, None);
                if let Errand::Demote(_) = task.errand {
                    task.want = Want::Demote;
                }
                self.go_on(now, n);
            }
        }
        if self.versions.get(&version).is_some_and(BTreeSet::is_empty) {
            self.handle(now, admission::Event::Buffer(buffer::Event::Removed { version }));
        }
    }
}
