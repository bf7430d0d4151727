//! All jobs and transfers under one lock, and what follows from what: a command that ended lets the next begin.
//!
//! Under the lock are only memory, the state store and the start of processes; waiting for processes, asking the volume
//! and asking Slurm happen on threads of their own.

use super::due::{self, Now};
use super::record::{Job, Phase, Transfer, TransferState, Why};
use super::{spool, transfer, verify};
use crate::config::{Config, Recogniser};
use crate::exec;
use crate::exec::outside::{self, Supervisor};
use crate::marks;
use crate::request::{PartKind, PartReport};
use crate::volume::Volume;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use store::state::State;

const JOBS: &str = "slurm-job";
const TRANSFERS: &str = "slurm-transfer";

/// A transfer is begun anew so often: each time takes the end of a daemon, and more of them are no accident.
const BEGUN_ANEW_MAX: u32 = 3;

/// Whether it may be begun once more.
fn begin_anew(counts: &mut BTreeMap<u64, u32>, number: u64) -> bool {
    let count = counts.entry(number).or_default();
    *count += 1;
    *count <= BEGUN_ANEW_MAX
}

/// What the threads share.
pub(super) struct Core {
    pub config: Config,
    /// Who may call the hooks besides root and whoever runs the daemon.
    pub slurm_users: Vec<u32>,
    pub state: Arc<dyn State>,
    pub volume: Arc<dyn Volume>,
    pub recogniser: Recogniser,
    pub book: Mutex<Book>,
    /// Notified when a job was let go of, and at the end.
    pub changed: Condvar,
    /// Whether Slurm's queue could not be asked at the last look.
    pub is_unseen: AtomicBool,
    /// Readable at the end.
    pub closing: OwnedFd,
}

/// All there is.
#[derive(Default)]
pub(super) struct Book {
    pub jobs: BTreeMap<u64, Job>,
    pub transfers: BTreeMap<u64, Transfer>,
    /// Supervisors of running transfers.
    pub running: BTreeMap<u64, Arc<OwnedFd>>,
    /// How often transfers were begun anew because the daemon that they talked to had ended.
    pub begun_anew: BTreeMap<u64, u32>,
    /// Jobs whose data are being compared just now.
    pub verifying: BTreeSet<u64>,
    pub closed: bool,
}

impl Core {
    pub fn new(
        config: Config,
        slurm_users: Vec<u32>,
        state: Arc<dyn State>,
        volume: Arc<dyn Volume>,
        recogniser: Recogniser,
    ) -> std::io::Result<Core> {
        Ok(Core {
            config,
            slurm_users,
            state,
            volume,
            recogniser,
            book: Mutex::default(),
            changed: Condvar::new(),
            is_unseen: AtomicBool::new(false),
            closing: rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?,
        })
    }

    /// Reads what the last daemon knew, finds its transfers again and goes on.
    pub fn take_up(self: &Arc<Self>) -> store::Result<()> {
        let mut book = self.book.lock();
        for (_, bytes) in self.state.records(JOBS)? {
            match serde_json::from_slice::<Job>(&bytes) {
                Ok(job) => drop(book.jobs.insert(job.id, job)),
                Err(error) => tracing::error!("a record of a job of Slurm cannot be read and is left alone: {error}"),
            }
        }
        for (_, bytes) in self.state.records(TRANSFERS)? {
            match serde_json::from_slice::<Transfer>(&bytes) {
                Ok(transfer) => drop(book.transfers.insert(transfer.number, transfer)),
                Err(error) => tracing::error!("a record of a transfer cannot be read and is left alone: {error}"),
            }
        }
        let coming = |job: &&mut Job| matches!(job.phase, Phase::StagingIn | Phase::Verifying);
        book.jobs.values_mut().filter(coming).for_each(|job| due::tell(self, job, Now::UnderWay));
        let ran = book.transfers.values().filter(|t| t.state == TransferState::Running);
        for (number, kind) in ran.map(|t| (t.number, t.kind)).collect::<Vec<_>>() {
            let dir = spool::dir(&self.config, number);
            match outside::adopt(&dir, kind) {
                Some(supervisor) => self.watch(&mut book, number, kind, supervisor),
                None => self.ended(&mut book, number, &outside::report(&dir, kind)),
            }
        }
        let unfinished: Vec<u64> = book.jobs.values().filter(|job| !job.phase.is_final()).map(|job| job.id).collect();
        for id in unfinished {
            self.advance(&mut book, id);
        }
        self.start_waiting(&mut book);
        Ok(())
    }

    /// Remembers a job.
    pub fn keep(&self, job: &Job) {
        self.put(JOBS, job.id, serde_json::to_vec(job));
    }

    /// Remembers a transfer.
    pub fn keep_transfer(&self, transfer: &Transfer) {
        self.put(TRANSFERS, transfer.number, serde_json::to_vec(transfer));
    }

