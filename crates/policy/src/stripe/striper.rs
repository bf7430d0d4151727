//! The striper: adapts the files of a volume as their load changes.
//!
//! ```text
//!   Asked, Lies, Space, Served --> [per file: profile, forks, route | whole volume: profile, shape of new files] --+
//!                                                                                                             Look |
//!   Ended (real cost of a copy) <-------- actions: Restripe, AddFork, DropFork, Route <----------------------------+
//! ```
//! One decision per interval. For each file with load, the request classes of its window are assigned to its forks: the
//! smallest predicted response time at the present load, beside the load of other files. A change is wanted when the
//! model predicts response times shorter by `margin` (rules alone: when the width differs by [`DIFFERENT`]). It is made
//! when it was wanted `settle` times in a row and *pays*: the gain within `horizon` exceeds the device time of the
//! copy, as measured so far. It must pay at all rates within the counting error. The model's service times follow the
//! measured ones when these are off by more than [`SPEED_OFF`]. Widths from the rules are reduced until the devices can bear the load. After a change the
//! file rests for a window. Requests are served as before until the driver has changed the layout.
//!
//! Bounded: at most `files_max` files are tracked, the one without load for longest is replaced; one change at a time
//! per file.
//!
//! Source: Simitci & Reed, sections 3 to 6; the reference, sections 9 and 10. Cost against gain, and the bounds, are
//! ours.

mod event;
mod file;
#[cfg(test)]
mod tests;
mod why;

pub use event::{Action, Event};
pub use file::View;
pub use why::{Cause, Why};

use super::advice::{Advice, Adviser, Mode, Surroundings};
use super::device::Measured;
use super::forks::{Planner, Shape};
use super::fuzzy::Rules;
use super::model::{OtherLoad, Parameters};
use super::performance::Performance;
use super::profile::{Class, Profile, Reading};
use crate::ids::FileId;
use crate::machine::Machine;
use crate::pattern::{Chosen, Classifier};
use crate::time::Time;
use file::File;
use std::collections::{BTreeMap, VecDeque};

/// Difference from which a width of the rules counts as another, as a share of the larger. A guess.
pub const DIFFERENT: f64 = 0.3;
/// Difference from which measured service times replace those of the model, as a share. A guess.
pub const SPEED_OFF: f64 = 0.25;
/// Share of writes above which a file gets no fork: every write would be done twice.
const FORK_WRITES_MAX: f64 = 0.1;
/// Share of writes from which a fork is dropped.
const DROP_WRITES_MIN: f64 = 0.5;

/// Parameters of the striper.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Mechanism that decides; `Fixed` only observes.
    pub mode: Mode,
    /// The devices, all alike; rate and request size of it are not used.
    pub parameters: Parameters,
    /// Device time for copying one byte, in seconds: one read and one write.
    pub copy_byte_s: f64,
    /// Permitted widths of a request; empty: the powers of two, and all devices.
    pub widths: Vec<u32>,
    /// Length of the moving window.
    pub window: Time,
    /// Least reduction of response times, as a share.
    pub margin: f64,
    /// Number of consecutive decisions that must want a change.
    pub settle: u32,
    /// Expected duration of a load.
    pub horizon: Time,
    /// Most copies of a file, forks included; 1: no forks.
    pub forks: usize,
    /// Share of space that must stay free for new forks; below half of it, forks are dropped.
    pub fork_space: f64,
    /// Most files that are tracked.
    pub files_max: usize,
    /// Striping units are multiples of this.
    pub granularity_bytes: u64,
    /// Classifier of a file's request pattern.
    pub classifier: Chosen,
}

impl Config {
    /// Settings for `devices` such devices.
    pub fn new(mode: Mode, device: &Measured, devices: u32) -> Config {
        let byte_s = 1.0 / device.read_rate.max(1.0) + 1.0 / device.write_rate.max(1.0);
        Config::of(mode, device.parameters(devices), byte_s)
    }

