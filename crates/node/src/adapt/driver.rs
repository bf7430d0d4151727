//! The driver: passes events to the machine, its actions to the carriers, and its deadline to the loop.

use super::jobs::Jobs;
use super::run::Alarm;
use parking_lot::{Mutex, MutexGuard};
use policy::Time;
use policy::machine::Machine;
use policy::volume::{Event, Volume};
use std::sync::Arc;

/// Present time on the machine's clock.
pub type Clock = Box<dyn Fn() -> Time + Send + Sync>;

/// The machine and the receivers of its actions. The lock is held for one event (or a batch of recorded ones) and until
/// the resulting actions are queued in order. No other work is done under it.
pub struct Driver {
    machine: Mutex<Volume>,
    clock: Clock,
    /// Queue of the carriers.
    pub jobs: Jobs,
    /// When the loop steps next.
    pub alarm: Alarm,
}

impl Driver {
    pub fn new(machine: Volume, clock: Clock) -> Arc<Driver> {
        Arc::new(Driver { machine: Mutex::new(machine), clock, jobs: Jobs::default(), alarm: Alarm::default() })
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

    /// Calls `ask` with the machine, then queues the resulting actions and sets the alarm.
    pub fn with_machine<T>(&self, ask: impl FnOnce(&mut Volume, Time) -> T) -> T {
        let mut machine = self.machine.lock();
        let answer = ask(&mut machine, self.now());
        machine.drain().for_each(|action| self.jobs.act(action));
        self.alarm.set(machine.next_deadline());
        answer
    }
}
