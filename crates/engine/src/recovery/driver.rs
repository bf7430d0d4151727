//! Drives the coordinator: events in, actions out, with a few threads that execute the actions.
//!
//! The machine is behind one lock that is never held during I/O. Every action that a thread takes is answered in any
//! case, so every waiter is woken.

use super::case::Case;
use super::tally::Tally;
use crate::file::{File, Pool};
use crate::source::Opener;
use crate::stats::Stats;
use crate::{Error, Result};
use object::host::descriptor_path;
use object::workers::{self, END_SPAN, Periodic};
use parking_lot::{Condvar, Mutex, MutexGuard};
use policy::layout::Object;
use policy::machine::Machine;
use policy::protect::recovery::{
    Action, Config, Event, Finished, Key, Outcome, Recovery, Stats as Counts, Waiter, Why,
};
use policy::{FileId, ObjectId, TargetId, Time};
use rustix::fd::OwnedFd;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Maximum of broken recoveries whose patched rows are kept readable; the oldest are dropped.
const BROKEN_MAX: usize = 256;

/// Maximum of recoveries whose tallies are kept, for the summaries of jobs.
const TALLIES_MAX: usize = 256;
/// Maximum of threads that fetch and write. More than the machine keeps in flight per key, so that several files
/// progress at once.
const WORKERS_MAX: usize = 12;

/// A waiting caller.
pub(super) struct Wait {
    began: Instant,
    told: Mutex<Option<Outcome>>,
    bell: Condvar,
}

impl Wait {
    pub fn new() -> Wait {
        Wait { began: Instant::now(), told: Mutex::default(), bell: Condvar::new() }
    }

    /// Waits for the outcome, at most `longest`.
    pub fn wait(&self, longest: Duration) -> Option<Outcome> {
        let mut told = self.told.lock();
        self.bell.wait_while_for(&mut told, |told| told.is_none(), longest);
        *told
    }

    pub fn get(&self) -> Option<Outcome> {
        *self.told.lock()
    }

    fn tell(&self, outcome: Outcome) {
        *self.told.lock() = Some(outcome);
        self.bell.notify_all();
    }
}

/// Task of a thread.
enum Work {
    Carry(Action),
    /// Remove an object that no layout ever named. Its case may have ended by then.
    Remove(TargetId, ObjectId),
    /// Drop a case that was removed: the last user of a file may have I/O to do.
    Drop(Arc<Case>),
}

/// The coordinator and its queues.
struct State {
    machine: Recovery,
    work: VecDeque<Work>,
    cases: BTreeMap<Key, Arc<Case>>,
    /// The lost object that each new object replaces.
    place_of: BTreeMap<ObjectId, Key>,
    waiters: BTreeMap<Waiter, (Key, Arc<Wait>)>,
    repairs: BTreeMap<Key, Vec<Arc<Wait>>>,
    broken: VecDeque<Key>,
    next_waiter: Waiter,
    stopped: bool,
}

pub(super) struct Driver {
    pub pool: Arc<Pool>,
    pub opener: Arc<dyn Opener>,
    pub side: OwnedFd,
    /// Root directory of the names, for messages.
    pub tree: PathBuf,
    pub stats: Arc<Stats>,
    /// Tallies of the last recoveries, oldest first.
    pub tallies: Mutex<VecDeque<Arc<Tally>>>,
    began: Instant,
    state: Mutex<State>,
    threads: workers::Pool,
    /// Reports deadlines that have passed.
    timer: Periodic,
    me: Weak<Driver>,
}

impl Driver {
    pub fn new(
        config: Config,
        pool: Arc<Pool>,
        opener: Arc<dyn Opener>,
        side: OwnedFd,
        stats: Arc<Stats>,
    ) -> Arc<Driver> {
        let state = State {
            machine: Recovery::new(config),
            work: VecDeque::new(),
            cases: BTreeMap::new(),
            place_of: BTreeMap::new(),
            waiters: BTreeMap::new(),
            repairs: BTreeMap::new(),
            broken: VecDeque::new(),
            next_waiter: 0,
            stopped: false,
        };
        let beside = std::fs::read_link(descriptor_path(&side)).unwrap_or_default();
        let tree = beside.with_file_name("tree");
        let state = Mutex::new(state);
        let threads = workers::Pool::new("repair", WORKERS_MAX);
        let began = Instant::now();
        Arc::new_cyclic(|me: &Weak<Driver>| Driver {
            pool,
            opener,
            side,
            tree,
            stats,
            tallies: Mutex::default(),
            began,
            state,
            timer: {
                let me = me.clone();
                Periodic::new(&threads, move || me.upgrade()?.keep_time())
            },
            threads,
            me: me.clone(),
        })
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }

