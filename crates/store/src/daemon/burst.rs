//! The burst buffer: checkpoints land on the fast tier, are demoted in time, and are read from the faster tier's copy.
//!
//! ```text
//! mount -> Adviser (opened, may write?, hold, closed) -> table (whose file, which version) -> machine (turn, room, speed)
//! machine -> actions -> worker     release writes, make ready, drop mirrors, set speeds
//!                    -> committer  make durable, remember
//!                    -> demoter    copy to the capacity tier, at the limiter's speed
//!                    -> replicator copy to the replica group, at a speed of its own
//! ```
//! The machine is [`policy::volume`], of which this is the burst buffer's part: what is copied, dropped and tried again
//! when is decided there. A version is complete when all its files that were open for writing are closed, or when
//! `entrepot checkpoint commit` says so. Locks: `table` before `machine`; actions are carried out holding neither.

mod adviser;
mod carry;
mod commands;
mod limits;
mod marks;
mod rate_limiter;
mod record;
mod table;
mod workers;

pub use commands::Row;
pub use record::{Mark, Marked, MtbfFrom};

use super::{Core, now_ns};
use crate::Result;
use crate::file::Resume;
use crate::state::State;
use crate::stub::Inode;
use crate::volume::{Burst as Settings, Volume};
use crate::workers::Workers;
use limits::Limits;
use marks::Marks;
use parking_lot::{Condvar, Mutex, RwLock};
use policy::Time;
use policy::burst::admission::{Admission, Event as Told};
use policy::burst::buffer;
use policy::burst::tables::Version;
use policy::machine::Machine;
use policy::volume::{self as machine, Action, Event, Purpose, Verb};
use rate_limiter::RateLimiter;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;
use table::CheckpointTable;
use workers::Job;

/// The workers, by what they are told.
struct Worker {
    tell: Mutex<Sender<Job>>,
    told: Mutex<Option<Receiver<Job>>>,
}

impl Default for Worker {
    fn default() -> Worker {
        let (tell, told) = channel();
        Worker { tell: Mutex::new(tell), told: Mutex::new(Some(told)) }
    }
}

/// The burst buffer of a volume.
pub struct Burst {
    settings: Settings,
    fast: u8,
    capacity_bytes: u64,
    state: Arc<dyn State>,
    core: OnceLock<Weak<Core>>,
    table: Mutex<CheckpointTable>,
    machine: Mutex<machine::Volume>,
    /// What goes on with the writes that the machine holds, by their number.
    held: Mutex<HashMap<u64, Resume>>,
    /// The latest number of a request or a held write.
    number: AtomicU64,
    /// The machine has work for the clock, before the moment for which it was set.
    woken: Condvar,
    alarm: AtomicU64,
    /// The space of the devices is to be looked at.
    look: AtomicBool,
    /// Files that are checkpoints' and open, by their inodes.
    open: RwLock<HashMap<Inode, Arc<adviser::OpenCheckpoint>>>,
    /// What jobs' scripts mark.
    marks: RwLock<Marks>,
    /// How many versions are announced.
    sessions: AtomicUsize,
    began: Instant,
    stopped: AtomicBool,
    limiter: RateLimiter,
    replica_limiter: RateLimiter,
    limits: Limits,
    worker: Worker,
    committer: Worker,
    demoter: Worker,
    replicator: Worker,
    workers: Workers,
    counts: Counts,
}

/// What was done since the start, beside what the machine counts.
#[derive(Default)]
struct Counts {
    committed: AtomicU64,
    failed: AtomicU64,
    trims: AtomicU64,
}

