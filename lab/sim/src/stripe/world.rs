//! A file under a changing load, as a volume with stripes only, and the figures of each phase.

use super::{Phase, phases::RequestClass};
use crate::disk::Model;
use crate::generate::Rng;
use crate::latency::Latencies;
use crate::storage::{Device as Storage, Drawn};
use crate::volume::{self, Answer, Request, Target};
use policy::stripe::advice::Mode;
use policy::stripe::device::BLOCK_BYTES;
use policy::stripe::forks::Shape;
use policy::stripe::fuzzy::Rules;
use policy::stripe::model::{Device, Parameters};
use policy::stripe::striper;
use policy::time::Time;
use policy::volume::{Config, Logged, StripesConfig};
use serde::Serialize;

/// Parameters that do not change during a run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Parameters of the devices, also of mechanical ones (overhead).
    pub parameters: Parameters,
    /// Mechanical disks instead of those of the queueing model with its distributions.
    pub mechanical: Option<&'static Model>,
    /// Factor on the service times of the devices.
    pub slowness: f64,
    /// Whether the devices are behind a network.
    pub far: bool,
    /// Phases of the load.
    pub phases: Vec<Phase>,
    /// Interval of the striper's checks.
    pub interval: Time,
    /// Time at the start of each phase that is not counted: a cold start, or the adaptation.
    pub warm_up: Time,
    /// Size of the file, which is copied in the background at a change of striping; 0: any size, and copies are free.
    pub copy_bytes: u64,
    /// Seed of the run.
    pub seed: u64,
}

/// Policy for the width of requests.
#[derive(Clone, Debug)]
pub enum Drive {
    /// Every request spans this number of disks, whatever its size.
    Width(u32),
    /// The file has one copy over all disks for each of these striping units.
    Units(Vec<u64>),
    /// The striper, with a maximum of copies.
    Adaptive(Mode, Rules, usize),
}

/// Figures of one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Number of counted requests.
    pub requests: u64,
    /// Mean response time, in milliseconds.
    pub mean_ms: f64,
    /// 95th percentile, in milliseconds.
    pub p95_ms: f64,
    /// Mean utilisation of the disks.
    pub utilisation: f64,
    /// Mean width of a request.
    pub width: f64,
    /// Changes of the layout.
    pub changes: u64,
    /// Copies of the file at the end, as a measure of its space.
    pub copies: usize,
}

/// Stripe unit of a file without a policy: that of a new volume.
const UNIT_BYTES: u64 = 1 << 20;
/// Size of a file whose copies are free.
const FREE_BYTES: u64 = 64 << 20;

/// Runs all phases in sequence; returns the figures of each.
pub fn run(setup: &Setup, drive: &Drive) -> Vec<Figures> {
    setup.figures(&volume::observe(setup.volume(drive)).answered)
}

/// Runs all phases; returns the events and actions of the volume's state machine, line by line.
pub fn run_logged(setup: &Setup, drive: &Drive) -> Vec<Logged> {
    volume::run_logged(setup.volume(drive)).1
}

impl Setup {
    /// Returns the volume with the one file that the phases read.
    pub fn volume(&self, drive: &Drive) -> volume::Setup {
        let (of, slowness) = (self.parameters, self.slowness);
        let device = |n| Storage::Drawn(Drawn::new(&of, self.mechanical, slowness, self.seed, n));
        let target = |n| Target { tier: 1, bytes: u64::MAX / 2, device: device(n) };
        let channels = match of.device {
            Device::Flash { channels, .. } if self.mechanical.is_none() => channels.max(1.0),
            _ => 1.0,
        };
        let files = self.files(drive);
        volume::Setup {
            config: Config { stripes: self.stripes(drive), ..Config::default() },
            targets: (0..u64::from(of.devices)).map(target).collect(),
            overhead: Time((of.overhead_s * slowness / channels * 1e9) as u64),
            far: self.far,
            free_copies: self.copy_bytes == 0,
            requests: Some(self.requests(drive, &files)),
            files,
            ..volume::Setup::default()
        }
    }

