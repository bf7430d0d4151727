//! The loop: passes recorded accesses and states of devices to the machine, at the latest at its deadlines.

use super::jobs::Lane;
use super::log::Access;
use super::tiers::look_every;
use super::{Adapt, stripes};
use engine::file::{File, Pool};
use object::workers;
use parking_lot::{Condvar, Mutex};
use policy::machine::Machine;
use policy::protect::replica::Strategy;
use policy::tier::Tier;
use policy::volume::{Event, FileEvent};
use policy::{FileId, Time};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum of recorded events that are passed to the machine under one lock.
const EVENTS_AT_ONCE: usize = 512;

/// Minimum rest of the loop. A guess: a thousandth of a core is small beside the work of a step.
const REST_MIN: Time = Time::from_millis(1);

/// Time without a recorded event after which the loop looks only every [`CALM_LOOK_EVERY`]. Guesses: longer than the
/// idleness that slow copies wait for by default, and rare enough for an idle machine.
const CALM_AFTER: Time = Time::from_millis(5000);
const CALM_LOOK_EVERY: Time = Time::from_millis(5000);

/// Wakes the loop for a deadline.
#[derive(Default)]
pub struct Alarm {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The machine's next deadline.
    at: Option<Time>,
    /// Whether accesses were recorded since the last look of the loop.
    is_stirred: bool,
    ends: bool,
}

impl Alarm {
    /// Sets the machine's next deadline.
    pub fn set(&self, at: Option<Time>) {
        let mut state = self.state.lock();
        let sooner = at.is_some_and(|at| state.at.is_none_or(|set| at < set));
        state.at = at;
        if sooner {
            self.changed.notify_all();
        }
    }

    /// Wakes an idle loop after an access was recorded.
    pub fn stir(&self) {
        let mut state = self.state.lock();
        if !std::mem::replace(&mut state.is_stirred, true) {
            self.changed.notify_all();
        }
    }

    /// Whether accesses were recorded since the last call.
    fn take_stirred(&self) -> bool {
        std::mem::take(&mut self.state.lock().is_stirred)
    }

    /// Ends the loop and the carriers.
    pub fn end(&self) {
        self.state.lock().ends = true;
        self.changed.notify_all();
    }

    pub fn ends(&self) -> bool {
        self.state.lock().ends
    }

    /// Waits until the deadline, for `most`, or until the end; at most for `stirred` once accesses were recorded.
    /// Returns whether the loop continues.
    fn rest(&self, now: impl Fn() -> Time, most: Option<Time>, stirred: Option<Time>) -> bool {
        let began = now();
        // A deadline in the past would keep a core busy.
        let soonest = began + REST_MIN;
        let mut state = self.state.lock();
        while !state.ends {
            let stirred = stirred.filter(|_| state.is_stirred);
            let latest = most.into_iter().chain(stirred).min().map(|most| began + most);
            match [state.at, latest].into_iter().flatten().min() {
                Some(until) => {
                    let left = until.max(soonest).since(now());
                    if left == Time::ZERO {
                        return true;
                    }
                    self.changed.wait_until(&mut state, Instant::now() + Duration::from_nanos(left.0));
                }
                None => self.changed.wait(&mut state),
            }
        }
        false
    }
}

impl Adapt {
    /// Starts the loop and the carriers. `walk` visits all files of the volume.
    pub(crate) fn start(
        self: &Arc<Adapt>,
        pool: &Arc<Pool>,
        walk: impl FnOnce(&mut dyn FnMut(&File) -> bool) + Send + 'static,
    ) {
        let (tiers, stripes) = (self.has_tiers(), self.settings.stripes.is_some());
        let adapt = self.clone();
        self.workers.start("adapt", move || adapt.run());
        let tiers_carry = if tiers { self.settings.concurrent } else { 0 };
        self.start_carriers(Lane::Changes, "adapt-carry", tiers_carry + usize::from(stripes));
        self.start_carriers(Lane::Failover, "failover", 1);
        self.start_carriers(Lane::Replicas, "replicas", self.replicas_at_once());
        let weak = Arc::downgrade(self);
        self.recorder.targets.on_change(move |change| {
            if let Some(adapt) = weak.upgrade() {
                adapt.replicas.target_changed(change);
            }
        });
        self.driver.jobs.later(Lane::Replicas, Adapt::adopt_replicas);
        if let Some(burst) = &self.burst {
            self.start_carriers(Lane::Checkpoints, "burst", 1);
            self.start_carriers(Lane::Commits, "burst-commit", 1);
            self.start_carriers(Lane::Demotions, "burst-demote", 1);
            self.start_carriers(Lane::Group, "burst-replicate", usize::from(burst.has_replicas()));
        }
        if tiers {
            let (adapt, pool) = (self.clone(), pool.clone());
            self.workers.start("adapt-look", move || adapt.begin_tiers(&pool, walk));
        }
    }

