//! Background work on targets and files: resyncs stale mirrors, rebuilds the objects of failed targets, empties
//! draining targets, and removes garbage from targets that returned. The tasks run in [`super::maintenance`].

use super::Core;
use super::maintenance::Maintenance;
use super::memory::Trimmer;
use super::rebuild::{self, Rebuilt};
use super::walk::walk;
use crate::Error;
use crate::adapt::Replicas;
use crate::control::answers::FilesAway;
use engine::events::{self, Events, Kind};
use engine::file::{Event, File, Observer};
use engine::mover::{DrainProgress, said};
use engine::stats::{Metric, Stats};
use object::target::{Reach, State};
use parking_lot::Mutex;
use policy::maintenance::{Outcome, Task};
use policy::{FileId, TargetId};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Interval of progress reports to a caller that waits for a drain.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Minimum delay between the failure of a target and the rebuild.
const REBUILD_AFTER_MIN: Duration = Duration::from_secs(2);

/// The work that no caller waits for.
pub struct Background {
    stats: Arc<Stats>,
    events: Arc<Events>,
    maintenance: Arc<Maintenance>,
    /// Receives reports of reads that a target did not serve.
    replicas: OnceLock<Weak<Replicas>>,
    /// Targets that are being drained.
    drains: Mutex<BTreeMap<TargetId, DrainProgress>>,
    /// Files that could not be read at the end of the last walk for rebuilding.
    away: Mutex<FilesAway>,
    memory: Mutex<Trimmer>,
}

impl Observer for Background {
    fn note(&self, file: &File, event: Event) {
        if let Event::ReadElsewhere { target } = event {
            let replicas = self.replicas.get().and_then(Weak::upgrade);
            return replicas.map_or((), |replicas| replicas.complain(file, target));
        }
        if event == Event::MirrorStale {
            self.stats.add(Metric::MirrorsStale, 1);
        }
        file.id().into_iter().for_each(|id| self.maintenance.want(Task::Resync(id)));
    }
}

fn is_here(core: &Core, target: TargetId) -> bool {
    core.volume.targets().get(target).is_some_and(|target| target.reach() == Reach::Here)
}

impl Background {
    pub(super) fn new(stats: Arc<Stats>, events: Arc<Events>, maintenance: Arc<Maintenance>) -> Arc<Background> {
        Arc::new(Background {
            stats,
            events,
            maintenance,
            replicas: OnceLock::new(),
            drains: Mutex::default(),
            away: Mutex::default(),
            memory: Mutex::default(),
        })
    }

    /// Sets the receiver of reports of unserved reads. Only the first call counts.
    pub(super) fn tell_of_replicas(&self, replicas: &Arc<Replicas>) {
        drop(self.replicas.set(Arc::downgrade(replicas)));
    }

    /// Subscribes to changes of targets. Resumes drains that a restart interrupted.
    pub(super) fn start(self: &Arc<Background>, core: &Arc<Core>) {
        let (listener, weak) = (self.clone(), Arc::downgrade(core));
        core.volume.targets().on_change(move |change| {
            let name = change.name.clone();
            let what = format!("target {name} is {} (it was {}): {}", change.to, change.from, change.reason);
            let event = events::Event::for_all(Kind::Target, what);
            listener.events.record(events::Event { target: Some(name), ..event });
            let Some(core) = weak.upgrade() else { return };
            match change.to {
                State::Ok => {
                    listener.maintenance.due(Task::Garbage(change.target), Duration::ZERO);
                    listener.maintenance.due(Task::Rebuild, Duration::ZERO);
                }
                State::Failed => {
                    let delay = core.volume.config().replication.delay.max(REBUILD_AFTER_MIN);
                    listener.maintenance.due(Task::Rebuild, delay);
                }
                State::Draining => listener.drain_here(&core, change.target),
                State::Suspect | State::ReadOnly => {}
            }
        });
        for target in core.volume.targets().all() {
            match target.state() {
                State::Draining => self.drain_here(core, target.id()),
                State::Ok => self.maintenance.due(Task::Garbage(target.id()), Duration::ZERO),
                State::Failed => self.maintenance.want(Task::Rebuild),
                State::Suspect | State::ReadOnly => {}
            }
        }
        if core.names.any_rolled_back() {
            tracing::warn!("the machine went down: looking for objects that were never made durable");
            self.maintenance.due(Task::Rebuild, Duration::ZERO);
        }
        if core.pool.placement.mirrors > 1 {
            self.maintenance.want(Task::Rebuild); // an earlier daemon may have left stale mirrors behind
        }
        self.maintenance.want(Task::Names);
        if !core.volume.config().purge.every.is_zero() {
            self.maintenance.want(Task::Purge);
        }
    }

