//! The part of a follower: requests permission before it writes, and reports the state of its files until the leader
//! acknowledges it.

use super::super::Burst;
use super::super::open::OpenCheckpoint;
use super::AGAIN;
use super::word::{By, Number, Said, Stand, Word};
use crate::file::{Access, Resume};
use parking_lot::Mutex;
use policy::burst::admission::Event as Told;
use policy::burst::credit::{Action, Event};
use policy::machine::Machine;
use policy::{FileId, Time};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Maximum of reported files that are kept. If more are dropped and the leader changes before their version is
/// complete, the version lacks them.
const KEPT_MAX: usize = 1 << 16;
/// Interval between two reports of an application's reads.
const READS_AGAIN: Duration = Duration::from_secs(10);

/// Files of incomplete versions, as known on this node.
#[derive(Default)]
pub struct Kept {
    files: Mutex<BTreeMap<String, Arc<OpenCheckpoint>>>,
    /// The leader at the last look.
    leader: Mutex<Option<String>>,
    told: Mutex<Option<Instant>>,
    reads: Mutex<HashMap<String, Instant>>,
}

impl Kept {
    pub fn keep(&self, checkpoint: &Arc<OpenCheckpoint>) {
        let mut files = self.files.lock();
        files.insert(checkpoint.path.clone(), checkpoint.clone());
        if files.len() > KEPT_MAX {
            let is_told = |of: &Arc<OpenCheckpoint>| of.is_known() && of.writers.load(Ordering::Acquire) == 0;
            let some: Vec<String> =
                files.iter().filter(|(_, of)| is_told(of)).map(|(path, _)| path.clone()).take(KEPT_MAX / 16).collect();
            some.iter().for_each(|path| drop(files.remove(path)));
        }
    }

    pub fn at(&self, path: &str) -> Option<Arc<OpenCheckpoint>> {
        self.files.lock().get(path).cloned()
    }

    fn all(&self) -> Vec<Arc<OpenCheckpoint>> {
        self.files.lock().values().cloned().collect()
    }

    pub fn take_all(&self) -> Vec<Arc<OpenCheckpoint>> {
        std::mem::take(&mut *self.files.lock()).into_values().collect()
    }

    fn of_version(&self, app: &str, label: &str) -> Vec<Arc<OpenCheckpoint>> {
        let files = self.files.lock();
        files.values().filter(|of| of.app == app && of.label == label).cloned().collect()
    }

    /// Handles the leader's acknowledgement of a file's state.
    pub fn known(&self, path: &str, (since_ns, number): Number) {
        if let Some(checkpoint) = self.at(path).filter(|checkpoint| checkpoint.since_ns == since_ns) {
            checkpoint.heard.store(number, Ordering::Release);
        }
    }

    /// The file of a request to the leader.
    fn asked(&self, path: &str, (since_ns, number): Number) -> Option<(Arc<OpenCheckpoint>, u64)> {
        Some((self.at(path).filter(|checkpoint| checkpoint.since_ns == since_ns)?, number))
    }

    /// Whether the leader has changed since the last look.
    fn is_led_anew(&self, leader: Option<String>) -> bool {
        let mut known = self.leader.lock();
        let anew = leader.is_some() && *known != leader;
        *known = leader.or(known.take());
        anew
    }
}

impl Burst {
    /// Requests permission for a write from the leader.
    pub(in crate::adapt::burst) fn ask_to_write(
        &self,
        checkpoint: &Arc<OpenCheckpoint>,
        access: Access,
        resume: Resume,
    ) {
        if let Some(shared) = self.shared.get() {
            shared.kept.keep(checkpoint);
        }
        let write = self.keep(checkpoint.clone().watched(access, resume));
        self.credit(checkpoint, Event::Hold { write, len: access.len });
    }

    /// Holds a write after ENOSPC of the devices, where writes wait for space to become free.
    pub(in crate::adapt::burst) fn wait_for_room(
        &self,
        checkpoint: &Arc<OpenCheckpoint>,
        access: Access,
        waited: Time,
        resume: Resume,
    ) {
        let write = self.keep(checkpoint.clone().watched(access, resume));
        if let Some(shared) = self.shared.get() {
            shared.say(&Word::Full { bytes: access.len });
        }
        // Request 0 is unknown to this node's admission, which then retries the write after a while, or fails it.
        self.tell(Told::NoRoom { request: 0, write, len: access.len, waited });
    }

    fn credit(&self, checkpoint: &OpenCheckpoint, event: Event) {
        let said: Vec<Action> = {
            let mut credit = checkpoint.credit.lock();
            credit.handle(self.now(), event);
            credit.drain().collect()
        };
        for action in said {
            match action {
                Action::Release { write, verdict } => self.release(write, verdict),
                Action::Ask { number, bytes } => {
                    if let Some(shared) = self.shared.get() {
                        let stand = Stand { writes: true, ..checkpoint.stand() };
                        let number = (checkpoint.since_ns, number);
                        shared.say(&Word::Ask { by: shared.by(), stand, number, bytes });
                    }
                }
            }
        }
    }