    /// Requests rows of the object `object` of the layout for a reader; `None` if the reader must look again.
    pub fn read_blocked(
        &self,
        file: &Arc<File>,
        file_id: FileId,
        object: Object,
        rows: Range<u64>,
        wait: &Arc<Wait>,
    ) -> Result<Option<Waiter>> {
        let mut state = self.state.lock();
        let Some(key) = self.enter(&mut state, file, file_id, object)? else { return Ok(None) };
        let waiter = state.next_waiter;
        state.next_waiter += 1;
        state.waiters.insert(waiter, (key, wait.clone()));
        self.step(&mut state, Event::ReadBlocked { key, waiter, rows });
        Ok(Some(waiter))
    }

    /// Requests the recovery of the object; `wait` receives the outcome. `false` if the caller must look again.
    pub fn repair_wanted(&self, file: &Arc<File>, file_id: FileId, object: Object, wait: &Arc<Wait>) -> Result<bool> {
        let mut state = self.state.lock();
        let Some(key) = self.enter(&mut state, file, file_id, object)? else { return Ok(false) };
        state.repairs.entry(key).or_default().push(wait.clone());
        self.step(&mut state, Event::RepairWanted(key));
        Ok(true)
    }

    pub fn is_patched(&self, file: FileId, object: ObjectId, row: u64) -> bool {
        let state = self.state.lock();
        state.place_of.get(&object).is_some_and(|key| key.file == file && state.machine.is_patched(*key, row))
    }

    pub fn counts(&self) -> Counts {
        self.state.lock().machine.stats()
    }

    /// Returns the case of a key.
    pub fn case(&self, key: Key) -> Option<Arc<Case>> {
        self.state.lock().cases.get(&key).cloned()
    }

    /// Records that `new` replaces the lost object of `key` in the layout.
    pub fn stands_for(&self, new: ObjectId, key: Key) {
        self.state.lock().place_of.insert(new, key);
    }

    /// Applies an event.
    pub fn handle(&self, event: Event) {
        self.step(&mut self.state.lock(), event);
    }

    fn step(&self, state: &mut State, event: Event) {
        if let Event::Cancel(waiter) = &event {
            state.waiters.remove(waiter);
        }
        state.machine.handle(self.now(), event);
        while let Some(action) = state.machine.poll() {
            match action {
                Action::Wake { waiter, outcome } => {
                    if let Some((key, wait)) = state.waiters.remove(&waiter) {
                        if let Some(case) = state.cases.get(&key) {
                            let waited = wait.began.elapsed();
                            case.tally.count(|cost| cost.reader_wait_max = cost.reader_wait_max.max(waited));
                        }
                        wait.tell(outcome);
                    }
                }
                Action::Discard { key, new_object } => {
                    let spare = state.cases.get(&key).and_then(|case| case.take_spare(new_object));
                    state.work.extend(spare.map(|spare| Work::Remove(spare.new.target, new_object)));
                }
                Action::Forgotten(key) => state.forget(key),
                action => state.work.push_back(Work::Carry(action)),
            }
        }
        self.staff(state);
    }

    /// Lets a thread take the work, and sets the timer.
    fn staff(&self, state: &State) {
        let Some(me) = self.me.upgrade().filter(|_| !state.stopped) else { return };
        // Failures to start are logged; the next event tries again.
        if !state.work.is_empty() {
            drop(self.threads.wake(move || me.work()));
        }
        if let Some(due) = state.machine.next_deadline() {
            drop(self.timer.wake_in(Duration::from_nanos(due.since(self.now()).0)));
        }
    }

