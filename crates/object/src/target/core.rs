//! State that the callers, the workers and the watching threads of one target share: the medium, its health, its
//! workers.

use super::changes::{Change, Changes};
use super::clock::Clock;
use super::counted::Counted;
use super::looks::{Check, Checks};
use super::medium::{Medium, Space};
use super::pending::{Pending, Task};
use super::pool::Pool;
use super::watch::Bell;
use super::{Counters, Execution, Limits, MISSED_DEADLINE, State, TargetError, TargetSpec};
use crate::errno::{is_hard, is_shortage, is_space};
use crate::now_ms;
use parking_lot::Mutex;
use policy::machine::Machine;
use policy::precedence::Class;
use policy::protect::health::{Action, Event, Health, Reason};
use policy::{TargetId, Time};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// State that all targets of a volume share.
pub struct Shared {
    pub execution: Execution,
    pub limits: Limits,
    pub clock: Clock,
    pub changes: Arc<Changes>,
    pub bell: Bell,
    pub looks: Arc<Checks>,
}

/// Inner part of a [`super::Target`].
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
    /// State, doubt (bit 3) and acceptance of new objects (bit 4), as of the last change of [`Health`]: all that the
    /// hot path reads.
    published: AtomicU8,
    probing: AtomicBool,
    /// Operations of the daemon's own watch: probes and measurements of space.
    own_ops: AtomicU64,
    /// Other operations as of the last measurement of space.
    measured_at: AtomicU64,
    measuring: AtomicBool,
    /// Its space, and the time of its last measurement by this or another node.
    space: Mutex<(Option<Time>, Space)>,
    /// Set when the target had no room for an operation, until more than a little is free.
    full: AtomicBool,
    /// Time at which calls or probes failed it, in milliseconds since 1970; 0 if an operator did.
    failed_ms: AtomicU64,
}

/// Share of its bytes (1/64) that a full target must have free before it is used again. A guess.
const LITTLE_SHARE: u64 = 64;

/// All states, each at its place in `Core::published`.
const STATES: [State; 5] = [State::Ok, State::Suspect, State::Failed, State::Draining, State::ReadOnly];
const DOUBT: u8 = 8;
const TAKES_NEW: u8 = 16;

fn encode(health: &Health) -> u8 {
    let state = STATES.iter().position(|state| *state == health.state()).expect("every state is there");
    let flag = |set, flag| if set { flag } else { 0 };
    state as u8 | flag(health.in_doubt(), DOUBT) | flag(health.accepts_new_objects(), TAKES_NEW)
}

fn probe_by(medium: &dyn Medium, durable: bool) -> Result<(), Errno> {
    if durable { medium.probe_durable() } else { medium.probe() }
}

/// Event for health from a probe's answer.
pub fn probed(answer: Result<(), Errno>) -> Event {
    match answer {
        Ok(()) => Event::ProbeOk,
        Err(Errno::ROFS) => Event::ProbeReadOnly,
        Err(errno) if is_shortage(errno) => Event::ProbeNotMade,
        Err(_) => Event::ProbeFailed,
    }
}