    /// If it fails the work goes on; a restart then starts from what was remembered last, and does again what was done.
    fn put(&self, kind: &str, number: u64, bytes: serde_json::Result<Vec<u8>>) {
        let bytes = bytes.unwrap_or_default();
        if let Err(error) = self.state.record_put(kind, &format!("{number:020}"), &bytes) {
            tracing::error!("{kind} {number} could not be remembered: {error}; check the state directory's disk");
        }
    }

    fn remove(&self, kind: &str, number: u64) {
        if let Err(error) = self.state.record_remove(kind, &format!("{number:020}")) {
            tracing::warn!("{kind} {number} could not be forgotten: {error}");
        }
    }

    /// Takes a job as far as it goes without waiting.
    pub fn advance(self: &Arc<Self>, book: &mut Book, id: u64) {
        let Some(job) = book.jobs.get(&id) else { return };
        let kind = match job.phase {
            Phase::StagingIn => PartKind::StageIn,
            Phase::StagingOut => PartKind::StageOut,
            Phase::Verifying => return verify::start(self, book, id),
            _ => return,
        };
        if let Some(last) = job.transfers(kind).last().and_then(|number| book.transfers.get(number)) {
            match last.state {
                TransferState::Waiting | TransferState::Running => return,
                TransferState::Failed | TransferState::Dropped => {
                    let (cause, passing) = last.why.clone().unwrap_or_else(|| ("it was given up".into(), true));
                    return self.fail(book, id, Why { part: kind, cause, passing });
                }
                TransferState::Done => {}
            }
        }
        let part = job.plan.parts.iter().find(|part| part.kind == kind);
        let next = part.and_then(|part| part.commands.get(job.transfers(kind).len()));
        if next.is_some() {
            match transfer::join(self, book, id, kind) {
                Ok(()) => return self.start_waiting(book),
                Err(cause) => return self.fail(book, id, Why { part: kind, cause, passing: true }),
            }
        }
        let Some(job) = book.jobs.get_mut(&id) else { return };
        if kind == PartKind::StageIn {
            job.enter(Phase::Verifying);
            self.keep(job);
            verify::start(self, book, id);
        } else {
            self.finish(book, id, Phase::Completed, None);
        }
    }

    /// Starts transfers as long as there is room.
    pub fn start_waiting(self: &Arc<Self>, book: &mut Book) {
        while !book.closed && book.running.len() < self.config.n_transfers_max as usize {
            let running: Vec<&Transfer> = book.running.keys().filter_map(|number| book.transfers.get(number)).collect();
            // Two that bring the same file would be in each other's way: the later waits.
            let free = |t: &Transfer| !running.iter().any(|r| r.brings.iter().any(|path| t.brings.contains(path)));
            let waiting = book.transfers.values().find(|t| t.state == TransferState::Waiting && free(t));
            let Some((number, kind)) = waiting.map(|t| (t.number, t.kind)) else { return };
            let dir = spool::dir(&self.config, number);
            if let Some(transfer) = book.transfers.get_mut(&number) {
                transfer.state = TransferState::Running;
                self.keep_transfer(transfer);
            }
            match outside::start(&self.config.program, &self.config.supervisor_args, &dir, kind) {
                Ok(supervisor) => self.watch(book, number, kind, supervisor),
                Err(error) => {
                    let cause = format!("its supervisor could not be started: {error}");
                    self.ended(book, number, &outside::lost_report(kind, cause));
                }
            }
        }
    }

    fn watch(self: &Arc<Self>, book: &mut Book, number: u64, kind: PartKind, mut supervisor: Supervisor) {
        book.running.insert(number, supervisor.process.clone());
        let (weak, closing): (Weak<Core>, _) = (Arc::downgrade(self), self.closing.try_clone());
        std::thread::spawn(move || {
            if !closing.is_ok_and(|closing| supervisor.wait(&closing)) {
                return;
            }
            let Some(core) = weak.upgrade() else { return };
            let report = outside::report(&spool::dir(&core.config, number), kind);
            let mut book = core.book.lock();
            // Nobody waits for it any more: what it left is given up before its place is free for another.
            if let Some(transfer) = book.transfers.get(&number).filter(|t| t.jobs.is_empty()).cloned() {
                drop(book);
                verify::forget(&core, &transfer);
                book = core.book.lock();
            }
            if !book.closed {
                core.ended(&mut book, number, &report);
                core.start_waiting(&mut book);
            }
        });
    }

