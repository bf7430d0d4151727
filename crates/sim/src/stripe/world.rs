//! The world: arrivals, disks, the controller.
//!
//! Disks serve first come first served and know nothing of what comes later, so requests can be taken in the order of their arrival, each
//! disk being busy until a known time; no event queue is needed.

use super::Phase;
use crate::disk::{Command, Disk, Model};
use crate::generate::Rng;
use crate::latency::Latencies;
use policy::stripe::controller::{Controller, Surroundings};
use policy::stripe::model::{Device, Parameters};
use policy::stripe::sensor::Sensor;
use policy::time::Time;
use serde::Serialize;

/// What the disks are.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Those of the queueing model, with its own distributions.
    Modelled,
    /// Mechanical disks.
    Mechanical(&'static Model),
}

/// Everything that does not change.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Parameters of the devices, also for `Kind::Mechanical` (interface and overhead).
    pub parameters: Parameters,
    /// What the disks are.
    pub kind: Kind,
    /// Bytes of a block of the model.
    pub block_bytes: f64,
    /// The load.
    pub phases: Vec<Phase>,
    /// How often the controller is asked.
    pub interval: Time,
    /// Time at the start of each phase that is not counted: a cold start, or the controller's reaction.
    pub warm_up: Time,
    /// Bytes that are copied to a new layout when the width changes; the copy is read and written in the background.
    pub copy_bytes: u64,
    /// The seed.
    pub seed: u64,
}

/// What came out of one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Requests counted.
    pub requests: u64,
    /// Mean response time, in milliseconds.
    pub mean_ms: f64,
    /// 95th percentile, in milliseconds.
    pub p95_ms: f64,
    /// Mean utilisation of the disks.
    pub utilisation: f64,
    /// Mean width.
    pub width: f64,
    /// Changes of the width.
    pub changes: u64,
}

struct Disks {
    free: Vec<f64>,
    busy_s: f64,
    mechanical: Vec<Disk>,
    rng: Rng,
}

/// Runs all phases, one after another; figures of each.
pub fn run(setup: &Setup, mut controller: Controller) -> Vec<Figures> {
    let devices = setup.parameters.devices as usize;
    let mechanical = match setup.kind {
        Kind::Modelled => Vec::new(),
        Kind::Mechanical(model) => (0..devices).map(|_| Disk::new(model)).collect(),
    };
    let mut disks = Disks { free: vec![0.0; devices], busy_s: 0.0, mechanical, rng: Rng::new(setup.seed, 1) };
    let mut arrivals = Rng::new(setup.seed, 0);
    let mut sensor = Sensor::new(Time(setup.interval.0.saturating_mul(8)), Time::ZERO);
    let (mut now, mut phase_start, mut decide_at) = (0.0, 0.0, 0.0);
    let mut width = 0;
    let mut all = Vec::new();
    for phase in &setup.phases {
        let mut figures = Figures::default();
        let mut latencies = Latencies::default();
        let (busy_before, mut widths) = (disks.busy_s, 0u64);
        let end = phase_start + phase.seconds;
        now = f64::max(now, phase_start);
        loop {
            now += arrivals.exponential(1.0 / phase.rate);
            if now >= end {
                break;
            }
            let at = Time((now * 1e9) as u64);
            sensor.begin(at, phase.bytes);
            sensor.end();
            if now >= decide_at {
                let decision = controller.decide(sensor.read(at), Surroundings::default());
                if decision.changed {
                    figures.changes += 1;
                    disks.copy(setup, now, width, decision.width);
                }
                width = decision.width;
                decide_at = now + setup.interval.as_secs_f64();
            }
            let response = disks.request(setup, now, phase.bytes, width as usize);
            if now - phase_start >= setup.warm_up.as_secs_f64() {
                latencies.add(Time((response * 1e9) as u64));
                widths += u64::from(width);
            }
        }
        figures.requests = latencies.count();
        figures.mean_ms = latencies.mean_ms();
        figures.p95_ms = latencies.quantile_ms(0.95);
        figures.utilisation = (disks.busy_s - busy_before) / (phase.seconds * devices as f64);
        figures.width = widths as f64 / latencies.count().max(1) as f64;
        all.push(figures);
        phase_start = end;
    }
    all
}

