//! The buffer as one machine: turns and rates of writers, demotion, and deletion.
//!
//! ```text
//!   Arrive -> (queue) -> Turn -> (room) -> Go -> Wrote ... Committed        path of a checkpoint
//!                                  ^ Drop                    |
//!   Demote <- (tables) <-----------+-------------------------'             demotion and deletion
//! ```
//! Composes [`super::queue`], [`super::tables`], [`super::control`], [`super::predict`] and [`super::replicator`].
//! Drivers report events and carry out actions; they decide nothing. One demotion runs at a time, and none begins at
//! rate 0. One version is copied to the replica group beside it.
//!
//! Invariant ([`Buffer::check`]): reserved and stored bytes are at most the capacity, except for bytes that writers
//! wrote beyond their request.
//!
//! Source: Sung (2020), section 5.2; Kougkas et al., Harmonia (MaxEff, MaxBW); the reference, sections 8.2 to 8.5.

mod config;
mod event;
mod rates;
mod writers;

pub use config::{Config, Scheme};
pub use event::{Action, Event};

use super::control::{Plan, Rates};
use super::predict::Forecast;
use super::queue::{App, Turns};
use super::replicator::{self, Replicator};
use super::tables::{Demotion, Tables, Version};
use crate::machine::Machine;
use crate::time::Time;
use std::collections::{BTreeMap, VecDeque};
use writers::Writing;

/// Number of latest free-space checks that count. A guess: one second at four checks per second.
const LOOKS: usize = 4;

/// Validity of predicted rates during a write. A guess: a checkpoint is written for seconds.
const PREDICTED: Time = Time::from_secs(1);

/// Delay before a retry after a failed demotion. A guess: files are in use, and devices full, for a moment.
const DEMOTE_AGAIN: Time = Time::from_millis(500);

/// The buffer of one volume.
#[derive(Clone, Debug)]
pub struct Buffer {
    config: Config,
    /// Time of the last decision on rates.
    decided: Time,
    turns: Turns,
    tables: Tables,
    forecast: Forecast,
    writing: BTreeMap<u64, Writing>,
    numbers: BTreeMap<App, u64>,
    demoting: Option<Demotion>,
    /// Earliest time of the next demotion, after one failed.
    demote_at: Time,
    replicator: Replicator,
    replica_rate: Option<f64>,
    /// Whether the capacity tier accepts writes.
    capacity_usable: bool,
    /// Versions whose copies could not be deleted.
    stuck: Vec<(Version, u64)>,
    used: f64,
    /// Limits of the devices at the latest checks.
    limits: VecDeque<f64>,
    /// Bytes on the devices at the latest check.
    looked: Option<f64>,
    dwsf: f64,
    dwpp: f64,
    plan: Plan,
    rates: Option<Rates>,
    actions: VecDeque<Action>,
}

impl Buffer {
    /// Makes an empty buffer.
    pub fn new(config: Config) -> Buffer {
        Buffer {
            decided: Time::ZERO,
            turns: Turns::new(config.turns && config.scheme != Scheme::DataWarp, config.wait_max),
            tables: Tables::new(config.order, config.baselines),
            forecast: Forecast::default(),
            writing: BTreeMap::new(),
            numbers: BTreeMap::new(),
            demoting: None,
            demote_at: Time::ZERO,
            replicator: Replicator::default(),
            replica_rate: None,
            capacity_usable: true,
            stuck: Vec::new(),
            used: 0.0,
            limits: VecDeque::new(),
            looked: None,
            dwsf: 0.0,
            dwpp: config.dwpp,
            plan: Plan::new(&config.device, config.dwpp),
            rates: None,
            actions: VecDeque::new(),
            config,
        }
    }

    fn found(&mut self, version: Version, bytes: u64, in_buffer: bool, on_capacity: bool) {
        let newest = self.numbers.entry(version.app).or_default();
        *newest = (*newest).max(version.number);
        self.used += if in_buffer { bytes as f64 } else { 0.0 };
        self.tables.found(version, bytes, in_buffer, on_capacity);
    }

    /// Registers a version on the capacity tier that lacks its replica.
    fn lacks_replica(&mut self, version: Version) {
        if self.config.replicas {
            self.replicator.lacks(version);
        }
    }

