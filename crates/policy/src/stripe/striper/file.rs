//! One file: its load, its layout, and the decisions on it.

use super::{Action, Cause, DIFFERENT, DROP_WRITES_MIN, FORK_WRITES_MAX, Striper, Why};
use crate::ids::FileId;
use crate::pattern::{Hints, Label};
use crate::stripe::advice::{Advice, Mode, Surroundings};
use crate::stripe::forks::{Assignment, Shape};
use crate::stripe::model::OtherLoad;
use crate::stripe::profile::{Class, Profile, Reading, Seen, class_of};
use crate::time::Time;

/// A change that would pay off.
#[derive(Clone, Copy, Debug, PartialEq)]
enum WantedChange {
    Restripe { fork: usize, to: Shape },
    Add { to: Shape },
}

impl WantedChange {
    /// Whether it is the same kind of change; the shape may differ a little each time.
    fn is_like(&self, other: &WantedChange) -> bool {
        match (self, other) {
            (WantedChange::Restripe { fork: a, .. }, WantedChange::Restripe { fork: b, .. }) => a == b,
            (WantedChange::Add { .. }, WantedChange::Add { .. }) => true,
            _ => false,
        }
    }

    fn shape(&self) -> Shape {
        let (WantedChange::Restripe { to, .. } | WantedChange::Add { to }) = self;
        *to
    }
}

/// State of one file.
#[derive(Debug, Default)]
pub struct File {
    pub profile: Profile,
    pub users: u32,
    /// Pattern of its last requests.
    pub pattern: Option<Hints>,
    pub forks: Vec<Shape>,
    pub keep: usize,
    pub bytes: u64,
    pub movable: bool,
    pub open: bool,
    pub busy: bool,
    pub rest_until: Time,
    /// Shape for future segments.
    pub wanted: Option<Shape>,
    pub wanted_change: Option<(ChangeSeen, u32)>,
    /// Target shape of the last change. If the layout differs nevertheless (too few targets), the change is not
    /// repeated.
    pub tried: Option<Shape>,
    /// Inputs of its current chooser: service time of a stripe, and utilisation.
    pub route: Option<(f64, f64)>,
    pub online: bool,
    /// Window contents at the current decision.
    pub seen: Seen,
    pub classes: Vec<Class>,
    pub own: OtherLoad,
    present_s: f64,
    last: Option<(Time, &'static str, Why)>,
}

/// A wanted change at the last decision.
#[derive(Clone, Copy, Debug)]
pub struct ChangeSeen(WantedChange);

/// State of a file, for users.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Load of the window: rate and mean size.
    pub load: Reading,
    /// Share of writes.
    pub writes: f64,
    /// Pattern of its last requests, if enough were seen.
    pub pattern: Option<Label>,
    /// Shapes of its copies.
    pub forks: Vec<Shape>,
    /// Predicted mean response time of the current layout, in seconds; not a number without load.
    pub response_s: f64,
    /// The last decision: time, kind, reason.
    pub last: Option<(Time, &'static str, Why)>,
}

impl File {
    pub fn new(window: Time, now: Time) -> File {
        File { profile: Profile::new(window, now), keep: 1, online: true, present_s: f64::NAN, ..File::default() }
    }

