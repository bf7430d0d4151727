//! The targets of a volume: lookup, cached space, states, orders of the operator.

use super::changes::Change;
use super::core::{Core, Shared};
use super::inline::InlineSlots;
use super::looks::Checks;
use super::watch;
use super::{Execution, Limits, Space, State, Target, TargetError, TargetSpec, changes, clock};
use crate::Error;
use crate::workers::{END_SPAN, Pool, Workers};
use parking_lot::RwLock;
use policy::TargetId;
use policy::cluster::idle::{self, Share};
use policy::layout::{Segment, TargetView};
use policy::precedence::Class;
use policy::protect::health::{Config, Event};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Options of the targets of a volume.
pub struct TargetsOptions {
    /// Where operations are executed.
    pub execution: Execution,
    /// Limits of each target.
    pub limits: Limits,
    /// Thresholds of the states of a target.
    pub health: Config,
    /// Slots of the hot path.
    pub slots: Arc<InlineSlots>,
}

impl TargetsOptions {
    /// For tests: everything on the caller's thread, time counted, defaults for the rest.
    pub fn inline() -> TargetsOptions {
        TargetsOptions {
            execution: Execution::Inline,
            limits: Limits::default(),
            health: Config::default(),
            slots: Arc::new(InlineSlots::new(0)),
        }
    }
}

/// Order of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Stop using the target.
    Fail,
    /// Use it again, if it answers a probe.
    Restore,
    /// Move all bytes off it.
    Drain,
}

/// Reason why an order was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// There is no such target.
    #[error("there is no target {0}")]
    Unknown(TargetId),
    /// It does not answer, or is another target.
    #[error(
        "target {name} stays failed: its probe reports \"{error}\". Mount or repair its file system, then restore it"
    )]
    Unwell {
        /// Name of the target in the volume.
        name: String,
        /// Error of the probe.
        #[source]
        error: TargetError,
    },
    /// Abandoned operations still hang on it: a write among them would overwrite later data.
    #[error(
        "target {name} stays as it is: {hanging} operation(s) given up earlier still hang on it and may yet change it. \
         Wait until they return (or unmount and mount its file system), then restore it again"
    )]
    Hanging {
        /// Name of the target in the volume.
        name: String,
        /// Number of operations that did not return yet.
        hanging: usize,
    },
    /// A failed target cannot be read, so it cannot be drained.
    #[error(
        "target {name} is failed and cannot be drained. Restore it first, or let `entrepot check --repair` rebuild \
         its objects"
    )]
    Failed {
        /// Name of the target in the volume.
        name: String,
    },
}

/// The targets of a volume.
pub struct Targets {
    shared: Arc<Shared>,
    slots: Arc<InlineSlots>,
    health: Config,
    /// Whether a caller that enters a slot wakes the watchdog.
    wakes: bool,
    table: RwLock<BTreeMap<TargetId, Arc<Target>>>,
    watch: Workers,
    descriptors_per_object: AtomicU64,
    others: OnceLock<Arc<dyn Others>>,
}

/// Other nodes with the same targets; the nodes share the checks of idle ones.
pub trait Others: Send + Sync {
    /// Targets that this node checks now.
    fn share(&self) -> Share;
    /// Sends them the results.
    fn tell(&self, seen: &[(TargetId, Space)]);
}

impl Targets {
    /// Makes an empty table and starts the watching threads (none with [`Execution::Inline`]).
    pub fn new(options: TargetsOptions) -> Arc<Targets> {
        let inline = options.execution == Execution::Inline;
        let threads = Pool::new("targets", 1);
        let shared = Arc::new(Shared {
            execution: options.execution,
            limits: options.limits.clone(),
            clock: if inline { clock::Clock::counted() } else { clock::Clock::real() },
            changes: changes::Changes::new(threads.clone()),
            bell: watch::Bell::default(),
            looks: Checks::new(options.limits.deadline),
        });
        let bell = shared.clone();
        let targets = Arc::new(Targets {
            wakes: options.slots.wake_by(move || bell.bell.entered()),
            shared: shared.clone(),
            slots: options.slots,
            health: options.health,
            table: RwLock::default(),
            watch: Workers::of("the watch of the targets"),
            descriptors_per_object: AtomicU64::new(1),
            others: OnceLock::new(),
        });
        if !inline {
            watch::start(&targets, &targets.watch, &shared, &threads);
        }
        targets
    }

