//! Quotas: recorded limits, counts of usage, and the ends of grace periods.
//!
//! ```text
//!   files, names ── count ──> accounts (meta::quota) <── ceilings ── policy::quota <── usage, every second
//!                                ^                                        |
//!   a scan of all names, at intervals ── corrects the counts              └── events, state store
//! ```
//! Where nothing has a limit, nothing is scanned or counted. No request waits for the state store or for a scan: a
//! background task writes the records.

mod answer;
mod counts;
mod look;
mod record;
mod together;
mod words;

pub(super) use answer::run;
pub(super) use counts::Counts;

use super::Core;
use crate::control::QuotaOf;
use crate::control::answers::QuotaCounts;
use crate::{Error, Result};
use engine::events::Event as VolumeEvent;
use meta::quota::{Account, Quotas};
use meta::state::State;
use parking_lot::Mutex;
use policy::Time;
use policy::machine::Machine;
use policy::maintenance::{Outcome, Task};
use policy::quota::{Action, Both, Event, Quota, Subject};
use record::Record;
use std::collections::btree_map::Entry as MapEntry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval at which usage is saved, so that a restart begins with it.
const SAVE_EVERY: Duration = Duration::from_secs(60);
/// Interval of scans of all names although every change was counted: some files change past the mount. A guess.
const LOOK_EVERY: Duration = Duration::from_secs(6 * 3600);
/// Delay of a scan after a new limit, until all nodes count for it. A scan also ends this long after the last name,
/// until all nodes have reported: three reports.
const LOOK_SOON: Duration = Duration::from_secs(3);
/// Interval at which a node requests the limits, in case it missed their announcement.
const ASK_EVERY: Duration = Duration::from_secs(60);
/// Maximum of limits. A guess: more than a center has users, and a few megabytes.
const LIMITS_MAX: usize = 20_000;

/// A subject with limits.
struct Entry {
    of: QuotaOf,
    account: Arc<Account>,
    /// Usage that was saved last.
    saved: Option<Both<u64>>,
    shared: together::Shared,
}

/// Subjects with limits, and their state.
#[derive(Default)]
struct Book {
    machine: Quota,
    entries: BTreeMap<Subject, Entry>,
    /// Numbers of the directories, and the count of numbers given in the life of this daemon.
    directories: BTreeMap<String, u64>,
    numbered: u64,
    /// Subjects whose state differs from their record.
    unsaved: BTreeSet<Subject>,
    /// Events to record.
    told: Vec<VolumeEvent>,
    /// A failed save has been logged.
    said: bool,
    /// Whether this node sums the usage of all nodes and decides on ceilings.
    decides: bool,
    /// Version of its limits, and number of changes of the sums.
    edition: (String, u64),
    version: u64,
    /// Number of directories that each other node renamed, as last reported.
    trees_moved: BTreeMap<String, Option<u64>>,
}

/// State of the scans of all names.
#[derive(Default)]
struct ScanState {
    is_running: bool,
    /// A limit waits for the result of the running scan.
    is_awaited: bool,
    /// A limit was added since the running scan began.
    again: bool,
    /// Earliest start of the next scan.
    not_before: Option<Instant>,
    ended: Option<Instant>,
}

/// Keeps the quotas of a volume.
pub struct Keeper {
    quotas: Arc<Quotas>,
    book: Mutex<Book>,
    /// Held while limits are set or removed, one after the other.
    changes: Mutex<()>,
    looks: Mutex<ScanState>,
    saved: Mutex<Instant>,
    /// Time of the last request for sums, and whether this node may lack limits.
    asked: Mutex<Option<Instant>>,
    is_behind: AtomicBool,
}

