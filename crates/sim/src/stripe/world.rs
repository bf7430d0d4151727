//! The world: arrivals, disks, the striper.
//!
//! Disks serve first come first served and know nothing of what comes later, so requests can be taken in the order of their arrival, each
//! disk being busy until a known time; no event queue is needed.

use super::disks::Disks;
use super::{Phase, phases::Asked};
use crate::disk::Model;
use crate::generate::Rng;
use crate::latency::Latencies;
use policy::FileId;
use policy::machine::Machine;
use policy::pattern::Request;
use policy::pattern::recent::Recent;
use policy::stripe::advice::Mode;
use policy::stripe::forks::{Chooser, Planner, Shape};
use policy::stripe::fuzzy::Rules;
use policy::stripe::model::{Device, Parameters};
use policy::stripe::performance::Served;
use policy::stripe::profile::{Counts, class_of};
use policy::stripe::striper::{Action, Config, Event, Striper};
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
    /// How many times as long they take as the parameters say.
    pub slowness: f64,
    /// Whether they are behind a network.
    pub far: bool,
    /// Bytes of a block of the model.
    pub block_bytes: f64,
    /// The load.
    pub phases: Vec<Phase>,
    /// How often the striper looks.
    pub interval: Time,
    /// Time at the start of each phase that is not counted: a cold start, or the reaction.
    pub warm_up: Time,
    /// Bytes of the file: so much is copied, in the background, when it is striped anew.
    pub copy_bytes: u64,
    /// The seed.
    pub seed: u64,
}

impl Setup {
    /// What the devices did, as the striper is told it.
    pub fn served(&self, served: Served) -> Event {
        let none = Served::default();
        let (near, far) = if self.far { (none, served) } else { (served, none) };
        Event::Served { near, far }
    }
}

/// Who says how wide requests are.
#[derive(Clone, Debug)]
pub enum Drive {
    /// Every request spans so many disks, whatever its size.
    Width(u32),
    /// The file has these copies, over all disks, with these striping units.
    Units(Vec<u64>),
    /// The striper; so many copies at most.
    Adaptive(Mode, Rules, usize),
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
    /// Changes of the layout.
    pub changes: u64,
    /// Copies of the file at the end: the space that it takes.
    pub copies: usize,
}

/// What happened between a file and its striper, for those who want to hold another world against this one.
#[derive(Clone, Debug, PartialEq)]
pub enum Logged {
    /// A request.
    Asked(Request),
    /// The striper looked, at this time; the file lay so, and the devices had done this.
    Looked(Time, Vec<Shape>, Served),
    /// A change was over, at this time; it had taken so long.
    Ended(Time, Time),
    /// The striper did this.
    Did(Action),
}

/// The file of the world.
pub const FILE: FileId = FileId(1);
/// How a file lies that nobody thought about: the unit of a new volume.
const UNIT_BYTES: u64 = 1 << 20;

/// How the file lies and who decides that.
struct Layout {
    forks: Vec<Shape>,
    chooser: Option<Chooser>,
    striper: Option<Box<Striper>>,
    counts: Box<Counts>,
    recent: Recent,
    /// A change under way: when it is done, and what it is.
    under_way: Option<(f64, f64, Action)>,
    log: Vec<Logged>,
}

/// The striper's configuration for such a setup.
pub fn config(setup: &Setup, mode: Mode, forks: usize) -> Config {
    let of = &setup.parameters;
    let block_s = match of.device {
        Device::Disk { revolution_s, track_blocks, .. } => revolution_s / track_blocks,
        Device::Flash { block_s, channels, .. } => block_s / channels.max(1.0),
    };
    // Read once and written once.
    let copy_byte_s = 2.0 * (block_s + of.interface_s) / setup.block_bytes;
    Config { window: Time(setup.interval.0.saturating_mul(8)), forks, ..Config::of(mode, *of, copy_byte_s) }
}

impl Layout {
    fn new(setup: &Setup, drive: &Drive) -> Layout {
        let devices = setup.parameters.devices;
        let shape = |unit_bytes: &u64| Shape { devices, unit_bytes: *unit_bytes };
        let (forks, striper) = match drive {
            Drive::Width(_) => (Vec::new(), None),
            Drive::Units(units) => (units.iter().map(shape).collect(), None),
            Drive::Adaptive(mode, rules, forks) => {
                let striper = Striper::new(config(setup, *mode, *forks), rules.clone(), Time::ZERO);
                (vec![shape(&UNIT_BYTES)], Some(Box::new(striper)))
            }
        };
        let (counts, recent) = (Box::default(), Recent::default());
        Layout { forks, chooser: None, striper, counts, recent, under_way: None, log: Vec::new() }
    }

