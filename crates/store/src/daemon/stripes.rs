//! Stripes as wide as the load allows: drives [`policy::stripe::striper::Striper`] over the files in use.
//!
//! ```text
//!   threads of the mount: count requests (file::Load)          looker, once per interval: counts, layouts, space --> Striper
//!                         ask for placements and choosers  <--                                                          |
//!                                                              hand: restripe, add fork, drop fork, through the mover <-'
//! ```
//! A fork is a mirror behind those that the file had before; a record in the state store says how many those were, so that a restart
//! knows which to give up. Files whose layout somebody asked for, and files with a second copy for a job, are left as they are.

mod adviser;
mod forks;
mod layout;
mod report;

use super::Core;
use crate::file::{Adviser, File};
use crate::state::State;
use crate::stats::Metric;
use crate::volume::{Config, Problem, Problems, Stripes as Section};
use crate::workers::Workers;
use crate::{Error, Result};
use forks::Forks;
use parking_lot::{Condvar, Mutex};
use policy::layout::Placement;
use policy::machine::Machine;
use policy::pattern::Chosen;
use policy::pattern::network::Network;
use policy::pattern::rules::RulesOfThumb;
use policy::stripe::advice::Mode;
use policy::stripe::device::Measured;
use policy::stripe::forks::Shape;
use policy::stripe::fuzzy::Rules;
use policy::stripe::performance::Served;
use policy::stripe::rules;
use policy::stripe::striper::{self, Action, Event, Striper};
use policy::{FileId, Time};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// Changes that wait for the hand.
const WAITING_MAX: usize = 64;
/// Decisions remembered for `entrepot status`.
const DECISIONS_MAX: usize = 16;

/// A volume that nobody asks anything of is looked at at least so often. A guess: what begins meanwhile is seen that much later.
const IDLE_MAX: Duration = Duration::from_secs(4);

/// A file and what is to become of it.
type Work = (Arc<File>, Action);

/// The stripes of a volume.
pub struct Stripes {
    section: Section,
    machine: Mutex<Striper>,
    forks: Forks,
    began: Instant,
    /// The decisions made lately, with nanoseconds since 1970.
    decided: Mutex<VecDeque<(u64, String)>>,
    core: OnceLock<Weak<Core>>,
    stopped: Mutex<bool>,
    woken: Condvar,
    workers: Workers,
}

/// What the targets are, as far as anybody measured: the mean of those measured, or a guess.
fn devices(config: &Config) -> (Measured, u32, bool) {
    let ours = config.targets.iter().filter(|target| config.stripes.tier.is_none_or(|tier| target.tier == tier));
    let measured: Vec<Measured> = ours.clone().filter_map(|target| target.device).collect();
    let count = (ours.count() as u32).max(1);
    (Measured::mean(&measured).unwrap_or_default(), count, !measured.is_empty())
}

/// The striper that a configuration asks for. Reads the rule file, and touches nothing.
pub(super) fn striper(config: &Config) -> std::result::Result<Striper, Problems> {
    striping(config).map(|(machine, rules)| Striper::new(machine, rules, Time::ZERO))
}

/// The striper's parameters and rules, as a configuration says them. Reads the rule file, and touches nothing.
///
/// # Errors
/// Rules or weights that cannot be read or are none.
pub fn striping(config: &Config) -> std::result::Result<(striper::Config, Rules), Problems> {
    let of = &config.stripes;
    let problem = |cause: String| {
        let mend = "Check rules with `entrepot-lab rules check FILE` and weights with `entrepot-lab patterns eval --weights FILE`, or remove \
                    `rules` or `weights` from `[stripes]`";
        Problems::one(Problem::new(cause, "the volume is not mounted", mend))
    };
    let read = |what: &str, path: &Path| {
        std::fs::read_to_string(path)
            .map_err(|error| problem(format!("the {what} {} cannot be read: {error}", path.display())))
    };
    let rules = of.rules.as_ref().map_or_else(|| Ok(rules::ADAPTIVE.to_owned()), |path| read("rules", path))?;
    let classifier = match (of.network, &of.weights) {
        (false, _) => Chosen::Thumb(RulesOfThumb),
        (true, None) => Chosen::default(),
        (true, Some(path)) => {
            let wrong = |error| problem(format!("the weights {}: {error}", path.display()));
            Chosen::Network(Box::new(Network::parse(&read("weights", path)?).map_err(wrong)?))
        }
    };
    let shown = of.rules.as_ref().map_or_else(|| "the built-in rules".into(), |path| path.display().to_string());
    let rules = rules::parse(&rules).map_err(|error| problem(format!("{shown}, {error}")))?;
    let (device, devices, _) = devices(config);
    let time = |span: Duration| Time(span.as_nanos() as u64);
    let machine = striper::Config {
        widths: of.widths.clone(),
        window: time(of.window),
        margin: f64::from(of.margin_percent) / 100.0,
        settle: of.settle,
        horizon: time(of.horizon),
        forks: of.forks,
        classifier,
        fork_space: f64::from(of.fork_space_percent) / 100.0,
        ..striper::Config::new(of.mode, &device, devices)
    };
    Ok((machine, rules))
}

