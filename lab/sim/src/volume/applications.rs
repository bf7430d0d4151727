//! Applications that write checkpoints and fail at given times, into a buffer whose devices share one speed: load and
//! device of the burst buffer's paper.
//!
//! Writes to the buffer take effect at their release: the rate limit is the device's speed along the line of equation
//! 5.1. Demotion flows at the rate in force. Direct writes to the slow tier have a path of their own, at the speed of
//! demotion during writes.

use super::checkpoints::Checkpoint;
use super::load::Answer;
use super::world::{Happening, World};
use crate::event::Rank;
use crate::generate::Rng;
use policy::burst::buffer;
use policy::burst::control::{Device, Rates};
use policy::volume::{BurstStats, Ticket};
use policy::{FileId, Time};

/// Applications and their shared device.
#[derive(Clone, Debug)]
pub struct Applications {
    /// The buffer as one device.
    pub device: Device,
    /// Size of a piece, as seconds of an application's write bandwidth.
    pub step_s: f64,
    /// Checkpoints in order of arrival: time, application, bytes.
    pub writes: Vec<(Time, u64, u64)>,
    /// Mean time between failures of each application, in seconds.
    pub mtbf_s: Vec<f64>,
    /// Seed of the failures.
    pub seed: u64,
    /// Times of observation. The world ends with the last of them.
    pub looks: Vec<Time>,
}

/// State at an observation.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Bytes of the buffer in use.
    pub used: f64,
    /// Number of demoted bytes.
    pub demoted: f64,
    /// Counters of the buffer.
    pub stats: BurstStats,
}

/// Results of a run.
#[derive(Debug)]
pub struct Observed {
    /// Checkpoints in order of completion; their numbers grow in order of arrival.
    pub written: Vec<Checkpoint>,
    /// Checkpoints under way at the end.
    pub unfinished: u64,
    /// States at the observations.
    pub looks: Vec<Look>,
    /// Requests of readers, in order of arrival.
    pub answered: Vec<Answer>,
}

/// State of the applications.
#[derive(Debug)]
pub(super) struct Doing<'a> {
    of: &'a Applications,
    /// Time of each application's next failure, in seconds.
    fails_at_s: Vec<f64>,
    rng: Rng,
    flow: Option<Flow>,
    demoted: f64,
    looks: Vec<Look>,
}

/// A demotion under way: the bytes left at a time.
#[derive(Clone, Copy, Debug)]
struct Flow {
    ticket: Ticket,
    left: f64,
    at: Time,
}

fn time(seconds: f64) -> Time {
    Time((seconds * 1e9) as u64)
}

impl Flow {
    /// Returns the end of the demotion at these rates, less than half a byte counting as none. `None`: it stands
    /// still.
    fn ends(&self, rates: Rates) -> Option<Time> {
        let left = (self.left - 0.5).max(0.0);
        (left == 0.0 || rates.demote > 0.0).then(|| self.at + time(left / rates.demote.max(1e-9)))
    }
}

impl<'a> Doing<'a> {
    pub(super) fn new(of: &'a Applications) -> Doing<'a> {
        let mut rng = Rng::new(of.seed, 1);
        let fails_at_s = of.mtbf_s.iter().map(|mtbf_s| rng.exponential(*mtbf_s)).collect();
        Doing { of, fails_at_s, rng, flow: None, demoted: 0.0, looks: Vec::new() }
    }

    /// Returns whether the last observation was made.
    pub(super) fn is_over(&self) -> bool {
        self.looks.len() == self.of.looks.len()
    }

    /// Accounts for the flow until now at this rate.
    fn flow_on(&mut self, now: Time, rates: Rates) {
        let Some(flow) = &mut self.flow else { return };
        let flows = (rates.demote * now.since(flow.at).as_secs_f64()).min(flow.left);
        (flow.left, flow.at) = (flow.left - flows, now);
        self.demoted += flows;
    }
}

impl World<'_> {
    pub(super) fn prepare_applications(&mut self) {
        let Some(Doing { of, fails_at_s, .. }) = &self.doing else { return };
        for (n, (at, ..)) in of.writes.iter().enumerate() {
            self.events.push(*at, Rank::Arrival, Happening::Arrive(n));
        }
        of.looks.iter().for_each(|at| self.events.push(*at, Rank::Arrival, Happening::Look));
        let each = of.mtbf_s.clone().into_iter().zip(fails_at_s.clone());
        for (app, (mtbf_s, fails_at_s)) in each.enumerate() {
            self.events.push(time(fails_at_s), Rank::Timer, Happening::AppFails(app));
            self.tell_buffer(buffer::Event::Mtbf { app: app as u64, mtbf_s: mtbf_s as u64 });
        }
    }