    pub(super) fn end_credit(&self, checkpoint: &OpenCheckpoint) {
        self.credit(checkpoint, Event::End);
    }

    pub(super) fn waits(&self, path: &str, number: Number) {
        if let Some((checkpoint, number)) = self.shared.get().and_then(|shared| shared.kept.asked(path, number)) {
            self.credit(&checkpoint, Event::Waits { number });
        }
    }

    pub(super) fn answered(&self, path: &str, number: Number, said: Said, direct: bool) {
        if let Some((checkpoint, number)) = self.shared.get().and_then(|shared| shared.kept.asked(path, number)) {
            checkpoint.direct.store(direct, Ordering::Release);
            self.credit(&checkpoint, Event::Answered { number, verdict: said.into() });
        }
    }

    /// Handles the close of the last writing handle: makes the file durable, then reports it to the leader.
    pub(in crate::adapt::burst) fn closed_here(&self, checkpoint: &Arc<OpenCheckpoint>) {
        let Some(shared) = self.shared.get() else { return };
        if shared.kept.at(&checkpoint.path).is_none_or(|kept| !Arc::ptr_eq(&kept, checkpoint)) {
            return;
        }
        self.end_credit(checkpoint);
        self.sync_here(checkpoint);
        if checkpoint.writers.load(Ordering::Acquire) == 0 {
            checkpoint.changes();
            shared.say(&Word::Stands { by: shared.by(), stand: checkpoint.stand() });
        }
    }

    fn sync_here(&self, checkpoint: &OpenCheckpoint) {
        if let Err(error) = self.make_durable([(&checkpoint.path, checkpoint)]) {
            tracing::warn!("{} of a checkpoint cannot be made durable: {error}", checkpoint.path);
            checkpoint.missing.add(0, u64::MAX);
        }
    }

    /// Reports to the leader that this node's part of a version is durable.
    pub(super) fn settle_here(&self, by: &By, number: u64, app: &str, label: &str) {
        let Some(shared) = self.shared.get() else { return };
        let all = shared.kept.of_version(app, label);
        for checkpoint in &all {
            self.end_credit(checkpoint);
            self.sync_here(checkpoint);
        }
        let stands = all.iter().map(|checkpoint| checkpoint.stand()).collect();
        shared.say_to(&by.name, &Word::Settled { by: shared.by(), number, stands });
    }

    pub(super) fn version_is_over(&self, app: &str, label: &str) {
        let Some(shared) = self.shared.get() else { return };
        for checkpoint in shared.kept.of_version(app, label) {
            // The next write of a file that is still open begins another version.
            self.end_credit(&checkpoint);
            checkpoint.emptied.store(false, Ordering::Release);
            shared.kept.files.lock().remove(&checkpoint.path);
        }
    }

    /// Sends unacknowledged states again; to a new leader, all of them.
    pub(super) fn tend_kept(&self) {
        let Some(shared) = self.shared.get() else { return };
        let anew = shared.kept.is_led_anew(shared.talk.leader());
        let again = {
            let mut told = shared.kept.told.lock();
            let again = told.is_none_or(|at| at.elapsed() >= AGAIN);
            if again {
                *told = Some(Instant::now());
            }
            again
        };
        for checkpoint in shared.kept.all() {
            if anew {
                checkpoint.changes();
                self.credit(&checkpoint, Event::Anew);
            }
            self.credit(&checkpoint, Event::Tick);
            if anew || again && !checkpoint.is_known() {
                shared.say(&Word::Stands { by: shared.by(), stand: checkpoint.stand() });
            }
        }
        self.look_at_announced();
    }

    /// Reports to the leader that a file, possibly of a checkpoint, is opened for reading.
    pub(in crate::adapt::burst) fn tell_of_reading(&self, path: String, file: Option<FileId>) {
        let Some(shared) = self.shared.get() else { return };
        let Some((app, _)) = self.recognise(&path) else { return };
        let mut reads = shared.kept.reads.lock();
        reads.retain(|_, at| at.elapsed() < READS_AGAIN);
        if reads.insert(app, Instant::now()).is_none() {
            drop(reads);
            shared.say(&Word::Reads { path, file: file.map(|file| file.0) });
        }
    }

    /// Handles the report of another node's open for reading.
    pub(super) fn is_read(&self, file: Option<u64>, path: String) {
        let version = self.table.lock().version_of(file.map(FileId), || Some(path));
        version.into_iter().for_each(|version| self.reads(version));
    }
}
