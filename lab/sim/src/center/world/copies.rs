//! Copies of inputs: `policy::protect::replica` decides which are made and removed, `failover` when one takes over.

use super::{EventKind, Rank as EventRank, World, number};
use crate::center::nodes::{NodeSet, counterparts, substitute};
use crate::center::setup::{Replication as Wanted, Setup};
use policy::ids::{FileId, TargetId};
use policy::machine::Machine;
use policy::protect::failover::{self, Failover};
use policy::protect::replica::{Action, Config, Event, Rank, Replication, Strategy};
use policy::schedule::easy::JobId;
use policy::time::Time;
use std::collections::BTreeMap;

/// A copy that is complete or being made.
#[derive(Debug)]
struct Replica {
    epoch: u32,
    complete: bool,
    bytes: u64,
    /// Node of each counterpart, by node of the input.
    pairs: Vec<(u16, u16)>,
}

/// All copies of a centre.
#[derive(Debug)]
pub(super) struct Copies {
    machine: Replication,
    failover: Failover,
    there: BTreeMap<u32, Replica>,
    epoch: u32,
    /// True times of dispatch, if they are known.
    ranks: Option<Vec<u64>>,
    arrivals: u64,
    bytes: u64,
    pub peak_bytes: u64,
    pub swapped: u64,
    /// Whether a state machine may have actions.
    told: bool,
}

impl Copies {
    pub(super) fn new(setup: &Setup, procs: u32, ranks: Option<Vec<u64>>) -> Copies {
        let strategy = match setup.replication {
            Wanted::None => Strategy::None,
            Wanted::Fcfs | Wanted::DispatchAware => Strategy::Window,
            Wanted::Shortcut => Strategy::Shortcut(setup.threshold),
            Wanted::All => Strategy::All,
        };
        let config = Config {
            strategy,
            alpha: setup.alpha,
            removal: setup.removal,
            // No limit, as published: the few concurrent copies do not slow each other down.
            creating_max: usize::MAX,
            poll_every: None,
            ..Config::new(procs)
        };
        Copies {
            machine: Replication::new(config),
            failover: Failover::new(failover::Config::default()),
            there: BTreeMap::new(),
            epoch: 0,
            ranks,
            arrivals: 0,
            bytes: 0,
            peak_bytes: 0,
            swapped: 0,
            told: false,
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.machine.next_deadline().into_iter().chain(self.failover.next_deadline()).min()
    }

    pub(super) fn check(&self) {
        self.machine.check();
        self.failover.check();
        assert_eq!(self.bytes, self.there.values().map(|replica| replica.bytes).sum::<u64>(), "space of the copies");
    }

    /// Bytes of all copies, complete or not.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of copies.
    pub(super) fn count(&self) -> u64 {
        self.there.len() as u64
    }

    fn tell(&mut self, now: Time, event: Event) {
        self.machine.handle(now, event);
        self.told = true;
    }

    fn rank(&mut self, job: u32, again: bool, now: Time) -> Rank {
        self.arrivals += 1;
        match &self.ranks {
            Some(_) if again => Rank(now.0),
            Some(ranks) => Rank(ranks[job as usize]),
            None => Rank(self.arrivals),
        }
    }
}

impl World<'_> {
    pub(super) fn copies_submitted(&mut self, job: u32) {
        let (now, attempt) = (self.now, self.live[job as usize].attempt);
        let nodes = self.jobs[job as usize].nodes;
        let Some(copies) = &mut self.copies else { return };
        let rank = copies.rank(job, attempt > 0, now);
        let files = vec![FileId(u64::from(job))];
        copies.tell(now, Event::Submitted { job: number(job, attempt), rank, nodes, files });
    }

    /// Records the dispatch of a job; returns whether its copy is complete.
    pub(super) fn copies_dispatched(&mut self, job: u32) -> bool {
        let complete = self.copy_is_complete(job);
        let (now, attempt, nodes) = (self.now, self.live[job as usize].attempt, self.jobs[job as usize].nodes);
        if let Some(copies) = &mut self.copies {
            copies.tell(now, Event::Dispatched { job: number(job, attempt), nodes });
        }
        complete
    }

    /// Records the return of a node: its next failure is a new one.
    pub(super) fn copies_returned(&mut self, node: u16) {
        let now = self.now;
        if let Some(copies) = &mut self.copies {
            copies.failover.handle(now, failover::Event::TargetReturned(TargetId(node)));
        }
    }

    pub(super) fn copies_closed(&mut self, job: u32) {
        let (now, attempt) = (self.now, self.live[job as usize].attempt);
        let Some(copies) = &mut self.copies else { return };
        copies.tell(now, Event::Closed { job: number(job, attempt), file: FileId(u64::from(job)) });
    }

    pub(super) fn copies_ended(&mut self, id: JobId) {
        let now = self.now;
        if let Some(copies) = &mut self.copies {
            copies.tell(now, Event::Ended(id));
        }
    }

    pub(super) fn copy_is_complete(&self, job: u32) -> bool {
        self.copies.as_ref().and_then(|copies| copies.there.get(&job)).is_some_and(|replica| replica.complete)
    }

    /// Completes a copy, unless it was removed.
    pub(super) fn copied(&mut self, job: u32, epoch: u32) {
        let now = self.now;
        let Some(copies) = &mut self.copies else { return };
        if let Some(replica) = copies.there.get_mut(&job).filter(|replica| replica.epoch == epoch) {
            replica.complete = true;
            copies.tell(now, Event::Created(FileId(u64::from(job))));
        }
    }