impl Keeper {
    /// Loads the recorded limits. `alone`: no other node decides.
    pub(super) fn open(
        quotas: &Arc<Quotas>,
        state: &dyn State,
        tree: &Path,
        (now, alone): (Time, bool),
    ) -> Result<Arc<Keeper>> {
        let keeper = Arc::new(Keeper {
            quotas: quotas.clone(),
            book: Mutex::default(),
            changes: Mutex::new(()),
            looks: Mutex::default(),
            saved: Mutex::new(Instant::now()),
            asked: Mutex::new(None),
            is_behind: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&keeper);
        quotas.begin(tree.to_owned(), move |account| {
            if let Some(keeper) = weak.upgrade() {
                keeper.judge(account);
            }
        });
        keeper.book.lock().decides = alone;
        keeper.load(now, record::all(state)?);
        Ok(keeper)
    }

    /// Replaces all limits by the recorded ones.
    fn load(&self, now: Time, records: Vec<(QuotaOf, Record)>) {
        let mut book = self.book.lock();
        book.machine = Quota::default();
        let named: BTreeSet<_> = records.iter().map(|(of, _)| of).collect();
        let gone: Vec<_> =
            book.entries.values().map(|entry| entry.of.clone()).filter(|of| !named.contains(of)).collect();
        let gone: Vec<_> = gone.iter().filter_map(|of| book.unlimit(of)).collect();
        let new: Vec<_> = records.into_iter().filter_map(|(of, record)| book.limit(now, of, &record)).collect();
        drop(book);
        gone.into_iter().for_each(|subject| self.quotas.remove(subject));
        if !new.is_empty() {
            self.quotas.add(new);
        }
    }

    /// Requests the first check, and serves other nodes.
    pub(super) fn start(core: &Arc<Core>) {
        Keeper::serve_others(core);
        core.maintenance.want(Task::Quotas);
    }

    /// Requests a check at once.
    fn wake(core: &Core) {
        core.maintenance.due(Task::Quotas, Duration::ZERO);
    }

    /// Saves usage once more.
    pub(super) fn finish(&self, core: &Core) {
        if self.book.lock().decides {
            self.save(&**core.volume.state(), true);
        }
    }

    /// Sums over all quotas.
    pub(super) fn counts(&self) -> Counts {
        let book = self.book.lock();
        let (over, expired) = book.machine.over();
        let limited = book.entries.iter().filter_map(|(subject, entry)| {
            let of = book.machine.limits(*subject)?.of;
            Some((of, entry.account.used()?))
        });
        let subjects = QuotaCounts { limits: book.entries.len(), over, expired, full: 0 };
        let mut counts = Counts { subjects, ..Counts::default() };
        limited.for_each(|(limits, used)| counts.add(limits, used));
        counts
    }

    /// Number of refusals.
    pub(super) fn refused(&self) -> u64 {
        self.quotas.refused()
    }

    /// Checks at once whether a refused account may have room by now.
    fn judge(&self, account: &Account) {
        let Some(used) = account.used() else { return };
        // The machine ignores times before its latest one.
        let mut book = self.book.lock();
        if book.decides {
            book.happens(Time::ZERO, Event::Used { subject: account.subject(), used });
        }
    }

    /// Checks usage, and exchanges it with other nodes. Complete if nothing has a limit and no other node may set one;
    /// the next limit then requests the next check.
    pub(super) fn tick(&self, core: &Core) -> Outcome {
        if let Some(calls) = &core.calls
            && (self.is_quiet(core) || !self.adds_up(core, calls))
        {
            return Outcome::Again;
        }
        if self.quotas.is_on() {
            match core.clock.now() {
                Ok(now) => self.book.lock().look_at_all(now),
                Err(why) => tracing::debug!("no grace ends for now: {why}"),
            }
        }
        let told = std::mem::take(&mut self.book.lock().told);
        told.into_iter().for_each(|event| core.pool.events.record(event));
        let all = self.saved.lock().elapsed() >= SAVE_EVERY;
        self.save(&**core.volume.state(), all);
        self.look_if_due(core);
        if self.quotas.is_on() || core.calls.is_some() { Outcome::Again } else { Outcome::Done }
    }

    /// Whether this node has nothing to exchange with other nodes for now.
    fn is_quiet(&self, core: &Core) -> bool {
        let decides = self.book.lock().decides;
        if self.quotas.is_on() || self.is_behind.load(Ordering::Acquire) || core.acts() || decides {
            return false;
        }
        let mut asked = self.asked.lock();
        if asked.is_some_and(|asked| asked.elapsed() < ASK_EVERY) {
            return true;
        }
        *asked = Some(Instant::now());
        false
    }

    /// Saves changed states; with `all` also usage.
    fn save(&self, state: &dyn State, all: bool) {
        let mut records = Vec::new();
        {
            let mut book = self.book.lock();
            let unsaved = std::mem::take(&mut book.unsaved);
            let (machine, entries) = (&book.machine, &book.entries);
            for (subject, entry) in entries {
                let used = entry.account.used();
                if unsaved.contains(subject) || (all && used != entry.saved) {
                    let limits = machine.limits(*subject).unwrap_or_default();
                    let record = Record::new(limits, machine.standing(*subject), used);
                    records.push((*subject, entry.of.clone(), record, used));
                }
            }
        }
        for (subject, of, record, used) in records {
            let done = record::put(state, &of, &record);
            let mut book = self.book.lock();
            match done {
                Ok(()) => {
                    book.said = false;
                    book.entries.get_mut(&subject).into_iter().for_each(|entry| entry.saved = used);
                }
                Err(error) => {
                    if !std::mem::replace(&mut book.said, true) {
                        tracing::warn!("the usage of quotas cannot be saved; the save is retried: {error}");
                    }
                    book.unsaved.insert(subject);
                }
            }
        }
        if all {
            *self.saved.lock() = Instant::now();
        }
    }

    fn look_if_due(&self, core: &Core) {
        let mut looks = self.looks.lock();
        let unknown = || self.book.lock().entries.values().any(|entry| entry.account.used().is_none());
        let due = looks.ended.is_none_or(|ended| ended.elapsed() >= LOOK_EVERY) || looks.again || unknown();
        let is_early = looks.not_before.is_some_and(|at| Instant::now() < at);
        if !due || is_early || looks.is_running || !self.quotas.is_on() {
            return;
        }
        (looks.is_running, looks.again, looks.not_before) = (true, false, None);
        drop(looks);
        core.maintenance.due(Task::Usage, Duration::ZERO);
    }

    /// Scans all names.
    pub(super) fn scan(&self, core: &Core) {
        let done = look::look(core, self);
        let mut looks = self.looks.lock();
        (looks.is_running, looks.is_awaited, looks.ended) = (false, false, Some(Instant::now()));
        drop(looks);
        match done {
            Ok(()) => Keeper::wake(core),
            Err(error) => {
                tracing::warn!("the usage of quotas cannot be counted again; the count is retried: {error}")
            }
        }
    }

    /// Whether a limit waits for the result of a scan that is running.
    pub(super) fn is_awaited(&self) -> bool {
        self.looks.lock().is_awaited
    }

    /// Whether a scan of all names is running.
    fn is_looking(&self) -> bool {
        self.looks.lock().is_running
    }
}

impl Book {
    /// Adds a subject with limits. Returns its account, if it is new.
    fn limit(&mut self, now: Time, of: QuotaOf, record: &Record) -> Option<(Arc<Account>, Option<PathBuf>)> {
        let path = if let QuotaOf::Directory(path) = &of { Some(PathBuf::from(path)) } else { None };
        let subject = match &of {
            QuotaOf::Directory(path) if !self.directories.contains_key(path) => {
                self.numbered += 1;
                self.directories.insert(path.clone(), self.numbered);
                Subject::Directory(self.numbered)
            }
            of => self.subject(of)?,
        };
        let mut new = None;
        if let MapEntry::Vacant(entry) = self.entries.entry(subject) {
            let account = Arc::new(Account::new(subject, record.used()));
            new = Some((account.clone(), path));
            let shared = together::Shared::default();
            entry.insert(Entry { of, account, saved: record.used(), shared });
        }
        self.happens(now, Event::Limited { subject, limits: record.limits(), since: record.since() });
        let used = self.entries.get(&subject).and_then(|entry| entry.account.used());
        if let Some(used) = used.filter(|_| self.decides) {
            self.happens(now, Event::Used { subject, used });
        }
        new
    }

