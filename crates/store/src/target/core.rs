//! What the callers, the workers and the watching threads of one target share: the medium, its health, its workers.

use super::changes::{Change, Changes};
use super::clock::Clock;
use super::counted::Counted;
use super::looks::{At, Look, Looks};
use super::medium::{Medium, Space};
use super::memory::MISSED_DEADLINE;
use super::pending::{Pending, Task};
use super::pool::Pool;
use super::reach::Whereabouts;
use super::watch::Bell;
use super::{Counters, Execution, Limits, State, TargetError, TargetSpec};
use parking_lot::Mutex;
use policy::machine::Machine;
use policy::precedence::Class;
use policy::protect::health::{Action, Event, Health, Reason, is_hard, is_read_only, is_shortage, is_space};
use policy::{TargetId, Time};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What all targets of a volume share.
pub struct Shared {
    pub execution: Execution,
    pub limits: Limits,
    pub clock: Clock,
    pub changes: Changes,
    pub bell: Bell,
    pub looks: Arc<Looks>,
}

/// The inside of a [`super::Target`].
pub struct Core {
    pub id: TargetId,
    pub name: String,
    pub tier: u8,
    pub medium: Arc<dyn Medium>,
    pub limits: Limits,
    pub pool: Pool,
    pub counters: Arc<Counters>,
    shared: Arc<Shared>,
    health: Mutex<Health>,
    /// The state and (bit 3) doubt, as [`Health`] last left them: all that the hot path looks at.
    published: AtomicU8,
    probing: AtomicBool,
    /// Operations of the daemon's own watch: probes, and looks at the space.
    own_ops: AtomicU64,
    /// Operations of others when the space was measured last.
    measured_at: AtomicU64,
    measuring: AtomicBool,
    /// When its space was measured, here or by another; 0 is never.
    space_at: AtomicU64,
    total_bytes: AtomicU64,
    free_bytes: AtomicU64,
    /// It had no room for something, and has little since.
    full: AtomicBool,
    /// Who reaches it.
    pub whereabouts: Whereabouts,
    /// One more than the device's number; 0 if none is known.
    device: AtomicU64,
}

/// A target that had no room for something is passed over while it has less than this share of its bytes. A guess.
const LITTLE_SHARE: u64 = 64;

const DOUBT: u8 = 8;

fn encode(health: &Health) -> u8 {
    let state = match health.state() {
        State::Ok => 0,
        State::Suspect => 1,
        State::Failed => 2,
        State::Draining => 3,
        State::ReadOnly => 4,
    };
    state | if health.in_doubt() { DOUBT } else { 0 }
}

fn probe_by(medium: &dyn Medium, durable: bool) -> Result<(), Errno> {
    if durable { medium.probe_durable() } else { medium.probe() }
}

/// What a probe's answer says.
pub fn probed(answer: Result<(), Errno>) -> Event {
    match answer {
        Ok(()) => Event::ProbeOk,
        Err(errno) if is_read_only(errno.raw_os_error()) => Event::ProbeReadOnly,
        Err(errno) if is_shortage(errno.raw_os_error()) => Event::ProbeNotMade,
        Err(_) => Event::ProbeFailed,
    }
}

impl Core {
    /// `own` is the core itself, which hears of syncs that fail.
    pub fn new(
        spec: TargetSpec,
        shared: &Arc<Shared>,
        config: policy::protect::health::Config,
        own: &Weak<Core>,
    ) -> Core {
        let now = shared.clock.now();
        let mut health = Health::new(config, spec.state, now);
        if spec.failed_by_operator {
            health.handle(now, Event::OperatorFail);
        }
        let counters = Arc::<Counters>::default();
        Core {
            id: spec.id,
            name: spec.name,
            tier: spec.tier,
            medium: Arc::new(Counted { medium: spec.medium, counters: counters.clone(), core: own.clone() }),
            limits: shared.limits.clone(),
            pool: Pool::new(),
            counters,
            shared: shared.clone(),
            published: AtomicU8::new(encode(&health)),
            health: Mutex::new(health),
            probing: AtomicBool::new(false),
            own_ops: AtomicU64::new(0),
            measured_at: AtomicU64::new(0),
            measuring: AtomicBool::new(false),
            space_at: AtomicU64::new(0),
            total_bytes: AtomicU64::new(0),
            free_bytes: AtomicU64::new(0),
            full: AtomicBool::new(false),
            whereabouts: Whereabouts::default(),
            device: AtomicU64::new(0),
        }
    }

