//! The state machine of working-set reorganisation: accesses in, moves out, when the devices are idle.
//!
//! It keeps the tables, ends their panes and runs a planner at the end of each. It emits the moves one after the other
//! as idleness and budget allow. A plan that is unfinished when the next pane ends is dropped: the new one is based on
//! later accesses.
//!
//! The driver sends every access, the first placement of locations, changes of a tier's devices between idle and busy,
//! and the result of each move. Events may be lost: a location that was never placed counts as slow.

mod arrive;
mod config;
mod copies;
mod event;
mod look;

pub use config::{Config, Planner, Window};
pub use event::{Action, Event, Logged, Stats};

use super::frequency;
use super::reorganize::{Space, Thresholds, algorithm_2, cancel_pairs};
use super::table::LocalityTable;
use super::tuned::{Pane, Tuned};
use super::yielding::{self, Yielding};
use super::{Location, Move, Reason, Region, Tier};
use crate::machine::{Log, Machine};
use crate::throttle::Throttle;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Requests of the tuned planner's first pane, if its window is longer; each later pane may have twice as many.
/// [`super::hit_rate`] learns from as many at a time.
const FIRST_PANE: u64 = 128;

/// The machine that plans moves between tiers.
#[derive(Debug)]
pub struct Reorganizer {
    config: Config,
    now: Time,
    read: LocalityTable,
    write: LocalityTable,
    fast: BTreeSet<Location>,
    tuned: Option<Tuned>,
    plan: VecDeque<Move>,
    moving: BTreeMap<Location, Move>,
    copies: copies::Copies,
    /// Locations that were written while they moved.
    written: BTreeSet<Location>,
    /// Moves that are made before those of the plan.
    urgent: VecDeque<arrive::Urgent>,
    /// Locations that may leave the fast tier before the next plan; the one with the least loss first.
    victims: VecDeque<Location>,
    /// Locations that cannot be read or written.
    away: BTreeSet<Location>,
    /// Time of the last ranking of victims, and the accesses since then.
    ranked: (Time, u64),
    /// Since when each tier is idle.
    idle_since: [Option<Time>; 2],
    idle_budget: Throttle,
    busy_budget: Throttle,
    budget_at: Time,
    pane: Counting,
    paused: bool,
    stats: Stats,
    /// Log of its events and actions, for tests.
    pub log: Log<Event, Action>,
}

/// Sums within a pane.
#[derive(Clone, Copy, Debug, Default)]
struct Counting {
    began: Time,
    requests: u64,
    busy_ns: [f64; 2],
    bytes: [f64; 2],
    accesses: [f64; 2],
    newcomers: u64,
}

impl Reorganizer {
    /// A machine without history.
    pub fn new(config: Config, now: Time) -> Reorganizer {
        let config = Config { block_bytes: config.block_bytes.max(1), ..config };
        let table = || LocalityTable::new(config.planner.panes(), config.locations_max);
        let tuned = match config.planner {
            Planner::Tuned => Some(Tuned::new(config.costs)),
            Planner::WsRos(_) | Planner::Frequency => None,
        };
        let mut machine = Reorganizer {
            now,
            read: table(),
            write: table(),
            fast: BTreeSet::new(),
            tuned,
            plan: VecDeque::new(),
            moving: BTreeMap::new(),
            copies: copies::Copies::new(config.copy_after.filter(|_| config.keep_copies)),
            written: BTreeSet::new(),
            urgent: VecDeque::new(),
            victims: VecDeque::new(),
            away: BTreeSet::new(),
            ranked: (now, 0),
            idle_since: [Some(now); 2],
            idle_budget: Throttle::new(config.idle_bytes_per_s, 0, now),
            busy_budget: Throttle::new(Some(config.busy_bytes_per_s), 0, now),
            budget_at: now,
            pane: Counting { began: now, ..Counting::default() },
            paused: false,
            stats: Stats::default(),
            log: Log::default(),
            config,
        };
        machine.set_fast_bytes(config.fast_bytes);
        machine
    }

    fn set_fast_bytes(&mut self, bytes: u64) {
        self.config.fast_bytes = bytes;
        if let Some(tuned) = &mut self.tuned {
            tuned.set_room(bytes / self.config.block_bytes, self.config.locations_max);
        }
    }