    /// Files that could not be read at the last walk.
    pub(super) fn away(&self) -> FilesAway {
        *self.away.lock()
    }

    /// The running drains.
    pub(super) fn drains(&self) -> BTreeMap<TargetId, DrainProgress> {
        self.drains.lock().clone()
    }

    /// Records an event for the operator.
    pub(super) fn news(&self, kind: Kind, text: String) {
        self.events.record(events::Event::new(kind, text));
    }

    /// Drains a target if this node leads or reaches the target.
    fn drain_here(&self, core: &Core, target: TargetId) {
        if core.acts() || is_here(core, target) {
            self.drain(target);
        }
    }

    /// Requests the drain of a target, unless it is running.
    fn drain(&self, target: TargetId) {
        let mut drains = self.drains.lock();
        if let std::collections::btree_map::Entry::Vacant(entry) = drains.entry(target) {
            entry.insert(DrainProgress::default());
            self.maintenance.due(Task::Drain(target), Duration::ZERO);
        }
    }

    /// Empties a target.
    pub(super) fn run_drain(&self, core: &Core, target: TargetId) {
        let is_in = |state| core.volume.targets().get(target).is_some_and(|target| target.state() == state);
        let mut is_restored = false;
        let report = |progress: &DrainProgress| {
            self.drains.lock().insert(target, *progress);
            is_restored = is_in(State::Ok);
            !is_restored
        };
        let drained = core.mover.drain(target, || walk(&core.volume, &core.files), report);
        let name = core.volume.targets().name_of(target);
        let event = match drained {
            Ok(done) => {
                let what = format!("target {name} is empty: {} files moved", done.files);
                events::Event::for_all(Kind::Target, what)
            }
            Err(e) => events::Event::new(Kind::Target, format!("the drain of target {name} stopped: {e}")),
        };
        self.events.record(events::Event { target: Some(name), ..event });
        self.drains.lock().remove(&target);
        // An order in between found this drain under way.
        if is_restored && is_in(State::Draining) {
            self.drain(target);
        }
    }

    /// Empties a target, unless that is already under way, and waits for the end. `look` gets the progress and returns
    /// whether to go on waiting. The drain continues when no caller waits any more.
    pub(super) fn drain_now(&self, target: TargetId, mut look: impl FnMut(&DrainProgress) -> bool) {
        self.drain(target);
        while self.maintenance.rests(LOOK_EVERY) {
            let progress = self.drains.lock().get(&target).copied();
            if !progress.is_some_and(|progress| look(&progress)) {
                return;
            }
        }
    }

    /// Makes the names of new objects durable, and removes garbage.
    pub(super) fn keep_names(&self, core: &Core) {
        if let Err(error) = core.names.pass() {
            tracing::warn!("the list of durable new objects cannot be saved: {error}");
        }
        core.files.check_mapped();
        if let Some(nodes) = &core.nodes
            && core.pool.making.take_left_behind()
            && let Err(error) = nodes.search_for_orphans_again()
        {
            tracing::debug!("objects that nobody answers for are searched later: {error}");
            core.pool.making.leave_behind();
        }
        let is_any = core.volume.state().garbage_count().is_ok_and(|count| count > 0);
        let used = core.volume.targets().all().into_iter().filter(|target| is_any && target.state() != State::Failed);
        for target in used {
            if let Err(error) = core.mover.collect_garbage(target.id()) {
                tracing::debug!("garbage stays on target {} for now: {error}", target.name());
            }
        }
        self.memory.lock().pass();
    }

