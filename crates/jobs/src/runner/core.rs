//! What happens to jobs: the scheduler's decisions carried out, and what became of the parts told back to it.
//!
//! One lock holds the book of all jobs. Under it are only memory, the state store and the start of processes; waiting
//! for processes and asking the volume happen on threads of their own, one for each part that holds a place.

use super::external::Unseen;
use super::gate::{self, Now};
use super::record::{PartRecord, Phase, Record, number, part_of};
use super::{spool, watch};
use crate::config::{Config, Recogniser};
use crate::exec::now_ms;
use crate::marks;
use crate::request::*;
use crate::volume::Volume;
use parking_lot::{Condvar, Mutex};
use policy::Time;
use policy::machine::Machine;
use policy::schedule::easy::{self, Action, DropReason, Easy, Event};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;
use store::state::State;

/// The name under which jobs are kept in the state store.
pub(super) const RECORDS: &str = "job";
const BATCH: easy::QueueId = easy::QueueId(0);
const DATAXFER: easy::QueueId = easy::QueueId(1);

/// What the runner's threads share.
pub(super) struct Core {
    pub config: Config,
    pub state: Arc<dyn State>,
    pub volume: Arc<dyn Volume>,
    pub recogniser: Recogniser,
    pub book: Mutex<Book>,
    /// Notified at every change of a job.
    pub changed: Condvar,
    /// Schedulers that could not be asked at the last look.
    pub unseen: Mutex<BTreeMap<Kind, Unseen>>,
    /// Readable when the runner ends.
    pub closing: OwnedFd,
    started: (u64, Instant),
}

/// All jobs.
pub(super) struct Book {
    pub machine: Easy,
    pub jobs: BTreeMap<JobId, Record>,
    /// Processes of started parts.
    pub running: BTreeMap<(JobId, PartKind), Arc<OwnedFd>>,
    /// The runner ends: nothing more is decided.
    pub closed: bool,
}

impl Core {
    pub fn new(
        config: Config,
        state: Arc<dyn State>,
        volume: Arc<dyn Volume>,
        recogniser: Recogniser,
    ) -> std::io::Result<Core> {
        let queues = [
            easy::Queue { capacity: config.cores, charge: easy::Charge::Cores },
            easy::Queue { capacity: config.n_transfers_max, charge: easy::Charge::Slot },
            easy::Queue { capacity: u32::MAX, charge: easy::Charge::Slot },
        ];
        let book = Book { machine: Easy::new(&queues), jobs: BTreeMap::new(), running: BTreeMap::new(), closed: false };
        Ok(Core {
            config,
            state,
            volume,
            recogniser,
            book: Mutex::new(book),
            changed: Condvar::new(),
            unseen: Mutex::default(),
            closing: rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?,
            started: (now_ms(), Instant::now()),
        })
    }

    /// The scheduler's time: the wall clock at the start and steady from then on.
    pub fn now(&self) -> Time {
        Time::from_millis(self.started.0 + self.started.1.elapsed().as_millis() as u64)
    }

    /// A part as the scheduler sees it.
    pub fn request(&self, record: &Record, kind: PartKind) -> easy::Job {
        let part = record.plan.parts.iter().find(|part| part.kind == kind);
        let ended_well = |kind: PartKind| record.part(kind).is_some_and(|part| part.phase == Phase::Ended);
        easy::Job {
            id: number(record.id, kind),
            queue: if kind == PartKind::Compute { BATCH } else { DATAXFER },
            cores: part.map_or(1, |part| part.cores.max(1)),
            estimate: Time::from_secs(part.map_or(1, |part| part.walltime_s)),
            after_ok: part
                .and_then(|part| part.after)
                .filter(|after| !ended_well(*after))
                .map(|after| number(record.id, after))
                .or((kind == PartKind::StageIn && gate::is_before(record)).then(|| gate::number(record.id)))
                .into_iter()
                .collect(),
        }
    }

