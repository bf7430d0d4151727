//! Background work: resyncs stale mirrors, rebuilds the objects of failed targets, empties draining targets, and
//! removes garbage from targets that returned.

use super::Core;
use super::memory::Trimmer;
use super::rebuild::{self, Away, Rebuilt};
use super::requests::layout::file_named;
use super::walk::walk;
use crate::adapt::Replicas;
use crate::durable_names::DurableNames;
use crate::events::{self as told, Events, Kind};
use crate::file::{Event, File, Observer};
use crate::mover::{DrainProgress, said};
use crate::stats::{Metric, Stats};
use crate::target::{Reach, State};
use crate::workers::Workers;
use crate::{Error, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};
use policy::{FileId, TargetId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// Rest of a file after its last error before it is resynced: its writer is probably not done.
const RESYNC_AFTER: Duration = Duration::from_secs(2);
/// Maximum of files in the queue for a resync; `entrepot check --repair` finds further ones.
const RESYNC_MAX: usize = 10_000;
/// Interval of progress reports to a caller that waits for a drain.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Time after the failure of a target before its objects are rebuilt (algorithms, 6.7: 5 s, tunable).
const REBUILD_AFTER: Duration = Duration::from_secs(5);
/// Most seconds between two passes while something cannot be rebuilt: a walk over a large tree is expensive.
const REBUILD_WAIT_MAX: Duration = Duration::from_secs(3600);

/// Interval at which a follower checks whether it leads.
const FOLLOWER_REST: Duration = Duration::from_secs(1);

/// Interval at which the names of new objects are made durable. A guess: longer than any operation on a target with
/// the default deadline. A loss of power may undo the names of two intervals.
const NAMES_EVERY: Duration = Duration::from_secs(20);

/// Queues of the worker.
#[derive(Default)]
struct Waiting {
    stopped: bool,
    /// Files with stale mirrors, and when to resync them.
    resync: BTreeMap<FileId, Instant>,
    /// Targets that came back.
    collect: BTreeSet<TargetId>,
    /// Targets being drained now.
    drains: BTreeMap<TargetId, DrainProgress>,
    /// Time of the next walk for rebuilding, and the pause after a walk that left something.
    rebuild: Option<Instant>,
    rebuild_wait: Duration,
    /// Time of the next purge.
    purge: Option<Instant>,
    /// The pass under way or the last one, and whether it is under way.
    rebuilt: Option<(Rebuilt, bool)>,
    /// Files that could not be read at the end of the last pass.
    away: Away,
}

/// The work that no caller waits for.
pub struct Background {
    stats: Arc<Stats>,
    events: Arc<Events>,
    waiting: Mutex<Waiting>,
    woken: Condvar,
    workers: Workers,
    /// Receives reports of reads that a target did not serve.
    replicas: OnceLock<Weak<Replicas>>,
}

impl Observer for Background {
    fn note(&self, file: &File, event: Event) {
        let replicas = || self.replicas.get().and_then(Weak::upgrade);
        match event {
            Event::MirrorStale { .. } | Event::MirrorsDiffer => {}
            Event::ReadElsewhere { target } => return replicas().map_or((), |r| r.complain(file, target)),
            _ => return,
        }
        if matches!(event, Event::MirrorStale { .. }) {
            self.stats.add(Metric::MirrorsStale, 1);
        }
        let Some(id) = file.id() else { return };
        let mut waiting = self.waiting.lock();
        if waiting.resync.len() < RESYNC_MAX || waiting.resync.contains_key(&id) {
            waiting.resync.insert(id, Instant::now() + RESYNC_AFTER);
            self.woken.notify_all();
        }
    }
}

fn is_here(core: &Core, target: TargetId) -> bool {
    core.volume.targets().get(target).is_some_and(|target| target.reach() == Reach::Here)
}

/// Removes garbage that other nodes could not remove.
fn collect_here(core: &Core) {
    let here = core.volume.targets().all().into_iter().filter(|target| target.reach() == Reach::Here);
    for target in here.filter(|target| target.state() != State::Failed) {
        if let Err(error) = core.mover.collect_garbage(target.id()) {
            tracing::debug!("garbage stays on target {} for now: {error}", target.name());
        }
    }
}

impl Background {
    pub(super) fn new(stats: Arc<Stats>, events: Arc<Events>) -> Arc<Background> {
        Arc::new(Background {
            stats,
            events,
            waiting: Mutex::default(),
            woken: Condvar::new(),
            workers: Workers::of("background work"),
            replicas: OnceLock::new(),
        })
    }

    /// Sets the receiver of reports of unserved reads. Only the first call counts.
    pub(super) fn tell_of_replicas(&self, replicas: &Arc<Replicas>) {
        drop(self.replicas.set(Arc::downgrade(replicas)));
    }

    /// Starts the worker and subscribes to changes of targets. Resumes drains that a restart interrupted.
    pub(super) fn start(self: &Arc<Background>, core: &Arc<Core>) {
        let (listener, weak) = (self.clone(), Arc::downgrade(core));
        core.volume.targets().on_change(move |change| {
            let name = weak.upgrade().and_then(|c| Some(c.volume.targets().get(change.target)?.name().to_string()));
            let name = name.unwrap_or_else(|| change.target.to_string());
            let what = format!("target {name} is {} (it was {}): {}", change.to, change.from, change.reason);
            listener.events.record(told::Event { target: Some(name), ..told::Event::for_all(Kind::Target, what) });
            match change.to {
                State::Ok => {
                    listener.waiting.lock().collect.insert(change.target);
                    listener.rebuild_soon(Duration::ZERO);
                }
                // The node with the request does it; after its end the leader, or a node that reaches the target.
                State::Draining if weak.upgrade().is_none_or(|core| core.acts() || is_here(&core, change.target)) => {
                    listener.drain(&weak, change.target)
                }
                State::Draining => {}
                State::Failed => listener.rebuild_soon(rebuild_after(&weak)),
                State::Suspect | State::ReadOnly => {}
            }
        });
        let (worker, weak) = (self.clone(), Arc::downgrade(core));
        self.workers.start("background", move || worker.work(&weak));
        let (keeper, names, weak) = (self.clone(), core.names.clone(), Arc::downgrade(core));
        self.workers.start("names", move || keeper.keep_names(&names, &weak));
        for target in core.volume.targets().all() {
            match target.state() {
                State::Draining if core.acts() || target.reach() == Reach::Here => {
                    self.drain(&Arc::downgrade(core), target.id())
                }
                State::Draining => {}
                State::Ok => {
                    self.waiting.lock().collect.insert(target.id());
                }
                State::Failed => self.rebuild_soon(REBUILD_AFTER),
                State::Suspect | State::ReadOnly => {}
            }
        }
        if core.names.any_rolled_back() {
            tracing::warn!("the machine went down: looking for objects that were never made durable");
            self.rebuild_soon(Duration::ZERO);
        }
        self.plan_purge(core);
        if core.pool.placement.mirrors > 1 {
            self.rebuild_soon(REBUILD_AFTER); // an earlier daemon may have left stale mirrors behind
        }
    }

    /// Plans a walk for rebuilding at most `after` from now.
    fn rebuild_soon(&self, after: Duration) {
        let mut waiting = self.waiting.lock();
        let at = Instant::now() + after;
        waiting.rebuild = Some(waiting.rebuild.map_or(at, |planned| planned.min(at)));
        waiting.rebuild_wait = RESYNC_AFTER;
        self.woken.notify_all();
    }

    /// Progress of rebuilding, a line for people; none if nothing was to be rebuilt since the start.
    pub(super) fn rebuilding(&self) -> Option<String> {
        let waiting = self.waiting.lock();
        let (m, running) = waiting.rebuilt.as_ref()?;
        let left = match (&m.why, m.busy + m.failed) {
            (_, 0) => String::new(),
            (None, n) => format!(", {n} in use: tried again"),
            (Some(why), n) => format!(", {n} cannot be rebuilt now ({why}): tried again"),
        };
        let what = if *running { "looking for files to rebuild" } else { "files rebuilt" };
        Some(format!("{what}: {} made whole{left}", m.files))
    }

    /// Ends the worker after its current task. The mover must have been stopped before, so that drains end.
    pub(super) fn stop(&self) {
        self.waiting.lock().stopped = true;
        self.woken.notify_all();
        self.workers.stop();
    }

    /// Files that could not be read at the last walk.
    pub(super) fn away(&self) -> Away {
        self.waiting.lock().away
    }

    /// The drains under way.
    pub(super) fn drains(&self) -> BTreeMap<TargetId, DrainProgress> {
        self.waiting.lock().drains.clone()
    }

    /// Records an event for the operator.
    pub(super) fn news(&self, kind: Kind, text: String) {
        self.events.record(told::Event::new(kind, text));
    }

    /// Empties a target on a thread of its own, unless that is already under way.
    fn drain(self: &Arc<Background>, core: &Weak<Core>, target: TargetId) {
        {
            let mut waiting = self.waiting.lock();
            if waiting.stopped || waiting.drains.contains_key(&target) {
                return;
            }
            waiting.drains.insert(target, DrainProgress::default());
        }
        let (this, core) = (self.clone(), core.clone());
        self.workers.start("drain", move || {
            let Some(core) = core.upgrade() else { return };
            let report = |progress: &DrainProgress| {
                this.waiting.lock().drains.insert(target, *progress);
            };
            let drained = core.mover.drain(target, || walk(&core.volume, &core.files), report);
            let name = core.volume.targets().get(target).map_or(target.to_string(), |t| t.name().to_string());
            match drained {
                Ok(done) => {
                    let what = format!("target {name} is empty: {} files moved", done.files);
                    this.events.record(told::Event { target: Some(name), ..told::Event::for_all(Kind::Target, what) });
                }
                Err(e) => {
                    let what = format!("the drain of target {name} stopped: {e}");
                    this.events.record(told::Event { target: Some(name), ..told::Event::new(Kind::Target, what) });
                }
            }
            this.waiting.lock().drains.remove(&target);
            this.woken.notify_all();
        });
    }

    /// Empties a target, unless that is already under way, and waits for the end. `look` gets the progress and
    /// returns whether to go on waiting. The drain goes on when no caller waits any more.
    pub(super) fn drain_now(
        self: &Arc<Background>,
        core: &Arc<Core>,
        target: TargetId,
        mut look: impl FnMut(&DrainProgress) -> bool,
    ) {
        self.drain(&Arc::downgrade(core), target);
        loop {
            let progress = {
                let mut waiting = self.waiting.lock();
                if !waiting.drains.contains_key(&target) || waiting.stopped {
                    return;
                }
                self.woken.wait_for(&mut waiting, LOOK_EVERY);
                waiting.drains.get(&target).copied()
            };
            if progress.is_some_and(|p| !look(&p)) {
                return;
            }
        }
    }

    fn work(&self, core: &Weak<Core>) {
        loop {
            if !self.is_its_turn(core) {
                continue;
            }
            let (file, target, rebuild, purge) = {
                let mut waiting = self.waiting.lock();
                loop {
                    if waiting.stopped {
                        return;
                    }
                    let now = Instant::now();
                    let due = waiting.resync.iter().find(|(_, at)| **at <= now).map(|(id, _)| *id);
                    let target = waiting.collect.pop_first();
                    let rebuild = waiting.rebuild.is_some_and(|at| at <= now);
                    let purge = waiting.purge.is_some_and(|at| at <= now);
                    if due.is_some() || target.is_some() || rebuild || purge {
                        if purge {
                            waiting.purge = None;
                        }
                        if rebuild {
                            waiting.rebuild = None;
                        }
                        if let Some(id) = due {
                            waiting.resync.remove(&id);
                        }
                        break (due, target, rebuild, purge);
                    }
                    let next = waiting.resync.values().chain(&waiting.rebuild).chain(&waiting.purge).min().copied();
                    let until = next.unwrap_or(now + Duration::from_secs(3600));
                    self.woken.wait_until(&mut waiting, until);
                }
            };
            let Some(core) = core.upgrade() else { return };
            if let Some(id) = file {
                self.resync(&core, id);
            }
            if let Some(target) = target
                && let Err(error) =
                    core.volume.heed_epoch_of(target).and_then(|()| core.mover.collect_garbage(target).map(drop))
            {
                tracing::warn!(%target, "garbage stays for now: {error}");
            }
            if rebuild {
                self.rebuild(&core);
            }
            if purge {
                self.purge(&core);
            }
        }
    }

    /// Whether this node runs background work; pauses for a while if another one does.
    fn is_its_turn(&self, core: &Weak<Core>) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.stopped || core.upgrade().is_none_or(|core| core.acts()) {
            return true;
        }
        self.woken.wait_for(&mut waiting, FOLLOWER_REST);
        false
    }

    /// Makes the names of new objects durable at intervals, and removes garbage from targets that few nodes reach.
    fn keep_names(&self, names: &DurableNames, core: &Weak<Core>) {
        let mut memory = Trimmer::default();
        let mut waiting = self.waiting.lock();
        loop {
            let until = Instant::now() + NAMES_EVERY;
            while !waiting.stopped && !self.woken.wait_until(&mut waiting, until).timed_out() {}
            if waiting.stopped {
                return;
            }
            MutexGuard::unlocked(&mut waiting, || {
                if let Err(error) = names.pass() {
                    tracing::warn!("what new objects are durable cannot be remembered: {error}");
                }
                if let Some(core) = core.upgrade() {
                    core.files.check_mapped();
                    collect_here(&core);
                }
                memory.pass();
            });
        }
    }

    /// Plans the next purge by `[purge] every`, if set.
    fn plan_purge(&self, core: &Core) {
        let every = core.volume.config().purge.every;
        self.waiting.lock().purge = (!every.is_zero()).then(|| Instant::now() + every);
    }

    fn purge(&self, core: &Core) {
        match core.purge(false) {
            Ok(report) if report.files.is_empty() => {}
            Ok(report) => {
                report.notes.iter().for_each(|note| tracing::warn!("purge: {note}"));
                self.news(Kind::Purge, format!("{} files with {} bytes were purged", report.files.len(), report.bytes))
            }
            Err(error) => self.news(Kind::Purge, format!("nothing was purged: {error}")),
        }
        self.plan_purge(core);
    }

    fn resync(&self, core: &Core, id: FileId) {
        match resync(core, id) {
            Ok(true) => {}
            Ok(false) => self.rebuild_soon(REBUILD_AFTER), // closed: a walk of the tree finds it
            Err(Error::Busy(_)) => {
                self.waiting.lock().resync.insert(id, Instant::now() + RESYNC_AFTER);
            }
            Err(error) => {
                let file = file_named(core, id);
                self.news(
                    Kind::Recovery,
                    format!(
                        "{file} has a stale mirror that cannot be resynced now: {}",
                        said(core.volume.targets(), &error)
                    ),
                );
                self.rebuild_soon(REBUILD_AFTER);
            }
        }
    }

    /// One walk for rebuilding. The rest is retried after increasing pauses, or at once when a target comes back.
    fn rebuild(&self, core: &Core) {
        // A target that another node added is not lost.
        if core.volume.config().is_shared()
            && let Err(error) = core.volume.follow_missed_orders()
        {
            tracing::warn!("nothing is made anew while the targets of all nodes are not known: {error}");
            return;
        }
        let report = |rebuilt: &Rebuilt, running: bool| {
            let mut waiting = self.waiting.lock();
            waiting.rebuilt = Some((rebuilt.clone(), running)).filter(|(m, _)| m.files + m.busy + m.failed > 0);
            !waiting.stopped
        };
        let (starts, go_on) = (&core.checker.starts, |rebuilt: &Rebuilt| report(rebuilt, true));
        let rebuilt = rebuild::pass(&core.volume, &core.files, &core.mover, &core.names, starts, go_on);
        let rebuilt = rebuilt.unwrap_or_else(|e| Rebuilt { failed: 1, why: Some(e.to_string()), ..Rebuilt::default() });
        if report(&rebuilt, false) {
            self.waiting.lock().away = rebuilt.away;
        }
        if rebuilt.files > 0 {
            self.news(Kind::Recovery, format!("{} files were made whole again", rebuilt.files));
        }
        if rebuilt.is_complete() {
            if core.names.any_rolled_back()
                && !self.waiting.lock().stopped
                && let Err(error) = core.names.made()
            {
                tracing::warn!("that all files were looked at cannot be remembered: {error}");
            }
            return;
        }
        if let Some(why) = &rebuilt.why {
            self.news(Kind::Recovery, format!("{} files cannot be rebuilt now: {why}", rebuilt.failed));
        }
        let mut waiting = self.waiting.lock();
        let wait = waiting.rebuild_wait.max(RESYNC_AFTER);
        waiting.rebuild_wait = (wait * 2).min(REBUILD_WAIT_MAX);
        let again = Instant::now() + wait;
        waiting.rebuild = Some(waiting.rebuild.map_or(again, |planned| planned.min(again)));
    }
}

/// Delay between a failure and the rebuild: `[replication] delay`.
fn rebuild_after(core: &Weak<Core>) -> Duration {
    core.upgrade().map_or(REBUILD_AFTER, |core| core.volume.config().replication.delay.max(RESYNC_AFTER))
}

/// Whether the file was found.
fn resync(core: &Core, id: FileId) -> Result<bool> {
    match core.files.noted(id) {
        Some(file) => core.mover.resync(&file).map(|_| true),
        None => Ok(false),
    }
}
