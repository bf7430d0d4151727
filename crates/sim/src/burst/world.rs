//! The world: applications that write checkpoints piece by piece, each piece when admission lets it go.
//!
//! What goes into the buffer is written when it is released: the rate limit is the device's speed along the line of
//! equation 5.1. What goes straight to the capacity tier has its path to itself, at the speed of demotion beside
//! writing.

use super::load::{Application, Load, Write};
use crate::generate::Rng;
use policy::burst::admission::{self, Action, Admission, Event, Logged};
use policy::burst::buffer::{self, Event as Of};
use policy::burst::control::Device;
use policy::burst::tables::Order;
use policy::machine::Machine;
use policy::time::Time;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

pub use policy::burst::buffer::Scheme;

/// Moments of the last period at which is looked how full the buffer is.
const OCCUPANCIES: usize = 50;
/// A checkpoint of the paper's waits for room as long as it takes.
const FOR_EVER: Time = Time(u64::MAX);

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
    /// An application writes as much at once as flows in so many seconds.
    pub step_s: f64,
    /// Check the accounts at every event.
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
    /// Share of the buffer in use at `OCCUPANCIES` moments of the last period.
    pub occupancy: Vec<f64>,
}

/// A checkpoint on its way.
#[derive(Clone, Debug)]
struct Writing {
    bytes: u64,
    left: u64,
    /// When it arrived, got its turn, began to write.
    arrived: Time,
    turn: Option<Time>,
    began: Option<Time>,
    direct: bool,
    n: usize,
}

/// A piece of a checkpoint that was given to admission.
#[derive(Clone, Copy, Debug)]
struct Piece {
    request: u64,
    len: u64,
}

/// What is being demoted, and how much of it was left at a moment.
#[derive(Clone, Copy, Debug)]
struct Demoting {
    left: f64,
    at: Time,
}

struct World<'a> {
    setup: &'a Setup,
    applications: Vec<Application>,
    writes: Vec<Write>,
    admission: Admission,
    events: VecDeque<Event>,
    now: Time,
    requests: u64,
    pieces: u64,
    writing: BTreeMap<u64, Writing>,
    held: BTreeMap<u64, Piece>,
    /// Pieces under way to the capacity tier, by their end.
    direct: BTreeMap<(Time, u64), Piece>,
    demoting: Option<Demoting>,
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

/// Runs the periods; what admission was told and what it said, line by line.
pub fn run_logged(setup: &Setup) -> Vec<Logged> {
    let mut world = World::new(setup);
    world.admission.start_log();
    world.run();
    world.admission.log().to_vec()
}

/// The most data per period, over the size of the buffer, that a scheme takes without a backlog: all checkpoints of a
/// period are written by its end. Tried in steps of one checkpoint.
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
    /// What admission is told of it.
    pub fn admission(&self) -> admission::Config {
        let buffer = buffer::Config {
            device: self.device,
            scheme: self.scheme,
            order: self.order,
            direct: self.direct,
            turns: true,
            wait_max: None,
            period: time(self.load.period_s),
            dwpp: self.load.writes().1.iter().map(|write| write.bytes).sum(),
            replicas: false,
        };
        admission::Config { buffer, full_waits: true, full_wait: FOR_EVER }
    }
}

