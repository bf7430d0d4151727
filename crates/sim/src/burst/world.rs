//! The world: steps of equal length, in which data flows at constant rates.

use super::load::{Application, Load};
use crate::generate::Rng;
use policy::burst::control::{Device, Plan, Rates};
use policy::burst::predict::{Forecast, better, rates_for};
use policy::burst::queue::Turns;
use policy::burst::tables::{Demotion, Order, Tables, Version};
use policy::time::Time;
use serde::Serialize;

/// Who decides how fast is written and demoted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheme {
    /// Room for the application's life, no turns, no demotion: at most `S` per period.
    DataWarp,
    /// Harmonia's MaxEff: always demote at full speed.
    MaxEff,
    /// Harmonia's MaxBW: never demote beside writing.
    MaxBw,
    /// Demote beside writing from this share of the buffer on.
    Static(f64),
    /// BBOS: the throttler's plan.
    Bbos,
    /// BBOS with checkpoints predicted: ours.
    Predicted,
}

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

/// A checkpoint that has its turn.
#[derive(Clone, Debug)]
struct Writing {
    request: u64,
    version: Version,
    left: f64,
    /// When it arrived, got its turn, began to write.
    arrived: f64,
    turn: f64,
    began: Option<f64>,
    direct: bool,
    n: usize,
}

struct World<'a> {
    setup: &'a Setup,
    applications: Vec<Application>,
    order: Vec<u64>,
    turns: Turns,
    tables: Tables,
    forecast: Forecast,
    /// Requests by number: who, when, which of its period.
    requests: Vec<(u64, f64, usize)>,
    versions: Vec<u64>,
    writing: Vec<Writing>,
    demotion: Option<(Demotion, f64)>,
    used: f64,
    dwsf: f64,
    /// Data of the period, as expected: what the period before wrote.
    dwpp: f64,
    plan: Plan,
    fails_at: Vec<f64>,
    rng: Rng,
    counted: bool,
    latencies: Vec<f64>,
    sums: Figures,
    hits: u64,
}