    /// The first disk of a request, and how many it spans.
    fn place(&self, disks: &mut Disks, now: f64, bytes: u64) -> (usize, usize) {
        let spans = |shape: &Shape| shape.spans(bytes as f64) as usize;
        match (&self.chooser, self.forks.as_slice()) {
            (Some(by), forks) if forks.len() > 1 => {
                let costs = forks.iter().map(|shape| {
                    let (first, width) = (disks.place(), spans(shape));
                    (by.cost_s(bytes, disks.queues(now, first, width)), first, width)
                });
                let best = costs.min_by(|a, b| a.0.total_cmp(&b.0)).expect("several forks");
                (best.1, best.2)
            }
            (_, forks) => (disks.place(), forks.first().map_or(1, spans)),
        }
    }

    /// One look of the striper; gives the changes begun.
    fn look(&mut self, setup: &Setup, disks: &mut Disks, now: f64) -> u64 {
        let Some(striper) = &mut self.striper else { return 0 };
        let at = Time((now * 1e9) as u64);
        if let Some((began, _, action)) = self.under_way.take_if(|(_, done, _)| *done <= now) {
            let took = Time(((now - began) * 1e9) as u64);
            match action {
                Action::Restripe { fork, to, .. } => self.forks[fork] = to,
                Action::AddFork { to, .. } => self.forks.push(to),
                _ => {}
            }
            self.log.push(Logged::Ended(at, took));
            striper.handle(at, Event::Ended { file: FILE, bytes: setup.copy_bytes.max(1), took });
        }
        let (forks, bytes) = (self.forks.clone(), setup.copy_bytes);
        let served = std::mem::take(&mut disks.served);
        self.log.push(Logged::Looked(at, forks.clone(), served));
        striper.handle(at, setup.served(served));
        striper.handle(at, Event::Lies { file: FILE, forks, keep: 1, bytes, movable: true, open: true });
        let counts = std::mem::take(&mut self.counts);
        let recent = self.recent.window().to_vec();
        striper.handle(at, Event::Asked { file: FILE, counts, users: 1, recent });
        striper.handle(at, Event::Look);
        let mut changes = 0;
        while let Some(action) = striper.poll() {
            self.log.push(Logged::Did(action.clone()));
            match action {
                Action::Route { by, .. } => self.chooser = Some(*by),
                Action::Place { .. } => {}
                Action::DropFork { fork, .. } => {
                    self.forks.remove(fork);
                    striper.handle(at, Event::Ended { file: FILE, bytes: 0, took: Time::ZERO });
                }
                change => {
                    changes += 1;
                    let done = if setup.copy_bytes > 0 { disks.copy(setup, now, setup.copy_bytes) } else { now };
                    self.under_way = Some((now, done, change));
                }
            }
        }
        changes
    }
}

/// Runs all phases, one after another; figures of each.
pub fn run(setup: &Setup, drive: &Drive) -> Vec<Figures> {
    run_logged(setup, drive).0
}