    /// Handles the failure of a node: copies on it are useless and are made again.
    pub(super) fn copies_lost(&mut self, node: u16) {
        let now = self.now;
        let Some(copies) = &mut self.copies else { return };
        let on_it = |replica: &Replica| replica.pairs.iter().any(|(_, other)| *other == node);
        let hit: Vec<u32> = copies.there.iter().filter(|(_, replica)| on_it(replica)).map(|(job, _)| *job).collect();
        for job in hit {
            let Some(replica) = copies.there.remove(&job) else { continue };
            copies.bytes -= replica.bytes;
            let file = FileId(u64::from(job));
            copies.failover.handle(now, failover::Event::Forget(file));
            let event = if replica.complete { Event::Lost(file) } else { Event::CreateFailed(file) };
            copies.tell(now, event);
        }
    }

    /// Fails over to the counterpart of a node's part. Returns whether there is one.
    pub(super) fn fail_over(&mut self, job: u32, node: u16) -> bool {
        let (now, file, target) = (self.now, FileId(u64::from(job)), TargetId(node));
        let Some(copies) = &mut self.copies else { return false };
        let down = self.down;
        let complete = copies.there.get(&job).filter(|replica| replica.complete);
        let other =
            complete.and_then(|replica| replica.pairs.iter().find(|(own, _)| *own == node)).map(|(_, other)| *other);
        let Some(other) = other.filter(|other| !down.has(*other)) else { return false };
        let key = failover::Key { file, target };
        copies.failover.handle(now, failover::Event::Complained(key));
        while let Some(action) = copies.failover.poll() {
            if let failover::Action::Swap { key, .. } = action {
                copies.failover.handle(now, failover::Event::Swapped(key));
            }
        }
        copies.swapped += 1;
        self.layouts[job as usize].remove(node);
        self.layouts[job as usize].insert(other);
        if let Some(replica) = copies.there.get_mut(&job) {
            replica.pairs.retain(|(own, _)| *own != node);
        }
        true
    }

    /// Completes a replica: the part that took over has a counterpart again.
    pub(super) fn rebuilt(&mut self, job: u32, node: u16) {
        let (now, down, layout) = (self.now, self.down, self.layouts[job as usize]);
        let Some(copies) = &mut self.copies else { return };
        let key = failover::Key { file: FileId(u64::from(job)), target: TargetId(node) };
        copies.failover.handle(now, failover::Event::Rebuilt(key));
        let Some(replica) = copies.there.get_mut(&job) else { return };
        let mut both = layout;
        replica.pairs.iter().for_each(|(_, other)| both.insert(*other));
        // The input's node without a counterpart is the one that took over.
        let alone = layout.iter().find(|own| !replica.pairs.iter().any(|(with, _)| with == own));
        let spare = substitute(node, &both, self.setup.io_nodes, &down);
        if let Some((own, spare)) = alone.zip(spare).filter(|(own, spare)| own != spare) {
            replica.pairs.push((own, spare));
        }
    }

    pub(super) fn copies_tick(&mut self) {
        let now = self.now;
        let Some(copies) = &mut self.copies else { return };
        copies.tell(now, Event::Tick);
        copies.failover.handle(now, failover::Event::Tick);
        while let Some(action) = copies.failover.poll() {
            let failover::Action::Rebuild { key, .. } = action else { continue };
            let job = key.file.0 as u32;
            let bytes = copies.there.get(&job).map_or(0, |replica| replica.bytes) / u64::from(self.setup.stripes);
            let took = Time((bytes as f64 / self.setup.copy_rate as f64 * 1e9) as u64);
            self.events.push(now + took, EventRank::Completion, EventKind::Rebuilt { job, node: key.target.0 });
        }
    }

    /// Carries out the machine's decisions.
    pub(super) fn pump_copies(&mut self) {
        let now = self.now;
        while let Some(action) = self.copies.as_mut().filter(|copies| copies.told).and_then(|copies| {
            let action = copies.machine.poll();
            copies.told = action.is_some();
            action
        }) {
            match action {
                Action::Create { file, .. } => self.create_copy(file.0 as u32),
                Action::Remove { file, .. } => {
                    let Some(copies) = &mut self.copies else { return };
                    if let Some(replica) = copies.there.remove(&(file.0 as u32)) {
                        copies.bytes -= replica.bytes;
                    }
                    copies.failover.handle(now, failover::Event::Forget(file));
                    copies.tell(now, Event::Removed(file));
                }
            }
        }
    }

    fn create_copy(&mut self, job: u32) {
        let (now, bytes, layout) = (self.now, self.bytes(job), self.layouts[job as usize]);
        let Some(copies) = &mut self.copies else { return };
        // An input with a lost stripe cannot be copied.
        let whole: NodeSet = layout.and(&self.down);
        let pairs = if whole.is_empty() { counterparts(&layout, self.setup.io_nodes, &self.down) } else { None };
        let Some(pairs) = pairs else {
            return copies.tell(now, Event::CreateFailed(FileId(u64::from(job))));
        };
        copies.epoch += 1;
        let epoch = copies.epoch;
        copies.bytes += bytes;
        copies.peak_bytes = copies.peak_bytes.max(copies.bytes);
        copies.there.insert(job, Replica { epoch, complete: false, bytes, pairs });
        let took = Time((bytes as f64 / self.setup.copy_rate as f64 * 1e9) as u64);
        self.events.push(now + took, EventRank::Completion, EventKind::Copied { job, epoch });
    }
}