impl Stripes {
    /// Those of the volume that `config` describes, decided by its striper.
    pub(super) fn open(config: &Config, striper: Striper, state: &Arc<dyn State>) -> Result<Arc<Stripes>> {
        Ok(Arc::new(Stripes {
            section: config.stripes.clone(),
            machine: Mutex::new(striper),
            forks: Forks::open(state.clone())?,
            began: Instant::now(),
            decided: Mutex::default(),
            core: OnceLock::new(),
            stopped: Mutex::new(false),
            woken: Condvar::new(),
            workers: Workers::of("the stripes"),
        }))
    }

    /// Whether anything is decided.
    fn adapts(&self) -> bool {
        !matches!(self.section.mode, Mode::Fixed(_))
    }

    /// Whom the mount is to ask: nobody without sensors.
    pub(super) fn advisers(self: &Arc<Stripes>) -> Option<Arc<dyn Adviser>> {
        self.section.sensors.then(|| self.clone() as Arc<dyn Adviser>)
    }

    /// Starts to look, and to change files.
    pub(super) fn start(self: &Arc<Stripes>, core: &Arc<Core>) {
        drop(self.core.set(Arc::downgrade(core)));
        if !self.section.sensors {
            return;
        }
        let (give, take) = sync_channel(WAITING_MAX);
        let (looker, hand) = (self.clone(), self.clone());
        self.workers.start("stripes", move || looker.look_on(&give));
        self.workers.start("restripe", move || hand.change_on(&take));
    }

    /// Ends it. The mover must have been stopped before.
    pub(super) fn stop(&self) {
        *self.stopped.lock() = true;
        self.woken.notify_all();
        self.workers.stop();
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }

    fn look_on(&self, work: &SyncSender<Work>) {
        let mut stopped = self.stopped.lock();
        let mut sampled = Sampled::default();
        let mut wait = self.section.interval;
        loop {
            let until = Instant::now() + wait;
            while !*stopped && !self.woken.wait_until(&mut stopped, until).timed_out() {}
            if *stopped {
                return;
            }
            let Some(core) = self.core.get().and_then(Weak::upgrade) else { return };
            let asked = parking_lot::MutexGuard::unlocked(&mut stopped, || self.look(&core, &mut sampled, work));
            wait = if asked { self.section.interval } else { (wait * 2).min(IDLE_MAX.max(self.section.interval)) };
        }
    }

    /// One look: what was asked, how files lie, what is to be done. Whether anything was asked.
    fn look(&self, core: &Core, sampled: &mut Sampled, work: &SyncSender<Work>) -> bool {
        let (now, files) = (self.now(), core.files.files());
        let known: Vec<(FileId, Arc<File>)> = files.into_iter().filter_map(|file| Some((file.id()?, file))).collect();
        let mut asked = false;
        let mut machine = self.machine.lock();
        let space = core.pool.targets.space();
        let free = space.free_bytes as f64 / space.total_bytes.max(1) as f64;
        self.tell(&mut machine, now, Event::Space { free });
        if devices(core.volume.config()).2 {
            self.tell(&mut machine, now, sampled.look(timed(core)));
        }
        for (id, file) in &known {
            // What was not asked for and has no copy to give up is nobody's business.
            let counts = file.load().take();
            if counts.is_none() && !self.forks.has(*id) {
                continue;
            }
            if let Some(event) = self.lies(core, *id, file) {
                self.tell(&mut machine, now, event);
            }
            if let Some(counts) = counts {
                asked = true;
                let users = file.handles() as u32;
                let recent = file.load().recent();
                self.tell(&mut machine, now, Event::Asked { file: *id, counts, users, recent });
            }
        }
        self.tell(&mut machine, now, Event::Look);
        let mut actions = Vec::new();
        while let Some(action) = machine.poll() {
            actions.push(action);
        }
        drop(machine);
        for action in actions {
            self.act(&known, action, work);
        }
        if self.adapts() && free < f64::from(self.section.fork_space_percent) / 200.0 {
            self.forks.give_up_one_at_rest(core, &known);
        }
        asked
    }

    fn tell(&self, machine: &mut Striper, now: Time, event: Event) {
        machine.handle(now, event);
    }