    /// The next move of the plan, if it is permitted now.
    fn poll_plan(&mut self, now: Time) -> Option<Move> {
        if self.plan.is_empty() || self.under_way() >= self.config.moves_max || now < self.may_at()? {
            return None;
        }
        while let Some(of) = self.plan.pop_front() {
            let pointless = self.tier(of.location) == of.to || self.is_moving(of.location) || self.is_away(of.location);
            if pointless || (of.to == Tier::Fast && self.room() == 0) {
                continue;
            }
            // A move to the slow tier costs nothing if the slow copy still exists.
            let free = of.to == Tier::Slow && self.copies.contains(of.location);
            self.spend(now, if free { 0 } else { self.config.block_bytes });
            return Some(of);
        }
        None
    }

    /// Moves and copies under way.
    fn under_way(&self) -> usize {
        self.moving.len() + self.copies.making()
    }

    /// Charges a move to the budget; the next move waits until it is paid.
    fn spend(&mut self, now: Time, bytes: u64) {
        let budget = if self.is_idle(now) { &mut self.idle_budget } else { &mut self.busy_budget };
        self.budget_at = budget.take(now, bytes);
    }

    /// Pace of an action towards applications, and the bytes of its steps. `None` if it does not yield: urgent moves
    /// run at once, and moves with a share of busy devices have that as their pace.
    pub fn yielding(&self, action: &Action) -> Option<(Yielding, u64)> {
        let to = match action {
            Action::Move(Move { reason: Reason::AtHand { .. }, .. }) => return None,
            Action::Move(of) => of.to,
            Action::Copy(_) => Tier::Slow,
        };
        let yields = self.config.busy_bytes_per_s == 0;
        yields.then(|| (Yielding::new(self.config.idle), yielding::step_bytes(&self.config.costs, to)))
    }

    /// Whether a location cannot be reached now.
    pub fn is_away(&self, location: Location) -> bool {
        self.away.contains(&location)
    }

    /// Tier of a location.
    pub fn tier(&self, location: Location) -> Tier {
        if self.fast.contains(&location) { Tier::Fast } else { Tier::Slow }
    }

    /// Reads and writes of a location within the window.
    pub fn temperature(&self, location: Location) -> (u32, u32) {
        (self.read.hotness(location), self.write.hotness(location))
    }

    fn last_access(&self, location: Location) -> Time {
        let of = [&self.read, &self.write].into_iter().filter_map(|table| table.get(location));
        of.map(|entry| entry.last()).max().unwrap_or(Time::ZERO)
    }

    /// Locations in the tables: the working set.
    pub fn working_set(&self) -> (usize, usize) {
        (self.read.len(), self.write.len())
    }

    /// Locations on the fast tier.
    pub fn fast_locations(&self) -> usize {
        self.fast.len()
    }

    /// Accesses within the window above which reads are promoted at present; `None` if none are.
    pub fn threshold(&self) -> Option<u32> {
        match (&self.tuned, self.config.planner) {
            (Some(tuned), _) => tuned.threshold(self.config.block_bytes as f64),
            (None, Planner::WsRos(thresholds)) => Some(thresholds.hot + 1),
            (None, _) => None,
        }
    }

    /// Numbers of waiting moves and of moves under way.
    pub fn pending(&self) -> (usize, usize) {
        (self.plan.len(), self.moving.len())
    }

