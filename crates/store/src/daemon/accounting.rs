//! Accounting: what each user and each job read, wrote and staged, day by day, remembered over restarts and crashes.
//!
//! ```text
//!  store::stats  users, staged ──┐  every 10 s, and at the end
//!  jobs          states ─────────┴──> Ledger (this node's rows of this day) ──> state store <── whoever asks adds up all nodes' rows
//! ```
//! Nothing that is counted waits for the state store: while that is away numbers stay where they are counted. A daemon that is killed
//! loses what was counted since the last time, no more.

mod answer;
mod ledger;
mod rows;

pub use rows::{JobFacts, Used};

use super::Core;
use crate::control::Caller;
use crate::stats::{StagedBytes, UserCounts};
use crate::workers::Workers;
use crate::{Error, Result};
use ledger::{Ledger, drop_before, since};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How often numbers are written: what a crash may lose.
const WRITE_EVERY: Duration = Duration::from_secs(10);
const DAY_S: u64 = 86_400;
/// Jobs whose new states are not written yet, at most: while the state store is away. A guess: more than change within an outage.
const JOBS_MAX: usize = 10_000;

/// Who owns each of these jobs, of those that there are.
pub type OwnersOf = Arc<dyn Fn(&BTreeSet<String>) -> BTreeMap<String, u32> + Send + Sync>;

/// A job that stands somewhere else than before.
#[derive(Clone, Debug)]
pub struct JobNow {
    /// Its owner.
    pub caller: Caller,
    /// The files and directories that it names, below the mount point.
    pub paths: Vec<String>,
    /// What is known of it.
    pub facts: JobFacts,
}

/// The accounts of this node.
pub struct Accounts {
    keep_days: u64,
    node: String,
    book: Mutex<Book>,
    /// Jobs that changed since they were last looked at, by name.
    jobs: Mutex<BTreeMap<String, JobNow>>,
    owners_of: Mutex<Option<OwnersOf>>,
    ends: Mutex<bool>,
    woken: Condvar,
    workers: Workers,
}

#[derive(Default)]
struct Book {
    ledger: Option<Ledger>,
    /// The numbers that are in it, or were in that of an earlier day.
    seen: BTreeMap<Option<u32>, UserCounts>,
    /// What is not in it yet, of jobs that are known.
    staged: BTreeMap<(String, u32), StagedBytes>,
    /// The day for which it was looked what is too old.
    dropped_on: Option<u64>,
    /// That it cannot be written was said.
    said: bool,
}

impl Accounts {
    /// `node` tells this node from the others; `keep` is zero where nothing is to be remembered.
    pub(super) fn new(node: &str, keep: Duration) -> Accounts {
        Accounts {
            keep_days: keep.as_secs().div_ceil(DAY_S),
            // It is a word of keys.
            node: node.replace(char::is_whitespace, "_"),
            book: Mutex::default(),
            jobs: Mutex::default(),
            owners_of: Mutex::default(),
            ends: Mutex::new(false),
            woken: Condvar::new(),
            workers: Workers::of("accounting"),
        }
    }

    /// Begins to write.
    pub(super) fn start(core: &Arc<Core>) {
        if core.accounts.keep_days == 0 {
            return;
        }
        let weak = Arc::downgrade(core);
        core.accounts.workers.start("accounting", move || {
            while let Some(core) = weak.upgrade() {
                let accounts = &core.accounts;
                {
                    let mut ends = accounts.ends.lock();
                    if !*ends {
                        accounts.woken.wait_for(&mut ends, WRITE_EVERY);
                    }
                    if *ends {
                        return;
                    }
                }
                accounts.write_or_say(&core);
            }
        });
    }

    /// Writes the last numbers. Nothing is counted any more.
    pub(super) fn stop(&self, core: &Core) {
        *self.ends.lock() = true;
        self.woken.notify_all();
        self.workers.stop();
        if self.keep_days > 0 {
            self.write_or_say(core);
        }
    }

    /// Whoever knows jobs says so from now on.
    pub fn set_owners_of(&self, owners_of: OwnersOf) {
        *self.owners_of.lock() = Some(owners_of);
    }

    /// A job has another state. Quick: locks may be held.
    pub fn job_is(&self, job: String, now: JobNow) {
        if self.keep_days == 0 {
            return;
        }
        let mut jobs = self.jobs.lock();
        if jobs.len() < JOBS_MAX || jobs.contains_key(&job) {
            jobs.insert(job, now);
        } else {
            tracing::warn!("what job {job} is now is not accounted for: {JOBS_MAX} others wait for the state store");
        }
    }

    fn write_or_say(&self, core: &Core) {
        let written = self.write(core);
        let mut book = self.book.lock();
        if let Err(error) = &written
            && !book.said
        {
            tracing::warn!("accounting cannot be written, and is tried again every {WRITE_EVERY:?}: {error}");
        }
        book.said = written.is_err();
    }

    /// Adds what was counted to the rows of today, and writes them.
    fn write(&self, core: &Core) -> Result<()> {
        let today = today(core)?;
        if core.nodes.as_ref().is_some_and(|nodes| !nodes.has_lease()) {
            return Err(Error::State("this node has no lease just now".into()));
        }
        let state = &**core.volume.state();
        let mut book = self.book.lock();
        if book.ledger.as_ref().is_none_or(|ledger| ledger.day != today) {
            let next = Ledger::of(today, &self.node, state)?;
            // What was counted before midnight, up to the last time that it was written, is that day's.
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

    /// Takes what was counted into the ledger.
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
            // Anybody may say that they are any job.
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
                let recovered = core.recoveries(&now.caller, &now.paths, now.facts.submitted_ms, ended_ms);
                now.facts.recovered_bytes = recovered.iter().map(|(_, tally)| tally.fetched_bytes()).sum();
            }
            let done = ledger.job_is(state, &job, now.caller.uid, now.facts.clone());
            // Unless it has yet another state by now.
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