    /// Returns size and mirrors of each file. With a fixed width each request size has a file of its own.
    fn files(&self, drive: &Drive) -> Vec<(u64, Vec<Shape>)> {
        let devices = self.parameters.devices;
        let shape = |unit_bytes: u64| Shape { devices, unit_bytes };
        let one = |units: &[u64]| {
            let bytes = if self.copy_bytes == 0 { FREE_BYTES } else { self.copy_bytes };
            let largest = self.sizes().max().unwrap_or(0);
            vec![(bytes.max(UNIT_BYTES).max(largest), units.iter().copied().map(shape).collect())]
        };
        match drive {
            // Twice the number of disks, so that a request may begin on any of them.
            Drive::Width(width) => self
                .sizes()
                .map(|bytes| {
                    let unit = bytes.div_ceil(u64::from(*width));
                    (2 * u64::from(devices) * unit, vec![shape(unit)])
                })
                .collect(),
            Drive::Units(units) => one(units),
            Drive::Adaptive(..) => one(&[UNIT_BYTES]),
        }
    }

    /// Sizes of the requests, phase by phase.
    fn sizes(&self) -> impl Iterator<Item = u64> {
        self.phases.iter().flat_map(|phase| &phase.asked).map(|asked| asked.bytes)
    }

    /// Returns the requests of all phases, at random times and places in the file.
    fn requests(&self, drive: &Drive, files: &[(u64, Vec<Shape>)]) -> Vec<Request> {
        let (mut arrivals, mut offsets) = (Rng::new(self.seed, 0), Rng::new(self.seed, 2));
        let (mut now, mut start, mut sizes) = (0.0, 0.0, 0);
        let mut all = Vec::new();
        for phase in &self.phases {
            let (end, rate) = (start + phase.seconds, phase.rate());
            now = f64::max(now, start);
            loop {
                now += arrivals.exponential(1.0 / rate);
                if now >= end {
                    break;
                }
                let which = which(&phase.asked, rate, &mut arrivals);
                let bytes = phase.asked[which].bytes;
                let (file, step, places) = match drive {
                    Drive::Width(_) => {
                        (sizes + which, files[sizes + which].1[0].unit_bytes, self.parameters.devices.into())
                    }
                    _ => (0, bytes, files[0].0 / bytes),
                };
                let offset = offsets.below(places) * step;
                all.push(Request { at: Time((now * 1e9) as u64), file: file as u32, offset, bytes, write: false });
            }
            (start, sizes) = (end, sizes + phase.asked.len());
        }
        all
    }

    /// Returns the configuration of the striper: for static forks it only chooses the fork that a request reads.
    fn stripes(&self, drive: &Drive) -> Option<StripesConfig> {
        let (mode, rules, forks) = match drive {
            Drive::Adaptive(mode, rules, forks) => (*mode, rules.clone(), *forks),
            Drive::Units(units) if units.len() > 1 => (Mode::Fixed(0), Rules::default(), units.len()),
            _ => return None,
        };
        let of = &self.parameters;
        let block_s = match of.device {
            Device::Disk { revolution_s, track_blocks, .. } => revolution_s / track_blocks,
            Device::Flash { block_s, channels, .. } => block_s / channels.max(1.0),
        };
        // Read once and written once.
        let copy_byte_s = 2.0 * (block_s + of.interface_s) / BLOCK_BYTES;
        let window = Time(self.interval.0.saturating_mul(8));
        let striper = striper::Config { window, forks, ..striper::Config::of(mode, *of, copy_byte_s) };
        Some(StripesConfig { striper, rules, every: self.interval })
    }

    fn figures(&self, answered: &[Answer]) -> Vec<Figures> {
        let (mut start_s, mut rest) = (0.0, answered);
        let (mut busy, mut changes) = (Time::ZERO, 0);
        let mut all = Vec::new();
        for phase in &self.phases {
            let at = |seconds: f64| Time((seconds * 1e9) as u64);
            let (start, end) = (at(start_s), at(start_s + phase.seconds));
            let (now, later) = rest.split_at(rest.partition_point(|of| of.at < end));
            let (mut latencies, mut spans) = (Latencies::default(), 0);
            for of in now.iter().filter(|of| of.at.since(start) >= self.warm_up) {
                latencies.add(of.took);
                spans += of.spans;
            }
            let disks_s = phase.seconds * f64::from(self.parameters.devices.max(1));
            let last = now.last();
            let (busy_before, changes_before) = (busy, changes);
            (busy, changes) = last.map_or((busy, changes), |of| (of.busy, of.changes));
            all.push(Figures {
                requests: latencies.count(),
                mean_ms: latencies.mean_ms(),
                p95_ms: latencies.quantile_ms(0.95),
                utilisation: busy.since(busy_before).as_secs_f64() / disks_s,
                width: spans as f64 / latencies.count().max(1) as f64,
                changes: changes - changes_before,
                copies: last.map_or(1, |of| of.mirrors),
            });
            (start_s, rest) = (start_s + phase.seconds, later);
        }
        all
    }
}