    /// Removes the garbage on a target.
    pub(super) fn collect(&self, core: &Core, target: TargetId) {
        let collected = core.volume.heed_epoch_of(target).and_then(|()| core.mover.collect_garbage(target));
        if let Err(error) = collected {
            tracing::warn!(%target, "garbage stays for now: {error}");
        }
    }

    /// Runs an automatic purge.
    pub(super) fn purge(&self, core: &Core) {
        match core.purge(false) {
            Ok(report) if report.files.is_empty() => {}
            Ok(report) => {
                report.notes.iter().for_each(|note| tracing::warn!("purge: {note}"));
                self.news(Kind::Purge, format!("{} files with {} bytes were purged", report.files.len(), report.bytes))
            }
            Err(error) => self.news(Kind::Purge, format!("nothing was purged: {error}")),
        }
    }

    /// Resyncs the stale mirrors of a file.
    pub(super) fn resync(&self, core: &Core, id: FileId) -> Outcome {
        match core.files.noted(id).map(|file| core.mover.resync(&file)) {
            Some(Ok(_)) => return Outcome::Done,
            None => {} // closed: a walk of the tree finds it
            Some(Err(Error::Busy(_))) => return Outcome::Again,
            Some(Err(error)) => {
                let (file, why) = (core.pool.name_of(id), said(core.volume.targets(), &error));
                self.news(Kind::Recovery, format!("{file} has a stale mirror that cannot be resynced now: {why}"));
            }
        }
        self.maintenance.want(Task::Rebuild);
        Outcome::Done
    }

    /// Runs one walk for rebuilding. Other files are retried after increasing pauses, or once a target returns.
    pub(super) fn rebuild(&self, core: &Core) -> Outcome {
        // A target that another node added is not lost.
        if core.volume.config().is_shared()
            && let Err(error) = core.volume.follow_missed_orders()
        {
            tracing::warn!("no object is rebuilt while the targets of other nodes are unknown: {error}");
            return Outcome::Again;
        }
        let goes_on = || !self.maintenance.stop_flag().is_set() && core.acts();
        let report = |rebuilt: &Rebuilt, running| self.maintenance.report(Task::Rebuild, rebuilt.line(running));
        let look = |rebuilt: &Rebuilt| {
            report(rebuilt, true);
            goes_on()
        };
        let rebuilt = rebuild::pass(&core.volume, &core.files, &core.mover, &core.names, &core.checker.starts, look);
        let rebuilt = rebuilt.unwrap_or_else(|e| Rebuilt { failed: 1, why: Some(e.to_string()), ..Rebuilt::default() });
        report(&rebuilt, false);
        if rebuilt.files > 0 {
            self.news(Kind::Recovery, format!("{} files were made whole again", rebuilt.files));
        }
        if !goes_on() {
            return Outcome::Again;
        }
        *self.away.lock() = rebuilt.away;
        if rebuilt.left_out > 0 && rebuilt.files > 0 {
            self.maintenance.due(Task::Rebuild, Duration::ZERO);
        }
        if !rebuilt.is_complete() {
            if let Some(why) = &rebuilt.why {
                self.news(Kind::Recovery, format!("{} files cannot be rebuilt now: {why}", rebuilt.failed));
            }
            return Outcome::Again;
        }
        if core.names.any_rolled_back()
            && let Err(error) = core.names.made()
        {
            tracing::warn!("the completed listing of all files cannot be saved: {error}");
        }
        Outcome::Done
    }
}
