//! The world: steps of equal length, in which data flows at constant rates.

use super::load::{Application, Load, Write};
use crate::generate::Rng;
use policy::burst::buffer::{Action, Buffer, Config, Event, Logged};
use policy::burst::control::{Device, Rates};
use policy::burst::tables::{Demotion, Order};
use policy::machine::Machine;
use policy::time::Time;
use serde::Serialize;
use std::collections::BTreeMap;

pub use policy::burst::buffer::Scheme;

/// Everything about a run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The buffer.
    pub device: Device,
    /// The applications.
    pub load: Load,
    /// Who decides.
    pub scheme: Scheme,
    /// Which version leaves first.
    pub order: Order,
    /// Whether cold checkpoints go straight to the capacity tier.
    pub direct: bool,
    /// Periods that are counted, after one that is not.
    pub periods: u32,
    /// Length of a step, in seconds.
    pub step_s: f64,
    /// Check the accounts at every step.
    pub check: bool,
}

/// What came out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Checkpoints written in the periods that count.
    pub jobs: u64,
    /// Checkpoints that were still waiting at the end.
    pub unfinished: u64,
    /// Mean latency, in seconds: waiting for the turn, stopped for want of space, writing.
    pub latency_s: f64,
    /// Longest latency, in seconds.
    pub latency_max_s: f64,
    /// 95th percentile of the latency, in seconds.
    pub latency_p95_s: f64,
    /// Mean time waiting for the turn, in seconds.
    pub wait_s: f64,
    /// Mean time stopped for want of space, in seconds.
    pub stop_s: f64,
    /// Mean time writing, in seconds.
    pub run_s: f64,
    /// Mean throughput of a checkpoint while it was written, in GB/s.
    pub throughput_gb_s: f64,
    /// Demoted, in GB per period.
    pub demoted_gb: f64,
    /// Written straight to the capacity tier, in GB per period.
    pub direct_gb: f64,
    /// Restarts.
    pub restarts: u64,
    /// Share of the restarts that found the newest version in the buffer.
    pub hit_ratio: f64,
    /// Data written per period, over the size of the buffer.
    pub utilisation: f64,
    /// Waiting time of each checkpoint of the last period, in order, in seconds.
    pub waits_s: Vec<f64>,
    /// Share of the buffer in use at 50 moments of the last period.
    pub occupancy: Vec<f64>,
}

/// A checkpoint on its way.
#[derive(Clone, Debug)]
struct Writing {
    bytes: f64,
    left: f64,
    /// When it arrived, got its turn, began to write.
    arrived: f64,
    turn: Option<f64>,
    began: Option<f64>,
    direct: bool,
    n: usize,
}

struct World<'a> {
    setup: &'a Setup,
    applications: Vec<Application>,
    writes: Vec<Write>,
    buffer: Buffer,
    rates: Rates,
    requests: u64,
    writing: BTreeMap<u64, Writing>,
    /// What is being demoted, and how much of it is left.
    demotion: Option<(Demotion, f64)>,
    fails_at: Vec<f64>,
    rng: Rng,
    counted: bool,
    latencies: Vec<f64>,
    written_bytes: f64,
    sums: Figures,
    hits: u64,
}

/// Runs the periods.
pub fn run(setup: &Setup) -> Figures {
    let mut world = World::new(setup);
    world.run();
    world.figures()
}

/// Runs the periods; what the buffer was told and what it said, line by line.
pub fn run_logged(setup: &Setup) -> Vec<Logged> {
    let mut world = World::new(setup);
    world.buffer.start_log();
    world.run();
    world.buffer.log().to_vec()
}