    pub(super) fn arrive(&mut self, n: usize) {
        if let Some((_, app, bytes)) = self.doing.as_ref().map(|doing| doing.of.writes[n]) {
            self.begin_checkpoint(app, bytes);
        }
    }

    pub(super) fn app_fails(&mut self, app: usize) {
        let Some(doing) = &mut self.doing else { return };
        doing.fails_at_s[app] += doing.rng.exponential(doing.of.mtbf_s[app]);
        self.events.push(time(doing.fails_at_s[app]), Rank::Timer, Happening::AppFails(app));
        self.tell_buffer(buffer::Event::Restarted { app: app as u64 });
    }

    pub(super) fn look(&mut self) {
        let used = self.volume.admission().map_or(0.0, |admission| admission.buffer().used());
        let stats = self.volume.burst_stats().unwrap_or_default();
        let Some(doing) = &mut self.doing else { return };
        doing.flow_on(self.now, self.rates);
        doing.looks.push(Look { used, demoted: doing.demoted, stats });
    }

    /// Returns the size of a checkpoint's pieces.
    pub(super) fn piece_bytes(&self, of: &Checkpoint) -> u64 {
        let Some(Applications { device, step_s, .. }) = &self.setup.applications else { return of.write_bytes() };
        let write = self.volume.admission().map_or(device.write_max, |admission| admission.rates().write);
        let speed = if of.direct { device.demote_max } else { write };
        ((speed * step_s) as u64).max(1)
    }

    /// Returns the time at which a piece that is released now has been written.
    pub(super) fn piece_done(&mut self, file: FileId, at: u64, len: u64, direct: bool) -> Option<Time> {
        let Some(of) = &self.setup.applications else { return Some(self.access(file, at, len, true)?.0) };
        let takes_s = if direct { len as f64 / of.device.demote_max } else { 0.0 };
        Some(self.now + time(takes_s))
    }

    /// Begins a demotion; returns whether it is modelled as a flow.
    pub(super) fn begins_to_flow(&mut self, ticket: Ticket, bytes: u64) -> bool {
        if let Some(doing) = &mut self.doing {
            doing.flow = Some(Flow { ticket, left: bytes as f64, at: self.now });
        }
        self.flow_ends();
        self.doing.is_some()
    }

    /// Sets the rates from now on.
    pub(super) fn set_rates(&mut self, rates: Rates) {
        self.doing.iter_mut().for_each(|doing| doing.flow_on(self.now, self.rates));
        self.rates = rates;
        self.flow_ends();
    }

    /// Returns whether a change still flows.
    pub(super) fn flows(&mut self, ticket: Ticket) -> bool {
        let Some(doing) = &mut self.doing else { return false };
        doing.flow_on(self.now, self.rates);
        let Some(flow) = doing.flow.filter(|flow| flow.ticket == ticket) else { return false };
        let ended = flow.ends(self.rates).is_some_and(|at| at <= self.now);
        doing.flow = doing.flow.filter(|_| !ended);
        !ended
    }

    fn flow_ends(&mut self) {
        if let Some(flow) = self.doing.as_ref().and_then(|doing| doing.flow)
            && let Some(at) = flow.ends(self.rates)
        {
            self.events.push(at, Rank::Timer, Happening::Step(flow.ticket));
        }
    }

    pub(super) fn observed(self) -> Observed {
        let looks = self.doing.map_or_else(Vec::new, |doing| doing.looks);
        Observed { written: self.written, unfinished: self.writing.len() as u64, looks, answered: self.answered }
    }
}