    /// A transfer ended: its jobs go on.
    fn ended(self: &Arc<Self>, book: &mut Book, number: u64, report: &PartReport) {
        book.running.remove(&number);
        let Some(transfer) = book.transfers.get_mut(&number) else { return };
        if transfer.jobs.is_empty() {
            transfer.state = TransferState::Dropped;
        } else if report.ending.is_success() {
            transfer.state = TransferState::Done;
            transfer.took_ms = Some(report.ended_ms.saturating_sub(report.started_ms));
        } else if transfer::lost_the_daemon(transfer, report) && begin_anew(&mut book.begun_anew, number) {
            // It talked to a daemon that has ended; this one goes on where that was.
            let _ = std::fs::remove_file(exec::file(&spool::dir(&self.config, number), transfer.kind, "status"));
            transfer.state = TransferState::Waiting;
        } else {
            transfer.state = TransferState::Failed;
            transfer.why = Some(transfer::why(transfer, report));
        }
        self.keep_transfer(transfer);
        for id in transfer.jobs.clone() {
            self.advance(book, id);
        }
    }

    /// A step of a job failed. Its transfers are let go of when Slurm tears it down, or when it is tried again.
    pub fn fail(&self, book: &mut Book, id: u64, why: Why) {
        let Some(job) = book.jobs.get_mut(&id) else { return };
        tracing::info!("{} of Slurm's job {id} failed: {}", why.part, why.cause);
        if why.part == PartKind::StageIn {
            due::tell(self, job, Now::Failed);
        }
        job.why = Some(why);
        job.enter(Phase::Failed);
        self.keep(job);
    }

    /// A job is over.
    pub fn finish(self: &Arc<Self>, book: &mut Book, id: u64, phase: Phase, note: Option<String>) {
        let Some(job) = book.jobs.get_mut(&id) else { return };
        job.note = note.or(job.note.take());
        job.let_go = false;
        due::tell(self, job, Now::Gone);
        job.enter(phase);
        self.keep(job);
        self.volume.unmark_checkpoints(&marks::slurm(id));
        self.release(book, id, PartKind::StageIn);
        self.release(book, id, PartKind::StageOut);
        self.give_up(book, id);
        spool::forget_base(&self.config, id);
        self.prune(book);
    }

    /// Gives up what failed transfers of a job left to go on from, unless another job brings the same.
    pub fn give_up(self: &Arc<Self>, book: &Book, id: u64) {
        let alive = |t: &Transfer| !t.jobs.is_empty() || t.state == TransferState::Running;
        let kept: BTreeSet<_> = book.transfers.values().filter(|t| alive(t)).flat_map(|t| t.brings.clone()).collect();
        let left = |t: &&Transfer| {
            t.seen_by.contains(&id) && t.state == TransferState::Failed && !t.brings.iter().any(|p| kept.contains(p))
        };
        let left: Vec<Transfer> = book.transfers.values().filter(left).cloned().collect();
        let core = self.clone();
        std::thread::spawn(move || left.iter().for_each(|transfer| verify::forget(&core, transfer)));
    }

    /// A job needs its transfers of that kind no longer. Those that nobody else needs end.
    pub fn release(&self, book: &mut Book, id: u64, kind: PartKind) {
        let Some(job) = book.jobs.get_mut(&id) else { return };
        for number in std::mem::take(job.transfers_mut(kind)) {
            let Some(transfer) = book.transfers.get_mut(&number) else { continue };
            transfer.jobs.remove(&id);
            if transfer.jobs.is_empty() {
                if let Some(process) = book.running.get(&number) {
                    let dir = spool::dir(&self.config, number);
                    outside::stop(&dir, transfer.kind, process.clone(), self.config.grace_ms);
                } else if transfer.state == TransferState::Waiting {
                    transfer.state = TransferState::Dropped;
                }
            }
            self.keep_transfer(transfer);
        }
        if let Some(job) = book.jobs.get(&id) {
            self.keep(job);
        }
    }

    /// Forgets the oldest jobs that are over beyond the number that is remembered, with their transfers' logs.
    fn prune(&self, book: &mut Book) {
        let mut over: Vec<_> =
            book.jobs.values().filter(|job| job.phase.is_final()).map(|job| (job.since_ms, job.id)).collect();
        over.sort_unstable();
        let n_too_many = over.len().saturating_sub(self.config.n_finished_max);
        for (_, id) in &over[..n_too_many] {
            self.release(book, *id, PartKind::StageIn);
            self.release(book, *id, PartKind::StageOut);
            book.jobs.remove(id);
            self.remove(JOBS, *id);
            spool::forget_base(&self.config, *id);
            for transfer in book.transfers.values_mut() {
                transfer.seen_by.remove(id);
            }
        }
        let running = &book.running;
        let forgotten = book.transfers.values().filter(|t| t.seen_by.is_empty() && !running.contains_key(&t.number));
        for number in forgotten.map(|t| t.number).collect::<Vec<_>>() {
            book.transfers.remove(&number);
            self.remove(TRANSFERS, number);
            let _ = std::fs::remove_dir_all(spool::dir(&self.config, number));
        }
    }
}