    /// Counters since the start.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn access(&mut self, now: Time, location: Location, region: Region, bytes: u64, ends_request: bool) {
        let tier = self.tier(location);
        let table = match region {
            Region::Read => &mut self.read,
            Region::Write => &mut self.write,
        };
        table.touch(now, location);
        if let Some(tuned) = &mut self.tuned {
            tuned.accessed(location, region);
        }
        let new = region == Region::Write && self.read.hotness(location) + self.write.hotness(location) == 1;
        if region == Region::Write && self.moving.contains_key(&location) {
            self.written.insert(location);
        }
        if tier == Tier::Fast {
            self.copies.accessed(now, location, region);
        }
        self.stats.accesses += 1;
        self.ranked.1 += 1;
        self.stats.fast_accesses += u64::from(tier == Tier::Fast);
        let pane = &mut self.pane;
        pane.busy_ns[tier as usize] += self.config.costs.of(tier).access_ns(region, bytes as f64);
        pane.bytes[region as usize] += bytes as f64;
        pane.accesses[region as usize] += 1.0;
        pane.requests += u64::from(ends_request);
        pane.newcomers += u64::from(new);
        if tier == Tier::Slow {
            self.arrive(now, location, bytes);
        }
        if let Window::Requests(requests) = self.config.window
            && self.pane.requests >= self.of_pane(requests).min(self.young_pane())
        {
            self.end_pane(now);
        }
    }

    /// Most requests in the tuned planner's present pane: few at first, so that it soon has data.
    fn young_pane(&self) -> u64 {
        if self.tuned.is_some() { FIRST_PANE << self.stats.panes.min(32) } else { u64::MAX }
    }

    fn placed(&mut self, now: Time, location: Location, tier: Tier) {
        match tier {
            Tier::Fast => {
                if self.fast.insert(location) {
                    self.copies.bare(now, location);
                }
            }
            Tier::Slow => {
                self.copies.left(location);
                self.fast.remove(&location);
            }
        }
    }

    fn removed(&mut self, now: Time, file: u64) {
        let all = Location { file, segment: 0 }..=Location { file, segment: u64::MAX };
        let held: Vec<Location> = self.fast.range(all).copied().collect();
        held.into_iter().for_each(|location| self.placed(now, location, Tier::Slow));
        self.away.retain(|location| location.file != file);
        self.read.remove_file(file);
        self.write.remove_file(file);
        self.tuned.iter_mut().for_each(|tuned| tuned.removed(file));
        self.plan.retain(|of| of.location.file != file);
        self.urgent.retain(|urgent| urgent.of.location.file != file);
    }

    /// Returns the part of a window, in requests or nanoseconds, that one pane takes.
    fn of_pane(&self, window: u64) -> u64 {
        (window / self.config.planner.panes() as u64).max(1)
    }

    fn end_span(&mut self, now: Time) {
        if let Window::Span(span) = self.config.window
            && now >= self.pane.began + Time(self.of_pane(span.0))
        {
            self.end_pane(now);
        }
    }

    fn end_pane(&mut self, now: Time) {
        self.stats.panes += 1;
        self.stats.dropped += self.plan.len() as u64;
        let counted = std::mem::replace(&mut self.pane, Counting { began: now, ..Counting::default() });
        let moves = match (self.config.planner, self.tuned.is_some()) {
            (Planner::WsRos(thresholds), _) => self.plan_ws_ros(&thresholds),
            (Planner::Frequency, _) => {
                frequency::plan(&self.read, &self.write, &self.fast, self.config.fast_bytes / self.config.block_bytes)
            }
            _ => self.plan_tuned(now, &counted),
        };
        self.stats.planned += moves.len() as u64;
        self.plan = moves.into();
    }

    fn plan_ws_ros(&mut self, thresholds: &Thresholds) -> Vec<Move> {
        let block_bytes = self.config.block_bytes;
        let space = Space { free_bytes: self.room() * block_bytes, block_bytes };
        let all = algorithm_2(&mut self.read, &mut self.write, &self.fast, space, thresholds);
        let (before, moves) = (all.len(), cancel_pairs(all));
        self.stats.cancelled += (before - moves.len()) as u64;
        self.read.turn();
        self.write.turn();
        moves
    }

    fn plan_tuned(&mut self, now: Time, counted: &Counting) -> Vec<Move> {
        let (room, block_bytes) = (self.room(), self.config.block_bytes);
        let mean = |region: Region| match counted.accesses[region as usize] {
            0.0 => block_bytes as f64,
            accesses => counted.bytes[region as usize] / accesses,
        };
        let pane = Pane {
            span_ns: now.since(counted.began).0 as f64,
            fast_busy_ns: counted.busy_ns[Tier::Fast as usize],
            slow_busy_ns: counted.busy_ns[Tier::Slow as usize],
            read_bytes: mean(Region::Read),
            write_bytes: mean(Region::Write),
            room,
            newcomers: counted.newcomers,
            writes_per_read: counted.accesses[1] / counted.accesses[0].max(1.0),
            block_bytes: block_bytes as f64,
            excess: (self.fast.len() as u64).saturating_sub(self.config.fast_bytes / block_bytes),
        };
        self.read.turn();
        self.write.turn();
        let Some(tuned) = &mut self.tuned else { return Vec::new() };
        let moves = tuned.plan(&self.read, &self.write, &self.fast, self.copies.held(), &pane);
        self.rank(now);
        moves
    }

    /// Number of locations that still fit on the fast tier, with moves under way counted.
    fn room(&self) -> u64 {
        let coming = self.moving.values().filter(|of| of.to == Tier::Fast).count();
        (self.config.fast_bytes / self.config.block_bytes).saturating_sub((self.fast.len() + coming) as u64)
    }

    fn is_idle(&self, now: Time) -> bool {
        self.idle_since.iter().all(|since| since.is_some_and(|since| now.since(since) >= self.config.idle))
    }

    /// Time at which both tiers have been idle for long enough.
    fn idle_at(&self) -> Option<Time> {
        let [Some(one), Some(other)] = self.idle_since else { return None };
        Some(one.max(other) + self.config.idle)
    }

    /// Earliest time of the next move; `None` if it depends on an event.
    fn may_at(&self) -> Option<Time> {
        match (self.idle_at(), self.config.busy_bytes_per_s) {
            (Some(idle_at), 0) => Some(idle_at.max(self.budget_at)),
            (None, 0) => None,
            // The budget of busy times alone decides.
            _ => Some(self.budget_at),
        }
    }
}