    /// Largest number of descriptors of an open object, over all targets.
    pub fn descriptors_per_object(&self) -> u64 {
        self.descriptors_per_object.load(Ordering::Relaxed)
    }

    /// Adds a target, usable at once. Its space is measured in the background (at once with [`Execution::Inline`]).
    pub fn add(&self, spec: TargetSpec) -> Arc<Target> {
        self.descriptors_per_object.fetch_max(spec.medium.descriptors_per_object(), Ordering::Relaxed);
        let core = Arc::new_cyclic(|own| Core::new(spec, &self.shared, self.health.clone(), own));
        let target = Arc::new(Target {
            core,
            slots: self.slots.clone(),
            execution: self.shared.execution,
            whereabouts: Default::default(),
        });
        self.table.write().insert(target.id(), target.clone());
        if target.state() != State::Failed {
            target.core.measure();
        }
        self.shared.bell.ring();
        target
    }

    /// Removes a target. Operations under way end as they can.
    pub fn remove(&self, id: TargetId) -> Option<Arc<Target>> {
        self.table.write().remove(&id)
    }

    /// Returns the target of that number.
    pub fn get(&self, id: TargetId) -> Option<Arc<Target>> {
        self.table.read().get(&id).cloned()
    }

    /// Name of a target; its number if there is no such target.
    pub fn name_of(&self, id: TargetId) -> String {
        self.get(id).map_or_else(|| id.to_string(), |target| target.name().to_owned())
    }

    /// Returns the target of that name.
    pub fn by_name(&self, name: &str) -> Option<Arc<Target>> {
        self.table.read().values().find(|target| target.name() == name).cloned()
    }

    /// All targets, by number.
    pub fn all(&self) -> Vec<Arc<Target>> {
        self.table.read().values().cloned().collect()
    }

    /// Error of an operation that needs new objects, if no target is usable for them.
    pub fn none_usable(&self) -> Error {
        let all_failed = self.all().iter().all(|target| target.state() == State::Failed);
        if all_failed { Error::AllTargetsFailed } else { Error::NoTarget }
    }

    /// Input for the choice of targets, with the space as last measured.
    pub fn views(&self) -> Vec<TargetView> {
        if self.shared.execution == Execution::Inline {
            self.measure(true);
        }
        let view = |target: &Arc<Target>| TargetView {
            near: false,
            id: target.id(),
            tier: target.tier(),
            usable: target.core.accepts_new_objects(),
            free_bytes: if target.core.is_full() { 0 } else { target.space().free_bytes },
        };
        self.table.read().values().map(view).collect()
    }

    /// As [`Targets::views`], for a new file of this node's users, which prefers near targets.
    pub fn views_of_writer(&self) -> Vec<TargetView> {
        let near = |view: TargetView| TargetView { near: self.get(view.id).is_some_and(|t| t.is_near()), ..view };
        self.views().into_iter().map(near).collect()
    }

    /// Tier of a segment, by its first object.
    pub fn tier_of(&self, segment: &Segment) -> Option<u8> {
        segment.objects.first().and_then(|object| self.get(object.target)).map(|target| target.tier())
    }

    /// Space of all targets that are not failed, each file system counted once. On a draining target the used bytes
    /// count, the free ones do not: no new objects go there.
    pub fn space(&self) -> Space {
        let all: Vec<_> = self.all().iter().map(|target| (target.state(), target.space())).collect();
        let of =
            |counts: fn(State) -> bool| sum(all.iter().filter(|(state, _)| counts(*state)).map(|(_, space)| *space));
        let offered = of(|state| !matches!(state, State::Failed | State::Draining));
        Space { free_bytes: offered.free_bytes, ..of(|state| state != State::Failed) }
    }

    /// Space of all targets of a tier as last measured, failed ones included, each file system counted once.
    pub fn space_on(&self, tier: u8) -> Space {
        sum(self.all().iter().filter(|target| target.tier() == tier).map(|target| target.space()))
    }