    /// Settings for devices with these parameters.
    pub fn of(mode: Mode, parameters: Parameters, copy_byte_s: f64) -> Config {
        Config {
            mode,
            parameters,
            copy_byte_s,
            widths: Vec::new(),
            window: Time::from_secs(10),
            margin: 0.02,
            settle: 2,
            horizon: Time::from_secs(300),
            forks: 1,
            fork_space: 0.2,
            files_max: 1024,
            granularity_bytes: 4096,
            classifier: Chosen::default(),
        }
    }
}

/// The striper of a volume. See the module.
#[derive(Debug)]
pub struct Striper {
    config: Config,
    widths: Vec<u32>,
    planner: Planner,
    rules: Adviser,
    files: BTreeMap<FileId, File>,
    volume: Profile,
    placement: Option<Shape>,
    placement_wished: u32,
    /// Performance of devices of this machine, and of those behind a network.
    near: Performance,
    far: Performance,
    /// Service times of the planner, as a multiple of the configured ones.
    slowness: f64,
    free: f64,
    looked: Time,
    /// Measured time of copies, as a multiple of the one from the devices' rates.
    copy_factor: f64,
    actions: VecDeque<Action>,
}

impl Striper {
    /// Makes a striper without files.
    pub fn new(config: Config, rules: Rules, now: Time) -> Striper {
        let parameters = config.parameters;
        let devices = parameters.devices.max(1);
        let mut widths = config.widths.clone();
        if widths.is_empty() {
            widths = (0..u32::BITS).map(|n| 1 << n).take_while(|width| *width < devices).chain([devices]).collect();
        }
        widths.retain(|width| (1..=devices).contains(width));
        widths.sort_unstable();
        Striper {
            planner: Planner::new(parameters, config.granularity_bytes),
            rules: Adviser::new(parameters, rules),
            widths,
            files: BTreeMap::new(),
            volume: Profile::new(config.window, now),
            placement: None,
            placement_wished: 0,
            near: Performance::default(),
            far: Performance::default(),
            slowness: 1.0,
            free: 1.0,
            looked: now,
            copy_factor: 1.0,
            actions: VecDeque::new(),
            config,
        }
    }

    /// Returns the shape of a file's future segments; `None`: the volume's default.
    pub fn placement(&self, file: Option<FileId>) -> Option<Shape> {
        if matches!(self.config.mode, Mode::Fixed(_)) {
            return None;
        }
        file.and_then(|file| self.files.get(&file)?.wanted).or(self.placement)
    }

    /// Returns the state of a file, for users.
    pub fn view(&mut self, now: Time, file: FileId) -> Option<View> {
        let file = self.files.get_mut(&file)?;
        Some(file.view(now))
    }

    /// Returns the load of the whole volume: requests and bytes per request, and the share of writes.
    pub fn load(&mut self, now: Time) -> (Reading, f64) {
        self.volume.look(now).reading()
    }

    /// Whether a file is tracked.
    pub fn knows(&self, file: FileId) -> bool {
        self.files.contains_key(&file)
    }

    /// Returns the number of tracked files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether no file is tracked.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether a second copy is kept in step during writes, by the rules for the file's load.
    pub fn online(&self, file: FileId) -> bool {
        self.files.get(&file).is_none_or(|file| file.online)
    }

    fn file(&mut self, now: Time, id: FileId) -> &mut File {
        if !self.files.contains_key(&id) && self.files.len() >= self.config.files_max.max(1) {
            let resting =
                self.files.iter().filter(|(_, file)| !file.busy).min_by_key(|(id, file)| (file.profile.last(), **id));
            if let Some(id) = resting.map(|(id, _)| *id) {
                self.files.remove(&id);
            }
        }
        // Its first report covers the time since the last decision.
        let (window, since) = (self.config.window, self.looked.min(now));
        self.files.entry(id).or_insert_with(|| File::new(window, since))
    }