impl Core {
    /// `own`: the core itself, to which failed syncs are reported.
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
            pool: Pool::default(),
            counters,
            shared: shared.clone(),
            published: AtomicU8::new(encode(&health)),
            health: Mutex::new(health),
            probing: AtomicBool::new(false),
            own_ops: AtomicU64::new(0),
            measured_at: AtomicU64::new(0),
            measuring: AtomicBool::new(false),
            space: Mutex::default(),
            full: AtomicBool::new(false),
            failed_ms: AtomicU64::new(0),
        }
    }

    pub fn now(&self) -> Time {
        self.shared.clock.now()
    }

    pub fn state(&self) -> State {
        STATES[usize::from(self.published.load(Ordering::Relaxed) & (DOUBT - 1))]
    }

    /// Whether calls or probes failed it after an order of that time, in milliseconds since 1970.
    pub fn failed_after(&self, ordered_ms: u64) -> bool {
        self.failed_ms.load(Ordering::Relaxed) > ordered_ms
    }

    pub fn in_doubt(&self) -> bool {
        self.published.load(Ordering::Relaxed) & DOUBT != 0
    }

    /// Whether new objects may be created on it.
    pub fn accepts_new_objects(&self) -> bool {
        self.published.load(Ordering::Relaxed) & TAKES_NEW != 0
    }

    /// Returns a part of its health.
    pub fn health<T>(&self, read: impl FnOnce(&Health) -> T) -> T {
        read(&self.health.lock())
    }

    pub fn next_deadline(&self) -> Option<Time> {
        self.health.lock().next_deadline()
    }

    /// Reports an event to health, and executes its actions.
    pub fn report(&self, event: Event) {
        let (mut probe, mut changed, mut failed) = (None, false, false);
        {
            let mut health = self.health.lock();
            health.handle(self.now(), event);
            self.published.store(encode(&health), Ordering::Relaxed);
            while let Some(action) = health.poll() {
                match action {
                    Action::Probe { durable, .. } => probe = Some(durable),
                    Action::Changed { from, to, reason } => {
                        changed = true;
                        if to == State::Failed {
                            failed = true;
                            let at = if reason == Reason::Operator { 0 } else { now_ms() };
                            self.failed_ms.store(at, Ordering::Relaxed);
                        }
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
        if changed {
            self.shared.changes.deliver_soon();
        }
        if let Some(durable) = probe {
            self.shared.bell.want_probe(self.id, durable);
        }
        // The prober wakes soon enough by itself.
        if probe.is_some()
            || self.next_deadline().is_some_and(|at| at < self.now() + super::clock::time(super::watch::SPACE_SPAN))
        {
            self.shared.bell.ring();
        }
    }

    /// Executes an operation on this thread. A panic in it is our bug; the target's caller gets `EIO`.
    pub fn guarded<T>(&self, op: impl FnOnce(&dyn Medium) -> Result<T, Errno>) -> Result<T, Errno> {
        self.counters.ops.add(1);
        let run = std::panic::AssertUnwindSafe(|| op(&*self.medium));
        std::panic::catch_unwind(run).unwrap_or_else(|_| {
            tracing::error!("bug: an operation on target {} panicked", self.name);
            Err(Errno::IO)
        })
    }

    /// Converts an errno of the medium for the caller, and reports it to health if it concerns health.
    pub fn error(&self, errno: Errno) -> TargetError {
        if self.shared.execution == Execution::Inline && errno == MISSED_DEADLINE {
            self.counters.deadline_misses.add(1);
            self.report(Event::DeadlineMissed { started: self.now() });
            self.report(Event::HangingReturned);
            return TargetError::Deadline;
        }
        if is_space(errno) {
            self.full.store(true, Ordering::Relaxed);
        }
        if is_hard(errno) {
            self.counters.errors.add(1);
            self.report(Event::OpError);
        } else if errno == Errno::ROFS {
            self.counters.errors.add(1);
            self.report(Event::ReadOnly);
        } else if errno == Errno::NOENT {
            // The object is gone, or the whole target is.
            self.report(Event::ObjectMissing);
        }
        TargetError::Io(errno)
    }

    /// Hands an operation to a worker in any state of the target, or executes it here.
    pub fn submit<T: Send + 'static>(
        self: &Arc<Core>,
        class: Class,
        op: impl FnOnce(&dyn Medium) -> Result<T, Errno> + Send + 'static,
    ) -> Pending<T> {
        if self.shared.execution == Execution::Inline {
            return Pending::ready(self.guarded(op).map_err(|errno| self.error(errno)));
        }
        let task = Arc::new(Task::new(op, self.now()));
        match Pool::push(self, task.clone(), class) {
            Ok(()) => Pending::under(task, self.clone()),
            Err(error) => Pending::ready(Err(error)),
        }
    }

    /// Returns a check of the medium's identity, which reports to health. One runs at a time: while one hangs, the next
    /// counts as failed already.
    pub fn probe(self: &Arc<Core>, durable: bool) -> Option<Check> {
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
                // A late answer was counted as none.
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
        Some(Check { core: self.clone(), work: Arc::new(Task::new(look, began)), not_begun: Core::probe_not_begun })
    }

    fn probe_not_begun(&self, error: &TargetError) {
        self.probing.store(false, Ordering::Relaxed);
        self.report(if error.is_shortage() { Event::ProbeNotMade } else { Event::ProbeFailed });
    }

    /// Start of the deadline of an operation that began at `began`.
    pub fn counts_from(&self, began: Time) -> Time {
        self.shared.clock.counts_from(began)
    }

    /// Sleeps beside an operation on the target until the given time, or for a part of that.
    pub fn sleep_beside<T>(&self, until: Time, sleep: impl FnOnce(Duration) -> T) -> T {
        let deadline = self.limits.deadline;
        let span = Duration::from_nanos(until.since(self.now()).0).min(super::clock::nap(deadline));
        self.shared.clock.sleep_beside(span, deadline, || sleep(span))
    }

    fn ops_of_others(&self) -> u64 {
        self.counters.ops.get().saturating_sub(self.own_ops.load(Ordering::Relaxed))
    }

    /// Whether it was used since the last measurement of its space.
    pub fn was_used(&self) -> bool {
        self.ops_of_others() != self.measured_at.load(Ordering::Relaxed)
    }

    /// Requests a measurement of its space.
    pub fn measure(self: &Arc<Core>) {
        self.shared.looks.push(self.space_look().into_iter().collect());
    }

    /// Returns a measurement of its space, unless one is under way. Runs it here if there are no threads.
    pub fn space_look(self: &Arc<Core>) -> Option<Check> {
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
        let not_begun = |core: &Core, _: &TargetError| core.measuring.store(false, Ordering::Relaxed);
        Some(Check { core: self.clone(), work: Arc::new(Task::new(look, self.now())), not_begun })
    }

    /// Whether new objects should go elsewhere for lack of space.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Age of the figures of its space.
    pub fn space_age(&self) -> Option<Time> {
        self.space.lock().0.map(|at| self.now().since(at))
    }

    pub fn set_space(&self, space: Space) {
        if space.free_bytes >= space.total_bytes / LITTLE_SHARE {
            self.full.store(false, Ordering::Relaxed);
        }
        *self.space.lock() = (Some(self.now()), space);
    }

    pub fn space(&self) -> Space {
        self.space.lock().1
    }
}