impl Disks {
    /// A request on `width` neighbouring disks; how long until the last is done, in seconds.
    fn request(&mut self, setup: &Setup, now: f64, bytes: u64, width: usize) -> f64 {
        let width = width.clamp(1, self.free.len());
        let first = self.rng.below(self.free.len() as u64) as usize;
        let share = bytes as f64 / width as f64;
        let mut last = now;
        for n in 0..width {
            let disk = (first + n) % self.free.len();
            last = f64::max(last, self.serve(setup, disk, now, share, width));
        }
        last - now
    }

    /// Background work on a disk: when it is done.
    fn serve(&mut self, setup: &Setup, disk: usize, now: f64, bytes: f64, width: usize) -> f64 {
        let start = f64::max(now, self.free[disk]);
        let takes = self.service_s(setup, disk, start, bytes, width);
        self.busy_s += takes;
        self.free[disk] = start + takes;
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
                uniform(seek_s)
                    + uniform(revolution_s)
                    + uniform(settle_s)
                    + revolution_s / track_blocks * blocks
                    + beside
            }
            // The channels share one queue here; as in the model, one server that many times as fast.
            Device::Flash { latency_s, block_s, channels } => {
                (latency_s + block_s * blocks + beside) / channels.max(1.0)
            }
        }
    }

    /// The file is read in its old layout and written in the new one, in the background: each disk gets its part as one request.
    fn copy(&mut self, setup: &Setup, now: f64, from: u32, to: u32) {
        if setup.copy_bytes == 0 {
            return;
        }
        let part = setup.copy_bytes as f64 / self.free.len() as f64;
        for disk in 0..self.free.len() {
            self.serve(setup, disk, now, part, from as usize);
            self.serve(setup, disk, now, part, to as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::stripe::controller::{Config, Mode};
    use policy::stripe::rules;

    fn setup(devices: u32, phases: Vec<Phase>) -> Setup {
        Setup {
            parameters: Parameters { devices, ..Parameters::default() },
            kind: Kind::Modelled,
            block_bytes: 4096.0,
            phases,
            interval: Time::from_secs(1),
            warm_up: Time::from_secs(20),
            copy_bytes: 0,
            seed: 1,
        }
    }

    fn with(setup: &Setup, mode: Mode) -> Vec<Figures> {
        run(setup, Controller::new(Config::new(mode, setup.parameters), rules::parse(rules::PAPER).unwrap()))
    }

    #[test]
    fn one_wide_the_queues_are_those_of_the_model() {
        for rate in [5.0, 30.0, 60.0] {
            let setup = setup(128, vec![Phase { rate, bytes: 64 << 10, seconds: 3000.0 }]);
            let run = &with(&setup, Mode::Fixed(1))[0];
            let model = Parameters { rate, request_blocks: 16.0, ..setup.parameters }.predict(1);
            let error = (run.mean_ms / 1e3 / model.request_s - 1.0).abs();
            assert!(error < 0.02, "rate {rate}: {} ms, the model says {} s", run.mean_ms, model.request_s);
            assert!((run.utilisation - model.utilisation).abs() < 0.02);
        }
    }

    #[test]
    fn the_adaptive_modes_follow_the_load() {
        let phases = vec![
            Phase { rate: 2.0, bytes: 2 << 20, seconds: 300.0 },
            Phase { rate: 150.0, bytes: 32 << 10, seconds: 100.0 },
            Phase { rate: 2.0, bytes: 2 << 20, seconds: 300.0 },
        ];
        let setup = setup(24, phases);
        let fixed: Vec<_> = [1, 4, 8, 16, 24].into_iter().map(|width| with(&setup, Mode::Fixed(width))).collect();
        let adaptive = with(&setup, Mode::Model);
        for phase in 0..3 {
            let best = fixed.iter().map(|of| of[phase].mean_ms).fold(f64::INFINITY, f64::min);
            let worst = fixed.iter().map(|of| of[phase].mean_ms).fold(0.0, f64::max);
            let got = adaptive[phase].mean_ms;
            assert!(got < best * 1.1 && got * 2.0 < worst, "phase {phase}: {got}, best {best}, worst {worst}");
        }
        assert!(adaptive.iter().map(|of| of.changes).sum::<u64>() <= 6, "layouts do not flap");
        assert_eq!(adaptive, with(&setup, Mode::Model), "the same seed, the same figures");
    }
}