    /// Returns the time in seconds for which a copy of `bytes` bytes keeps all devices busy: one read and one write
    /// each.
    fn copy_s(&self, bytes: u64) -> f64 {
        let devices = f64::from(self.config.parameters.devices.max(1));
        bytes as f64 * self.config.copy_byte_s / devices * self.copy_factor
    }

    /// Returns the measured service times as a multiple of the configured ones; 1 without measurements.
    fn measured_slowness(&self) -> f64 {
        let now = self.near.now().into_iter().chain(self.far.now()).reduce(f64::min).unwrap_or(0.5);
        0.5 / now.max(0.01)
    }

    /// Scales the service times of the model and the rules to the measured ones, if these are off.
    fn follow_speed(&mut self) {
        let slowness = self.measured_slowness();
        if (slowness / self.slowness - 1.0).abs() > SPEED_OFF {
            self.slowness = slowness;
            let parameters = self.config.parameters.slower(slowness);
            self.planner = Planner::new(parameters, self.config.granularity_bytes);
            self.rules.set_parameters(parameters);
        }
    }

    fn look(&mut self, now: Time) {
        self.looked = now;
        self.follow_speed();
        let mut total = OtherLoad::default();
        for file in self.files.values_mut() {
            file.seen = file.profile.look(now);
            file.classes = file.seen.classes();
            file.own = OtherLoad::default();
            if file.forks.is_empty() || file.classes.is_empty() {
                continue;
            }
            let alone = self.planner.assign(&file.classes, &file.forks, OtherLoad::default());
            let loads = file.classes.iter().zip(&alone.of);
            file.own = loads.fold(file.own, |sum, (class, &fork)| sum + self.planner.load(class, &file.forks[fork]));
            total = total + file.own;
        }
        self.look_at_volume(now);
        for (id, mut file) in std::mem::take(&mut self.files) {
            if !file.forks.is_empty() && !file.classes.is_empty() {
                let beside = total - file.own;
                self.look_at(now, id, &mut file, beside);
            } else if file.forks.len() > file.keep && self.free < self.config.fork_space / 2.0 {
                self.give_up(id, &mut file, Cause::SpaceScarce);
            }
            self.files.insert(id, file);
        }
    }

    /// Chooses the shape of new files: the best one for the load of the whole volume.
    fn look_at_volume(&mut self, now: Time) {
        let seen = self.volume.look(now);
        let (classes, (reading, _)) = (seen.classes(), seen.reading());
        if matches!(self.config.mode, Mode::Fixed(_)) || classes.is_empty() {
            return;
        }
        let advice = self.rules.advice(reading, self.around());
        let Some(wanted) = self.wanted_shape(&classes, seen.typical_bytes(), &advice, OtherLoad::default()) else {
            return;
        };
        if self.placement == Some(wanted) {
            self.placement_wished = 0;
            return;
        }
        let now_s = self.placement.map(|shape| self.planner.assign(&classes, &[shape], OtherLoad::default()));
        let then_s = self.planner.assign(&classes, &[wanted], OtherLoad::default());
        if now_s.as_ref().is_some_and(|now_s| !self.is_another(&then_s, now_s)) {
            return;
        }
        self.placement_wished += 1;
        if self.placement_wished >= self.config.settle {
            self.placement_wished = 0;
            let now_s = now_s.map_or(f64::NAN, |now_s| now_s.mean_s);
            self.placement = Some(wanted);
            let cause = Cause::Faster;
            let why =
                Why { cause, rate: reading.rate, bytes: reading.bytes, now_s, then_s: then_s.mean_s, copy_s: 0.0 };
            self.actions.push_back(Action::Place { shape: wanted, why });
        }
    }

    /// Returns the inputs of the rules that no file changes.
    fn around(&self) -> Surroundings {
        Surroundings { disk: self.near.now(), network: self.far.now(), ..Surroundings::default() }
    }

    fn is_another(&self, then: &super::forks::Assignment, now: &super::forks::Assignment) -> bool {
        match self.config.mode {
            Mode::Model => then.gain_over(now) >= self.config.margin,
            _ => true,
        }
    }