    pub fn now(&self) -> Time {
        self.shared.clock.now()
    }

    pub fn state(&self) -> State {
        match self.published.load(Ordering::Relaxed) & !DOUBT {
            0 => State::Ok,
            1 => State::Suspect,
            2 => State::Failed,
            3 => State::Draining,
            _ => State::ReadOnly,
        }
    }

    pub fn in_doubt(&self) -> bool {
        self.published.load(Ordering::Relaxed) & DOUBT != 0
    }

    pub fn next_deadline(&self) -> Option<Time> {
        self.health.lock().next_deadline()
    }

    /// Tells health what happened and does what it says.
    pub fn report(&self, event: Event) {
        let (mut probe, mut failed) = (None, false);
        {
            let mut health = self.health.lock();
            health.handle(self.now(), event);
            self.published.store(encode(&health), Ordering::Relaxed);
            while let Some(action) = health.poll() {
                match action {
                    Action::Probe { durable, .. } => probe = Some(durable),
                    Action::Changed { from, to, reason } => {
                        failed |= to == State::Failed;
                        self.shared.changes.push(Change {
                            target: self.id,
                            name: self.name.clone(),
                            from,
                            to,
                            by_operator: reason == Reason::Operator,
                            reason: reason.to_string(),
                        });
                    }
                }
            }
        }
        if failed {
            self.pool.abandon_all(self, &TargetError::Failed);
        }
        if self.shared.execution == Execution::Inline {
            self.shared.changes.deliver();
            if let Some(durable) = probe {
                self.report(probed(probe_by(&*self.medium, durable)));
            }
            return;
        }
        if let Some(durable) = probe {
            self.shared.bell.want_probe(self.id, durable);
        }
        // The prober looks by itself before long.
        if probe.is_some()
            || self.next_deadline().is_some_and(|at| at < self.now() + super::clock::time(super::watch::SPACE_SPAN))
        {
            self.shared.bell.ring();
        }
    }

    /// Executes an operation of anybody on this thread; a panic in it is our bug, and the target's caller sees `EIO`.
    pub fn guarded<T>(&self, op: impl FnOnce(&dyn Medium) -> Result<T, Errno>) -> Result<T, Errno> {
        self.counters.ops.add(1);
        let run = std::panic::AssertUnwindSafe(|| op(&*self.medium));
        std::panic::catch_unwind(run).unwrap_or_else(|_| {
            tracing::error!("bug: an operation on target {} panicked", self.name);
            Err(Errno::IO)
        })
    }

    /// What an errno of the medium means for the caller; health is told what concerns it.
    pub fn error(&self, errno: Errno) -> TargetError {
        if self.shared.execution == Execution::Inline && errno == MISSED_DEADLINE {
            self.counters.deadline_misses.add(1);
            self.report(Event::DeadlineMissed { started: self.now() });
            self.report(Event::HangingReturned);
            return TargetError::Deadline;
        }
        if is_space(errno.raw_os_error()) {
            self.full.store(true, Ordering::Relaxed);
        }
        if is_hard(errno.raw_os_error()) {
            self.counters.errors.add(1);
            self.report(Event::OpError { transient: false });
        } else if is_read_only(errno.raw_os_error()) {
            self.counters.errors.add(1);
            self.report(Event::ReadOnly);
        }
        TargetError::Io(errno)
    }

