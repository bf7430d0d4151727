//! The driver: tells the machine what happened, and hands on what it says: to the carriers, and its deadline to the loop.

use super::jobs::Jobs;
use super::run::Alarm;
use parking_lot::{Mutex, MutexGuard};
use policy::Time;
use policy::machine::Machine;
use policy::volume::{Event, Volume};
use std::sync::Arc;

/// Tells the time on the machine's clock.
pub type Clock = Box<dyn Fn() -> Time + Send + Sync>;

/// The machine, and where what it says goes. Its lock is held for one event, or some of those recorded, and until what
/// it says to them waits in order; nothing else is done meanwhile.
pub struct Driver {
    machine: Mutex<Volume>,
    clock: Clock,
    /// What carriers are to do.
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

    /// The machine, to ask it what it knows.
    pub fn machine(&self) -> MutexGuard<'_, Volume> {
        self.machine.lock()
    }

    /// Tells the machine what happened, and hands on what it says.
    pub fn tell(&self, event: Event) {
        self.tell_all([event]);
    }

    /// The same of several events, with nothing in between.
    pub fn tell_all(&self, events: impl IntoIterator<Item = Event>) {
        self.with_machine(|machine, now| events.into_iter().for_each(|event| machine.handle(now, event)));
    }

    /// Asks the machine what may have it say something, and hands that on.
    pub fn with_machine<T>(&self, ask: impl FnOnce(&mut Volume, Time) -> T) -> T {
        let mut machine = self.machine.lock();
        let answer = ask(&mut machine, self.now());
        machine.drain().for_each(|action| self.jobs.act(action));
        self.alarm.set(machine.next_deadline());
        answer
    }
}