    /// Remembers a job.
    pub fn remember(&self, record: &Record) -> Result<(), String> {
        let bytes = serde_json::to_vec(record).map_err(|e| e.to_string())?;
        self.state.record_put(RECORDS, &key(record.id), &bytes).map_err(|e| e.to_string())
    }

    /// Remembers a job's change. If that fails the job goes on; a restart then finds its processes and status files.
    pub fn keep(&self, record: &Record) {
        if let Err(error) = self.remember(record) {
            tracing::error!("job {} could not be remembered: {error}; check the state directory's disk", record.id);
        }
    }

    /// Carries out what the scheduler decides until it has nothing to say.
    pub fn pump(self: &Arc<Self>, book: &mut Book) {
        while !book.closed {
            let Some(action) = book.machine.poll() else { break };
            match action {
                Action::Start { id, .. } if gate::is_gate(id) => gate::reached(self, book, id),
                Action::Stop { id } if gate::is_gate(id) => gate::cancelled(self, book, id),
                Action::Drop { id, .. } if gate::is_gate(id) => {}
                Action::Start { id, .. } => self.start(book, part_of(id)),
                Action::Stop { id } => self.stop(book, part_of(id)),
                Action::Drop { id, reason } => self.dropped(book, part_of(id), reason),
            }
        }
        self.changed.notify_all();
    }

    fn start(self: &Arc<Self>, book: &mut Book, (id, kind): (JobId, PartKind)) {
        let Some(record) = book.jobs.get_mut(&id) else { return };
        let Some(part) = record.part_mut(kind) else { return };
        part.dispatched_ms = Some(now_ms());
        if kind == PartKind::Compute {
            part.phase = Phase::Checking;
            gate::tell(self, record, Now::Started);
            record.enter(JobState::Checking, "looking whether its data are all there");
            self.keep(record);
            watch::check(self, id);
        } else {
            self.launch(book, id, kind);
        }
    }

    /// Starts the supervisor of a part.
    pub fn launch(self: &Arc<Self>, book: &mut Book, id: JobId, kind: PartKind) {
        let Some(record) = book.jobs.get_mut(&id) else { return };
        let Some(part) = record.part_mut(kind) else { return };
        part.phase = Phase::Started;
        let (state, detail) = match kind {
            PartKind::StageIn => (JobState::StagingIn, "its data are being brought"),
            PartKind::Compute => (JobState::Running, "its script runs"),
            PartKind::StageOut => (JobState::StagingOut, "its results are being taken home"),
        };
        record.enter(state, detail);
        self.keep(record);
        match watch::spawn(self, id, kind) {
            Ok(process) => {
                book.running.insert((id, kind), process);
            }
            Err(error) => {
                let cause = format!("its supervisor could not be started: {error}");
                self.ended(book, id, kind, watch::lost_report(kind, cause));
            }
        }
    }

    /// Tells what runs of a part to end. A part that is being checked ends when the check does.
    fn stop(self: &Arc<Self>, book: &mut Book, (id, kind): (JobId, PartKind)) {
        if let Some(process) = book.running.get(&(id, kind)) {
            watch::stop(self, id, kind, process.clone());
        }
    }

    fn dropped(&self, book: &mut Book, (id, kind): (JobId, PartKind), reason: DropReason) {
        let Some(record) = book.jobs.get_mut(&id) else { return };
        if let Some(part) = record.part_mut(kind) {
            part.phase = Phase::Dropped;
        }
        if record.state.is_final() || record.is_active() {
            return self.keep(record);
        }
        if record.cancelled {
            self.finish(record, JobState::Cancelled, None);
        } else if !matches!(reason, DropReason::DependencyFailed(_)) {
            let why = format!("the scheduler refused its {kind} part: {reason:?}");
            self.finish(record, JobState::Failed, Some(why));
        }
    }