    /// Probes all targets at the same time and waits for every answer or its deadline: with hung targets for one
    /// deadline. Returns the targets that are failed or returned an error, but not those that could not be probed for
    /// want of descriptors or threads.
    pub fn probe_all(&self) -> Vec<TargetId> {
        let asked: Vec<_> = self.all().into_iter().map(|target| (target.submit(|m| m.probe()), target)).collect();
        let unwell = |error: &TargetError| !error.is_shortage();
        let answers = asked.into_iter().map(|(answer, target)| (target.readable(answer.wait()), target));
        answers.filter_map(|(answer, target)| answer.err().filter(unwell).map(|_| target.id())).collect()
    }

    /// Probes one target and waits for its answer or the deadline.
    pub fn probe_one(&self, id: TargetId) -> Result<(), TargetError> {
        let target = self.get(id).ok_or(TargetError::Failed)?;
        target.readable(target.run(|medium| medium.probe()))
    }

    /// Counts enough failed probes to fail a target that was missing from the start.
    pub fn give_up(&self, id: TargetId) {
        let Some(target) = self.get(id) else { return };
        for _ in 0..self.health.failed_probes_max.max(1) {
            if target.state() != State::Failed {
                target.core.report(Event::ProbeFailed);
            }
        }
    }

    /// Measures the space of all targets now, at most for a deadline.
    pub fn measure_now(&self) {
        let usable = self.all().into_iter().filter(|target| target.state() != State::Failed);
        let asked: Vec<_> = usable.map(|target| (target.submit(|m| m.space()), target)).collect();
        for (space, target) in asked {
            if let Ok(space) = space.wait() {
                target.core.set_space(space);
            }
        }
    }

    /// Requests measurements of targets whose figures are older than `age`, without waiting. Returns whether there are
    /// any.
    pub fn measure_older(&self, age: Duration) -> bool {
        let old = self.older(age);
        old.iter().for_each(|target| target.core.measure());
        !old.is_empty()
    }

    /// Whether figures of some targets are older than `age`.
    pub fn has_older(&self, age: Duration) -> bool {
        !self.older(age).is_empty()
    }

    fn older(&self, age: Duration) -> Vec<Arc<Target>> {
        let is_old = |target: &Arc<Target>| target.core.space_age().is_none_or(|measured| measured >= clock::time(age));
        self.all().into_iter().filter(|target| target.state() != State::Failed && is_old(target)).collect()
    }

    /// Requests measurements of a tier, without waiting. Returns its free space as last measured, each file system
    /// counted once.
    pub fn measure_soon(&self, tier: u8) -> u64 {
        let on_tier = self.all().into_iter().filter(|target| target.tier() == tier && target.state() != State::Failed);
        sum(on_tier.map(|target| {
            let space = target.space();
            target.core.measure();
            space
        }))
        .free_bytes
    }

    /// Executes an order of the operator. Returns the new state.
    pub fn operate(&self, id: TargetId, order: Order) -> Result<State, OrderError> {
        let target = self.get(id).ok_or(OrderError::Unknown(id))?;
        let name = target.name().to_owned();
        match order {
            Order::Fail => target.core.report(Event::OperatorFail),
            Order::Drain if target.state() == State::Failed => return Err(OrderError::Failed { name }),
            Order::Drain => target.core.report(Event::OperatorDrain),
            Order::Restore => {
                let unwell = |error| OrderError::Unwell { name: name.clone(), error };
                let answer = target.core.submit(Class::Awaited, |m| m.probe()).wait();
                target.readable(answer).map_err(unwell)?;
                let hanging = target.core.pool.hanging() + self.slots.taken_of(id);
                if hanging > 0 {
                    return Err(OrderError::Hanging { name, hanging });
                }
                target.core.report(Event::OperatorRestore);
                target.core.measure();
            }
        }
        Ok(target.state())
    }