    /// Hands an operation to a worker whatever the state, or executes it here.
    pub fn submit<T, F>(self: &Arc<Core>, class: Class, op: F) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Medium) -> Result<T, Errno> + Send + 'static,
    {
        if self.shared.execution == Execution::Inline {
            return Pending::ready(self.guarded(op).map_err(|errno| self.error(errno)));
        }
        let task = Arc::new(Task::new(op, self.now()));
        match Pool::push(self, task.clone(), class) {
            Ok(()) => Pending::under(task, self.clone()),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    /// A look whether the medium is what it was, which tells health. One look at a time: while one hangs, the next has
    /// failed already.
    pub fn probe(self: &Arc<Core>, durable: bool) -> Option<Look> {
        if self.probing.swap(true, Ordering::Relaxed) {
            self.report(Event::ProbeFailed);
            return None;
        }
        let core = self.clone();
        let began = self.now();
        self.own_ops.fetch_add(1, Ordering::Relaxed);
        let look = move |medium: &dyn Medium| {
            let answer = probe_by(medium, durable);
            core.probing.store(false, Ordering::Relaxed);
            match answer {
                // An answer that comes too late was counted as none.
                _ if core.now() >= core.counts_from(began) + super::clock::time(core.limits.deadline) => {}
                answer => {
                    if let Err(errno) = answer {
                        tracing::debug!("probe of target {}: {errno}", core.name);
                    }
                    core.report(probed(answer));
                }
            }
            Ok(())
        };
        Some(Look { core: self.clone(), work: Arc::new(Task::new(look, began)), at: At::Probe })
    }

    pub fn probe_not_begun(&self, error: &TargetError) {
        self.probing.store(false, Ordering::Relaxed);
        self.report(if error.is_shortage() { Event::ProbeNotMade } else { Event::ProbeFailed });
    }

    /// From when a deadline counts of what began then.
    pub fn counts_from(&self, began: Time) -> Time {
        self.shared.clock.counts_from(began)
    }

    /// Sleeps beside an operation on the target until then, or a part of that.
    pub fn sleep_beside<T>(&self, until: Time, sleep: impl FnOnce(Duration) -> T) -> T {
        let deadline = self.limits.deadline;
        let span = Duration::from_nanos(until.since(self.now()).0).min(super::clock::nap(deadline));
        self.shared.clock.sleep_beside(span, deadline, || sleep(span))
    }

    fn ops_of_others(&self) -> u64 {
        self.counters.ops.get().saturating_sub(self.own_ops.load(Ordering::Relaxed))
    }

    /// Whether somebody used it since its space was last measured.
    pub fn was_used(&self) -> bool {
        self.ops_of_others() != self.measured_at.load(Ordering::Relaxed)
    }

    /// Has its space measured soon.
    pub fn measure(self: &Arc<Core>) {
        self.shared.looks.push(self.space_look().into_iter().collect());
    }

    /// A look at its space, unless one is under way; made here and now where there are no threads.
    pub fn space_look(self: &Arc<Core>) -> Option<Look> {
        if self.measuring.swap(true, Ordering::Relaxed) {
            return None;
        }
        self.measured_at.store(self.ops_of_others(), Ordering::Relaxed);
        self.own_ops.fetch_add(1, Ordering::Relaxed);
        let core = self.clone();
        let look = move |medium: &dyn Medium| {
            let space = medium.space();
            core.measuring.store(false, Ordering::Relaxed);
            space.map(|space| core.set_space(space))
        };
        if self.shared.execution == Execution::Inline {
            let _ = self.guarded(look);
            return None;
        }
        Some(Look { core: self.clone(), work: Arc::new(Task::new(look, self.now())), at: At::Space })
    }

    pub fn space_not_begun(&self) {
        self.measuring.store(false, Ordering::Relaxed);
    }

    /// Whether new objects are better put elsewhere, as far as room is concerned.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// How long ago its space was known.
    pub fn space_age(&self) -> Option<Time> {
        let at = self.space_at.load(Ordering::Relaxed);
        (at > 0).then(|| self.now().since(Time(at)))
    }

    pub fn set_space(&self, space: Space) {
        self.space_at.store(self.now().0.max(1), Ordering::Relaxed);
        if space.free_bytes >= space.total_bytes / LITTLE_SHARE {
            self.full.store(false, Ordering::Relaxed);
        }
        self.total_bytes.store(space.total_bytes, Ordering::Relaxed);
        self.free_bytes.store(space.free_bytes, Ordering::Relaxed);
        self.device.store(space.device.map_or(0, |device| device.wrapping_add(1)), Ordering::Relaxed);
    }

    pub fn space(&self) -> Space {
        Space {
            total_bytes: self.total_bytes.load(Ordering::Relaxed),
            free_bytes: self.free_bytes.load(Ordering::Relaxed),
            device: self.device.load(Ordering::Relaxed).checked_sub(1),
        }
    }
}
