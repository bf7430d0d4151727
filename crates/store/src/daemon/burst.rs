//! The burst buffer: checkpoints land on the fast tier, are demoted in time, and are read from the faster tier's copy.
//!
//! ```text
//! mount -> Adviser (opened, may write?, hold, closed) -> book (whose file, which version) -> admission (turn, room, speed)
//! admission -> actions -> hands      release writes, make ready, delete copies, set speeds
//!                      -> committer  make durable, remember
//!                      -> demoter    copy to the capacity tier, at the valve's speed
//!                      -> replicator copy to the replica group, at a speed of its own
//! ```
//! A version is complete when all its files that were open for writing are closed, or when `entrepot checkpoint commit`
//! says so. Locks: `book` before `admission`; actions are carried out holding neither.

mod adviser;
mod book;
mod commands;
mod demote;
mod hands;
mod limits;
mod marks;
mod record;
mod valve;

pub use commands::{Begin, Row};
pub use record::{Mark, Marked, MtbfFrom};

use super::{Core, now_ns};
use crate::Result;
use crate::file::Resume;
use crate::state::State;
use crate::stub::Inode;
use crate::volume::{Burst as Settings, Volume};
use crate::workers::Workers;
use book::Book;
use hands::Job;
use limits::Limits;
use marks::Marks;
use parking_lot::{Condvar, Mutex, RwLock};
use policy::Time;
use policy::burst::admission::{Action, Admission, Event};
use policy::burst::buffer;
use policy::burst::tables::Version;
use policy::machine::Machine;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;
use valve::Valve;

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
    book: Mutex<Book>,
    admission: Mutex<Admission>,
    /// What goes on with the writes that admission holds, by their number.
    held: Mutex<HashMap<u64, Resume>>,
    /// The latest number of a request or a held write.
    number: AtomicU64,
    /// Admission has work for the clock, before the moment for which it was set.
    woken: Condvar,
    alarm: AtomicU64,
    /// Files that are checkpoints' and open, by their inodes.
    roles: RwLock<HashMap<Inode, Arc<adviser::Role>>>,
    /// What jobs' scripts mark.
    marks: RwLock<Marks>,
    /// Copies that are being deleted.
    dropping: AtomicUsize,
    /// How many versions are announced.
    sessions: AtomicUsize,
    began: Instant,
    stopped: AtomicBool,
    valve: Valve,
    replica_valve: Valve,
    limits: Limits,
    hands: Worker,
    committer: Worker,
    demoter: Worker,
    replicator: Worker,
    workers: Workers,
    counts: Counts,
}

/// What was done since the start.
#[derive(Default)]
struct Counts {
    committed: AtomicU64,
    demoted: AtomicU64,
    demoted_bytes: AtomicU64,
    failed: AtomicU64,
    replicated: AtomicU64,
    trims: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
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
        let paths = volume.config().targets.iter().filter(|t| t.tier == fast).map(|t| t.path.clone()).collect();
        let mut config = settings.admission();
        config.buffer.device.capacity = capacity_bytes as f64;
        let mut admission = Admission::new(config);
        if let Some(period) = record::period(&*state)? {
            admission.buffer_mut().resume_period(period.dwsf, period.dwpp);
        }
        let (book, marks) = (Book::open(&*state)?, Marks::open(&*state)?);
        Ok(Some(Arc::new(Burst {
            limits: Limits::new(paths, settings.cgroups && settings.is_limited()),
            settings,
            fast,
            capacity_bytes,
            state,
            core: OnceLock::new(),
            book: Mutex::new(book),
            admission: Mutex::new(admission),
            held: Mutex::default(),
            number: AtomicU64::new(0),
            woken: Condvar::new(),
            alarm: AtomicU64::new(0),
            roles: RwLock::default(),
            marks: RwLock::new(marks),
            dropping: AtomicUsize::new(0),
            sessions: AtomicUsize::new(0),
            began: Instant::now(),
            stopped: AtomicBool::new(false),
            valve: Valve::default(),
            replica_valve: Valve::default(),
            hands: Worker::default(),
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

    /// Tells admission what happened, and hands on what it says.
    fn tell(&self, event: Event) {
        self.admit(|admission, now| admission.handle(now, event));
    }

    /// Tells the buffer what happened, and hands on what it says.
    fn tell_buffer(&self, event: buffer::Event) {
        self.tell(Event::Buffer(event));
    }

    /// Asks admission, and hands on what it says.
    fn admit<T>(&self, ask: impl FnOnce(&mut Admission, Time) -> T) -> T {
        let mut admission = self.admission.lock();
        let result = ask(&mut admission, self.now());
        while let Some(action) = admission.poll() {
            let worker = match action {
                Action::Buffer(buffer::Action::Demote(_)) => &self.demoter,
                Action::Buffer(buffer::Action::Replicate { .. }) => &self.replicator,
                _ => &self.hands,
            };
            if matches!(action, Action::Buffer(buffer::Action::Drop { .. })) {
                self.dropping.fetch_add(1, Ordering::AcqRel);
            }
            worker.say(Job::Action(action));
        }
        if admission.next_deadline().is_some_and(|at| at.0 < self.alarm.load(Ordering::Acquire)) {
            self.woken.notify_all();
        }
        result
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
        self.admission.lock().request(request).and_then(|of| of.version)
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