impl<'a> World<'a> {
    fn new(setup: &'a Setup) -> World<'a> {
        let (applications, writes) = setup.load.writes();
        let mut rng = Rng::new(setup.load.seed, 1);
        let fails_at = applications.iter().map(|of| rng.exponential(of.mtbf_s)).collect();
        World {
            admission: Admission::new(setup.admission()),
            events: VecDeque::new(),
            now: Time::ZERO,
            requests: 0,
            pieces: 0,
            writing: BTreeMap::new(),
            held: BTreeMap::new(),
            direct: BTreeMap::new(),
            demoting: None,
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
        for (app, of) in self.applications.clone().iter().enumerate() {
            self.tell(Of::Mtbf { app: app as u64, mtbf_s: of.mtbf_s as u64 });
        }
        for period in 0..=self.setup.periods {
            let start_s = f64::from(period) * self.setup.load.period_s;
            self.counted = period > 0;
            self.sums.waits_s = vec![0.0; self.writes.len()];
            for n in 0..self.writes.len() {
                self.run_until(time(start_s + self.writes[n].at_s));
                self.arrive(n);
            }
            // What is due when the next period begins belongs to that.
            let ends = time(start_s + self.setup.load.period_s);
            self.run_until(Time(ends.0 - 1));
        }
    }

    /// What happens up to a moment.
    fn run_until(&mut self, until: Time) {
        loop {
            let fails = self.fails_at.iter().map(|at_s| time(*at_s)).min();
            let direct = self.direct.first_key_value().map(|((end, _), _)| *end);
            let next = [fails, direct, self.demoted_at(), self.admission.next_deadline()].into_iter().flatten().min();
            let Some(next) = next.filter(|at| *at <= until) else { break };
            self.step_to(next);
        }
        self.step_to(until);
    }

    fn step_to(&mut self, now: Time) {
        let now = now.max(self.now);
        self.sample(now);
        self.demote_until(now);
        self.now = now;
        while let Some(entry) = self.direct.first_entry().filter(|entry| entry.key().0 <= now) {
            let piece = entry.remove();
            self.written(piece);
        }
        for app in 0..self.applications.len() {
            while time(self.fails_at[app]) <= now {
                self.fails_at[app] += self.rng.exponential(self.applications[app].mtbf_s);
                self.tell(Of::Restarted { app: app as u64 });
            }
        }
        if self.demoted_at().is_some_and(|at| at <= now) {
            self.demoting = None;
            self.tell(Of::Demoted);
        }
        if self.admission.next_deadline().is_some_and(|at| at <= now) {
            self.tell(Of::Tick);
        }
    }

    /// How full the buffer is at the moments of the last period that lie before `now`.
    fn sample(&mut self, now: Time) {
        let period_s = self.setup.load.period_s;
        let share = self.admission.buffer().used() / self.setup.device.capacity;
        while self.sums.occupancy.len() < OCCUPANCIES {
            let at_s = period_s / OCCUPANCIES as f64 * self.sums.occupancy.len() as f64;
            if time(f64::from(self.setup.periods) * period_s + at_s) >= now {
                return;
            }
            self.sums.occupancy.push(share);
        }
    }

    fn arrive(&mut self, n: usize) {
        let Write { app, bytes, .. } = self.writes[n];
        self.requests += 1;
        let whole = bytes as u64;
        let of = Writing { bytes: whole, left: whole, arrived: self.now, turn: None, began: None, direct: false, n };
        self.writing.insert(self.requests, of);
        self.tell(Of::Arrive { app, request: self.requests, bytes });
        self.write_next(self.requests);
    }

    /// The next piece of a checkpoint asks to be written.
    fn write_next(&mut self, request: u64) {
        let Some(of) = self.writing.get(&request) else { return };
        let speed = if of.direct { self.setup.device.demote_max } else { self.admission.rates().write };
        let len = ((speed * self.setup.step_s) as u64).clamp(1, of.left.max(1));
        self.pieces += 1;
        self.held.insert(self.pieces, Piece { request, len });
        self.handle(Event::Hold { request, write: self.pieces, len });
    }

    fn tell(&mut self, event: Of) {
        self.handle(Event::Buffer(event));
    }

    /// Tells admission what happened, and does what it says.
    fn handle(&mut self, event: Event) {
        let busy = !self.events.is_empty();
        self.events.push_back(event);
        if busy {
            return;
        }
        while let Some(event) = self.events.front().copied() {
            self.admission.handle(self.now, event);
            while let Some(action) = self.admission.poll() {
                self.carry_out(action);
            }
            self.events.pop_front();
            if self.setup.check {
                self.admission.buffer().check();
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Release { write, .. } => {
                if let Some(piece) = self.held.remove(&write) {
                    self.released(write, piece);
                }
            }
            Action::Prepare { request } => {
                if let Some(of) = self.writing.get_mut(&request) {
                    of.began.get_or_insert(self.now);
                }
                self.handle(Event::Prepared { request });
            }
            Action::Buffer(buffer::Action::Turn { request, direct, .. }) => {
                if let Some(of) = self.writing.get_mut(&request) {
                    of.turn.get_or_insert(self.now);
                    of.direct = direct;
                }
            }
            Action::Buffer(buffer::Action::Demote(of)) => {
                self.demoting = Some(Demoting { left: of.bytes as f64, at: self.now });
            }
            Action::Buffer(buffer::Action::Restart { hit, .. }) if self.counted => {
                self.sums.restarts += 1;
                self.hits += u64::from(hit);
            }
            // A deletion is quick, and the replica group has a network of its own.
            Action::Buffer(_) => {}
        }
    }

    fn released(&mut self, write: u64, piece: Piece) {
        if self.writing.get(&piece.request).is_some_and(|of| of.direct) {
            let end = self.now + time(piece.len as f64 / self.setup.device.demote_max);
            self.direct.insert((end, write), piece);
        } else {
            self.written(piece);
        }
    }

    fn written(&mut self, piece: Piece) {
        let Some(of) = self.writing.get_mut(&piece.request) else { return };
        of.left -= piece.len;
        if of.left > 0 { self.write_next(piece.request) } else { self.complete(piece.request) }
    }

    /// When the demotion under way ends at the rate in force.
    fn demoted_at(&self) -> Option<Time> {
        let of = self.demoting?;
        let rate = self.admission.rates().demote;
        (of.left <= 0.5 || rate > 0.0).then(|| of.at + time((of.left - 0.5).max(0.0) / rate.max(1e-9)))
    }

    fn demote_until(&mut self, now: Time) {
        let rate = self.admission.rates().demote;
        let Some(of) = &mut self.demoting else { return };
        let flows = (rate * now.since(of.at).as_secs_f64()).min(of.left);
        (of.left, of.at) = (of.left - flows, now);
        if self.counted {
            self.sums.demoted_gb += flows / 1e9;
        }
    }

    fn complete(&mut self, request: u64) {
        let Some(of) = self.writing.remove(&request) else { return };
        self.tell(Of::Committed { request, bytes: of.bytes as f64 });
        if !self.counted {
            return;
        }
        let turn = of.turn.unwrap_or(of.arrived);
        let began = of.began.unwrap_or(turn);
        let (wait_s, stop_s) = (turn.since(of.arrived).as_secs_f64(), began.since(turn).as_secs_f64());
        let run_s = self.now.since(began).as_secs_f64();
        let (bytes, sums) = (of.bytes as f64, &mut self.sums);
        sums.jobs += 1;
        sums.wait_s += wait_s;
        sums.stop_s += stop_s;
        sums.run_s += run_s;
        sums.throughput_gb_s += bytes / run_s / 1e9;
        self.written_bytes += bytes;
        if of.direct {
            sums.direct_gb += bytes / 1e9;
        }
        if let Some(slot) = sums.waits_s.get_mut(of.n) {
            *slot = wait_s + stop_s;
        }
        self.latencies.push(wait_s + stop_s + run_s);
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
