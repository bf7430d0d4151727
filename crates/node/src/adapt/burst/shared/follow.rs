//! The part of a follower: requests permission before it writes, and reports the state of its files until the leader
//! acknowledges it.

use super::super::Burst;
use super::super::open::OpenCheckpoint;
use super::AGAIN;
use super::request::{Granted, Request, Stand};
use crate::calls::{Answer, To};
use engine::file::{Access, Resume};
use parking_lot::Mutex;
use policy::burst::admission::{Event as AdmissionEvent, Verdict};
use policy::burst::credit::{Action, Event};
use policy::machine::Machine;
use policy::{FileId, Time};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum of reported files that are kept. If more are dropped and the leader changes before their version is
/// complete, the version lacks them.
const KEPT_MAX: usize = 1 << 16;
/// Maximum of files in a report of states. A guess.
const STANDS_MAX: usize = 256;
/// Interval between two reports of an application's reads.
const READS_AGAIN: Duration = Duration::from_secs(10);

/// Files of incomplete versions, as known on this node.
#[derive(Default)]
pub struct Kept {
    files: Mutex<BTreeMap<String, Arc<OpenCheckpoint>>>,
    /// The leader at the last look.
    leader: Mutex<Option<String>>,
    /// Whether a report of states is under way, and when one last left some unacknowledged.
    reports: AtomicBool,
    refused: Mutex<Option<Instant>>,
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
            shared.notify(&To::Leader, &Request::Full { bytes: access.len });
        }
        // Request 0 is unknown to this node's admission, which then retries the write after a while, or fails it.
        self.tell(AdmissionEvent::NoRoom { request: 0, write, len: access.len, waited });
    }

    fn credit(&self, checkpoint: &Arc<OpenCheckpoint>, event: Event) {
        let said: Vec<Action> = {
            let mut credit = checkpoint.credit.lock();
            credit.handle(self.driver.now(), event);
            credit.drain().collect()
        };
        for action in said {
            match action {
                Action::Release { write, verdict } => self.release(write, verdict),
                Action::Ask { number, bytes } => {
                    let Some(shared) = self.shared.get() else { continue };
                    let stand = Stand { writes: true, ..checkpoint.stand() };
                    let (request, of) = (Request::Write { by: shared.by(), stand, bytes }, checkpoint.clone());
                    let call = self.request(&request, move |burst, answer| burst.granted(&of, number, answer));
                    checkpoint.asks.store(call, Ordering::Release);
                }
            }
        }
    }

    fn granted(&self, checkpoint: &Arc<OpenCheckpoint>, number: u64, granted: Answer<Granted>) {
        if let Ok((_, direct)) = granted {
            checkpoint.direct.store(direct, Ordering::Release);
        } else {
            checkpoint.unasked.store(true, Ordering::Release);
            checkpoint.changes();
        }
        let verdict = granted.map_or(Verdict::Go, |(said, _)| said.into());
        self.credit(checkpoint, Event::Answered { number, verdict });
    }

    pub(super) fn end_credit(&self, checkpoint: &Arc<OpenCheckpoint>) {
        self.credit(checkpoint, Event::End);
        if let Some(shared) = self.shared.get() {
            shared.calls.forget(checkpoint.asks.swap(0, Ordering::AcqRel));
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
            self.report_stands();
        }
    }

    /// Reports unacknowledged states to the leader, some at a time.
    fn report_stands(&self) {
        let Some(shared) = self.shared.get() else { return };
        if shared.kept.reports.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut files = shared.kept.all();
        files.retain(|checkpoint| !checkpoint.is_known());
        files.truncate(STANDS_MAX);
        if files.is_empty() {
            return shared.kept.reports.store(false, Ordering::Release);
        }
        let stands: Vec<Stand> = files.iter().map(|checkpoint| checkpoint.stand()).collect();
        let reported: Vec<_> = files.into_iter().zip(stands.iter().map(|stand| stand.number.1)).collect();
        let request = Request::Stands { by: shared.by(), stands };
        self.request(&request, move |burst, answer| burst.reported(&reported, answer));
    }

    /// Handles the leader's acknowledgement of states with these numbers.
    fn reported(&self, reported: &[(Arc<OpenCheckpoint>, u64)], answer: Answer<Vec<Option<bool>>>) {
        let Some(shared) = self.shared.get() else { return };
        let over = answer.unwrap_or_default();
        for ((checkpoint, number), over) in reported.iter().zip(&over) {
            match over {
                Some(true) => self.version_is_over(&checkpoint.app, &checkpoint.label),
                Some(false) => {
                    checkpoint.heard.store(*number, Ordering::Release);
                    if checkpoint.is_known() {
                        checkpoint.unasked.store(false, Ordering::Release);
                    }
                }
                None => {}
            }
        }
        shared.kept.reports.store(false, Ordering::Release);
        match over.len() == reported.len() && over.iter().all(Option::is_some) {
            true => self.report_stands(),
            false => *shared.kept.refused.lock() = Some(Instant::now()),
        }
    }

    fn sync_here(&self, checkpoint: &OpenCheckpoint) {
        if let Err(error) = self.make_durable([(&checkpoint.path, checkpoint)]) {
            tracing::warn!("{} of a checkpoint cannot be made durable: {error}", checkpoint.path);
            checkpoint.missing.add(0, u64::MAX);
        }
    }

    /// Makes this node's part of a version durable. Returns the states of its files.
    pub(super) fn settle_here(&self, app: &str, label: &str) -> Vec<Stand> {
        let all = self.shared.get().map_or_else(Vec::new, |shared| shared.kept.of_version(app, label));
        for checkpoint in &all {
            self.end_credit(checkpoint);
            self.sync_here(checkpoint);
        }
        all.iter().map(|checkpoint| checkpoint.stand()).collect()
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

    /// Reports unacknowledged states; to a new leader, all of them.
    pub(super) fn tend_kept(&self) {
        let Some(shared) = self.shared.get() else { return };
        let is_new = shared.kept.is_led_anew(shared.talk().leader());
        if is_new {
            shared.kept.all().iter().for_each(|checkpoint| checkpoint.changes());
        }
        if is_new || shared.kept.refused.lock().is_none_or(|at| at.elapsed() >= AGAIN) {
            self.report_stands();
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
            shared.notify(&To::Leader, &Request::Reads { path, file: file.map(|file| file.0) });
        }
    }

    /// Handles the report of another node's open for reading.
    pub(super) fn is_read(&self, file: Option<u64>, path: String) {
        let version = self.table.lock().version_of(file.map(FileId), || Some(path));
        version.into_iter().for_each(|version| self.reads(version));
    }
}