    /// Calls `listener` after every change of a state, in order, never from inside another listener. Runs on its own
    /// thread or, with [`Execution::Inline`], on the caller's when the call that caused the change ends.
    pub fn on_change(&self, listener: impl Fn(&Change) + Send + Sync + 'static) {
        self.shared.changes.listen(Arc::new(listener));
    }

    /// Advances the clock of [`Execution::Inline`].
    pub fn advance(&self, span: Duration) {
        self.shared.clock.advance(span);
        self.tick(self.shared.clock.now());
    }

    /// Stops the watching threads and lets the workers end.
    pub fn stop(&self) {
        self.shared.bell.stop(END_SPAN);
        self.shared.looks.stop();
        self.shared.changes.stop();
        self.watch.stop();
        self.all().iter().for_each(|target| target.core.pool.stop());
    }

    /// Number of threads that check idle targets.
    #[cfg(test)]
    pub(super) fn lookers(&self) -> usize {
        self.shared.looks.threads()
    }

    pub(super) fn start_probes(&self) {
        let wanted = self.shared.bell.take_probes().into_iter();
        let probe = |(id, durable)| self.get(id).and_then(|target| target.core.probe(durable));
        self.shared.looks.push(wanted.filter_map(probe).collect());
    }

    /// Starts to check idle targets for other nodes, as they do for this one.
    pub fn share_looks(&self, others: Arc<dyn Others>) {
        drop(self.others.set(others));
    }

    /// Takes over a measurement by another node.
    pub fn hear_space(&self, id: TargetId, total_bytes: u64, free_bytes: u64) {
        if let Some(target) = self.get(id) {
            // The device number is this node's own.
            let device = target.space().device;
            target.core.set_space(Space { total_bytes, free_bytes, device });
        }
    }

    /// Requests measurements of targets used since their last one; with `idle` also of unused ones that are this node's
    /// share.
    pub(super) fn measure(&self, idle: bool) {
        let share = self.others.get().filter(|_| idle).map_or(Share::All, |others| others.share());
        let usable = self.all().into_iter().filter(|target| target.state() != State::Failed);
        let is_due = |target: &Arc<Target>| {
            target.core.was_used() || idle && share.looks_at(target.id(), target.core.space_age())
        };
        self.shared.looks.push(usable.filter(is_due).filter_map(|target| target.core.space_look()).collect());
    }

    /// Sends other nodes the measurements of the targets that this node checks for them.
    pub(super) fn tell_space(&self) {
        let Some(others) = self.others.get() else { return };
        let share = others.share();
        let is_reported = |target: &&Arc<Target>| {
            let is_new = target.core.space_age().is_some_and(|age| age < idle::EVERY);
            is_new && target.state() != State::Failed && share.tells_of(target.id())
        };
        let all = self.all();
        let seen: Vec<_> = all.iter().filter(is_reported).map(|target| (target.id(), target.space())).collect();
        if !seen.is_empty() {
            others.tell(&seen);
        }
    }

    /// Whether the watchdog may sleep: no inline operation is under way, and the next one wakes it.
    pub(super) fn rests(&self) -> bool {
        self.wakes && self.slots.leave_unwatched()
    }

    /// Answers for callers whose operation passed the deadline.
    pub(super) fn take_overdue(&self) {
        let limit = self.shared.clock.now().since(clock::time(self.shared.limits.deadline));
        if self.shared.clock.counts_from(limit) > limit {
            return;
        }
        self.slots.take_overdue(limit, |id, started| {
            if let Some(target) = self.get(id) {
                target.core.counters.deadline_misses.add(1);
                target.core.report(Event::DeadlineMissed { started });
            }
        });
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        self.shared.bell.stop(Duration::ZERO);
        self.shared.looks.stop();
    }
}

/// Sum of the space of targets, each file system counted once: several targets may share one.
fn sum(spaces: impl Iterator<Item = Space>) -> Space {
    let mut seen = BTreeSet::new();
    let new = spaces.filter(|space| space.device.is_none_or(|device| seen.insert(device)));
    new.fold(Space::default(), |sum, space| Space {
        total_bytes: sum.total_bytes.saturating_add(space.total_bytes),
        free_bytes: sum.free_bytes.saturating_add(space.free_bytes),
        device: None,
    })
}