impl Machine for Reorganizer {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        self.now = self.now.max(now);
        self.log.event(now, &event);
        match event {
            Event::Access { location, region, bytes, ends_request } => {
                self.access(now, location, region, bytes, ends_request);
            }
            Event::Placed { location, tier } => self.placed(now, location, tier),
            Event::Removed(file) => self.removed(now, file),
            Event::Reach { location, reached: true } => drop(self.away.remove(&location)),
            Event::Reach { location, reached: false } => drop(self.away.insert(location)),
            Event::Idle(tier) => {
                self.idle_since[tier as usize].get_or_insert(now);
            }
            Event::Busy(tier) => self.idle_since[tier as usize] = None,
            Event::Moved(location) => {
                if let Some(of) = self.moving.remove(&location) {
                    self.placed(now, location, of.to);
                    let written = self.written.remove(&location);
                    match of.to {
                        Tier::Fast => {
                            self.stats.promoted += 1;
                            if self.config.keep_copies && !written {
                                self.copies.hold(location, self.last_access(location));
                            }
                        }
                        Tier::Slow => self.stats.demoted += 1,
                    }
                }
            }
            Event::Failed(location) => {
                self.stats.failed += u64::from(self.moving.remove(&location).is_some());
                self.written.remove(&location);
                self.copy_failed(now, location);
            }
            Event::Copied(location) => self.copied(now, location),
            Event::CopyGone(location) => {
                if self.copies.contains(location) {
                    self.copies.bare(now, location);
                }
            }
            Event::FastBytes(bytes) => self.set_fast_bytes(bytes),
            Event::CopyBytes(bytes) => self.copies.set_room(bytes, self.config.block_bytes),
            Event::Paused(paused) => self.paused = paused,
            Event::Tick => {}
        }
        self.end_span(now);
    }

    fn poll(&mut self) -> Option<Action> {
        if self.paused {
            return None;
        }
        let now = self.now;
        let action = match self.poll_urgent(now).or_else(|| self.poll_plan(now)) {
            Some(of) => {
                self.moving.insert(of.location, of);
                Action::Move(of)
            }
            None => Action::Copy(self.poll_copy(now)?),
        };
        self.log.action(&action);
        Some(action)
    }

    fn next_deadline(&self) -> Option<Time> {
        let window = match self.config.window {
            Window::Span(span) => Some(self.pane.began + Time(self.of_pane(span.0))),
            Window::Requests(_) => None,
        };
        let ready = !self.plan.is_empty() && self.under_way() < self.config.moves_max;
        let moves = if ready { self.may_at() } else { None };
        let work = moves.into_iter().chain(self.copy_at()).filter(|_| !self.paused);
        window.into_iter().chain(work).min()
    }
}

#[cfg(test)]
mod tests;
