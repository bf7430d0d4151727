//! The loop: passes recorded accesses and states of devices to the machine, at the latest at its deadlines.

use super::jobs::Lane;
use super::log::{Access, Recorded};
use super::tiers::look_every;
use super::{Adapt, stripes};
use engine::file::File;
use engine::stats::Metric;
use object::workers::{END_SPAN, Pool};
use policy::machine::Machine;
use policy::protect::replica::Strategy;
use policy::tier::Tier;
use policy::volume::{Event, FileEvent};
use policy::{FileId, Time};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Maximum of recorded events that are passed to the machine under one lock.
const EVENTS_AT_ONCE: usize = 512;

/// Minimum rest of the loop. A guess: a thousandth of a core is small beside the work of a step.
pub(super) const REST_MIN: Time = Time::from_millis(1);

/// Time without a recorded event after which the loop looks only every [`CALM_LOOK_EVERY`]. Guesses: longer than the
/// idleness that slow copies wait for by default, and rare enough for an idle machine.
const CALM_AFTER: Time = Time::from_millis(5000);
const CALM_LOOK_EVERY: Time = Time::from_millis(5000);

impl Adapt {
    /// Starts the loop and the carriers. `walk` visits all files of the volume.
    pub(crate) fn start(self: &Arc<Adapt>, walk: impl FnOnce(&mut dyn FnMut(&File) -> bool) + Send + 'static) {
        let (tiers, stripes) = (self.has_tiers(), self.settings.stripes.is_some());
        let weak = Arc::downgrade(self);
        self.driver.start(&self.threads, move || weak.upgrade()?.turn());
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
            let adapt = self.clone();
            // A failed start has been logged.
            drop(self.threads.push(move || adapt.begin_tiers(walk)));
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
            self.driver.jobs.start(lane, Pool::new(name, carriers), Arc::downgrade(self));
        }
    }

    /// Ends the threads; held writes fail. The mover must have been stopped before, so that changes end.
    pub(crate) fn stop(&self) {
        if let Some(burst) = &self.burst {
            burst.close();
        }
        self.driver.stop.set();
        self.driver.jobs.end();
        if !self.threads.stop(END_SPAN) {
            tracing::warn!("the loop of the adapting mechanisms does not end and is left behind");
        }
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
    fn begin_tiers(&self, walk: impl FnOnce(&mut dyn FnMut(&File) -> bool)) {
        let Some(costs) = self.find_costs() else {
            tracing::error!("the speed of a tier is unknown, so no segment is moved; give both tiers a `speed`");
            return;
        };
        self.set_costs(costs);
        // All segments on the fast tier count from the start, including unused ones.
        walk(&mut |file| {
            self.found_in_tree(file);
            !self.driver.stop.is_set()
        });
    }

    /// Reports the segments of a file that are on the fast tier to the machine, without an access.
    pub fn found_in_tree(&self, file: &File) {
        let Some(layout) = file.layout() else { return };
        if self.recorder.segments(&layout).any(|(_, tier)| tier == Tier::Fast) {
            self.driver.tell_all(self.lies(file));
        }
    }

    /// One turn of the loop. Returns the time until the next one.
    fn turn(&self) -> Option<Duration> {
        let deadline = self.driver.run_step(|| self.step());
        let now = self.driver.now();
        let look = self.has_tiers().then(|| now + self.look_every(now));
        let stripes = self.driver.machine().stripes_look_at();
        let next = [look, deadline, stripes].into_iter().flatten().min()?;
        Some(Duration::from_nanos(next.since(now).max(REST_MIN).0))
    }

    /// Time until the next look at the tiers.
    fn look_every(&self, now: Time) -> Time {
        let idle = self.settings.tiering.idle;
        let calm_after = CALM_AFTER.max(Time(idle.as_nanos() as u64 * 2));
        // Reports of other nodes arrive without a recorded event.
        let is_alone = self.files.pool().cluster.get().is_none();
        let is_calm = is_alone && now.since(*self.stirred.lock()) >= calm_after;
        if is_calm { look_every(idle).max(CALM_LOOK_EVERY) } else { look_every(idle) }
    }

    /// Takes the recorded accesses, examines the devices, and starts the changes that are due.
    pub fn step(&self) {
        let stripes = self.driver.machine().stripes_look_at().is_some_and(|at| at <= self.driver.now());
        let Recorded { mut accesses, laid_out, mut removed, lost } = self.recorder.log.take();
        self.stats.add(Metric::TieringLost, lost);
        if !(laid_out.is_empty() && accesses.is_empty() && removed.is_empty()) {
            *self.stirred.lock() = self.driver.now();
        }
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
