//! The disks: first come, first served, each busy until a known time.

use super::{Kind, Setup};
use crate::disk::{Command, Disk};
use crate::generate::Rng;
use policy::stripe::forks::Queue;
use policy::stripe::model::Device;
use policy::stripe::performance::Served;
use policy::time::Time;
use std::collections::VecDeque;

/// All disks.
pub struct Disks {
    free: Vec<f64>,
    /// When each stripe under way ends and how long it is, by disk.
    ends: Vec<VecDeque<(f64, u64)>>,
    pub busy_s: f64,
    /// What they did since somebody took it.
    pub served: Served,
    mechanical: Vec<Disk>,
    rng: Rng,
}

/// Drops what has ended: first come, first served, so the first ends first.
fn pass(ends: &mut VecDeque<(f64, u64)>, now: f64) {
    while ends.front().is_some_and(|(end, _)| *end <= now) {
        ends.pop_front();
    }
}

impl Disks {
    pub fn new(setup: &Setup) -> Disks {
        let devices = setup.parameters.devices as usize;
        let mechanical = match setup.kind {
            Kind::Modelled => Vec::new(),
            Kind::Mechanical(model) => (0..devices).map(|_| Disk::new(model)).collect(),
        };
        let ends = vec![VecDeque::new(); devices];
        Disks {
            free: vec![0.0; devices],
            ends,
            busy_s: 0.0,
            served: Served::default(),
            mechanical,
            rng: Rng::new(setup.seed, 1),
        }
    }

    /// The first of the neighbouring disks on which something lies.
    pub fn place(&mut self) -> usize {
        self.rng.below(self.free.len() as u64) as usize
    }

    /// The queues of `width` disks from `first` on.
    pub fn queues(&mut self, now: f64, first: usize, width: usize) -> impl Iterator<Item = Queue> {
        let disks = self.free.len();
        (0..width.clamp(1, disks)).map(move |n| {
            let ends = &mut self.ends[(first + n) % disks];
            pass(ends, now);
            Queue { operations: ends.len() as u32, bytes: ends.iter().map(|(_, bytes)| bytes).sum() }
        })
    }

    /// A request on `width` disks from `first` on; how long until the last is done, in seconds.
    pub fn request(&mut self, setup: &Setup, now: f64, bytes: u64, first: usize, width: usize) -> f64 {
        let width = width.clamp(1, self.free.len());
        let share = bytes as f64 / width as f64;
        let mut last = now;
        for n in 0..width {
            let disk = (first + n) % self.free.len();
            last = f64::max(last, self.serve(setup, disk, now, share, width));
        }
        last - now
    }

    /// Work on a disk: when it is done.
    fn serve(&mut self, setup: &Setup, disk: usize, now: f64, bytes: f64, width: usize) -> f64 {
        let start = f64::max(now, self.free[disk]);
        let takes = self.service_s(setup, disk, start, bytes, width) * setup.slowness;
        self.busy_s += takes;
        // The time in the queue is not in it.
        let one = Served { operations: 1, bytes: bytes as u64, took_ns: (takes * 1e9) as u64, queued: 1 };
        self.served = self.served.and(one);
        self.free[disk] = start + takes;
        let ends = &mut self.ends[disk];
        pass(ends, now);
        ends.push_back((start + takes, bytes as u64));
        start + takes
    }

    fn service_s(&mut self, setup: &Setup, disk: usize, start: f64, bytes: f64, width: usize) -> f64 {
        let of = &setup.parameters;
        let blocks = bytes / setup.block_bytes;
        let beside = of.interface_s * blocks + of.overhead_s * width as f64;
        if let Some(mechanical) = self.mechanical.get_mut(disk) {
            let count = ((bytes / 512.0).ceil() as u64).max(1);
            let sector = self.rng.below(mechanical.sectors().saturating_sub(count).max(1));
            let command = Command { sector, count, write: false };
            let from = Time((start * 1e9) as u64);
            return mechanical.serve(from, command).done.since(from).as_secs_f64() + of.overhead_s * width as f64;
        }
        match of.device {
            Device::Disk { revolution_s, seek_s, settle_s, track_blocks } => {
                let mut uniform = |span: f64| self.rng.unit() * span;
                let positioning = uniform(seek_s) + uniform(revolution_s) + uniform(settle_s);
                positioning + revolution_s / track_blocks * blocks + beside
            }
            // The channels share one queue here; as in the model, one server that many times as fast.
            Device::Flash { latency_s, block_s, channels } => {
                (latency_s + block_s * blocks + beside) / channels.max(1.0)
            }
        }
    }

    /// So many bytes are read as they lie and written anew in the background, each disk its part as one request of each; when all
    /// is done.
    pub fn copy(&mut self, setup: &Setup, now: f64, bytes: u64) -> f64 {
        let part = bytes as f64 / self.free.len() as f64;
        let mut done = now;
        for disk in (0..self.free.len()).chain(0..self.free.len()) {
            done = f64::max(done, self.serve(setup, disk, now, part, 1));
        }
        done
    }
}
