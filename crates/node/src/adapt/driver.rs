//! The driver: passes events to the machine, its actions to the carriers, and its deadline to the loop.

use super::jobs::Jobs;
use super::run::REST_MIN;
use object::stop::Stop;
use object::workers::{Periodic, Pool};
use parking_lot::{Mutex, MutexGuard};
use policy::Time;
use policy::machine::Machine;
use policy::volume::{Event, Volume};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Present time on the machine's clock.
pub type Clock = Box<dyn Fn() -> Time + Send + Sync>;

/// The machine and the receivers of its actions. The lock is held for one event (or a batch of recorded ones) and until
/// the resulting actions are queued in order. No other work is done under it.
pub struct Driver {
    machine: Mutex<Volume>,
    clock: Clock,
    /// Queue of the carriers.
    pub jobs: Jobs,
    /// Steps of the loop; unset in tests that step by themselves.
    steps: OnceLock<Periodic>,
    /// Whether a step runs. It returns the time until the next one by itself.
    in_step: AtomicBool,
    /// Set at the end.
    pub stop: Stop,
}

impl Driver {
    pub fn new(machine: Volume, clock: Clock) -> Arc<Driver> {
        let (machine, jobs) = (Mutex::new(machine), Jobs::default());
        let (steps, in_step) = (OnceLock::new(), AtomicBool::new(false));
        Arc::new(Driver { machine, clock, jobs, steps, in_step, stop: Stop::default() })
    }

    /// Starts the steps of the loop, which return the time until the next.
    pub fn start(&self, threads: &Pool, step: impl Fn() -> Option<Duration> + Send + Sync + 'static) {
        drop(self.steps.set(Periodic::new(threads, step)));
        self.step_in(Time::ZERO);
    }

    /// Has the loop step after a span, unless a step is due sooner.
    pub fn step_in(&self, span: Time) {
        if let Some(steps) = self.steps.get() {
            // A failure has been logged; the next event starts the step.
            drop(steps.wake_in(Duration::from_nanos(span.max(REST_MIN).0)));
        }
    }

    /// Runs a step of the loop. Returns the machine's next deadline.
    pub fn run_step(&self, step: impl FnOnce()) -> Option<Time> {
        self.in_step.store(true, Ordering::Release);
        step();
        // A deadline that is set from here on is in the result, or starts a step.
        self.in_step.store(false, Ordering::Release);
        self.machine().next_deadline()
    }

    pub fn now(&self) -> Time {
        (self.clock)()
    }

    /// The machine, locked, for reading its state.
    pub fn machine(&self) -> MutexGuard<'_, Volume> {
        self.machine.lock()
    }

    /// Passes an event to the machine and queues the resulting actions.
    pub fn tell(&self, event: Event) {
        self.tell_all([event]);
    }

    /// Passes several events to the machine under one lock.
    pub fn tell_all(&self, events: impl IntoIterator<Item = Event>) {
        self.with_machine(|machine, now| events.into_iter().for_each(|event| machine.handle(now, event)));
    }

    /// Calls `ask` with the machine, then queues the resulting actions and has the loop step at the deadline.
    pub fn with_machine<T>(&self, ask: impl FnOnce(&mut Volume, Time) -> T) -> T {
        let mut machine = self.machine.lock();
        let now = self.now();
        let answer = ask(&mut machine, now);
        machine.drain().for_each(|action| self.jobs.act(action));
        if let Some(at) = machine.next_deadline().filter(|_| !self.in_step.load(Ordering::Acquire)) {
            self.step_in(at.since(now));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::workers::END_SPAN;
    use policy::volume::Config;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    #[test]
    fn steps_that_are_due_at_once_leave_the_loop_its_rest() {
        let config = Config { burst: None, tiers: None, stripes: None, replicas: None, changes_max: 1, repairs: false };
        let began = Instant::now();
        let driver = Driver::new(Volume::new(config, Time::ZERO), Box::new(|| Time::ZERO));
        let (threads, (tell, stepped)) = (Pool::new("a-test", 1), channel());
        driver.start(&threads, move || tell.send(()).ok().map(|()| Duration::from_secs(3600)));
        for turn in 1..=3 {
            stepped.recv().expect("a step");
            assert!(began.elapsed() >= Duration::from_nanos(REST_MIN.0 * turn), "turn {turn}");
            driver.step_in(Time::ZERO);
        }
        assert!(threads.stop(END_SPAN), "a late step does not keep the pool");
    }
}