/// Runs the periods.
pub fn run(setup: &Setup) -> Figures {
    let mut world = World::new(setup);
    let steps = (setup.load.period_s / setup.step_s).round() as u64;
    for period in 0..=setup.periods {
        world.period_starts(period);
        let start_s = f64::from(period) * setup.load.period_s;
        let mut next = 0;
        for step in 0..steps {
            let now_s = start_s + step as f64 * setup.step_s;
            while next < setup.load.jobs && setup.load.arrival_s(next) <= now_s - start_s {
                world.arrive(now_s, next);
                next += 1;
            }
            world.fail(now_s);
            world.start(now_s);
            world.flow(now_s);
            if period == setup.periods && step % (steps / 50).max(1) == 0 {
                world.sums.occupancy.push(world.used / setup.device.capacity);
            }
        }
    }
    world.figures()
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

impl<'a> World<'a> {
    fn new(setup: &'a Setup) -> World<'a> {
        let (applications, order) = setup.load.applications();
        let mut tables = Tables::new(setup.order);
        let mut rng = Rng::new(setup.load.seed, 1);
        for (app, of) in applications.iter().enumerate() {
            tables.set_mtbf(app as u64, of.mtbf_s as u64);
        }
        let fails_at = applications.iter().map(|of| rng.exponential(of.mtbf_s)).collect();
        let dwpp = setup.load.jobs as f64 * setup.load.job_bytes;
        World {
            turns: Turns::new(setup.scheme != Scheme::DataWarp, None),
            tables,
            forecast: Forecast::new(),
            requests: Vec::new(),
            versions: vec![0; applications.len()],
            writing: Vec::new(),
            demotion: None,
            used: 0.0,
            dwsf: 0.0,
            dwpp,
            plan: Plan::new(&setup.device, dwpp),
            fails_at,
            rng,
            counted: false,
            latencies: Vec::new(),
            sums: Figures::default(),
            hits: 0,
            applications,
            order,
            setup,
        }
    }

    fn period_starts(&mut self, period: u32) {
        // The period to come is expected to be like the one that ends.
        if period > 0 && self.dwsf > 0.0 {
            self.dwpp = self.dwsf;
            self.plan = Plan::new(&self.setup.device, self.dwpp);
        }
        self.dwsf = 0.0;
        self.counted = period > 0;
        self.sums.waits_s = vec![0.0; self.setup.load.jobs];
        self.sums.occupancy.clear();
    }

    fn arrive(&mut self, now_s: f64, n: usize) {
        let app = self.order[n];
        let request = self.requests.len() as u64;
        self.requests.push((app, now_s, n));
        let now = Time((now_s * 1e9) as u64);
        self.forecast.arrived(now, app, self.setup.load.job_bytes);
        self.turns.arrive(now, app, request);
    }

    fn fail(&mut self, now_s: f64) {
        for app in 0..self.applications.len() {
            while self.fails_at[app] <= now_s {
                self.fails_at[app] += self.rng.exponential(self.applications[app].mtbf_s);
                if let Some((_, hit)) = self.tables.restart(app as u64)
                    && self.counted
                {
                    self.sums.restarts += 1;
                    self.hits += u64::from(hit);
                }
            }
        }
    }

    fn start(&mut self, now_s: f64) {
        let now = Time((now_s * 1e9) as u64);
        while let Some((app, request)) = self.turns.next(now) {
            let (_, arrived, n) = self.requests[request as usize];
            self.versions[app as usize] += 1;
            let version = Version { app, number: self.versions[app as usize] };
            let c = self.plan_c();
            let direct =
                self.setup.direct && c > 0.0 && self.tables.goes_direct(app, self.dwsf, self.setup.device.capacity);
            let left = self.setup.load.job_bytes;
            self.writing.push(Writing { request, version, left, arrived, turn: now_s, began: None, direct, n });
        }
        for at in 0..self.writing.len() {
            if self.writing[at].began.is_some() {
                continue;
            }
            if self.writing[at].direct || self.make_room() {
                self.writing[at].began = Some(now_s);
                if !self.writing[at].direct {
                    self.used += self.setup.load.job_bytes;
                }
            }
        }
    }

    /// What the present plan demotes beside writing, in bytes.
    fn plan_c(&self) -> f64 {
        self.dwpp - self.setup.device.capacity
    }

    fn make_room(&mut self) -> bool {
        let bytes = self.setup.load.job_bytes;
        if self.setup.scheme == Scheme::DataWarp {
            // Each application overwrites its own area.
            return true;
        }
        let short = self.used + bytes - self.setup.device.capacity;
        if short > 0.0 {
            let freed: u64 = self.tables.delete_clean(short.ceil() as u64).iter().map(|(_, bytes)| bytes).sum();
            self.used -= freed as f64;
        }
        self.used + bytes <= self.setup.device.capacity + 1.0
    }

    /// Data flows for one step.
    fn flow(&mut self, now_s: f64) {
        let device = self.setup.device;
        let writers = self.writing.iter().filter(|of| of.began.is_some() && !of.direct).count();
        let rates = if writers == 0 { Rates { write: 0.0, demote: device.demote_idle } } else { self.rates(now_s) };
        let demotes = self.setup.scheme != Scheme::DataWarp;
        if demotes {
            self.demote(rates.demote * self.setup.step_s);
        }
        let share = rates.write * self.setup.step_s / writers.max(1) as f64;
        // A direct write has the path to the capacity tier, as demotion would.
        let past = device.demote_max * self.setup.step_s;
        let end_s = now_s + self.setup.step_s;
        let mut at = 0;
        while at < self.writing.len() {
            let of = &mut self.writing[at];
            if of.began.is_some() {
                let flows = if of.direct { past } else { share }.min(of.left);
                of.left -= flows;
                self.dwsf += flows;
                if of.left <= 0.5 {
                    let done = self.writing.swap_remove(at);
                    self.written(end_s, &done);
                    continue;
                }
            }
            at += 1;
        }
        if self.setup.check {
            assert!(self.used <= device.capacity * 1.000_001 || !demotes, "the buffer holds more than it can");
            let (_, dirty) = self.tables.in_buffer();
            assert!(dirty as f64 <= self.used + 1.0 || !demotes, "the tables hold more than the buffer");
        }
    }

    fn rates(&self, now_s: f64) -> Rates {
        let device = &self.setup.device;
        let full = Rates { write: device.write_max, demote: 0.0 };
        let demoting = Rates { write: device.write_min, demote: device.demote_max };
        match self.setup.scheme {
            Scheme::DataWarp | Scheme::MaxBw => full,
            Scheme::MaxEff => demoting,
            Scheme::Static(share) if self.used < share * device.capacity => full,
            Scheme::Static(_) => demoting,
            Scheme::Bbos => self.plan.rates(device, self.dwsf),
            Scheme::Predicted => {
                let (_, dirty) = self.tables.in_buffer();
                let clean = (self.used - dirty as f64 - self.setup.load.job_bytes).max(0.0);
                let free = (device.capacity - self.used).max(0.0) + clean;
                let left: f64 = self.writing.iter().map(|of| of.left).sum();
                let waiting = self.turns.waiting() as f64 * self.setup.load.job_bytes;
                let now = Time((now_s * 1e9) as u64);
                let period = self.setup.load.period_s;
                let coming = self.forecast.coming(now, period, period);
                // Those that wait come at once; the next one must find its room whole, so one is kept in reserve.
                let forecast =
                    rates_for(device, free - waiting - self.setup.load.job_bytes, dirty as f64, left, &coming);
                better(device, &self.plan, self.dwsf, self.dwpp, &coming, forecast)
            }
        }
    }

    fn demote(&mut self, mut bytes: f64) {
        while bytes > 0.0 {
            if self.demotion.is_none() {
                self.demotion = self.tables.next_demotion().map(|of| (of, of.bytes as f64));
            }
            let Some((of, left)) = &mut self.demotion else { return };
            let flows = bytes.min(*left);
            *left -= flows;
            bytes -= flows;
            if self.counted {
                self.sums.demoted_gb += flows / 1e9;
            }
            if *left <= 0.5 {
                let of = *of;
                self.demotion = None;
                self.used -= self.tables.demoted(&of) as f64;
            }
        }
    }

    fn written(&mut self, end_s: f64, of: &Writing) {
        self.turns.done(of.request);
        if of.direct {
            self.tables.written_direct(of.version);
        } else if self.setup.scheme == Scheme::DataWarp {
            // The one before is overwritten.
            self.tables.ended(of.version.app);
            self.tables.set_mtbf(of.version.app, self.applications[of.version.app as usize].mtbf_s as u64);
            self.tables.written(of.version, self.setup.load.job_bytes as u64);
        } else {
            self.tables.written(of.version, self.setup.load.job_bytes as u64);
        }
        if !self.counted {
            return;
        }
        let began = of.began.unwrap_or(of.turn);
        let (wait, stop, run) = (of.turn - of.arrived, began - of.turn, end_s - began);
        let sums = &mut self.sums;
        sums.jobs += 1;
        sums.wait_s += wait;
        sums.stop_s += stop;
        sums.run_s += run;
        sums.throughput_gb_s += self.setup.load.job_bytes / run / 1e9;
        if of.direct {
            sums.direct_gb += self.setup.load.job_bytes / 1e9;
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
            unfinished: (self.turns.waiting() + self.writing.len()) as u64,
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
            utilisation: jobs * self.setup.load.job_bytes / periods / self.setup.device.capacity,
            ..self.sums
        }
    }
}

#[cfg(test)]
mod tests;