/// The most data per period, over the size of the buffer, that a scheme takes without a backlog: all checkpoints of a period are written by
/// its end. Tried in steps of one checkpoint.
pub fn utilisation(setup: &Setup) -> f64 {
    let per_capacity = setup.load.job_bytes / setup.device.capacity;
    let takes = |jobs: usize| {
        let load = Load { jobs, ..setup.load.clone() };
        let out = run(&Setup { load, ..setup.clone() });
        out.unfinished == 0
    };
    // Feasibility falls with the load: bisection between none and three buffers full.
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
    /// What the buffer is told of it.
    pub fn buffer(&self) -> Config {
        Config {
            device: self.device,
            scheme: self.scheme,
            order: self.order,
            direct: self.direct,
            turns: true,
            wait_max: None,
            period: time(self.load.period_s),
            dwpp: self.load.writes().1.iter().map(|write| write.bytes).sum(),
            replicas: false,
        }
    }
}

impl<'a> World<'a> {
    fn new(setup: &'a Setup) -> World<'a> {
        let (applications, writes) = setup.load.writes();
        let mut rng = Rng::new(setup.load.seed, 1);
        let fails_at = applications.iter().map(|of| rng.exponential(of.mtbf_s)).collect();
        World {
            buffer: Buffer::new(setup.buffer()),
            rates: Rates { write: 0.0, demote: 0.0 },
            requests: 0,
            writing: BTreeMap::new(),
            demotion: None,
            fails_at,
            rng,
            counted: false,
            latencies: Vec::new(),
            sums: Figures::default(),
            hits: 0,
            written_bytes: 0.0,
            applications,
            writes,
            setup,
        }
    }

    fn run(&mut self) {
        let setup = self.setup;
        for (app, of) in self.applications.clone().iter().enumerate() {
            self.tell(0.0, Event::Mtbf { app: app as u64, mtbf_s: of.mtbf_s as u64 });
        }
        let steps = (setup.load.period_s / setup.step_s).round() as u64;
        for period in 0..=setup.periods {
            let start_s = f64::from(period) * setup.load.period_s;
            self.period_starts(start_s, period);
            let mut next = 0;
            for step in 0..steps {
                let now_s = start_s + step as f64 * setup.step_s;
                while self.writes.get(next).is_some_and(|write| write.at_s <= now_s - start_s) {
                    self.arrive(now_s, next);
                    next += 1;
                }
                self.fail(now_s);
                self.tell(now_s, Event::Tick);
                self.flow(now_s);
                if period == setup.periods && step % (steps / 50).max(1) == 0 {
                    self.sums.occupancy.push(self.buffer.used() / setup.device.capacity);
                }
            }
        }
    }

    fn period_starts(&mut self, start_s: f64, period: u32) {
        if period > 0 {
            self.tell(start_s, Event::Period);
        }
        self.counted = period > 0;
        self.sums.waits_s = vec![0.0; self.writes.len()];
        self.sums.occupancy.clear();
    }

    /// Tells the buffer what happened, and does what it says.
    fn tell(&mut self, now_s: f64, event: Event) {
        self.buffer.handle(time(now_s), event);
        while let Some(action) = self.buffer.poll() {
            match action {
                Action::Turn { request, direct, .. } => {
                    if let Some(of) = self.writing.get_mut(&request) {
                        (of.turn, of.direct) = (Some(now_s), direct);
                    }
                }
                Action::Go { request } => {
                    if let Some(of) = self.writing.get_mut(&request) {
                        of.began = Some(now_s);
                    }
                }
                Action::Demote(of) => self.demotion = Some((of, of.bytes as f64)),
                Action::Rates(rates) => self.rates = rates,
                Action::Restart { hit, .. } if self.counted => {
                    self.sums.restarts += 1;
                    self.hits += u64::from(hit);
                }
                // Both cost nothing here: a deletion is quick, and the replica group has a network of its own.
                Action::Restart { .. } | Action::Drop { .. } | Action::Replicate { .. } | Action::ReplicaRate(_) => {}
            }
        }
    }

    fn arrive(&mut self, now_s: f64, n: usize) {
        let Write { app, bytes, .. } = self.writes[n];
        let request = self.requests;
        self.requests += 1;
        let of = Writing { bytes, left: bytes, arrived: now_s, turn: None, began: None, direct: false, n };
        self.writing.insert(request, of);
        self.tell(now_s, Event::Arrive { app, request, bytes });
    }

    fn fail(&mut self, now_s: f64) {
        for app in 0..self.applications.len() {
            while self.fails_at[app] <= now_s {
                self.fails_at[app] += self.rng.exponential(self.applications[app].mtbf_s);
                self.tell(now_s, Event::Restarted { app: app as u64 });
            }
        }
    }

    /// Data flows for one step.
    fn flow(&mut self, now_s: f64) {
        let going: Vec<u64> = self.writing.iter().filter(|(_, of)| of.began.is_some()).map(|(n, _)| *n).collect();
        let writers = going.iter().filter(|n| !self.writing[n].direct).count();
        let share = self.rates.write * self.setup.step_s / writers.max(1) as f64;
        // A direct write has the path to the capacity tier, as demotion would.
        let past = self.setup.device.demote_max * self.setup.step_s;
        let end_s = now_s + self.setup.step_s;
        self.demote(now_s, self.rates.demote * self.setup.step_s);
        for request in going {
            let Some(of) = self.writing.get_mut(&request) else { continue };
            let flows = if of.direct { past } else { share }.min(of.left);
            of.left -= flows;
            let done = of.left <= 0.5;
            self.tell(end_s, Event::Wrote { request, bytes: flows });
            if done {
                self.written(end_s, request);
            }
        }
        if self.setup.check {
            self.buffer.check();
        }
    }

    fn demote(&mut self, now_s: f64, mut bytes: f64) {
        while let Some((_, left)) = &mut self.demotion {
            let flows = bytes.min(*left);
            *left -= flows;
            bytes -= flows;
            if self.counted {
                self.sums.demoted_gb += flows / 1e9;
            }
            if *left > 0.5 {
                return;
            }
            self.demotion = None;
            self.tell(now_s, Event::Demoted);
        }
    }

    fn written(&mut self, end_s: f64, request: u64) {
        let Some(of) = self.writing.remove(&request) else { return };
        self.tell(end_s, Event::Committed { request, bytes: of.bytes });
        if !self.counted {
            return;
        }
        let turn = of.turn.unwrap_or(of.arrived);
        let began = of.began.unwrap_or(turn);
        let (wait, stop, run) = (turn - of.arrived, began - turn, end_s - began);
        let sums = &mut self.sums;
        sums.jobs += 1;
        sums.wait_s += wait;
        sums.stop_s += stop;
        sums.run_s += run;
        sums.throughput_gb_s += of.bytes / run / 1e9;
        self.written_bytes += of.bytes;
        if of.direct {
            sums.direct_gb += of.bytes / 1e9;
        }
        if let Some(slot) = sums.waits_s.get_mut(of.n) {
            *slot = wait + stop;
        }
        self.latencies.push(wait + stop + run);
    }

    fn figures(mut self) -> Figures {
        self.latencies.sort_by(f64::total_cmp);
        let jobs = self.sums.jobs.max(1) as f64;
        let periods = f64::from(self.setup.periods.max(1));
        let quantile = |q: f64| self.latencies.get(((jobs * q) as usize).min(self.latencies.len().saturating_sub(1)));
        Figures {
            unfinished: self.writing.len() as u64,
            latency_s: self.latencies.iter().sum::<f64>() / jobs,
            latency_max_s: self.latencies.last().copied().unwrap_or(0.0),
            latency_p95_s: quantile(0.95).copied().unwrap_or(0.0),
            wait_s: self.sums.wait_s / jobs,
            stop_s: self.sums.stop_s / jobs,
            run_s: self.sums.run_s / jobs,
            throughput_gb_s: self.sums.throughput_gb_s / jobs,
            demoted_gb: self.sums.demoted_gb / periods,
            direct_gb: self.sums.direct_gb / periods,
            hit_ratio: self.hits as f64 / self.sums.restarts.max(1) as f64,
            utilisation: self.written_bytes / periods / self.setup.device.capacity,
            ..self.sums
        }
    }
}

#[cfg(test)]
mod tests;
