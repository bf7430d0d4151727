//! Threads that keep the connections: one per connection that mounts and unmounts, and those that probe.

use super::Connections;
use crate::mounts::Root;
use object::workers::{Periodic, Pool};
use policy::connections::{Action, ConnectionId, Event};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Maximum interval of ticks: an event without an action may set a deadline, too.
const TICK_SPAN_MAX: Duration = Duration::from_millis(500);
/// Limit of threads. A guess that is never reached: a probe that hangs keeps its thread until the connection is taken
/// out.
const THREADS_MAX: usize = 4096;

/// A thread for each connection, those of the probes, and the ticks of the machines at their deadlines.
pub struct Threads {
    pool: Pool,
    ticks: Periodic,
}

impl Threads {
    /// Returns the threads of a set.
    pub fn new(set: Weak<Connections>) -> Threads {
        let pool = Pool::new("connections", THREADS_MAX);
        let ticks = Periodic::new(&pool, move || {
            let set = set.upgrade().filter(|set| !set.ended.load(Ordering::Acquire))?;
            Some(set.tick().unwrap_or(TICK_SPAN_MAX).min(TICK_SPAN_MAX))
        });
        Threads { pool, ticks }
    }

    /// Announces that deadlines may have changed.
    pub fn wake(&self) {
        // A failure to start has been logged; the next event starts it.
        drop(self.ticks.wake_in(Duration::ZERO));
    }
}

/// Jobs of a connection's thread, done in order.
pub enum Job {
    /// Unmount by force.
    TakeOut,
    /// Mount the connection again.
    Mount,
}

/// Initial state of a connection's thread.
pub struct Worker {
    /// Number of the connection.
    pub number: u16,
    /// Queue of its jobs.
    pub todo: Receiver<Job>,
}

/// Starts all threads; they end with the set. Without its thread, a broken connection stays out.
pub fn start(set: &Arc<Connections>, workers: Vec<Worker>) {
    for Worker { number, todo } in workers {
        let weak = Arc::downgrade(set);
        drop(set.threads.pool.push(move || work(&weak, number, &todo)));
    }
    set.threads.wake();
}

/// Carries out an action of a connection's machine.
pub fn act(set: &Arc<Connections>, number: u16, action: Action) {
    let slot = &set.slots[usize::from(number)];
    match action {
        Action::Changed { from, to, cause } => {
            let source = set.mounts.source(number);
            tracing::info!(connection = number, source, "{to}, was {from}: {cause}");
        }
        Action::Probe => {
            let (weak, root) = (Arc::downgrade(set), set.root(ConnectionId(number)));
            drop(set.threads.pool.push(move || probe(&weak, root.as_deref())));
        }
        Action::TakeOut => drop(slot.jobs.send(Job::TakeOut)),
        Action::Mount => drop(slot.jobs.send(Job::Mount)),
    }
}

fn probe(set: &Weak<Connections>, root: Option<&Root>) {
    let Some(root) = root else { return };
    let good = root.probe();
    let Some(set) = set.upgrade() else { return };
    if let Err(error) = good {
        tracing::info!(connection = root.number, %error, "the probe failed");
    }
    let event = if good.is_ok() { Event::ProbeGood } else { Event::ProbeFailed };
    set.event(root.number, root.generation, event);
}

fn work(set: &Weak<Connections>, number: u16, todo: &Receiver<Job>) {
    while let Ok(job) = todo.recv() {
        let Some(set) = set.upgrade().filter(|set| !set.ended.load(Ordering::Acquire)) else { return };
        let slot = &set.slots[usize::from(number)];
        match job {
            Job::TakeOut => take_out(&set, number),
            Job::Mount => {
                let generation = slot.generation.load(Ordering::Acquire);
                let event = match mount(&set, number, generation + 1) {
                    Ok(root) => {
                        *slot.root.write() = Some(Arc::new(root));
                        slot.counts.mounted_again.fetch_add(1, Ordering::Relaxed);
                        slot.generation.store(generation + 1, Ordering::Release);
                        Event::Mounted
                    }
                    Err(why) => {
                        tracing::warn!(
                            connection = number,
                            source = set.mounts.source(number),
                            "not mounted again: {why}"
                        );
                        Event::MountFailed
                    }
                };
                set.event(number, slot.generation.load(Ordering::Acquire), event);
            }
        }
    }
}

/// Unmounts a connection by force.
pub fn take_out(set: &Connections, number: u16) {
    let root = set.slots[usize::from(number)].root.write().take();
    if let Some(client) = root.and_then(|root| root.client()) {
        client.take_out();
    }
    set.mounts.take_out(number);
}

fn mount(set: &Connections, number: u16, generation: u64) -> Result<Root, String> {
    let fd = set.mounts.mount(number).map_err(|error| error.to_string())?;
    let fresh = Root::new(fd, number, generation).map_err(|error| error.to_string());
    let with_library = |root: Root| {
        if set.over_library {
            root.set_client(set.mounts.client(number).map_err(|error| error.to_string())?);
        }
        Ok(root)
    };
    let checked = fresh.and_then(|root| set.is_same(&root).map(|()| root)).and_then(with_library);
    checked.inspect_err(|_| set.mounts.take_out(number))
}