    pub fn view(&mut self, now: Time) -> View {
        let (load, writes) = self.profile.look(now).reading();
        let response_s = if load.rate > 0.0 { self.present_s } else { f64::NAN };
        View {
            load,
            writes,
            pattern: self.pattern.map(|hints| hints.label),
            forks: self.forks.clone(),
            response_s,
            last: self.last,
        }
    }
}

/// Relative error of a rate: two over the root of the count, which is two standard errors.
fn counting_error(requests: u64) -> f64 {
    (2.0 / (requests.max(1) as f64).sqrt()).min(0.9)
}

fn with(forks: &[Shape], one: Shape) -> Vec<Shape> {
    forks.iter().copied().chain([one]).collect()
}

impl Striper {
    /// Decides on one file with load.
    pub(super) fn look_at(&mut self, now: Time, id: FileId, file: &mut File, beside: OtherLoad) {
        let present = self.planner.assign(&file.classes, &file.forks, beside);
        file.present_s = present.mean_s;
        self.route(id, file, &present, beside);
        if matches!(self.config.mode, Mode::Fixed(_)) {
            return;
        }
        let ((reading, writes), typical) = (file.seen.reading(), file.seen.typical_bytes());
        let parallelism = Some(f64::from(file.users) / f64::from(self.config.parameters.devices.max(1)));
        let parallelism = parallelism.map(|x| x.min(1.0));
        let around = Surroundings { parallelism, pattern: file.pattern, ..self.around() };
        let advice = self.rules.advice(reading, around);
        file.online = advice.online.unwrap_or(file.online);
        file.wanted = self.wanted_shape(&file.classes, typical, &advice, beside);
        if file.busy || now < file.rest_until {
            return;
        }
        if file.forks.len() > file.keep {
            if self.free < self.config.fork_space / 2.0 {
                return self.give_up(id, file, Cause::SpaceScarce);
            }
            if writes > DROP_WRITES_MIN {
                return self.give_up(id, file, Cause::Written);
            }
        }
        let requests = file.seen.requests();
        let sure = |spans: f64| self.rules_are_sure(reading, around, requests, spans);
        let wanted = self.change(file, &advice, &present, beside, (typical, writes), &sure);
        let Some((wanted, after, cause)) = wanted.filter(|(change, ..)| file.tried != Some(change.shape())) else {
            file.wanted_change = None;
            return;
        };
        let times = match file.wanted_change {
            Some((ChangeSeen(seen), times)) if seen.is_like(&wanted) => times + 1,
            _ => 1,
        };
        file.wanted_change = Some((ChangeSeen(wanted), times));
        if times < self.config.settle.max(1) || !file.movable {
            return;
        }
        let copy_s = self.copy_s(file.bytes);
        let (now_s, then_s) = (present.mean_s, after.mean_s);
        let why = Why { cause, rate: reading.rate, bytes: reading.bytes, now_s, then_s, copy_s };
        (file.busy, file.wanted_change, file.tried) = (true, None, Some(wanted.shape()));
        let (what, action) = match wanted {
            WantedChange::Restripe { fork, to } => ("restriped", Action::Restripe { file: id, fork, to, why }),
            WantedChange::Add { to } => ("got a fork", Action::AddFork { file: id, to, why }),
        };
        file.last = Some((now, what, why));
        self.actions.push_back(action);
    }

    /// Returns the least gain of `to` over `from` at all rates within the counting error. Without this check, a layout
    /// that follows chance would be copied back and forth.
    fn sure_gain(&self, file: &File, from: &[Shape], to: &[Shape], beside: OtherLoad) -> f64 {
        let unsure = counting_error(file.seen.requests());
        let gain = |factor: f64| {
            let scaled = |of: &Class| Class { rate: of.rate * factor, ..*of };
            let classes: Vec<Class> = file.classes.iter().map(scaled).collect();
            let [before, after] = [from, to].map(|shapes| self.planner.assign(&classes, shapes, beside));
            after.gain_over(&before)
        };
        gain(1.0 - unsure).min(gain(1.0 + unsure))
    }

    /// Whether the rules want more (or fewer) devices than `spans` at all rates within the counting error.
    fn rules_are_sure(&self, reading: Reading, around: Surroundings, requests: u64, spans: f64) -> bool {
        if self.config.mode != Mode::Fuzzy {
            return true;
        }
        let unsure = counting_error(requests);
        let devices = f64::from(self.config.parameters.devices);
        let ratio = |rate: f64| {
            let width = self.rules.advice(Reading { rate, ..reading }, around).width?;
            Some(width.clamp(1.0, devices) / spans)
        };
        let ends = [1.0 - unsure, 1.0 + unsure].map(|factor| ratio(reading.rate * factor));
        let [Some(rare), Some(often)] = ends else { return false };
        rare.min(often) >= 1.0 / (1.0 - DIFFERENT) || rare.max(often) <= 1.0 - DIFFERENT
    }