    /// Returns the shape that the mode wants for these classes, with typical requests of `bytes`.
    fn wanted_shape(&self, classes: &[Class], bytes: f64, advice: &Advice, beside: OtherLoad) -> Option<Shape> {
        let modelled = || self.planner.best_beside(classes, &[], &self.widths, beside).map(|(shape, _)| shape);
        let ruled = |width: f64| self.ruled(classes, bytes, width, advice.stripe_width, beside);
        match self.config.mode {
            Mode::Fixed(_) => None,
            Mode::Model => modelled(),
            Mode::Fuzzy => advice.width.map(ruled),
            Mode::ModelFuzzy => {
                let shape = modelled()?;
                if (advice.correction - 1.0).abs() < DIFFERENT {
                    return Some(shape);
                }
                Some(ruled(f64::from(shape.spans(bytes)) * advice.correction))
            }
        }
    }

    /// Returns the widest shape with which requests of `bytes` span up to about `width` devices, and which the devices
    /// can bear.
    fn ruled(&self, classes: &[Class], bytes: f64, width: f64, devices: Option<u32>, beside: OtherLoad) -> Shape {
        let (most, all) = (self.allowed(width), self.config.parameters.devices);
        let shape = |width: u32, devices: u32| {
            // A row of stripes is a whole number of requests; otherwise one device of a row would have to work twice.
            let devices = devices.div_ceil(width).saturating_mul(width).min(all);
            Shape { devices, unit_bytes: self.planner.unit(bytes, width) }
        };
        let narrower = self.widths.iter().rev().filter(|width| **width <= most);
        let shapes = narrower.flat_map(|&width| [devices.unwrap_or(all), all].map(|devices| shape(width, devices)));
        // The devices may be slower than the planner has them, by less than it follows.
        let slower = (self.measured_slowness() / self.slowness).max(1.0);
        let bearable = |shape: &Shape| {
            let all = self.planner.assign(classes, &[*shape], beside);
            all.mean_s.is_finite() && (all.utilisation + beside.utilisation) * slower < 1.0
        };
        shapes.into_iter().find(bearable).unwrap_or_else(|| shape(self.widths.first().copied().unwrap_or(1), all))
    }

    /// Returns the nearest permitted width, by ratio.
    fn allowed(&self, width: f64) -> u32 {
        let far = |one: &u32| (f64::from(*one) / width.max(0.1)).ln().abs();
        self.widths.iter().copied().min_by(|a, b| far(a).total_cmp(&far(b))).unwrap_or(1)
    }
}

impl Machine for Striper {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Asked { file, counts, users, recent } => {
                self.volume.add(now, &counts);
                let pattern = self.config.classifier.hints(&recent);
                let file = self.file(now, file);
                file.profile.add(now, &counts);
                (file.users, file.pattern) = (users, pattern.or(file.pattern));
            }
            Event::Lies { file, forks, keep, bytes, movable, open } => {
                let file = self.file(now, file);
                if file.forks != forks {
                    file.forks = forks;
                    file.route = None;
                }
                (file.keep, file.bytes, file.movable, file.open) = (keep.max(1), bytes, movable, open);
            }
            Event::Gone(file) => drop(self.files.remove(&file)),
            Event::Space(free) => self.free = free,
            Event::Served { near, far } => {
                self.near.add(&self.config.parameters, near);
                self.far.add(&self.config.parameters, far);
            }
            Event::Ended { file, bytes, took } => {
                if bytes > 0 {
                    let expected = self.copy_s(bytes) / self.copy_factor;
                    let factor = (took.as_secs_f64() / expected.max(1e-6)).clamp(0.1, 100.0);
                    self.copy_factor = 0.5 * (self.copy_factor + factor);
                }
                if let Some(file) = self.files.get_mut(&file) {
                    file.busy = false;
                    file.wanted_change = None;
                    // The new load must fill the window first, and a failed change is not repeated at once.
                    file.rest_until = now + self.config.window;
                }
            }
            Event::Look => self.look(now),
        }
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}
