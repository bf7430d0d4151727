//! Targets: a device with a queue, room, and faults.

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

/// One target.
#[derive(Debug)]
pub struct Target {
    /// 0: fast, 1: slow.
    pub tier: u8,
    /// Its room.
    pub bytes: u64,
    /// Bytes that objects on it have.
    pub used: u64,
    /// Whether it works.
    pub up: bool,
    /// How often it failed: what was begun before is gone.
    pub failures: u64,
    device: Device,
    /// Where the next object's bytes begin on the device.
    sector: u64,
    /// When each request on it is done, and its bytes.
    queue: VecDeque<(Time, u64)>,
}

/// All of them.
#[derive(Debug)]
pub struct Targets {
    /// By number.
    pub all: Vec<Target>,
    /// What they did so far. The time in the queue is not in it.
    pub served: Served,
    /// What each takes longer for each that a request spans.
    pub overhead: Time,
}

impl Target {
    /// An empty one.
    pub fn new(tier: u8, bytes: u64, device: Device) -> Target {
        Target { tier, bytes, used: 0, up: true, failures: 0, device, sector: 0, queue: VecDeque::new() }
    }

    /// Serves a request after those that wait, and takes `beside` longer than the device does; when it begins and ends.
    fn serve(&mut self, now: Time, bytes: u64, write: bool, beside: Time) -> (Time, Time) {
        let count = bytes.div_ceil(SECTOR_BYTES).max(1);
        if self.sector + count > self.device.sectors() {
            self.sector = 0;
        }
        let io = Io { sector: self.sector, count, write, owner: 0, class: Class::Awaited };
        self.sector += count;
        let begins = self.free_at().max(now);
        let done = self.device.serve(begins, &io) + beside;
        self.queue.push_back((done, bytes));
        (begins, done)
    }

    /// Time with something to do until now: what waits has not been done.
    pub fn busy_ns(&self, now: Time) -> u64 {
        self.device.busy_ns() - self.free_at().since(now).0.min(self.device.busy_ns())
    }

    /// When it has nothing more to do.
    pub fn free_at(&self) -> Time {
        self.queue.back().map_or(Time::ZERO, |(at, _)| *at)
    }
}

impl Targets {
    /// The target with that number.
    pub fn of(&mut self, id: TargetId) -> &mut Target {
        &mut self.all[usize::from(id.0)]
    }

    /// Serves the part that one of them has in a request that spans so many; when it is done.
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

    /// What waits at a target.
    pub fn queue(&self, now: Time, id: TargetId) -> Queue {
        let waiting = self.all[usize::from(id.0)].queue.iter().filter(|(at, _)| *at > now);
        waiting.fold(Queue::default(), |sum, (_, bytes)| Queue {
            operations: sum.operations + 1,
            bytes: sum.bytes + bytes,
        })
    }

    /// What choosing among them needs.
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

    /// Takes room for all of these objects, or for none.
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

    /// Gives the room of an object back.
    pub fn give(&mut self, id: TargetId, bytes: u64) {
        self.of(id).used -= bytes;
    }
}
