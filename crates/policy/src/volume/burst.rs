//! The burst buffer's versions as files: to demote a version is to add a mirror to each of its files, to drop it is to
//! take one away.

use super::changes::{Want, Wanted};
use super::event::{Action, Reason};
use super::ownership::Mechanism;
use crate::burst::admission::{self, Admission};
use crate::burst::buffer;
use crate::burst::tables::{Demotion, Version};
use crate::ids::FileId;
use crate::machine::Machine;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What is done to the files of a version.
#[derive(Debug)]
struct Task {
    drops: Option<u64>,
    demotion: Option<Demotion>,
    left: BTreeSet<FileId>,
    failed: bool,
}

#[derive(Debug)]
pub struct Burst {
    pub admission: Admission,
    /// Files of checkpoints on their way, and of those that are complete.
    writing: BTreeMap<u64, BTreeSet<FileId>>,
    versions: BTreeMap<Version, BTreeSet<FileId>>,
    tasks: BTreeMap<Version, Task>,
}

impl Burst {
    pub fn new(config: admission::Config) -> Burst {
        Burst {
            admission: Admission::new(config),
            writing: BTreeMap::new(),
            versions: BTreeMap::new(),
            tasks: BTreeMap::new(),
        }
    }

    pub fn joins(&mut self, request: u64, file: FileId) {
        self.writing.entry(request).or_default().insert(file);
    }

    pub fn handle(&mut self, now: Time, event: admission::Event) {
        if let admission::Event::Buffer(buffer::Event::Committed { request, .. }) = event {
            let files = self.writing.remove(&request).unwrap_or_default();
            if let Some(version) = self.admission.request(request).and_then(|of| of.version) {
                self.versions.insert(version, files);
            }
        }
        if let admission::Event::Buffer(buffer::Event::Abandoned { request }) = event {
            self.writing.remove(&request);
        }
        self.admission.handle(now, event);
    }

    /// What admission says, as actions and as wants of files.
    pub fn collect(&mut self, now: Time, says: &mut VecDeque<Action>, wanted: &mut Vec<Wanted>) {
        while let Some(action) = self.admission.poll() {
            match action {
                admission::Action::Release { write, verdict } => says.push_back(Action::Release { write, verdict }),
                admission::Action::Prepare { request } => {
                    let direct = self.admission.request(request).is_some_and(|of| of.direct);
                    says.push_back(Action::Prepare { request, direct });
                }
                admission::Action::Buffer(buffer::Action::Rates(rates)) => says.push_back(Action::SetRates(rates)),
                admission::Action::Buffer(buffer::Action::Demote(demotion)) => {
                    let reason = Reason::Demote(demotion.reason);
                    self.begin(now, demotion.version, Want::Demote, reason, (None, Some(demotion)), wanted);
                }
                admission::Action::Buffer(buffer::Action::Drop { version, bytes }) => {
                    self.begin(now, version, Want::DropFast, Reason::BufferRoom, (Some(bytes), None), wanted);
                }
                admission::Action::Buffer(_) => {}
            }
        }
    }

    fn begin(
        &mut self,
        now: Time,
        version: Version,
        want: Want,
        reason: Reason,
        (drops, demotion): (Option<u64>, Option<Demotion>),
        wanted: &mut Vec<Wanted>,
    ) {
        let left = self.versions.get(&version).cloned().unwrap_or_default();
        wanted.extend(left.iter().map(|file| Wanted { by: Mechanism::Burst, file: *file, want, reason }));
        self.tasks.insert(version, Task { drops, demotion, left, failed: false });
        self.end_if_done(now, version);
    }

    /// What was wanted of a file is done, or is not.
    pub fn ended(&mut self, now: Time, of: &Wanted, made: bool, wanted: &mut Vec<Wanted>) {
        let found = self.tasks.iter_mut().find(|(_, task)| task.left.contains(&of.file));
        let Some((version, task)) = found.map(|(version, task)| (*version, task)) else { return };
        let superseded = task.demotion.is_some_and(|demotion| demotion.delete);
        if made && superseded && of.want == Want::Demote {
            return wanted.push(Wanted { want: Want::DropFast, reason: Reason::BufferRoom, ..*of });
        }
        task.failed |= !made;
        task.left.remove(&of.file);
        self.end_if_done(now, version);
    }

    fn end_if_done(&mut self, now: Time, version: Version) {
        let Some(task) = self.tasks.get(&version).filter(|task| task.left.is_empty()) else { return };
        let event = match (task.drops, task.failed) {
            (Some(bytes), true) => Some(buffer::Event::DropFailed { version, bytes }),
            (Some(_), false) => None,
            (None, true) => Some(buffer::Event::DemotionFailed),
            (None, false) => Some(buffer::Event::Demoted),
        };
        self.tasks.remove(&version);
        event.into_iter().for_each(|event| self.admission.handle(now, admission::Event::Buffer(event)));
    }

    /// A file is gone: with its last one a version is.
    pub fn removed(&mut self, now: Time, file: FileId) {
        for files in self.writing.values_mut() {
            files.remove(&file);
        }
        let of = self.versions.iter().find(|(_, files)| files.contains(&file)).map(|(version, _)| *version);
        let Some(version) = of else { return };
        if let Some(task) = self.tasks.get_mut(&version) {
            task.left.remove(&file);
        }
        self.end_if_done(now, version);
        let left = self.versions.get_mut(&version).is_some_and(|files| {
            files.remove(&file);
            !files.is_empty()
        });
        if !left {
            self.versions.remove(&version);
            self.handle(now, admission::Event::Buffer(buffer::Event::Removed { version }));
        }
    }
}