    /// Removes all limits of a subject. Returns its key.
    fn unlimit(&mut self, of: &QuotaOf) -> Option<Subject> {
        let subject = self.subject(of)?;
        self.entries.remove(&subject)?;
        self.unsaved.remove(&subject);
        if let QuotaOf::Directory(path) = of {
            self.directories.remove(path);
        }
        self.happens(Time::ZERO, Event::Unlimited(subject));
        Some(subject)
    }

    fn subject(&self, of: &QuotaOf) -> Option<Subject> {
        match of {
            QuotaOf::User(uid) => Some(Subject::User(*uid)),
            QuotaOf::Group(gid) => Some(Subject::Group(*gid)),
            QuotaOf::Directory(path) => self.directories.get(path).copied().map(Subject::Directory),
        }
    }

    fn find(&self, of: &QuotaOf) -> Option<(Subject, &Entry)> {
        let subject = self.subject(of)?;
        self.entries.get(&subject).map(|entry| (subject, entry))
    }

    fn look_at_all(&mut self, now: Time) {
        let used: Vec<_> = self.entries.iter().filter_map(|(s, entry)| Some((*s, entry.account.used()?))).collect();
        for (subject, used) in used {
            self.happens(now, Event::Used { subject, used });
        }
    }

    fn happens(&mut self, now: Time, event: Event) {
        self.machine.handle(now, event);
        while let Some(action) = self.machine.poll() {
            match action {
                Action::Ceiling { subject, most } => {
                    self.entries.get(&subject).into_iter().for_each(|entry| entry.account.set_most(most));
                }
                Action::Stands { subject, resource, standing, soft, used } => {
                    self.unsaved.insert(subject);
                    if let Some(entry) = self.entries.get(&subject) {
                        self.told.push(words::told(&entry.of, resource, standing, (soft, used)));
                    }
                }
            }
        }
    }
}

/// The error of a change that cannot be saved and was therefore not made.
fn not_remembered(error: &Error) -> crate::control::Problem {
    crate::control::Problem::failed(format!("the limit cannot be saved: {error}"))
        .so("nothing was changed")
        .try_this("`entrepot status` shows whether the state store is away; try again")
}
