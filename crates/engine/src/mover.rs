//! The mover: the one part that changes where existing bytes lie.
//!
//! One verb transforms a layout; the others are functions from the old layout to the new. Every step is crash-safe:
//!
//! ```text
//! mark the stub | journal objects | make, copy | (exclusive) copy the rest, sync, replace record, sync stub | journal -> garbage | remove
//!               '---------- a restart removes the new objects ------------' '------- a restart removes the old ones --------'
//! ```
//!
//! The journal names old and new objects together; objects of it that the layout does not name are garbage.

mod copy;
mod crash;
#[cfg(any(test, feature = "doubles"))]
mod doubles;
mod drain;
mod journal;
mod mend;
mod merge;
mod mirror;
mod named;
mod progress;
mod slow_copy;
mod told;
mod transform;
mod verbs;

pub use crash::{CrashHook, Step};
pub use drain::{DrainProgress, Walk};
pub use journal::{Found, Recovered};
pub use mend::Proof;
pub use progress::{Phase, Progress, ProgressEntry};
pub use told::said;
pub use told::words;

use crate::file::Pool;
use crate::stats::Stats;
use meta::state::State;
use parking_lot::{Condvar, Mutex};
use policy::Time;
use policy::throttle::Throttle;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Bytes that may be copied at once before the throttle takes effect. A guess: one step of copying.
const BURST_BYTES: u64 = 4 << 20;

/// Rate limiter of one move.
pub trait Pace: Send + Sync {
    /// Waits until `bytes` may be moved.
    ///
    /// # Errors
    /// `Busy` if the move is to be given up.
    fn take(&self, bytes: u64) -> crate::Result<()>;
    /// Step size of a move that waits for its device after each step; `None`: the fastest way.
    fn step_bytes(&self) -> Option<u64> {
        None
    }
}

/// Carries out changes of layouts; see the module.
pub struct Mover {
    pool: Arc<Pool>,
    state: Arc<dyn State>,
    throttle: Mutex<Throttle>,
    started: Instant,
    progress: Arc<Progress>,
    stats: Arc<Stats>,
    crash: Option<CrashHook>,
    /// Whether garbage is removed.
    collects: AtomicBool,
    stopped: Mutex<bool>,
    woken: Condvar,
}

impl Mover {
    /// A mover with a maximum rate (`None`: no limit).
    pub fn new(pool: Arc<Pool>, state: Arc<dyn State>, rate_bytes_per_sec: Option<u64>) -> Mover {
        Mover {
            pool,
            state,
            throttle: Mutex::new(Throttle::new(rate_bytes_per_sec, BURST_BYTES, Time::ZERO)),
            started: Instant::now(),
            progress: Arc::default(),
            stats: Arc::default(),
            crash: None,
            collects: AtomicBool::new(true),
            stopped: Mutex::new(false),
            woken: Condvar::new(),
        }
    }

    /// Sets the metrics that the mover updates.
    pub fn with_stats(mut self, stats: Arc<Stats>) -> Mover {
        self.stats = stats;
        self
    }

    /// Progress of the moves, for `entrepot status`.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Ends waits and running moves with `Busy`; unfinished moves are undone.
    pub fn stop(&self) {
        *self.stopped.lock() = true;
        self.woken.notify_all();
    }

    fn now(&self) -> Time {
        Time(self.started.elapsed().as_nanos() as u64)
    }

    /// Waits, unless the mover is stopped. Returns whether to continue.
    pub fn wait(&self, span: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        self.woken.wait_while_for(&mut stopped, |stopped| !*stopped, span);
        !*stopped
    }

    /// Waits until `bytes` may be moved, by the mover's own rate and by that of the move.
    fn paced(&self, pace: Option<&dyn Pace>, bytes: u64) -> crate::Result<()> {
        pace.map_or(Ok(()), |pace| pace.take(bytes))?;
        self.throttle(bytes)
    }

    /// Waits until `bytes` may be moved.
    pub fn throttle(&self, bytes: u64) -> crate::Result<()> {
        let now = self.now();
        let at = self.throttle.lock().take(now, bytes);
        let goes_on = if at > now { self.wait(Duration::from_nanos(at.since(now).0)) } else { !*self.stopped.lock() };
        if goes_on { Ok(()) } else { Err(crate::Error::Busy("the mover is stopped".into())) }
    }
}