/// The same, with what the striper was told and did, if there is one.
pub fn run_logged(setup: &Setup, drive: &Drive) -> (Vec<Figures>, Vec<Logged>) {
    let mut disks = Disks::new(setup);
    let mut layout = Layout::new(setup, drive);
    let (mut arrivals, mut offsets) = (Rng::new(setup.seed, 0), Rng::new(setup.seed, 2));
    let (mut now, mut phase_start, mut look_at) = (0.0, 0.0, setup.interval.as_secs_f64());
    let mut all = Vec::new();
    for phase in &setup.phases {
        let mut figures = Figures::default();
        let mut latencies = Latencies::default();
        let (busy_before, mut widths) = (disks.busy_s, 0u64);
        let (end, rate) = (phase_start + phase.seconds, phase.rate());
        // Copies that nobody adapts choose as well as they can: for the load of the phase.
        if let Drive::Units(units) = drive
            && units.len() > 1
        {
            layout.chooser = Some(chooser(setup, phase, &layout.forks));
        }
        now = f64::max(now, phase_start);
        loop {
            now += arrivals.exponential(1.0 / rate);
            if now >= end {
                break;
            }
            while look_at <= now {
                figures.changes += layout.look(setup, &mut disks, look_at);
                look_at += setup.interval.as_secs_f64();
            }
            let bytes = which(&phase.asked, rate, &mut arrivals);
            if layout.striper.is_some() {
                // Anywhere in the file, as the disks below take it.
                let places = (setup.copy_bytes.max(UNIT_BYTES) / bytes.max(1)).max(1);
                let request = Request { write: false, offset: offsets.below(places) * bytes, len: bytes };
                layout.recent.add(request);
                layout.log.push(Logged::Asked(request));
            }
            let count = &mut layout.counts[class_of(bytes)];
            (count.reads, count.bytes) = (count.reads + 1, count.bytes + bytes);
            let (first, width) = match drive {
                Drive::Width(width) => (disks.place(), *width as usize),
                _ => layout.place(&mut disks, now, bytes),
            };
            let response = disks.request(setup, now, bytes, first, width);
            if now - phase_start >= setup.warm_up.as_secs_f64() {
                latencies.add(Time((response * 1e9) as u64));
                widths += width as u64;
            }
        }
        figures.requests = latencies.count();
        figures.mean_ms = latencies.mean_ms();
        figures.p95_ms = latencies.quantile_ms(0.95);
        figures.utilisation =
            (disks.busy_s - busy_before) / (phase.seconds * f64::from(setup.parameters.devices.max(1)));
        figures.width = widths as f64 / latencies.count().max(1) as f64;
        figures.copies = layout.forks.len().max(1);
        all.push(figures);
        phase_start = end;
    }
    (all, layout.log)
}

/// The size of the next request.
fn which(asked: &[Asked], rate: f64, rng: &mut Rng) -> u64 {
    let [one] = asked else {
        let mut at = rng.unit() * rate;
        for of in asked {
            at -= of.rate;
            if at < 0.0 {
                return of.bytes;
            }
        }
        return asked.last().map_or(0, |of| of.bytes);
    };
    one.bytes
}

/// A chooser for a phase whose load is known.
fn chooser(setup: &Setup, phase: &Phase, forks: &[Shape]) -> Chooser {
    let planner = Planner::new(setup.parameters, 4096);
    let (mut stripes, mut busy) = (0.0, 0.0);
    for asked in &phase.asked {
        let bytes = asked.bytes as f64;
        let class = policy::stripe::profile::Class { class: class_of(asked.bytes), rate: asked.rate, bytes };
        stripes += asked.rate * f64::from(forks[0].spans(bytes));
        busy += planner.load(&class, &forks[0]).utilisation;
    }
    planner.chooser(busy * f64::from(setup.parameters.devices) / stripes.max(1e-9), busy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::stripe::rules;

    fn setup(devices: u32, phases: Vec<Phase>) -> Setup {
        Setup {
            parameters: Parameters { devices, ..Parameters::default() },
            kind: Kind::Modelled,
            slowness: 1.0,
            far: false,
            block_bytes: 4096.0,
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
            // The rules see the mean size, which while the window holds both phases is neither's: two changes for each new phase.
            assert!(got.iter().map(|of| of.changes).sum::<u64>() <= 6, "{mode:?}: layouts do not flap: {got:?}");
            assert_eq!(got, run(&setup, &adaptive(mode, 1)), "the same seed, the same figures");
        }
    }

    #[test]
    fn two_forks_are_faster_than_the_better_of_them() {
        let mix = vec![Asked { rate: 120.0, bytes: 64 << 10 }, Asked { rate: 6.0, bytes: 1 << 20 }];
        let setup = setup(24, vec![Phase { asked: mix, seconds: 400.0 }]);
        let ms = |units: &[u64]| run(&setup, &Drive::Units(units.to_vec()))[0].mean_ms;
        let (a, b) = (64 << 10, 256 << 10);
        let (one, other, both) = (ms(&[a]), ms(&[b]), ms(&[a, b]));
        assert!(both < 0.95 * one.min(other), "{both} with both, {one} and {other} with one");
        let by_itself = &run(&setup, &adaptive(Mode::Model, 2))[0];
        assert!(by_itself.copies == 2 && by_itself.mean_ms < one.min(other), "{by_itself:?}");
    }
}
