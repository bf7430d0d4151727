//! The paper's experiment as a volume with only a burst buffer, and its figures.

use super::load::Load;
use crate::storage::{Device as Storage, Service};
use crate::volume::{self, Applications, Checkpoint, Observed, Target};
use policy::burst::control::Device;
use policy::burst::tables::{Baselines, Order};
use policy::burst::{admission, buffer};
use policy::time::Time;
use policy::volume::{BurstConfig, Config, Logged};
use serde::Serialize;

pub use policy::burst::buffer::Scheme;

/// Samples of the buffer's occupancy in the last period.
const OCCUPANCIES: usize = 50;
/// A checkpoint of the paper waits for space without limit.
const FOR_EVER: Time = Time(u64::MAX);
/// A buffer on one device has exactly the space of its account, so its space is never checked.
const NEVER: Time = Time::from_secs(1 << 31);

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Device of the buffer.
    pub device: Device,
    /// Load of the applications.
    pub load: Load,
    /// Scheme of admission.
    pub scheme: Scheme,
    /// Order in which versions are evicted.
    pub order: Order,
    /// Treatment of demoted data under FIFO and LRU.
    pub baselines: Baselines,
    /// Whether cold checkpoints go straight to the capacity tier.
    pub direct: bool,
    /// Periods that are counted, after one that is not.
    pub periods: u32,
    /// Size of a piece, as seconds of an application's write bandwidth.
    pub step_s: f64,
    /// Check the accounts at every event.
    pub check: bool,
}

/// Figures of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Checkpoints written in the periods that count.
    pub jobs: u64,
    /// Checkpoints that still waited at the end.
    pub unfinished: u64,
    /// Mean latency, in seconds: waiting for the turn, stopped for lack of space, writing.
    pub latency_s: f64,
    /// Longest latency, in seconds.
    pub latency_max_s: f64,
    /// 95th percentile of the latency, in seconds.
    pub latency_p95_s: f64,
    /// Mean time waiting for the turn, in seconds.
    pub wait_s: f64,
    /// Mean time stopped for lack of space, in seconds.
    pub stop_s: f64,
    /// Mean time writing, in seconds.
    pub run_s: f64,
    /// Mean throughput of a checkpoint while it was written, in GB/s.
    pub throughput_gb_s: f64,
    /// Demoted, in GB per period.
    pub demoted_gb: f64,
    /// Written straight to the capacity tier, in GB per period.
    pub direct_gb: f64,
    /// Number of restarts.
    pub restarts: u64,
    /// Share of the restarts that found the newest version in the buffer.
    pub hit_ratio: f64,
    /// Data written per period, over the size of the buffer.
    pub utilisation: f64,
    /// Waiting time of each checkpoint of the last period, in order, in seconds.
    pub waits_s: Vec<f64>,
    /// Share of the buffer in use at `OCCUPANCIES` moments of the last period.
    pub occupancy: Vec<f64>,
}

/// Runs the periods and returns the figures.
pub fn run(setup: &Setup) -> Figures {
    setup.figures(&volume::observe(setup.volume()))
}

/// Runs the periods; returns the events and actions of the volume's state machine, line by line.
pub fn run_logged(setup: &Setup) -> Vec<Logged> {
    volume::run_logged(setup.volume()).1
}

/// Returns the largest amount of data per period, over the size of the buffer, that a scheme sustains. All
/// checkpoints of a period must be written by its end. The resolution is one checkpoint.
pub fn utilisation(setup: &Setup) -> f64 {
    let per_capacity = setup.load.job_bytes / setup.device.capacity;
    let takes = |jobs: usize| {
        let load = Load { jobs, ..setup.load.clone() };
        let out = run(&Setup { load, ..setup.clone() });
        out.unfinished == 0
    };
    // Feasibility falls with the load: bisection between zero and three buffer sizes.
    let (mut low, mut high) = (0, (3.0 / per_capacity).ceil() as usize);
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if takes(middle) { low = middle } else { high = middle }
    }
    low as f64 * per_capacity
}

fn time(seconds: f64) -> Time {
    Time((seconds * 1e9) as u64)
}