    /// Number of threads for replicas: the machine's limit of copies and rebuilds, and one more for removals. None
    /// where no file has or gets a replica.
    fn replicas_at_once(&self) -> usize {
        let of = &self.settings.replicas.replication;
        let any = of.strategy != Strategy::None || self.replicas.any();
        if any { of.creating_max + self.settings.concurrent + 1 } else { 0 }
    }

    pub(super) fn start_carriers(self: &Arc<Adapt>, lane: Lane, name: &'static str, carriers: usize) {
        if carriers > 0 {
            self.driver.jobs.start(lane, workers::Pool::new(name, carriers), Arc::downgrade(self));
        }
    }

    /// Ends the threads; held writes fail. The mover must have been stopped before, so that changes end.
    pub(crate) fn stop(&self) {
        if let Some(burst) = &self.burst {
            burst.close();
        }
        self.driver.alarm.end();
        self.driver.jobs.end();
        self.workers.stop();
        if let Some(burst) = &self.burst {
            burst.clear_limits();
        }
        // After a stop, writes to segments are not observed any more, so slow copies are useless.
        if self.has_tiers()
            && let Err(error) = self.mover.forget_copies()
        {
            tracing::warn!("slow copies are left to the next start: {error}");
        }
    }

    /// Waits for the speeds of the devices, and reports the layouts of all files in the tree.
    fn begin_tiers(&self, pool: &Pool, walk: impl FnOnce(&mut dyn FnMut(&File) -> bool)) {
        let Some(costs) = self.find_costs(pool) else {
            tracing::error!("the speed of a tier is unknown, so no segment is moved; give both tiers a `speed`");
            return;
        };
        self.set_costs(costs);
        // All segments on the fast tier count from the start, including unused ones.
        walk(&mut |file| {
            self.found_in_tree(file);
            !self.driver.alarm.ends()
        });
    }

    /// Reports the segments of a file that are on the fast tier to the machine, without an access.
    pub fn found_in_tree(&self, file: &File) {
        let Some(layout) = file.layout() else { return };
        if self.recorder.segments(&layout).any(|(_, tier)| tier == Tier::Fast) {
            self.driver.tell_all(self.lies(file));
        }
    }

    fn run(&self) {
        let alarm = Arc::downgrade(&self.driver);
        self.recorder.log.on_stir(move || {
            if let Some(driver) = alarm.upgrade() {
                driver.alarm.stir();
            }
        });
        let tiers = self.has_tiers().then(|| look_every(self.settings.tiering.idle));
        let calm_after = CALM_AFTER.max(Time(self.settings.tiering.idle.as_nanos() as u64 * 2));
        let mut stirred = self.driver.now();
        loop {
            if self.driver.alarm.take_stirred() {
                stirred = self.driver.now();
            }
            // Reports of other nodes arrive without a recorded event.
            let is_alone = self.files.pool().cluster.get().is_none();
            let is_calm = is_alone && self.driver.now().since(stirred) >= calm_after;
            let calm = tiers.map(|every| if is_calm { every.max(CALM_LOOK_EVERY) } else { every });
            let stripes = self.driver.machine().stripes_look_at().map(|at| at.since(self.driver.now()));
            let most = [calm, stripes].into_iter().flatten().min();
            if !self.driver.alarm.rest(|| self.driver.now(), most, tiers) {
                return;
            }
            self.step();
        }
    }

