//! Targets: a device with a queue, room, and faults.

use super::files::Placed;
use crate::block::Io;
use crate::storage::Device;
use policy::layout::TargetView;
use policy::precedence::Class;
use policy::stripe::forks::Queue;
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
pub struct Targets(pub Vec<Target>);

impl Target {
    /// An empty one.
    pub fn new(tier: u8, bytes: u64, device: Device) -> Target {
        Target { tier, bytes, used: 0, up: true, failures: 0, device, sector: 0, queue: VecDeque::new() }
    }

    /// Serves a request after those that wait; when it is done.
    fn serve(&mut self, now: Time, bytes: u64, write: bool) -> Time {
        let count = bytes.div_ceil(SECTOR_BYTES).max(1);
        if self.sector + count > self.device.sectors() {
            self.sector = 0;
        }
        let io = Io { sector: self.sector, count, write, owner: 0, class: Class::Awaited };
        self.sector += count;
        let done = self.device.serve(self.free_at().max(now), &io);
        self.queue.push_back((done, bytes));
        done
    }

    /// When it has nothing more to do.
    pub fn free_at(&self) -> Time {
        self.queue.back().map_or(Time::ZERO, |(at, _)| *at)
    }
}

impl Targets {
    /// The target with that number.
    pub fn of(&mut self, id: TargetId) -> &mut Target {
        &mut self.0[usize::from(id.0)]
    }

    /// Serves a request on one of them; when it is done.
    pub fn serve(&mut self, now: Time, id: TargetId, bytes: u64, write: bool) -> Time {
        let target = self.of(id);
        while target.queue.front().is_some_and(|(at, _)| *at <= now) {
            target.queue.pop_front();
        }
        target.serve(now, bytes, write)
    }

    /// What waits at a target.
    pub fn queue(&self, now: Time, id: TargetId) -> Queue {
        let waiting = self.0[usize::from(id.0)].queue.iter().filter(|(at, _)| *at > now);
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
        self.0.iter().enumerate().map(view).collect()
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
