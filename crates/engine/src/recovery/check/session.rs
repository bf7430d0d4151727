//! A node's part of a scan by all nodes: one task at a time, on the thread of its call.

use super::look::Found;
use super::orphans::Before;
use super::request::{Account, Answer, Begun};
use super::{CheckOptions, Checker};
use crate::Result;
use crate::stage::{Progress, Stop};
use object::host::remembered;
use parking_lot::{Mutex, MutexGuard};
use policy::ObjectId;
use policy::cluster::look::Task;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time without messages after which a session ends: the requesting node has probably died.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// A node's part of a scan.
pub(super) struct Session {
    options: CheckOptions,
    work: Mutex<Work>,
    /// Time of the last message about the scan.
    heard: Mutex<Instant>,
    progress: Mutex<Option<Progress>>,
    stop: Stop,
}

/// State of the scan so far.
pub(super) struct Work {
    pub checker: Checker,
    pub found: Found,
    before: Option<Before>,
    /// Whether this node scans the files without a name, for all nodes.
    has_it_done: bool,
}

impl Session {
    /// Starts a session. `has_it_done` marks the requesting node: it has listed all objects, and owns the findings.
    pub fn start(checker: Checker, options: CheckOptions, has_it_done: bool, found: Found) -> Arc<Session> {
        Arc::new(Session {
            options,
            work: Mutex::new(Work { checker, found, before: None, has_it_done }),
            heard: Mutex::new(Instant::now()),
            progress: Mutex::default(),
            stop: Stop::default(),
        })
    }

    /// Whether no further request will come.
    pub fn is_over(&self) -> bool {
        self.stop.is_set() || self.heard.lock().elapsed() > FORGOTTEN_AFTER
    }

    /// Records that the scan goes on.
    pub fn stay(&self) {
        *self.heard.lock() = Instant::now();
    }

    /// Ends the session: no further request will come.
    pub fn end(&self) {
        self.stop.set();
    }

    /// Takes the latest progress.
    pub fn progress(&self) -> Option<Progress> {
        self.progress.lock().take()
    }

    /// State of the work. Waits for a task under way.
    pub fn work_so_far(&self) -> MutexGuard<'_, Work> {
        self.work.lock()
    }

    /// Carries out a task.
    pub fn answer(&self, task: Task) -> Answer {
        self.stay();
        let mut work = self.work.lock();
        let report = |progress: &Progress| {
            *self.progress.lock() = Some(progress.clone());
            if self.is_over() {
                self.stop.set();
            }
        };
        work.carry_out(task, &self.options, &report, &self.stop)
            .unwrap_or_else(|error| Answer { failed: Some(error.to_string()), ..Answer::default() })
    }
}

impl Work {
    fn carry_out(
        &mut self,
        task: Task,
        options: &CheckOptions,
        report: crate::stage::Report<'_>,
        stop: &Stop,
    ) -> Result<Answer> {
        let Work { checker, found, before, has_it_done } = self;
        let mut answer = Answer::default();
        checker.check_lease()?;
        match task {
            Task::Begin => {
                // This precedes the node's own listing: later objects are newer than the requesting node's list.
                let now = checker.before_layouts(options.fences());
                let making = now.making.iter().map(|object| object.0).collect();
                let epoch = checker.files.pool().cluster.get().map_or(0, |cluster| cluster.epoch());
                (*before, answer.begun) = (Some(now), Some(Begun { epoch, making }));
                if !*has_it_done && !options.only_left {
                    checker.ask_targets(found, true);
                }
            }
            Task::Walk { part, of } => {
                // Directories read before have names of the lost node's part, so all are read again.
                found.directories.clear();
                (found.parts.1, found.only_left) = (of, options.only_left);
                (found.fences, found.compares) = (options.fences(), options.deep);
                found.parts.0.insert(part);
                checker.walk(&[], found, stop)?;
            }
            Task::CatchUp => answer.changed = checker.look_again(found, stop)?,
            Task::Account => {
                checker.look_beside(found, *has_it_done);
                let mut named: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
                for (object, inode) in found.named.iter().filter(|_| !*has_it_done) {
                    named.entry(*inode).or_default().push(object.0);
                }
                let under_way = checker.mover.under_way()?;
                let now = checker.files.pool().slow_copies.returned();
                answer.account = Some(Account {
                    named: named.into_iter().collect(),
                    under_way: under_way.iter().map(|(target, object)| (target.0, object.0)).collect(),
                    returned: before.as_ref().is_none_or(|before| before.returned != now),
                });
            }
            Task::Compare => checker.compare_bytes(found, report, stop),
            Task::Repair => checker.repair(found, options, report, stop),
        }
        if stop.is_set() {
            answer.failed = Some("it was stopped".into());
        }
        if matches!(task, Task::Account | Task::Compare | Task::Repair) && !*has_it_done {
            answer.report = Some(found.report.clone());
        }
        Ok(answer)
    }

    /// Adds the names that another node found in files. An object in two files is a finding.
    pub fn take_named(&mut self, named: &[(u64, Vec<u64>)]) {
        for (inode, objects) in named {
            for object in objects.iter().map(|object| ObjectId(*object)) {
                let other = self.found.named.insert(object, *inode).filter(|other| other != inode && *other != 0);
                if let Some(other) = other.filter(|_| *inode != 0) {
                    self.note_named_twice(object, *inode, other);
                }
            }
        }
    }

    fn note_named_twice(&mut self, object: ObjectId, inode: u64, other: u64) {
        let lists = self.found.there.iter();
        let target = lists.filter(|(_, objects)| objects.contains(&object)).map(|(target, _)| *target).next();
        let target = target.map_or(String::new(), |target| self.checker.volume.targets().name_of(target));
        let names = self.checker.names_of(inode, &self.found).unwrap_or_default();
        self.found.report.findings.push(super::Finding::named_twice(&names, object, target, other));
    }
}

impl Checker {
    /// Name of a stub, by its inode number, in the directories that were walked.
    fn names_of(&self, inode: u64, found: &Found) -> Option<Vec<String>> {
        let is_it = |names: &[String]| {
            let opened = self.open(names, rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK);
            opened.is_ok_and(|fd| remembered(fd).is_ok_and(|stat| stat.st_ino == inode))
        };
        for directory in found.directories.keys() {
            let Ok(fd) = self.open(directory, rustix::fs::OFlags::RDONLY) else { continue };
            for entry in rustix::fs::Dir::new(fd).into_iter().flatten().flatten().filter(|entry| entry.ino() == inode) {
                let names = [&directory[..], &[entry.file_name().to_string_lossy().into_owned()]].concat();
                if is_it(&names) {
                    return Some(names);
                }
            }
        }
        None
    }
}