    /// Takes the recorded accesses, examines the devices, and starts the changes that are due.
    pub fn step(&self) {
        let stripes = self.driver.machine().stripes_look_at().is_some_and(|at| at <= self.driver.now());
        self.recorder.look();
        let log = &self.recorder.log;
        let (laid_out, mut accesses) = (log.take_laid_out(), log.take_accesses());
        // Taken last, so that a file's removal comes after its recorded accesses.
        let mut removed = log.take_removed();
        let heard = self.exchange(&accesses, &removed);
        self.tiers.heard(&heard.accesses);
        accesses.extend(heard.accesses);
        if let Some(burst) = &self.burst {
            heard.removed.iter().for_each(|file| burst.file_removed(*file));
        }
        removed.extend(heard.removed);
        let used: BTreeSet<FileId> = laid_out.into_iter().chain(accesses.iter().map(|access| access.file)).collect();
        let lies: Vec<Event> = used.into_iter().filter_map(|id| self.lies(&*self.files.noted(id)?)).collect();
        self.feed(lies, &accesses);
        let mut told = Vec::new();
        for file in removed {
            self.mover.forget_copies_of(file);
            self.tiers.forget(file);
            if let Err(error) = self.replicas.forget(file) {
                tracing::info!("the record of the replica of file {file} stays for now: {error}");
            }
            told.push(Event::File(file, FileEvent::Removed));
        }
        if self.has_tiers() {
            told.extend(self.of_tiers(&accesses));
        }
        if stripes {
            told.extend(self.of_stripes());
        }
        told.push(Event::Tick);
        self.driver.tell_all(told);
        if let Some(burst) = &self.burst {
            burst.tend();
        }
        if self.has_tiers() {
            self.count();
            self.publish();
            self.tidy_copies();
        }
    }

    /// Passes layouts and accesses to the machine, each with its time; requests no decision yet.
    fn feed(&self, lies: Vec<Event>, accesses: &[Access]) {
        let now = accesses.first().map_or_else(|| self.driver.now(), |first| first.at);
        lies.into_iter().for_each(|lies| self.driver.machine().handle(now, lies));
        for some in accesses.chunks(EVENTS_AT_ONCE) {
            let mut machine = self.driver.machine();
            for Access { at, file, segment, region, bytes, ends_request, .. } in some.iter().copied() {
                machine.handle(at, Event::File(file, FileEvent::Accessed { segment, region, bytes, ends_request }));
            }
        }
    }

    /// Events for the stripes: requests to files, requests served by devices, and free space.
    fn of_stripes(&self) -> Vec<Event> {
        let space = self.recorder.targets.space();
        let free = space.free_bytes as f64 / space.total_bytes.max(1) as f64;
        let mut told = vec![Event::Stripes(policy::stripe::striper::Event::Space(free))];
        if self.settings.devices.are_measured {
            told.push(Event::Stripes(self.served.lock().look(stripes::timed(&self.settings, &self.recorder))));
        }
        let mut in_use = BTreeSet::new();
        for file in self.files.files() {
            let Some(id) = file.id() else { continue };
            in_use.insert(id);
            match file.load().take() {
                Some(counts) => self.reports.asked(id, &counts, file.load().recent()),
                None if self.recorder.forks.has(id) => told.extend(self.lies(&file)),
                None => {}
            }
        }
        for (id, (counts, recent)) in self.asked() {
            in_use.insert(id);
            if let Some(lies) = self.files.noted(id).and_then(|file| self.lies(&file)) {
                told.extend([lies, Event::File(id, FileEvent::Asked { counts, recent })]);
            }
        }
        // An unused file with forks: its forks are the first to be dropped when space is scarce.
        if let Some(id) = self.recorder.forks.next_at_rest(&in_use) {
            match self.files.find(id) {
                Some(file) => told.extend(self.lies(&file)),
                None => {
                    if let Err(error) = self.recorder.forks.forget(id) {
                        tracing::info!("the record of the forks of file {id} stays for now: {error}");
                    }
                }
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_stays_in_the_past_leaves_the_loop_its_rest_and_the_end_wakes_it() {
        let (alarm, began) = (Alarm::default(), Instant::now());
        let now = || Time(began.elapsed().as_nanos() as u64);
        alarm.set(Some(Time::ZERO));
        for turn in 1..=3 {
            assert!(alarm.rest(now, None, None));
            assert!(now() >= Time(REST_MIN.0 * turn), "turn {turn}");
        }
        alarm.set(None);
        std::thread::scope(|scope| {
            let rests = scope.spawn(|| alarm.rest(now, None, None));
            alarm.end();
            assert!(!rests.join().expect("no panic"));
        });
    }

    #[test]
    fn a_recorded_event_shortens_a_long_rest() {
        let (alarm, began) = (Alarm::default(), Instant::now());
        let now = || Time(began.elapsed().as_nanos() as u64);
        std::thread::scope(|scope| {
            let rests = scope.spawn(|| alarm.rest(now, Some(Time::from_secs(3600)), Some(Time::from_millis(2))));
            alarm.stir();
            assert!(rests.join().expect("no panic"));
        });
        assert!(alarm.take_stirred() && !alarm.take_stirred());
    }
}
