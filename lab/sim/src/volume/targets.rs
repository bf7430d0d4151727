//! Targets: a device with a queue, space, and faults.

use super::TargetFigures;
use super::files::Placed;
use crate::block::Io;
use crate::storage::Device;
use policy::layout::TargetView;
use policy::precedence::Class;
use policy::stripe::forks::Queue;
use policy::stripe::performance::Served;
use policy::volume::ownership::Mechanism;
use policy::{TargetId, Time};
use std::collections::{BTreeMap, VecDeque};

const SECTOR_BYTES: u64 = 512;

/// State of a target.
#[derive(Debug)]
pub struct Target {
    /// 0: the fast tier, 1: the slow one.
    pub tier: u8,
    /// Capacity in bytes.
    pub bytes: u64,
    /// Bytes of its objects.
    pub used: u64,
    /// Whether it works.
    pub up: bool,
    /// Number of its failures: operations begun before one are lost.
    pub failures: u64,
    /// Bytes read and written.
    moved: [u64; 2],
    device: Device,
    /// Start of the next object's bytes on the device.
    sector: u64,
    queue: VecDeque<Queued>,
    /// Service time of the queue's parts of changes, by mechanism.
    changes: BTreeMap<Mechanism, Time>,
}

/// Part of a request that was given to a target.
#[derive(Debug)]
struct Queued {
    begins: Time,
    done: Time,
    bytes: u64,
    by: Option<Mechanism>,
}

/// Originator of a part of a request.
#[derive(Clone, Copy, Debug)]
pub enum Origin {
    /// An application; the request spans that number of objects.
    Application {
        /// Number of objects.
        spans: usize,
    },
    /// A change of a layout.
    Change(Mechanism),
}

/// All targets of the volume.
#[derive(Debug, Default)]
pub struct Targets {
    /// Targets by number.
    pub all: Vec<Target>,
    /// Work of the targets so far, without time in the queue.
    pub served: Served,
    /// Additional service time for each object that a request spans.
    pub overhead: Time,
    /// Time that parts of applications' requests waited behind parts of changes, by mechanism.
    pub delays: BTreeMap<Mechanism, Time>,
}

impl Target {
    /// Creates an empty target.
    pub fn new(tier: u8, bytes: u64, device: Device) -> Target {
        Target {
            tier,
            bytes,
            used: 0,
            up: true,
            failures: 0,
            moved: [0; 2],
            device,
            sector: 0,
            queue: VecDeque::new(),
            changes: BTreeMap::new(),
        }
    }

    /// Serves a request after those that wait, and takes `beside` longer than the device; returns its start and end.
    fn serve(&mut self, now: Time, bytes: u64, write: bool, beside: Time, by: Option<Mechanism>) -> (Time, Time) {
        let count = bytes.div_ceil(SECTOR_BYTES).max(1);
        if self.sector + count > self.device.sectors() {
            self.sector = 0;
        }
        let io = Io { sector: self.sector, count, write, owner: 0, class: Class::Awaited };
        self.sector += count;
        self.moved[usize::from(write)] += bytes;
        let begins = self.free_at().max(now);
        let done = self.device.serve(begins, &io) + beside;
        self.queue.push_back(Queued { begins, done, bytes, by });
        let change = by.map(|by| self.changes.entry(by).or_default());
        change.into_iter().for_each(|sum| *sum = *sum + done.since(begins));
        (begins, done)
    }

    /// Removes what has ended from the queue.
    fn end(&mut self, now: Time) {
        while self.queue.front().is_some_and(|of| of.done <= now)
            && let Some(of) = self.queue.pop_front()
        {
            let change = of.by.and_then(|by| self.changes.get_mut(&by));
            change.into_iter().for_each(|sum| *sum = sum.since(of.done.since(of.begins)));
        }
    }

    /// Returns how long a request that comes now waits for parts of changes, by mechanism.
    fn delays(&self, now: Time) -> impl Iterator<Item = (Mechanism, Time)> + '_ {
        let first = self.queue.front();
        self.changes.iter().map(move |(by, sum)| {
            let served = first.filter(|of| of.by == Some(*by)).map_or(Time::ZERO, |of| now.since(of.begins));
            (*by, sum.since(served))
        })
    }

    /// Returns the busy time until now, without waiting requests.
    pub fn busy_ns(&self, now: Time) -> u64 {
        self.device.busy_ns() - self.free_at().since(now).0.min(self.device.busy_ns())
    }

    /// Returns the time at which its queue is empty.
    pub fn free_at(&self) -> Time {
        self.queue.back().map_or(Time::ZERO, |last| last.done)
    }
}