    /// Returns the number of versions that lack their replica.
    pub fn lacking_replicas(&self) -> usize {
        self.replicator.lacking()
    }

    /// Returns the bytes of the buffer in use.
    pub fn used(&self) -> f64 {
        self.used
    }

    /// Returns the bytes written in this period, and the bytes expected in it.
    pub fn period(&self) -> (f64, f64) {
        (self.dwsf, self.dwpp)
    }

    /// Returns the plan of this period.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the tables of its versions.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Returns the number of requests that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.turns.waiting()
    }

    /// Returns the number of requests that have their turn, or are between two turns.
    pub fn unfinished(&self) -> usize {
        self.writing.len()
    }

    /// Whether more room was granted than exists.
    pub fn is_over(&self) -> bool {
        self.config.scheme != Scheme::DataWarp && self.used > self.room() * (1.0 + 1e-9)
    }

    /// Whether a request has its turn and waits for room.
    pub fn is_short(&self, request: u64) -> bool {
        self.writing.get(&request).is_some_and(|of| of.turn && of.wants.is_some())
    }

    /// Checks the invariants of the accounts.
    ///
    /// # Panics
    /// If they do not hold.
    pub fn check(&self) {
        if self.config.scheme == Scheme::DataWarp {
            return;
        }
        // The room of copies that could not be dropped was granted already. Its writer waits at the full device.
        let stuck: f64 = self.stuck.iter().map(|(_, bytes)| *bytes as f64).sum();
        assert!(self.used <= self.config.device.capacity * 1.000_001 + stuck, "the buffer holds more than it can");
        let (_, dirty) = self.tables.in_buffer();
        assert!(dirty as f64 <= self.used + 1.0, "the tables hold more than the buffer");
    }

    fn take_in(&mut self, now: Time, event: Event) {
        match event {
            Event::Arrive { app, request, bytes } => self.arrived(now, app, request, bytes),
            Event::More { request, bytes } => {
                self.with(request, |of| of.wants = Some(of.wants.unwrap_or(0.0) + bytes));
            }
            Event::Refused { request } => self.with(request, |of| of.wants = None),
            Event::Wrote { request, bytes } => {
                self.dwsf += bytes;
                self.with(request, |of| of.written += bytes);
            }
            Event::Paused { request } => self.paused(request),
            Event::Again { request } => self.again(now, request),
            Event::Committed { request, bytes } => self.committed(request, bytes),
            Event::Abandoned { request } => self.abandoned(request),
            Event::Back { request, bytes } => self.gave_back(request, bytes),
            Event::Demoted => {
                if let Some(of) = self.demoting.take() {
                    self.used -= self.tables.demoted(&of) as f64;
                    self.lacks_replica(of.version);
                }
            }
            Event::DemotionFailed => {
                if let Some(of) = self.demoting.take() {
                    self.tables.failed(&of);
                    self.demote_at = now + DEMOTE_AGAIN;
                }
            }
            Event::Replicated => self.replicator.done(),
            Event::ReplicaFailed => self.replicator.failed(now),
            Event::Restarted { app } => {
                let restart = self.tables.restart(app).map(|(version, hit)| Action::Restart { version, hit });
                self.actions.extend(restart);
            }
            Event::Mtbf { app, mtbf_s } => self.tables.set_mtbf(app, mtbf_s),
            Event::Interval { app, interval_s } => self.forecast.told(app, interval_s as f64),
            Event::Removed { version } => {
                let freed = self.tables.removed(version);
                self.gone(freed, |other| other == version);
            }
            Event::Free { bytes } => self.measured(bytes),
            Event::Full { bytes } => self.drop_clean(bytes),
            Event::Capacity { usable, whole } => {
                self.capacity_usable = usable;
                if whole {
                    for (version, bytes) in std::mem::take(&mut self.stuck) {
                        self.tables.found(version, bytes, true, true);
                    }
                }
            }
            Event::DropFailed { version, bytes } => {
                self.used += bytes as f64;
                self.stuck.push((version, bytes));
            }
            Event::Found { version, bytes, in_buffer, on_capacity, lacks_replica } => {
                self.found(version, bytes, in_buffer, on_capacity);
                if lacks_replica {
                    self.lacks_replica(version);
                }
            }
            Event::Resumed { dwsf, dwpp } => {
                self.dwsf = dwsf;
                self.expect(dwpp);
            }
            Event::Period => {
                // The next period is expected to be like the one that ends.
                let dwsf = std::mem::take(&mut self.dwsf);
                if dwsf > 0.0 {
                    self.expect(dwsf);
                }
            }
            Event::Tick => {}
        }
    }

    /// Plans a period that writes this number of bytes.
    fn expect(&mut self, dwpp: f64) {
        self.dwpp = dwpp;
        self.plan = Plan::new(&self.config.device, dwpp);
    }

    /// Takes note of the free bytes on the devices, measured between the last event and this one.
    fn measured(&mut self, free: f64) {
        // Reserved bytes that are not written yet count as free on the devices, so they are subtracted.
        let inside = self.writing.values().filter(|of| !of.direct);
        let to_come: f64 = inside.map(|of| (of.reserved - of.written).max(0.0)).sum();
        let taken = self.used - to_come;
        let then = self.looked.replace(taken).unwrap_or(taken);
        self.limits.push_back(taken.min(then) + free);
        if self.limits.len() > LOOKS {
            self.limits.pop_front();
        }
    }

    /// Removes versions that freed this number of bytes from all but the tables.
    fn gone(&mut self, freed: u64, gone: impl Fn(Version) -> bool) {
        let stuck = self.stuck.extract_if(.., |(version, _)| gone(*version));
        self.used -= stuck.map(|(_, bytes)| bytes).sum::<u64>() as f64 + freed as f64;
        self.replicator.gone(&gone);
        self.demoting = self.demoting.filter(|of| !gone(of.version));
    }

    fn decide(&mut self, now: Time) {
        self.give_turns(now);
        self.give_room();
        let rates = self.rates_now(now);
        self.decided = now;
        if self.rates != Some(rates) {
            self.rates = Some(rates);
            self.actions.push_back(Action::Rates(rates));
        }
        let may_demote = now >= self.demote_at && rates.demote > 0.0;
        if self.demoting.is_none() && may_demote && self.config.scheme != Scheme::DataWarp {
            self.demoting = self.tables.next_demotion();
            self.actions.extend(self.demoting.map(Action::Demote));
        }
        if self.config.replicas {
            let writes = self.writing.values().any(|of| of.turn && of.wants.is_none());
            let rate = replicator::rate(&self.config.device, writes || self.demoting.is_some());
            if self.replica_rate.replace(rate) != Some(rate) {
                self.actions.push_back(Action::ReplicaRate(rate));
            }
            self.actions.extend(self.replicator.next(now).map(|version| Action::Replicate { version }));
        }
    }

    /// Returns the most bytes that the buffer may hold: its capacity, or less where the devices have less.
    pub fn room(&self) -> f64 {
        // Deletions under way still take space on the device, so the best of the latest checks counts.
        let limit = self.limits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if self.limits.is_empty() { self.config.device.capacity } else { self.config.device.capacity.min(limit) }
    }

    fn drop_clean(&mut self, bytes: f64) {
        for (version, freed) in self.tables.delete_clean(bytes.ceil() as u64) {
            self.used -= freed as f64;
            self.actions.push_back(Action::Drop { version, bytes: freed });
        }
    }
}

impl Machine for Buffer {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        let before_all = matches!(event, Event::Found { .. } | Event::Resumed { .. });
        self.take_in(now, event);
        if !before_all {
            self.decide(now);
        }
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        let predicts = self.config.scheme == Scheme::Predicted && self.writing.values().any(Writing::goes);
        let rates = predicts.then(|| self.decided + PREDICTED);
        // The failed version is still present, or another one is due.
        let failed = self.demoting.is_none() && self.demote_at > self.decided && self.tables.in_buffer().1 > 0;
        let again = failed.then_some(self.demote_at);
        self.replicator.next_deadline().into_iter().chain(rates).chain(again).min()
    }
}

#[cfg(test)]
mod tests;