    /// Ends the recovery of a key: wakes those that wait for the whole object, and drops unneeded state.
    pub fn ended(&self, key: Key, result: Finished, keep: bool) {
        let mut state = self.state.lock();
        let outcome = match result {
            Finished::Complete => Outcome::Ok,
            Finished::Failed { why, .. } => Outcome::Failed(why),
        };
        for wait in state.repairs.remove(&key).unwrap_or_default() {
            wait.tell(outcome);
        }
        if !keep {
            let complete = result == Finished::Complete;
            let event = if complete { Event::Closed(key) } else { Event::Abandoned(key) };
            return self.step(&mut state, event);
        }
        let held = state.cases.get(&key).and_then(|case| case.let_go());
        state.broken.retain(|k| *k != key);
        state.broken.push_back(key);
        if state.broken.len() > BROKEN_MAX
            && let Some(oldest) = state.broken.pop_front()
        {
            self.step(&mut state, Event::Closed(oldest));
        }
        drop(state);
        drop(held);
    }

    /// Ends a recovery that became pointless: the object no longer stands in the layout.
    pub fn abandoned(&self, key: Key) {
        self.handle(Event::Abandoned(key));
    }

    /// Executes the waiting work. The first of several tasks wakes the next thread.
    fn work(&self) {
        let mut state = self.state.lock();
        while !state.stopped
            && let Some(work) = state.work.pop_front()
        {
            self.staff(&state);
            MutexGuard::unlocked(&mut state, || match work {
                Work::Carry(action) => self.carry_out(action),
                Work::Remove(target, object) => self.discard(target, object),
                Work::Drop(case) => drop(case),
            });
        }
    }

    /// Reports the deadlines that have passed. Returns the time until the next.
    fn keep_time(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        let due = state.machine.next_deadline().filter(|_| !state.stopped)?;
        if due <= self.now() {
            self.step(&mut state, Event::Tick);
        }
        state.machine.next_deadline().map(|due| Duration::from_nanos(due.since(self.now()).0))
    }

    fn carry_out(&self, action: Action) {
        match action {
            Action::ChooseSpare(key) => self.choose_spare(key),
            Action::Publish { key, .. } => self.publish(key),
            Action::Fetch { key, row, source_index, .. } => self.fetch(key, row, source_index as usize),
            Action::Finish { key, result } => self.finish(key, result),
            Action::Wake { .. } | Action::Discard { .. } | Action::Forgotten { .. } => {} // taken at once
        }
    }

    /// Returns the key of a lost object. `None` if its recovery ended since the caller looked: the layout changes
    /// before the key is dropped.
    fn enter(&self, state: &mut State, file: &Arc<File>, file_id: FileId, object: Object) -> Result<Option<Key>> {
        if state.stopped {
            return Err(Error::Unrecoverable("the daemon is going down".into()));
        }
        let key = state.key(file_id, object.id);
        if let Some(case) = state.cases.get(&key) {
            case.hold(file);
            return Ok(Some(key));
        }
        if !file.layout().is_some_and(|l| l.objects().any(|(_, o)| *o == object)) {
            return Ok(None);
        }
        let case = Arc::new(Case::new(file, key));
        let mut tallies = self.tallies.lock();
        if tallies.len() == TALLIES_MAX {
            tallies.pop_front();
        }
        tallies.push_back(case.tally.clone());
        state.cases.insert(key, case);
        Ok(Some(key))
    }

    /// Ends the workers and fails all waiters.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        let failed = Outcome::Failed(Why::Sources(policy::protect::recovery::FetchError::Passing));
        let waiters = std::mem::take(&mut state.waiters).into_values().map(|(_, wait)| wait);
        let repairs = std::mem::take(&mut state.repairs).into_values().flatten();
        for wait in waiters.chain(repairs) {
            wait.tell(failed);
        }
        let cases = std::mem::take(&mut state.cases);
        drop(state);
        drop(cases);
        if !self.threads.stop(END_SPAN) {
            tracing::warn!("threads of the repair do not end and are left behind");
        }
    }
}

impl State {
    fn key(&self, file: FileId, object: ObjectId) -> Key {
        self.place_of.get(&object).copied().unwrap_or(Key { file, lost: object })
    }

    fn forget(&mut self, key: Key) {
        for wait in self.repairs.remove(&key).unwrap_or_default() {
            wait.tell(Outcome::LookAgain);
        }
        self.work.extend(self.cases.remove(&key).map(Work::Drop));
        self.place_of.retain(|_, k| *k != key);
        self.broken.retain(|k| *k != key);
    }
}