    fn act(&self, known: &[(FileId, Arc<File>)], action: Action, work: &SyncSender<Work>) {
        let name = |id: &FileId| {
            let file = known.iter().find(|(known, _)| known == id);
            file.map_or_else(|| format!("file {id}"), |(id, file)| file.pool().name_of(*id))
        };
        let (id, words) = match &action {
            Action::Place { shape, why } => {
                return self.remember(format!("new files get {}: {why}", shown(shape)));
            }
            Action::Route { file, by } => {
                if let Some((_, file)) = known.iter().find(|(id, _)| id == file) {
                    file.load().set_chooser(Some((**by).clone()));
                }
                return;
            }
            Action::Restripe { file, fork, to, why } => {
                (*file, format!("{}: mirror {fork} gets {}: {why}", name(file), shown(to)))
            }
            Action::AddFork { file, to, why } => (*file, format!("{}: a fork with {}: {why}", name(file), shown(to))),
            Action::DropFork { file, fork, why } => (*file, format!("{}: mirror {fork} goes: {why}", name(file))),
        };
        self.remember(words);
        let file = known.iter().find(|(known, _)| *known == id).map(|(_, file)| file.clone());
        let refused = match file {
            Some(file) => work.try_send((file, action)).is_err(),
            None => true,
        };
        if refused {
            let ended = Event::Ended { file: id, bytes: 0, took: Time::ZERO };
            self.machine.lock().handle(self.now(), ended);
        }
    }

    fn remember(&self, words: String) {
        tracing::info!("stripes: {words}");
        let mut decided = self.decided.lock();
        if decided.len() == DECISIONS_MAX {
            decided.pop_front();
        }
        decided.push_back((super::now_ns(), words));
    }

    fn change_on(&self, work: &Receiver<Work>) {
        // Ends when the looker has ended and with it the other end of the channel.
        while let Ok((file, action)) = work.recv() {
            let Some(core) = self.core.get().and_then(Weak::upgrade) else { return };
            let Some(id) = file.id() else { continue };
            let began = Instant::now();
            let done = if *self.stopped.lock() {
                Err(Error::Busy("the volume ends".into()))
            } else {
                self.change(&core, &file, &action)
            };
            let bytes = match &done {
                Ok(copied) => *copied,
                Err(error) => {
                    core.volume.stats().add(Metric::StripesFailed, 1);
                    tracing::info!("stripes: file {id} stays as it is for now: {error}");
                    0
                }
            };
            core.volume.stats().add(Metric::StripesBytes, bytes);
            let took = Time(began.elapsed().as_nanos() as u64);
            self.machine.lock().handle(self.now(), Event::Ended { file: id, bytes, took });
        }
    }

    /// Carries one change out; gives the bytes that were copied.
    fn change(&self, core: &Core, file: &Arc<File>, action: &Action) -> Result<u64> {
        let stats = core.volume.stats();
        match action {
            Action::Restripe { fork, to, .. } => {
                core.mover.restripe(file, *fork, &self.placement(core, to))?;
                stats.add(Metric::StripesRestriped, 1);
                Ok(file.size())
            }
            Action::AddFork { to, .. } => {
                self.forks.add(core, file, &self.placement(core, to))?;
                stats.add(Metric::StripesForks, 1);
                Ok(file.size())
            }
            Action::DropFork { fork, .. } => {
                self.forks.drop_one(core, file, *fork)?;
                stats.add(Metric::StripesForksDropped, 1);
                Ok(0)
            }
            Action::Place { .. } | Action::Route { .. } => Ok(0),
        }
    }

    /// The placement of a copy of that shape: striped from the first byte, over the targets that are counted.
    fn placement(&self, core: &Core, shape: &Shape) -> Placement {
        let usual = core.pool.placement.clone();
        Placement {
            stripe_size: shape.unit_bytes,
            stripe_count: shape.devices as usize,
            single_bytes_max: 0,
            mirrors: 1,
            tier: self.section.tier.or(usual.tier),
            ..usual
        }
    }
}

/// A shape in words.
fn shown(shape: &Shape) -> String {
    format!("stripes of {} KiB over {} targets", shape.unit_bytes >> 10, shape.devices)
}

/// What was timed of the targets until the last look: of those of this machine, and of those behind a network.
#[derive(Default)]
struct Sampled {
    near: Served,
    far: Served,
}

impl Sampled {
    /// What came since then; `all` says of each target whether it is behind a network, and what was timed of it since the start.
    fn look(&mut self, all: impl Iterator<Item = (bool, Served)>) -> Event {
        let now = all.fold(Sampled::default(), |sum, (far, served)| match far {
            true => Sampled { far: sum.far.and(served), ..sum },
            false => Sampled { near: sum.near.and(served), ..sum },
        });
        let before = std::mem::replace(self, now);
        Event::Served { near: self.near.since(before.near), far: self.far.since(before.far) }
    }
}

/// All targets for [`Sampled::look`].
fn timed(core: &Core) -> impl Iterator<Item = (bool, Served)> + use<> {
    let all = core.pool.targets.all().into_iter();
    all.map(|of| (of.over_network(), of.counters().served()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_timed_is_told_once_and_a_network_apart_from_the_disks() {
        let served =
            |operations| Served { operations, bytes: operations << 16, took_ns: operations, queued: operations };
        let mut sampled = Sampled::default();
        let mut look =
            |near, far| sampled.look([(false, served(near)), (true, served(far)), (false, served(1))].into_iter());
        assert_eq!(look(4, 7), Event::Served { near: served(5), far: served(7) });
        assert_eq!(look(6, 7), Event::Served { near: served(2), far: served(0) });
    }
}
