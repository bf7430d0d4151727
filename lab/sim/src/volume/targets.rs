//! Targets: a device with a queue, space, and faults.

use super::TargetFigures;
use super::files::Placed;
use crate::block::Io;
use crate::storage::Device;
use policy::layout::TargetView;
use policy::precedence::Class;
use policy::stripe::forks::Queue;
use policy::stripe::performance::Served;
use policy::{TargetId, Time};
use std::collections::VecDeque;

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
    /// Completion time and bytes of each request.
    queue: VecDeque<(Time, u64)>,
}

/// All targets of the volume.
#[derive(Debug)]
pub struct Targets {
    /// Targets by number.
    pub all: Vec<Target>,
    /// Work of the targets so far, without time in the queue.
    pub served: Served,
    /// Additional service time for each object that a request spans.
    pub overhead: Time,
}

impl Target {
    /// Creates an empty target.
    pub fn new(tier: u8, bytes: u64, device: Device) -> Target {
        Target { tier, bytes, used: 0, up: true, failures: 0, moved: [0; 2], device, sector: 0, queue: VecDeque::new() }
    }

    /// Serves a request after those that wait, and takes `beside` longer than the device; returns its start and end.
    fn serve(&mut self, now: Time, bytes: u64, write: bool, beside: Time) -> (Time, Time) {
        let count = bytes.div_ceil(SECTOR_BYTES).max(1);
        if self.sector + count > self.device.sectors() {
            self.sector = 0;
        }
        let io = Io { sector: self.sector, count, write, owner: 0, class: Class::Awaited };
        self.sector += count;
        self.moved[usize::from(write)] += bytes;
        let begins = self.free_at().max(now);
        let done = self.device.serve(begins, &io) + beside;
        self.queue.push_back((done, bytes));
        (begins, done)
    }

    /// Returns the busy time until now, without waiting requests.
    pub fn busy_ns(&self, now: Time) -> u64 {
        self.device.busy_ns() - self.free_at().since(now).0.min(self.device.busy_ns())
    }

    /// Returns the time at which its queue is empty.
    pub fn free_at(&self) -> Time {
        self.queue.back().map_or(Time::ZERO, |(at, _)| *at)
    }
}

impl Targets {
    /// Returns the target with that number.
    pub fn of(&mut self, id: TargetId) -> &mut Target {
        &mut self.all[usize::from(id.0)]
    }

    /// Serves a target's part of a request that spans `spans` objects; returns the time of completion.
    pub fn serve(&mut self, now: Time, id: TargetId, bytes: u64, write: bool, spans: usize) -> Time {
        let beside = Time(self.overhead.0 * spans as u64);
        let target = self.of(id);
        while target.queue.front().is_some_and(|(at, _)| *at <= now) {
            target.queue.pop_front();
        }
        let (begins, done) = target.serve(now, bytes, write, beside);
        let one = Served { operations: 1, bytes, took_ns: done.since(begins).0, queued: 1 };
        self.served = self.served.and(one);
        done
    }

    /// Returns the waiting requests of a target.
    pub fn queue(&self, now: Time, id: TargetId) -> Queue {
        let waiting = self.all[usize::from(id.0)].queue.iter().filter(|(at, _)| *at > now);
        waiting.fold(Queue::default(), |sum, (_, bytes)| Queue {
            operations: sum.operations + 1,
            bytes: sum.bytes + bytes,
        })
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
