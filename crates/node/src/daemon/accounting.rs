//! Accounting: bytes read, written and staged by each user and each job, per day, kept over restarts and crashes.
//!
//! ```text
//!  engine::stats  users, staged ──┐  every 10 s, and at the end
//!  jobs          states ─────────┴──> Ledger (this node's rows of this day) ──> state store <── queries sum all rows
//! ```
//! No counter waits for the state store: while that is away, numbers stay in the counters. A killed daemon loses only
//! the counts since the last write.

mod answer;
mod ledger;
mod rows;

pub use rows::JobFacts;
use rows::Used;

use super::Core;
use crate::control::Caller;
use crate::{Error, Result};
use engine::file::Cluster;
use engine::stats::{StagedBytes, UserCounts};
use ledger::{Ledger, drop_before, since};
use parking_lot::Mutex;
use policy::maintenance::Task;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const DAY_S: u64 = 86_400;
/// Maximum of jobs with unwritten states, while the state store is away. A guess: more than change within an outage.
const JOBS_MAX: usize = 10_000;

/// Owners of the given jobs, without unknown jobs.
pub type OwnersOf = Arc<dyn Fn(&BTreeSet<String>) -> BTreeMap<String, u32> + Send + Sync>;

/// A job whose state changed.
#[derive(Clone, Debug)]
pub struct JobNow {
    /// The job's owner.
    pub caller: Caller,
    /// Files and directories that the job names, below the mount point.
    pub paths: Vec<String>,
    /// State and times of the job.
    pub facts: JobFacts,
}

/// The accounts of this node.
#[derive(Default)]
pub struct Accounts {
    keep_days: u64,
    node: String,
    book: Mutex<Book>,
    /// Jobs that changed since the last write, by name.
    jobs: Mutex<BTreeMap<String, JobNow>>,
    owners_of: Mutex<Option<OwnersOf>>,
}

#[derive(Default)]
struct Book {
    ledger: Option<Ledger>,
    /// Counts that are in the ledger of this or of an earlier day.
    seen: BTreeMap<Option<u32>, UserCounts>,
    /// Bytes of known jobs that are not in the ledger yet.
    staged: BTreeMap<(String, u32), StagedBytes>,
    /// Day of the last removal of old rows.
    dropped_on: Option<u64>,
    /// A failed write has been logged.
    said: bool,
}

impl Accounts {
    /// Creates the accounts. `node` is unique among the nodes; with a `keep` of zero, nothing is recorded.
    pub(super) fn new(node: &str, keep: Duration) -> Accounts {
        // The name is a word of keys.
        let node = node.replace(char::is_whitespace, "_");
        Accounts { keep_days: keep.as_secs().div_ceil(DAY_S), node, ..Accounts::default() }
    }

    /// Requests the writes.
    pub(super) fn start(core: &Core) {
        if core.accounts.keep_days > 0 {
            core.maintenance.want(Task::Accounts);
        }
    }

    /// Writes the last numbers.
    pub(super) fn finish(&self, core: &Core) {
        if self.keep_days > 0 {
            self.write_or_report(core);
        }
    }

    /// Sets the function that maps jobs to their owners.
    pub fn set_owners_of(&self, owners_of: OwnersOf) {
        *self.owners_of.lock() = Some(owners_of);
    }

    /// Records a job's new state. The call is quick, so the caller may hold locks.
    pub fn job_is(&self, job: String, now: JobNow) {
        if self.keep_days == 0 {
            return;
        }
        let mut jobs = self.jobs.lock();
        if jobs.len() < JOBS_MAX || jobs.contains_key(&job) {
            jobs.insert(job, now);
        } else {
            tracing::warn!("job {job} is not accounted for: {JOBS_MAX} other jobs wait for the state store");
        }
    }

    /// Writes the new counts. The first failure is logged.
    pub(super) fn write_or_report(&self, core: &Core) {
        let written = self.write(core);
        let mut book = self.book.lock();
        if let Err(error) = &written
            && !book.said
        {
            tracing::warn!("accounting cannot be written, and is tried again: {error}");
        }
        book.said = written.is_err();
    }

    /// Adds new counts to the rows of today, and writes them.
    fn write(&self, core: &Core) -> Result<()> {
        let today = today(core)?;
        if core.nodes.as_ref().is_some_and(|nodes| !nodes.has_lease()) {
            return Err(Error::State("this node has no lease just now".into()));
        }
        let state = &**core.volume.state();
        let mut book = self.book.lock();
        if book.ledger.as_ref().is_none_or(|ledger| ledger.day != today) {
            let next = Ledger::of(today, &self.node, state)?;
            // Counts from before midnight, up to the last write, belong to the last day.
            if let Some(mut last) = book.ledger.take() {
                last.write(state).inspect_err(|_| book.ledger = Some(last))?;
            }
            book.ledger = Some(next);
        }
        self.count(core, &mut book)?;
        let Some(ledger) = &mut book.ledger else { return Ok(()) };
        ledger.write(state)?;
        if core.acts() && book.dropped_on != Some(today) {
            book.dropped_on = drop_before(state, today.saturating_sub(self.keep_days))?.then_some(today);
        }
        Ok(())
    }

    /// Moves new counts into the ledger.
    fn count(&self, core: &Core, book: &mut Book) -> Result<()> {
        let Book { ledger: Some(ledger), seen, staged: of_jobs, .. } = book else { return Ok(()) };
        let state = &**core.volume.state();
        for now in core.volume.stats().users().counts() {
            let before = seen.entry(now.uid).or_default();
            ledger.used(now.uid, &since(before, &now));
            *before = now;
        }
        let staged = core.volume.stats().staged().take();
        let named: BTreeSet<String> = staged.keys().filter_map(|(_, job)| job.clone()).collect();
        let owners_of = self.owners_of.lock().clone().filter(|_| !named.is_empty());
        let owners = owners_of.map(|owners_of| owners_of(&named)).unwrap_or_default();
        for ((uid, job), bytes) in staged {
            let StagedBytes { r#in: staged_in_bytes, out: staged_out_bytes } = bytes;
            ledger.used(Some(uid), &Used { staged_in_bytes, staged_out_bytes, ..Used::default() });
            // Any user may claim any job, so the owner is compared.
            if let Some(job) = job.filter(|job| owners.get(job) == Some(&uid)) {
                let sum = of_jobs.entry((job, uid)).or_default();
                (sum.r#in, sum.out) = (sum.r#in + bytes.r#in, sum.out + bytes.out);
            }
        }
        while let Some(((job, uid), bytes)) = of_jobs.first_key_value() {
            ledger.staged(state, job, *uid, *bytes)?;
            of_jobs.pop_first();
        }
        loop {
            let next = self.jobs.lock().pop_first();
            let Some((job, mut now)) = next else { return Ok(()) };
            if let Some(ended_ms) = now.facts.ended_ms {
                let recovered = core.recoveries(&now.caller, &now.paths, now.facts.submitted_ms.unwrap_or(0), ended_ms);
                now.facts.recovered_bytes = recovered.iter().map(|(_, tally)| tally.cost().fetched_bytes).sum();
            }
            let done = ledger.job_is(state, &job, now.caller.uid, now.facts.clone());
            // A newer state of the job, if there is one, is kept.
            done.inspect_err(|_| {
                self.jobs.lock().entry(job).or_insert(now);
            })?;
        }
    }
}

/// Days since 1970, in UTC.
fn today(core: &Core) -> Result<u64> {
    Ok(core.clock.now().map_err(Error::Busy)?.0 / 1_000_000_000 / DAY_S)
}