impl Setup {
    /// Returns the configuration of admission for this setup.
    pub fn admission(&self) -> admission::Config {
        let buffer = buffer::Config {
            order: self.order,
            baselines: self.baselines,
            direct: self.direct,
            period: time(self.load.period_s),
            dwpp: self.load.writes().1.iter().map(|write| write.bytes).sum(),
            ..buffer::Config::new(self.device, self.scheme)
        };
        admission::Config { buffer, full_waits: true, full_wait: FOR_EVER }
    }

    /// Returns a volume that has only a buffer, with the applications as its load.
    pub fn volume(&self) -> volume::Setup {
        let (mtbf_s, _) = self.load.writes();
        let start_s = |period: u32| f64::from(period) * self.load.period_s;
        let write = |(at_s, app, bytes): (f64, u64, f64)| (time(at_s), app, bytes as u64);
        let moment = |n: usize| self.load.period_s / OCCUPANCIES as f64 * n as f64;
        // A checkpoint that is due at the start of the next period belongs to that period.
        let ends = |period| Time(time(start_s(period) + self.load.period_s).0 - 1);
        let occupancies = (0..OCCUPANCIES).map(|n| time(start_s(self.periods) + moment(n)));
        let applications = Applications {
            device: self.device,
            step_s: self.step_s,
            writes: self.load.all_writes(self.periods + 1).into_iter().map(write).collect(),
            mtbf_s,
            seed: self.load.seed,
            looks: [ends(0)].into_iter().chain(occupancies).chain([ends(self.periods)]).collect(),
        };
        let target = |tier| {
            let device = Storage::Constant(Service::new(Time::ZERO, Time::ZERO));
            Target { tier, bytes: u64::MAX / 2, device }
        };
        let burst = Some(BurstConfig { admission: self.admission(), look_every: NEVER });
        volume::Setup {
            config: Config { burst, ..Config::default() },
            targets: vec![target(0), target(1)],
            applications: Some(applications),
            check: self.check,
            ..volume::Setup::default()
        }
    }

    fn figures(&self, observed: &Observed) -> Figures {
        let period = |n: u32| time(f64::from(n) * self.load.period_s);
        let written: Vec<_> = observed.written.iter().filter(|of| of.ended >= period(1)).collect();
        let (jobs, periods) = (written.len().max(1) as f64, f64::from(self.periods.max(1)));
        let sum = |value: fn(&Checkpoint) -> f64| written.iter().map(|of| value(of)).sum::<f64>();
        let latency_s = |of: &Checkpoint| of.wait_s() + of.stop_s() + of.run_s();
        let mut latencies: Vec<f64> = written.iter().map(|of| latency_s(of)).collect();
        latencies.sort_by(f64::total_cmp);
        let quantile = |q: f64| latencies.get(((jobs * q) as usize).min(latencies.len().saturating_sub(1)));
        let mut waits_s = vec![0.0; self.load.writes().1.len()];
        for of in written.iter().filter(|of| of.ended >= period(self.periods)) {
            let n = (of.request as usize - 1) % waits_s.len();
            waits_s[n] = of.wait_s() + of.stop_s();
        }
        let [first, occupancies @ .., last] = observed.looks.as_slice() else { return Figures::default() };
        let (hits, misses) = (last.stats.hits - first.stats.hits, last.stats.misses - first.stats.misses);
        Figures {
            jobs: written.len() as u64,
            unfinished: observed.unfinished,
            latency_s: latencies.iter().sum::<f64>() / jobs,
            latency_max_s: latencies.last().copied().unwrap_or(0.0),
            latency_p95_s: quantile(0.95).copied().unwrap_or(0.0),
            wait_s: sum(Checkpoint::wait_s) / jobs,
            stop_s: sum(Checkpoint::stop_s) / jobs,
            run_s: sum(Checkpoint::run_s) / jobs,
            throughput_gb_s: sum(|of| of.bytes as f64 / of.run_s() / 1e9) / jobs,
            demoted_gb: (last.demoted - first.demoted) / 1e9 / periods,
            direct_gb: sum(|of| if of.direct { of.bytes as f64 / 1e9 } else { 0.0 }) / periods,
            restarts: hits + misses,
            hit_ratio: hits as f64 / (hits + misses).max(1) as f64,
            utilisation: sum(|of| of.bytes as f64) / periods / self.device.capacity,
            waits_s,
            occupancy: occupancies.iter().map(|look| look.used / self.device.capacity).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
