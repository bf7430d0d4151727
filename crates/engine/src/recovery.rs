//! Repair: lost objects are recovered from the source, under readers or offline.
//!
//! [`Repair`] drives the machine `policy::protect::recovery`; [`Checker`] scans a volume and repairs it. The machine
//! decides; here a few workers execute the actions, and readers wait.

mod case;
mod check;
mod driver;
mod fetch;
mod spare;
mod sweep;
mod tally;
#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "doubles"))]
pub use check::world;
pub use check::{Answered, Notice, Peers, Report, Scrubbed, ScrubbedFile, Starts, TaskRequest, Together};
pub use check::{Behalf, CheckOptions, Checker, Finding, FindingKind, Left, Lost, Outcome, Part};
pub use tally::{Cost, Tally};

use crate::file::{File, Pool, Recover};
use crate::source::Opener;
use crate::stats::{Metric, Stats};
use crate::{Error, Result};
use driver::{Driver, Wait};
use object::target::{Reach, State, TargetError};
use policy::layout::{Object, ObjectState, Position};
use policy::protect::recovery::{self, Event, Outcome as RecoveryOutcome, Why};
use policy::{FileId, ObjectId};
use rustix::fd::OwnedFd;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest total wait of a reader. Every fetch has its own deadline and the retries are few, so only a source that
/// delivers a little again and again reaches this.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// Recovers lost objects from their sources. Register it in `Pool::recovery`.
pub struct Repair {
    driver: Arc<Driver>,
    /// Longest wait of a reader so far, in nanoseconds.
    longest_wait_ns: AtomicU64,
}

impl Repair {
    /// Begins without a worker; they start with the work. `side` is the namespace's directory of checksums.
    pub fn start(
        config: recovery::Config,
        pool: Arc<Pool>,
        opener: Arc<dyn Opener>,
        side: OwnedFd,
        stats: Arc<Stats>,
    ) -> Arc<Repair> {
        let driver = Driver::new(config, pool, opener, side, stats);
        Arc::new(Repair { driver, longest_wait_ns: AtomicU64::new(0) })
    }

    /// Recovers one object without a waiting reader, and returns when it is complete.
    pub fn repair(&self, file: &Arc<File>, at: Position) -> Result<()> {
        match named(file, at) {
            Some((_, object)) if !is_sound(file, at, &object, 0..1) => self.replace(file, at),
            _ => Ok(()),
        }
    }

    /// Rebuilds an object from the source, if its bytes contradict the checksums or are incomplete.
    pub fn replace(&self, file: &Arc<File>, at: Position) -> Result<()> {
        if file.is_recovered_elsewhere(at)? {
            return Ok(());
        }
        let Some((file_id, object)) = named(file, at) else { return Ok(()) };
        let wait = Arc::new(Wait::new());
        if !self.driver.repair_wanted(file, file_id, object, &wait)? {
            return Ok(());
        }
        self.wait(&wait, WAIT_MAX * 100)
    }

    /// Counters of the machine.
    pub fn counts(&self) -> recovery::Stats {
        self.driver.counts()
    }

    /// Longest wait of a reader so far.
    pub fn longest_wait(&self) -> Duration {
        Duration::from_nanos(self.longest_wait_ns.load(Ordering::Relaxed))
    }

    /// Tallies of the last recoveries, oldest first.
    pub fn tallies(&self) -> Vec<Arc<Tally>> {
        self.driver.tallies.lock().iter().cloned().collect()
    }

    /// Ends the workers; waiting readers get an error.
    pub fn stop(&self) {
        self.driver.stop();
    }

    fn wait(&self, wait: &Wait, longest: Duration) -> Result<()> {
        match wait.wait(longest) {
            Some(RecoveryOutcome::Ok | RecoveryOutcome::LookAgain) => Ok(()),
            Some(RecoveryOutcome::Failed(why)) => Err(Error::Unrecoverable(reason(why).into())),
            None => Err(Error::Unrecoverable("the recovery took too long; read again".into())),
        }
    }
}

impl Drop for Repair {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Recover for Repair {
    fn recover(&self, file: &Arc<File>, at: Position, rows: Range<u64>) -> Result<()> {
        if file.is_recovered_elsewhere(at)? {
            return Ok(());
        }
        let Some((file_id, object)) = named(file, at) else { return Ok(()) };
        // An object that another node reaches is not lost, and must not be duplicated.
        let target = file.pool().targets.get(object.target);
        if target.is_some_and(|target| target.reach() == Reach::Elsewhere && !target.is_given_up()) {
            return Err(Error::Target { target: object.target, error: TargetError::Elsewhere });
        }
        let (wait, began) = (Arc::new(Wait::new()), Instant::now());
        if is_sound(file, at, &object, rows.clone()) {
            return Ok(());
        }
        let Some(waiter) = self.driver.read_blocked(file, file_id, object, rows, &wait)? else { return Ok(()) };
        let result = self.wait(&wait, WAIT_MAX);
        if wait.get().is_none() {
            self.driver.handle(Event::Cancel(waiter));
        }
        let stats = &self.driver.stats;
        stats.add(Metric::RecoveryWaits, 1);
        let waited_ns = began.elapsed().as_nanos() as u64;
        stats.add(Metric::RecoveryDelayNs, waited_ns);
        self.longest_wait_ns.fetch_max(waited_ns, Ordering::Relaxed);
        result
    }

    fn is_patched(&self, file: FileId, object: ObjectId, row: u64) -> bool {
        self.driver.is_patched(file, object, row)
    }
}

/// The file's number and the object at a position now; `None` if the layout no longer has the position.
fn named(file: &File, at: Position) -> Option<(FileId, Object)> {
    let layout = file.layout()?;
    Some((layout.file, *layout.object(at)?))
}

/// Whether rows can be read after all: the caller may have used an older layout, from before a recovery ended. A
/// complete object that cannot be read (a bad sector, a target in doubt) is lost.
fn is_sound(file: &File, at: Position, object: &Object, rows: Range<u64>) -> bool {
    let target = file.pool().targets.get(object.target);
    let trusted = target.is_some_and(|t| t.state() == State::Ok && !t.in_doubt());
    let stripe = file.layout().map(|l| l.mirrors[at.mirror].segments[at.segment].stripe_size);
    let (ObjectState::Complete, true, Some(stripe)) = (object.state, trusted, stripe) else { return false };
    let readable = file.with_object(at, object.id, move |handle| {
        let mut bytes = vec![0; stripe as usize];
        rows.into_iter().try_for_each(|row| handle.read_at(row * stripe, &mut bytes).map(drop))
    });
    readable.is_ok()
}

/// Text of the reason for a failure.
fn reason(why: Why) -> &'static str {
    match why {
        Why::NoSpare => "no target can take the place of the lost one, or no source has the bytes",
        Why::NotPublished => "the layout could not be written",
        Why::Sources(recovery::FetchError::Passing) => "no source answered, though tried several times",
        Why::Sources(recovery::FetchError::Permanent) => "every source refused",
        Why::Sources(recovery::FetchError::Changed) => "the source changed since the file was staged in",
        Why::Sources(recovery::FetchError::BadChecksum) => "the data of the source does not match the checksum",
    }
}