impl Burst {
    /// The buffer of a volume that has one, with what an earlier daemon remembered.
    pub(super) fn open(volume: &Volume) -> Result<Option<Arc<Burst>>> {
        let settings = volume.config().burst.clone();
        let Some(fast) = settings.fast else { return Ok(None) };
        volume.targets().measure_now();
        let capacity_bytes =
            if settings.size > 0 { settings.size } else { volume.targets().space_on(fast).total_bytes };
        let state = volume.state().clone();
        let of_tier = volume.config().targets.iter().filter(|t| t.tier == fast);
        let paths = of_tier.filter_map(|t| t.directory().map(Into::into)).collect();
        let config = machine::Config {
            burst: Some(settings.machine(capacity_bytes)),
            tiers: None,
            stripes: None,
            replicas: None,
            changes_max: volume.config().mover.concurrent,
            repairs: false,
        };
        let mut machine = machine::Volume::new(config, Time::ZERO);
        if let Some(period) = record::period(&*state)? {
            let resumed = buffer::Event::Resumed { dwsf: period.dwsf, dwpp: period.dwpp };
            machine.handle(Time::ZERO, Event::Checkpoint(Told::Buffer(resumed)));
        }
        let (table, marks) = (CheckpointTable::open(&*state)?, Marks::open(&*state)?);
        Ok(Some(Arc::new(Burst {
            limits: Limits::new(paths, settings.cgroups && settings.is_limited()),
            settings,
            fast,
            capacity_bytes,
            state,
            core: OnceLock::new(),
            table: Mutex::new(table),
            machine: Mutex::new(machine),
            held: Mutex::default(),
            number: AtomicU64::new(0),
            woken: Condvar::new(),
            alarm: AtomicU64::new(0),
            look: AtomicBool::new(false),
            open: RwLock::default(),
            marks: RwLock::new(marks),
            sessions: AtomicUsize::new(0),
            began: Instant::now(),
            stopped: AtomicBool::new(false),
            limiter: RateLimiter::default(),
            replica_limiter: RateLimiter::default(),
            worker: Worker::default(),
            committer: Worker::default(),
            demoter: Worker::default(),
            replicator: Worker::default(),
            workers: Workers::of("the burst buffer"),
            counts: Counts::default(),
        })))
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }

    fn core(&self) -> Option<Arc<Core>> {
        self.core.get().and_then(Weak::upgrade)
    }

    /// Tells the machine what happened to a checkpoint, and hands on what it says.
    fn tell(&self, event: Told) {
        self.tell_all([Event::Checkpoint(event)]);
    }

    /// Tells the machine what happened to the buffer, and hands on what it says.
    fn tell_buffer(&self, event: buffer::Event) {
        self.tell(Told::Buffer(event));
    }

    /// The same of several events, with nothing in between.
    fn tell_all(&self, events: impl IntoIterator<Item = Event>) {
        self.with_machine(|machine, now| events.into_iter().for_each(|event| machine.handle(now, event)));
    }

    /// Asks the machine, and hands on what it says.
    fn with_machine<T>(&self, ask: impl FnOnce(&mut machine::Volume, Time) -> T) -> T {
        let mut machine = self.machine.lock();
        let result = ask(&mut machine, self.now());
        for action in machine.drain() {
            let worker = match action {
                Action::LookAtSpace => {
                    self.look.store(true, Ordering::Release);
                    self.woken.notify_all();
                    continue;
                }
                Action::Change(change) => match change.verb {
                    Verb::AddMirror { purpose: Purpose::Group, .. } => &self.replicator,
                    Verb::AddMirror { .. } => &self.demoter,
                    _ => &self.worker,
                },
                _ => &self.worker,
            };
            worker.say(Job::Action(action));
        }
        if machine.next_deadline().is_some_and(|at| at.0 < self.alarm.load(Ordering::Acquire)) {
            self.woken.notify_all();
        }
        result
    }

    /// What admission knows.
    fn admission<T>(&self, ask: impl FnOnce(&Admission) -> T) -> T {
        ask(self.machine.lock().admission().expect("the machine has a burst buffer"))
    }

    /// Keeps what goes on with a write that is held; its number.
    fn keep(&self, resume: Resume) -> u64 {
        let write = self.next_number();
        self.held.lock().insert(write, resume);
        write
    }

    fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::AcqRel) + 1
    }

    fn news(&self, text: String) {
        match self.core() {
            Some(core) => core.background.news(text),
            None => tracing::info!("{text}"),
        }
    }

    /// The version that a request writes.
    fn version_of(&self, request: u64) -> Option<Version> {
        self.admission(|admission| admission.request(request).and_then(|of| of.version))
    }
}

impl Worker {
    fn say(&self, job: Job) {
        // Nobody listens at the end.
        drop(self.tell.lock().send(job));
    }
}

fn now_ms() -> u64 {
    now_ns() / 1_000_000
}
