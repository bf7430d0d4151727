//! The worker: complaints and failures in, swaps and rebuilds out, as the machine decides.

use super::*;
use crate::daemon::requests::layout::file_named;
use policy::layout::Reason;
use policy::machine::Machine;
use policy::protect::failover::{Action, Event};
use std::sync::mpsc::RecvTimeoutError;

/// Looks at its deadlines at least this often.
const LOOK_EVERY: Duration = Duration::from_secs(60);

impl Replicas {
    pub(super) fn work(self: &Arc<Replicas>, told: &Receiver<Word>) {
        loop {
            let now = self.now();
            let due = self.machine.lock().next_deadline();
            let wait = due.map_or(LOOK_EVERY, |at| Duration::from_nanos(at.since(now).0)).min(LOOK_EVERY);
            let events = match told.recv_timeout(wait) {
                Ok(Word::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Word::Event(event)) => vec![event],
                Ok(Word::TargetFailed(target)) => self.held_by(target),
                Err(RecvTimeoutError::Timeout) => vec![Event::Tick],
            };
            let Some(core) = self.core.get().and_then(Weak::upgrade) else { return };
            for event in events {
                self.handle(&core, event);
            }
            self.handle(&core, Event::Tick);
        }
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }

    /// A complaint about each file with a replica of which that target held a part.
    fn held_by(&self, target: TargetId) -> Vec<Event> {
        let Some(core) = self.core.get().and_then(Weak::upgrade) else { return Vec::new() };
        let lies_there = |id: &FileId| {
            let layout = core.files.find(*id).and_then(|file| file.layout());
            layout.is_some_and(|l| l.objects().any(|(_, o)| o.target == target))
        };
        let hit = self.all().into_iter().filter(lies_there);
        hit.map(|file| Event::Complained { key: failover::Key { file, target } }).collect()
    }

    fn handle(self: &Arc<Replicas>, core: &Arc<Core>, event: Event) {
        self.machine.lock().handle(self.now(), event);
        loop {
            let Some(action) = self.machine.lock().poll() else { return };
            match action {
                Action::Swap { key, .. } => {
                    let event = self.swap(core, key);
                    self.machine.lock().handle(self.now(), event);
                }
                Action::Rebuild { key, .. } => self.rebuild(core, key),
            }
        }
    }

    fn swap(&self, core: &Core, key: failover::Key) -> Event {
        let began = Instant::now();
        let Some(replica) = self.held.lock().get(&key.file).cloned() else { return Event::NoReplica { key } };
        let Some(file) = core.files.find(key.file) else { return Event::NoReplica { key } };
        let path = file_named(core, key.file);
        let name = core.volume.targets().get(key.target).map_or(key.target.to_string(), |t| t.name().to_string());
        let of_replica = |file: &File| {
            let layout = file.layout();
            layout.is_some_and(|l| l.objects().any(|(at, o)| at.mirror == replica.mirror && o.target == key.target))
        };
        match core.mover.swap_replica(&file, replica.mirror, key.target) {
            // What failed was a part of the replica alone: nothing to swap, and something to make anew.
            Ok(0) if of_replica(&file) => Event::Swapped { key },
            Ok(0) => Event::NoReplica { key },
            Ok(objects) => {
                let stats = core.volume.stats();
                stats.add(Metric::Failovers, 1);
                stats.add(Metric::FailoverNs, began.elapsed().as_nanos() as u64);
                core.pool.observer.news(format!(
                    "{path}: target {name} failed, {objects} object(s) of its replica took over in {:.1} ms",
                    began.elapsed().as_secs_f64() * 1e3
                ));
                Event::Swapped { key }
            }
            Err(error) => {
                core.pool.observer.news(format!("{path}: its replica cannot take over for target {name}: {error}"));
                Event::NoReplica { key }
            }
        }
    }

    /// Makes what the replica lacks anew, on a thread of its own: swaps of other files do not wait for it.
    fn rebuild(self: &Arc<Replicas>, core: &Arc<Core>, key: failover::Key) {
        let (this, core) = (self.clone(), core.clone());
        let work = move || {
            let found = core.files.find(key.file).filter(|_| this.has(key.file));
            let rebuilt = match &found {
                Some(file) => core.mover.replace_target(file, key.target, Reason::FailedOver(key.target)).map(drop),
                None => Ok(()), // there is nothing left to protect
            };
            this.say(Word::Event(match rebuilt {
                Ok(()) => {
                    core.volume.stats().add(Metric::ReplicasRebuilt, u64::from(found.is_some()));
                    Event::Rebuilt { key }
                }
                Err(error) => {
                    tracing::info!("the replica of file {} is not rebuilt yet: {error}", key.file);
                    Event::RebuildFailed { key }
                }
            }));
        };
        if let Err(error) = std::thread::Builder::new().name("rebuild".into()).spawn(work) {
            tracing::error!("no thread to rebuild a replica: {error}");
            self.say(Word::Event(Event::RebuildFailed { key }));
        }
    }
}