/// Draws the kind of the next request.
fn which(asked: &[RequestClass], rate: f64, rng: &mut Rng) -> usize {
    if asked.len() == 1 {
        return 0;
    }
    let mut at = rng.unit() * rate;
    let drawn = asked.iter().position(|of| {
        at -= of.rate;
        at < 0.0
    });
    drawn.unwrap_or(asked.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::stripe::rules;

    fn setup(devices: u32, phases: Vec<Phase>) -> Setup {
        Setup {
            parameters: Parameters { devices, ..Parameters::default() },
            mechanical: None,
            slowness: 1.0,
            far: false,
            phases,
            interval: Time::from_secs(1),
            warm_up: Time::from_secs(20),
            copy_bytes: 64 << 20,
            seed: 1,
        }
    }

    fn adaptive(mode: Mode, forks: usize) -> Drive {
        Drive::Adaptive(mode, rules::parse(rules::ADAPTIVE).unwrap(), forks)
    }

    #[test]
    fn one_wide_the_queues_are_those_of_the_model() {
        for rate in [5.0, 30.0, 60.0] {
            let setup = setup(128, vec![Phase::of(rate, 64 << 10, 3000.0)]);
            let run = &run(&setup, &Drive::Width(1))[0];
            let model = Parameters { rate, request_blocks: 16.0, ..setup.parameters }.predict(1);
            let error = (run.mean_ms / 1e3 / model.request_s - 1.0).abs();
            assert!(error < 0.02, "rate {rate}: {} ms, the model says {} s", run.mean_ms, model.request_s);
            assert!((run.utilisation - model.utilisation).abs() < 0.02);
        }
    }

    #[test]
    fn the_adaptive_modes_follow_the_load() {
        let (large, small) = (Phase::of(2.0, 2 << 20, 300.0), Phase::of(150.0, 32 << 10, 100.0));
        let setup = setup(24, vec![large.clone(), small, large]);
        let fixed: Vec<_> = [1, 2, 4, 8, 16, 24].into_iter().map(|width| run(&setup, &Drive::Width(width))).collect();
        for mode in [Mode::Model, Mode::Fuzzy, Mode::ModelFuzzy] {
            let got = run(&setup, &adaptive(mode, 1));
            for phase in 0..3 {
                let best = fixed.iter().map(|of| of[phase].mean_ms).fold(f64::INFINITY, f64::min);
                let worst = fixed.iter().map(|of| of[phase].mean_ms).fold(0.0, f64::max);
                let ms = got[phase].mean_ms;
                assert!(
                    ms * 0.95 < best && ms * 2.0 < worst,
                    "{mode:?}, phase {phase}: {ms}, best {best}, worst {worst}"
                );
            }
            // The rules use the mean size, which mixes both phases while the window covers both: two changes for each
            // new phase.
            assert!(got.iter().map(|of| of.changes).sum::<u64>() <= 6, "{mode:?}: layouts do not flap: {got:?}");
            assert_eq!(got, run(&setup, &adaptive(mode, 1)), "the same seed, the same figures");
        }
    }

    #[test]
    fn two_forks_are_faster_than_the_better_of_them() {
        let mix = vec![RequestClass { rate: 120.0, bytes: 64 << 10 }, RequestClass { rate: 6.0, bytes: 1 << 20 }];
        let setup = setup(24, vec![Phase { asked: mix, seconds: 400.0 }]);
        let ms = |units: &[u64]| run(&setup, &Drive::Units(units.to_vec()))[0].mean_ms;
        let (a, b) = (64 << 10, 256 << 10);
        let (one, other, both) = (ms(&[a]), ms(&[b]), ms(&[a, b]));
        assert!(both < 0.95 * one.min(other), "{both} with both, {one} and {other} with one");
        let by_itself = &run(&setup, &adaptive(Mode::Model, 2))[0];
        assert!(by_itself.copies == 2 && by_itself.mean_ms < one.min(other), "{by_itself:?}");
    }
}