impl Targets {
    /// Returns the target with that number.
    pub fn of(&mut self, id: TargetId) -> &mut Target {
        &mut self.all[usize::from(id.0)]
    }

    /// Serves a target's part of a request; returns the time of completion.
    pub fn serve(&mut self, now: Time, id: TargetId, bytes: u64, write: bool, origin: Origin) -> Time {
        let (spans, by) = match origin {
            Origin::Application { spans } => (spans, None),
            Origin::Change(by) => (1, Some(by)),
        };
        let beside = Time(self.overhead.0 * spans as u64);
        let target = &mut self.all[usize::from(id.0)];
        target.end(now);
        if by.is_none() {
            for (mechanism, waits) in target.delays(now) {
                let delay = self.delays.entry(mechanism).or_default();
                *delay = *delay + waits;
            }
        }
        let (begins, done) = target.serve(now, bytes, write, beside, by);
        let one = Served { operations: 1, bytes, took_ns: done.since(begins).0, queued: 1 };
        self.served = self.served.and(one);
        done
    }

    /// Returns the waiting requests of a target.
    pub fn queue(&self, now: Time, id: TargetId) -> Queue {
        let waiting = self.all[usize::from(id.0)].queue.iter().filter(|of| of.done > now);
        waiting.fold(Queue::default(), |sum, of| Queue { operations: sum.operations + 1, bytes: sum.bytes + of.bytes })
    }

    /// Returns the work of each target until now.
    pub fn figures(&self, now: Time) -> Vec<TargetFigures> {
        let figures = |target: &Target| {
            let ([read_bytes, written_bytes], busy) = (target.moved, target.busy_ns(now) as f64 / now.0.max(1) as f64);
            TargetFigures { tier: target.tier, busy, read_bytes, written_bytes }
        };
        self.all.iter().map(figures).collect()
    }

    /// Returns the targets' properties for the choice of targets.
    pub fn views(&self) -> Vec<TargetView> {
        let view = |(at, target): (usize, &Target)| TargetView {
            near: false,
            id: TargetId(at as u16),
            tier: target.tier,
            usable: target.up,
            free_bytes: target.bytes - target.used,
        };
        self.all.iter().enumerate().map(view).collect()
    }

    /// Takes space for all of these objects, or for none.
    pub fn take_all(&mut self, objects: &[Placed]) -> bool {
        for (n, (_, object, bytes)) in objects.iter().enumerate() {
            let target = self.of(object.target);
            if !target.up || target.used + bytes > target.bytes {
                objects[..n].iter().for_each(|(_, object, bytes)| self.give(object.target, *bytes));
                return false;
            }
            target.used += bytes;
        }
        true
    }

    /// Frees the space of an object.
    pub fn give(&mut self, id: TargetId, bytes: u64) {
        self.of(id).used -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::tier::cost::DeviceCost;

    #[test]
    fn a_request_is_delayed_by_the_rest_of_the_changes_before_it() {
        let device = Device::of_cost(&DeviceCost::seconds_per_gb(1e9 / 1.024e6, 1e9 / 1.024e6));
        let (mut targets, id) = (Targets::default(), TargetId(0));
        targets.all.push(Target::new(0, 1 << 40, device));
        let mut at = |now: u64, bytes, origin| targets.serve(Time::from_millis(now), id, bytes, false, origin);
        let application = Origin::Application { spans: 1 };
        // At 1.024 MB/s: a change for 2 s and another for 1 s; requests at 0.5 s, behind the first request, and at the end.
        assert_eq!(at(0, 2_048_000, Origin::Change(Mechanism::Tiers)), Time::from_secs(2));
        assert_eq!(at(500, 1_024_000, application), Time::from_secs(3));
        assert_eq!(at(2500, 1_024_000, Origin::Change(Mechanism::Burst)), Time::from_secs(4));
        assert_eq!(at(3250, 1_024_000, application), Time::from_secs(5));
        assert_eq!(at(6000, 1_024_000, application), Time::from_secs(7));
        let delays = [(Mechanism::Burst, Time::from_millis(750)), (Mechanism::Tiers, Time::from_millis(1500))];
        assert_eq!(targets.delays.into_iter().collect::<Vec<_>>(), delays);
    }
}