    /// Returns the wanted change, its expected result, and its cause.
    fn change(
        &self,
        file: &File,
        advice: &Advice,
        present: &Assignment,
        beside: OtherLoad,
        (typical, writes): (f64, f64),
        sure: &dyn Fn(f64) -> bool,
    ) -> Option<(WantedChange, Assignment, Cause)> {
        let pays = |gain: f64| self.config.horizon.as_secs_f64() * gain > self.copy_s(file.bytes);
        let mut best: Option<(WantedChange, Assignment, Cause)> = None;
        let by_rules = match self.config.mode {
            Mode::Fuzzy => true,
            Mode::ModelFuzzy => (advice.correction - 1.0).abs() >= DIFFERENT,
            _ => false,
        };
        if by_rules {
            // The rules yield one width: the typical request is compared with its current service.
            let to = file.wanted?;
            let rate = file.classes.iter().find(|of| of.class == class_of(typical as u64)).map_or(0.0, |of| of.rate);
            let class = Class { class: class_of(typical as u64), rate, bytes: typical };
            let fork = self.planner.assign(&[class], &file.forks, beside).of[0];
            let widths = [file.forks[fork], to].map(|shape| f64::from(shape.spans(typical)));
            let apart = 1.0 - widths[0].min(widths[1]) / widths[0].max(widths[1]);
            if apart >= DIFFERENT && pays(apart) && sure(widths[0]) {
                let mut forks = file.forks.clone();
                forks[fork] = to;
                let after = self.planner.assign(&file.classes, &forks, beside);
                if after.mean_s.is_finite() || after.utilisation <= present.utilisation {
                    best = Some((WantedChange::Restripe { fork, to }, after, Cause::Rules));
                }
            }
        } else {
            for fork in 0..file.forks.len() {
                let mut others = file.forks.clone();
                others.remove(fork);
                let found = self.planner.best_beside(&file.classes, &others, &self.widths, beside);
                let Some((to, after)) = found else { continue };
                let is_best = best.as_ref().is_none_or(|(_, other, _)| after.gain_over(other) > 1e-9);
                if !is_best || after.gain_over(present) < self.config.margin {
                    continue;
                }
                let mut forks = file.forks.clone();
                forks[fork] = to;
                let gain = self.sure_gain(file, &file.forks, &forks, beside);
                if gain >= self.config.margin && pays(gain) {
                    best = Some((WantedChange::Restripe { fork, to }, after, Cause::Faster));
                }
            }
        }
        let space = file.forks.len() < self.config.forks && self.free >= self.config.fork_space;
        // Offline copies are built only while the file is closed. Until then the existing copies may get a better
        // shape.
        let may_add = file.online || !file.open;
        if space && may_add && writes <= FORK_WRITES_MAX {
            let found = self.planner.best_beside(&file.classes, &file.forks, &self.widths, beside);
            // One copy with better striping is cheaper than two copies.
            let otherwise = best.as_ref().map_or(present, |(_, after, _)| after);
            if let Some((to, after)) = found
                && after.gain_over(otherwise) >= self.config.margin
                && pays(self.sure_gain(file, &file.forks, &with(&file.forks, to), beside))
            {
                best = Some((WantedChange::Add { to }, after, Cause::Choice));
            }
        }
        best
    }

    /// Updates the chooser among several copies when the load has changed.
    fn route(&mut self, id: FileId, file: &mut File, present: &Assignment, beside: OtherLoad) {
        if file.forks.len() < 2 {
            return;
        }
        let (mut stripes, mut busy) = (0.0, 0.0);
        for (class, &fork) in file.classes.iter().zip(&present.of) {
            let shape = &file.forks[fork];
            stripes += class.rate * f64::from(shape.spans(class.bytes));
            busy += self.planner.load(class, shape).utilisation * f64::from(shape.devices);
        }
        let (stripe_s, utilisation) = (busy / stripes.max(1e-9), present.utilisation + beside.utilisation);
        let near = |a: f64, b: f64| (a - b).abs() <= 0.1 * b.abs();
        if file.route.is_some_and(|(s, u)| near(stripe_s, s) && near(utilisation, u)) {
            return;
        }
        file.route = Some((stripe_s, utilisation));
        let by = Box::new(self.planner.chooser(stripe_s, utilisation));
        self.actions.push_back(Action::Route { file: id, by });
    }

    /// Drops the least-read copy.
    pub(super) fn give_up(&mut self, id: FileId, file: &mut File, cause: Cause) {
        if file.busy || !file.movable {
            return;
        }
        let present = match file.classes.is_empty() {
            true => None,
            false => Some(self.planner.assign(&file.classes, &file.forks, OtherLoad::default())),
        };
        let read = |fork: usize| {
            let of = present.as_ref().map_or(&[][..], |present| &present.of);
            file.classes.iter().zip(of).filter(|(_, of)| **of == fork).map(|(class, _)| class.rate).sum::<f64>()
        };
        let fork = (0..file.forks.len()).rev().min_by(|a, b| read(*a).total_cmp(&read(*b))).unwrap_or(0);
        let (rate, bytes) = (0.0, 0.0);
        let why = Why { cause, rate, bytes, now_s: f64::NAN, then_s: f64::NAN, copy_s: 0.0 };
        file.busy = true;
        file.last = Some((file.profile.last(), "lost a fork", why));
        self.actions.push_back(Action::DropFork { file: id, fork, why });
    }
}