    /// A part ended. Decides what becomes of the job and lets the scheduler go on.
    pub fn ended(&self, book: &mut Book, id: JobId, kind: PartKind, report: PartReport) {
        book.running.remove(&(id, kind));
        let Some(record) = book.jobs.get_mut(&id) else { return };
        let ok = report.ending.is_success();
        let why = (!ok).then(|| why(record, kind, &report));
        let took_ms = report.ended_ms.saturating_sub(report.started_ms);
        if let Some(part) = record.part_mut(kind) {
            part.phase = Phase::Ended;
            part.report = Some(report);
        }
        if kind == PartKind::StageIn {
            gate::tell(self, record, if ok { Now::Arrived { took_ms } } else { Now::Failed });
        }
        // A cancel has dropped those that waited.
        let more = record.parts.iter().any(|part| matches!(part.phase, Phase::Waiting | Phase::Dropped));
        if record.cancelled && (!ok || more) {
            self.finish(record, JobState::Cancelled, None);
        } else if !ok {
            self.finish(record, JobState::Failed, why);
        } else if more {
            record.enter(JobState::Queued, format!("its {kind} succeeded; waits for its turn"));
            self.keep(record);
        } else {
            self.finish(record, JobState::Completed, None);
        }
        book.machine.handle(self.now(), Event::Ended { id: number(id, kind), ok });
        self.prune(book);
    }

    pub fn finish(&self, record: &mut Record, state: JobState, why: Option<String>) {
        record.why = why;
        gate::tell(self, record, Now::Gone);
        record.enter(state, "");
        if !record.plan.checkpoints.is_empty() {
            self.volume.unmark_checkpoints(&marks::local(record.id));
        }
        self.volume.count_job(state);
        self.keep(record);
        spool::forget_secrets(&self.config, record);
        self.forget_staging(record);
    }

    /// What a stage-in that did not come to its end has brought so far is given up with the job.
    fn forget_staging(&self, record: &Record) {
        let succeeded = |part: &PartRecord| part.report.as_ref().is_some_and(|report| report.ending.is_success());
        if record.part(PartKind::StageIn).is_none_or(succeeded) {
            return;
        }
        let (volume, owner, paths) = (self.volume.clone(), record.owner, record.staged_paths());
        std::thread::spawn(move || {
            for path in paths {
                if let Err(error) = volume.forget_staging(owner, &path) {
                    tracing::warn!("what was staged of {} cannot be given up: {error}", path.display());
                }
            }
        });
    }

    /// Forgets the oldest finished jobs beyond the number that is remembered.
    pub fn prune(&self, book: &mut Book) {
        let finished: Vec<JobId> =
            book.jobs.values().filter(|r| r.state.is_final() && !r.is_active()).map(|r| r.id).collect();
        let n_too_many = finished.len().saturating_sub(self.config.n_finished_max);
        for id in &finished[..n_too_many] {
            book.jobs.remove(id);
            self.forget(*id);
        }
    }

    /// Nothing of a job is kept.
    pub fn forget(&self, id: JobId) {
        if let Err(error) = self.state.record_remove(RECORDS, &key(id)) {
            tracing::warn!("finished job {id} could not be forgotten: {error}");
        }
        let _ = std::fs::remove_dir_all(spool::dir(&self.config, id));
    }
}

/// Keys sort as numbers do.
pub(super) fn key(id: JobId) -> String {
    format!("{:020}", id.0)
}

/// The reason that the user sees: which command of which line, how it ended, what it said.
pub(super) fn why(record: &Record, kind: PartKind, report: &PartReport) -> String {
    let command = report
        .steps
        .len()
        .checked_sub(1)
        .and_then(|last| record.plan.parts.iter().find(|part| part.kind == kind)?.commands.get(last));
    let (Some(command), Some(step)) = (command, report.steps.last()) else {
        return format!("{kind} {}", report.ending);
    };
    let mut text = if kind == PartKind::Compute {
        format!("the script {}", step.ending)
    } else {
        let words = shlex::try_join(command.argv.iter().map(String::as_str)).unwrap_or_default();
        format!("{kind} failed: line {}: {words} {}", command.line, step.ending)
    };
    if step.attempts > 1 {
        text += &format!(" in each of {} attempts", step.attempts);
    }
    if !step.stderr_tail.is_empty() {
        text += &format!("; it said: {}", step.stderr_tail);
    }
    text
}
