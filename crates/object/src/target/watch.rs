//! The watch of the targets of a volume: a thread answers for hung callers, and periodic work probes and measures. None
//! of them touches a medium, so none can hang.

use super::Targets;
use super::clock::{nap, time};
use super::core::Shared;
use crate::workers::{Periodic, Pool, Workers};
use parking_lot::{Condvar, Mutex};
use policy::cluster::idle;
use policy::protect::health::Event;
use policy::{TargetId, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Age limit of the cached space of a target in use.
pub const SPACE_SPAN: Duration = Duration::from_secs(5);

/// Wakes the prober.
#[derive(Default)]
pub struct Bell {
    rung: Mutex<Rung>,
    /// Wakes the watchdog.
    watch: Condvar,
    prober: OnceLock<Periodic>,
}

#[derive(Default)]
struct Rung {
    entered: bool,
    stopped: bool,
    probes: BTreeMap<TargetId, bool>,
}

impl Bell {
    pub fn ring(&self) {
        // A failure to start has been logged; the next ring starts it.
        self.prober.get().into_iter().for_each(|prober| drop(prober.wake_in(Duration::ZERO)));
    }

    /// Signals that an inline operation began.
    pub fn entered(&self) {
        self.rung.lock().entered = true;
        self.watch.notify_all();
    }

    /// Sleeps until an inline operation begins. Returns false after a stop.
    fn wait_for_entered(&self) -> bool {
        let mut rung = self.rung.lock();
        while !rung.entered && !rung.stopped {
            self.watch.wait(&mut rung);
        }
        rung.entered = false;
        !rung.stopped
    }

    /// Requests a probe of this target for health, with a sync if `durable`.
    pub fn want_probe(&self, target: TargetId, durable: bool) {
        self.rung.lock().probes.insert(target, durable);
    }

    pub fn take_probes(&self) -> BTreeMap<TargetId, bool> {
        std::mem::take(&mut self.rung.lock().probes)
    }

    /// Ends both, and waits for the prober for at most `timeout`.
    pub fn stop(&self, timeout: Duration) {
        self.rung.lock().stopped = true;
        self.watch.notify_all();
        if let Some(prober) = self.prober.get() {
            prober.stop(timeout);
        }
    }

    /// Sleeps for `span`, even after a ring. Returns false after [`Bell::stop`].
    fn nap(&self, span: Duration) -> bool {
        let mut rung = self.rung.lock();
        let until = std::time::Instant::now() + span;
        while !rung.stopped && !self.watch.wait_until(&mut rung, until).timed_out() {}
        !rung.stopped
    }
}

/// Starts both. They end with [`Bell::stop`].
pub fn start(targets: &Arc<Targets>, watch: &Workers, shared: &Arc<Shared>, threads: &Pool) {
    let (for_prober, for_watchdog) = (Arc::downgrade(targets), Arc::downgrade(targets));
    let (probed, prober, watchdog) = (Arc::downgrade(shared), Mutex::new(Prober::default()), shared.clone());
    let work = move || Some(prober.lock().look(&*for_prober.upgrade()?, &*probed.upgrade()?));
    let prober = shared.bell.prober.get_or_init(|| Periodic::new(threads, work));
    let watches = watch.start("watchdog", move || watch_until_stopped(&for_watchdog, &watchdog));
    assert!(prober.wake_in(Duration::ZERO).is_ok() && watches, "the first threads of a process can be started");
}

fn watch_until_stopped(targets: &Weak<Targets>, shared: &Shared) {
    // A hung caller is answered for at most `span` after its deadline.
    let (deadline, span) = (shared.limits.deadline, nap(shared.limits.deadline));
    while shared.clock.sleep_beside(span, deadline, || shared.bell.nap(span)) {
        let Some(targets) = targets.upgrade() else { return };
        targets.take_overdue();
        let rests = targets.rests();
        drop(targets);
        if rests && !shared.bell.wait_for_entered() {
            return;
        }
    }
}

/// Times of the last measurements.
#[derive(Default)]
struct Prober {
    measured: Option<Time>,
    measured_all: Option<Time>,
    /// Whether measurements for other nodes were requested last time.
    sends: bool,
}

impl Prober {
    /// Probes and measures what is due. Returns when to call again.
    fn look(&mut self, targets: &Targets, shared: &Shared) -> Duration {
        let now = shared.clock.now();
        // The space of unused targets changes only by other nodes.
        let all = self.measured_all.is_none_or(|at| now.since(at) >= idle::EVERY);
        if self.measured.is_none_or(|at| now.since(at) >= time(SPACE_SPAN)) {
            self.measured = Some(now);
            // The measurements requested last time have arrived.
            if std::mem::replace(&mut self.sends, all) {
                targets.tell_space();
            }
            self.measured_all = if all { self.measured } else { self.measured_all };
            targets.measure(all);
        }
        let next = targets.tick(now).map_or(SPACE_SPAN, |at| Duration::from_nanos(at.since(now).0));
        let again = shared.looks.hand_over(shared.clock.now());
        next.min(again.unwrap_or(SPACE_SPAN)).min(SPACE_SPAN)
    }
}

impl Targets {
    /// Executes all that is due by `now`, and starts the requested probes. Returns when to call again.
    pub(super) fn tick(&self, now: Time) -> Option<Time> {
        let all = self.all();
        for target in &all {
            if target.core.next_deadline().is_some_and(|at| at <= now) {
                target.core.report(Event::Tick);
            }
        }
        self.compare_file_systems(&all);
        self.start_probes();
        all.iter().filter_map(|target| target.core.next_deadline()).min()
    }
}
