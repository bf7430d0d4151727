//! Admission: a write of a checkpoint goes on, is held, or is refused.
//!
//! ```text
//!   Arrive -> Hold -> (turn, room: Buffer) -> Prepare -> Prepared -> (rate limit) -> Release ... Committed
//! ```
//! A write is held until its application has its turn, its room and its share of the bandwidth. Announced room is
//! granted at once; further or unannounced room is granted piece by piece. A checkpoint that writes nothing for a while
//! passes its turn to waiting ones. Composes [`super::buffer`] and a token bucket.
//!
//! The rate limit is that of the buffer's devices: a checkpoint that goes directly to the capacity tier is exempt.
//!
//! Invariant: no write is held for ever. A request that waits for room is refused after `full_wait`. A request that
//! waits for a turn gets it when the earlier ones are complete, abandoned, or idle.

mod event;

pub use event::{Action, Event, Verdict};

use super::buffer::{self, Buffer};
use super::control::Rates;
use super::tables::Version;
use crate::machine::Machine;
use crate::throttle::Throttle;
use crate::time::Time;
use std::collections::{BTreeMap, VecDeque};

/// Size of pieces beyond the announced room: at most this, and at most a 64th of the buffer. A guess.
const PIECE_BYTES: u64 = 64 << 20;
const PIECE_SHARE: u64 = 64;
/// Bytes that may be written at once before the rate limit applies: one write of the kernel.
const BURST_BYTES: u64 = 1 << 20;
/// Idle time after which a checkpoint passes its turn to others. A guess: longer than a pause between two files.
const IDLE: Time = Time::from_secs(2);
/// Delay before another attempt of a write that found the devices full. A guess: the interval of space checks.
const AGAIN: Time = Time::from_millis(250);
/// Rate above which there is no limit.
const NO_LIMIT: f64 = 1e12;

/// Settings of admission.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Settings of the buffer.
    pub buffer: buffer::Config,
    /// Whether a write waits for room, or is refused at once.
    pub full_waits: bool,
    /// Longest wait for room.
    pub full_wait: Time,
}

/// A held write.
#[derive(Clone, Copy, Debug)]
struct Held {
    write: u64,
    len: u64,
    since: Time,
}

/// A checkpoint that is being written.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Its version, after its first turn.
    pub version: Option<Version>,
    /// Whether it goes directly to the capacity tier.
    pub direct: bool,
    /// Time of its arrival.
    pub since: Time,
    /// Bytes written so far.
    pub written: u64,
    granted: u64,
    asked: u64,
    going: bool,
    paused: bool,
    /// Whether it paused, and requested its turn again.
    again: bool,
    /// Time at which its latest write goes on.
    last: Time,
    held: VecDeque<Held>,
}

impl Request {
    /// Whether it has its turn, and no write waits.
    fn rests(&self) -> bool {
        self.going && self.version.is_some() && !self.paused && self.held.is_empty()
    }
}

/// Admission of one volume.
#[derive(Clone, Debug)]
pub struct Admission {
    config: Config,
    buffer: Buffer,
    period_ends: Option<Time>,
    open: BTreeMap<u64, Request>,
    bucket: Throttle,
    /// Writes that are released at a known time.
    timed: BTreeMap<(Time, u64), u64>,
    serial: u64,
    piece: u64,
    rates: Rates,
    actions: VecDeque<Action>,
}

impl Admission {
    /// Makes an admission without requests, over an empty buffer.
    pub fn new(config: Config) -> Admission {
        let device = &config.buffer.device;
        Admission {
            buffer: Buffer::new(config.buffer),
            period_ends: None,
            open: BTreeMap::new(),
            bucket: Throttle::new(None, BURST_BYTES, Time::ZERO),
            timed: BTreeMap::new(),
            serial: 0,
            piece: PIECE_BYTES.min(device.capacity as u64 / PIECE_SHARE),
            rates: Rates { write: device.write_max, demote: device.demote_idle },
            actions: VecDeque::new(),
            config,
        }
    }

    /// Returns the buffer, to read its state.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Returns the rates in force.
    pub fn rates(&self) -> Rates {
        self.rates
    }

    /// Returns a checkpoint that is being written.
    pub fn request(&self, request: u64) -> Option<&Request> {
        self.open.get(&request)
    }

    /// Returns the number of held writes.
    pub fn held(&self) -> usize {
        self.open.values().map(|of| of.held.len()).sum::<usize>() + self.timed.len()
    }

    /// Whether a checkpoint is being written or a version waits for its demotion.
    pub fn is_busy(&self) -> bool {
        !self.open.is_empty() || self.buffer.tables().in_buffer().1 > 0
    }

    /// Whether a write may go on at once; if so, counts it.
    pub fn admit(&mut self, now: Time, request: u64, len: u64) -> bool {
        let Some(of) = self.open.get_mut(&request) else { return true };
        if !of.going || of.paused || !of.held.is_empty() || of.written + len > of.granted {
            return false;
        }
        if !of.direct {
            if self.bucket.take(now, 0) > now {
                return false;
            }
            self.bucket.take(now, len);
        }
        self.wrote(now, now, request, len);
        true
    }

    fn hold(&mut self, now: Time, request: u64, held: Held) {
        let Some(of) = self.open.get_mut(&request) else { return self.release(held.write, Verdict::Go) };
        of.held.push_back(held);
        if std::mem::take(&mut of.paused) {
            of.again = true;
            self.tell(now, buffer::Event::Again { request });
        }
        self.serve(now, request);
    }

    /// Whether a checkpoint got room that could not be made.
    pub fn lacks_room(&self, request: u64) -> bool {
        self.buffer.is_over() && self.open.get(&request).is_some_and(|of| of.asked > 0 && !of.direct)
    }

    fn prepared(&mut self, now: Time, request: u64) {
        // The copies to be deleted for it are still there: it waits on.
        if self.lacks_room(request) {
            let bytes = self.open.get(&request).map_or(0, |of| of.asked) as f64;
            return self.tell(now, buffer::Event::Back { request, bytes });
        }
        if let Some(of) = self.open.get_mut(&request) {
            of.granted += std::mem::take(&mut of.asked);
            of.going = true;
        }
        self.serve(now, request);
    }

    fn no_room(&mut self, now: Time, request: u64, write: u64, len: u64, waited: Time) {
        if !self.config.full_waits || waited >= self.config.full_wait {
            return self.release(write, Verdict::NoRoom);
        }
        if self.open.get(&request).is_some_and(|of| !of.direct) {
            self.tell(now, buffer::Event::Full { bytes: len as f64 });
        }
        self.release_at(now + AGAIN, write);
    }

    fn end_all(&mut self, verdict: Verdict) {
        for request in self.open.keys().copied().collect::<Vec<_>>() {
            self.forget(request, verdict);
        }
        for write in std::mem::take(&mut self.timed).into_values() {
            self.release(write, verdict);
        }
    }

    fn hand_over(&mut self) {
        self.end_all(Verdict::Go);
        let mut actions = std::mem::take(&mut self.actions);
        actions.retain(|action| matches!(action, Action::Release { .. }));
        *self = Admission { actions, serial: self.serial, ..Admission::new(self.config) };
    }

    /// Handles the passing of time.
    fn tick(&mut self, now: Time) {
        while let Some(entry) = self.timed.first_entry().filter(|entry| entry.key().0 <= now) {
            let write = entry.remove();
            self.release(write, Verdict::Go);
        }
        if let Some(ends) = self.period_ends.filter(|ends| *ends <= now) {
            self.period_ends = Some(ends + self.config.buffer.period);
            self.tell(now, buffer::Event::Period);
        }
        let waits = self.buffer.waiting() > 0;
        let idle = |of: &Request| waits && of.rests() && now >= of.last + IDLE;
        let idle: Vec<u64> = self.open.iter().filter(|(_, of)| idle(of)).map(|(n, _)| *n).collect();
        for request in idle {
            if let Some(of) = self.open.get_mut(&request) {
                (of.paused, of.going) = (true, false);
            }
            self.tell(now, buffer::Event::Paused { request });
        }
        self.tell(now, buffer::Event::Tick);
        let late = |of: &Request| of.held.front().is_some_and(|held| now >= held.since + self.config.full_wait);
        let late: Vec<u64> = self.open.iter().filter(|(_, of)| late(of)).map(|(n, _)| *n).collect();
        late.into_iter().for_each(|request| self.refuse_if_short(now, request));
    }

    /// Records bytes of a checkpoint that are written at `at`.
    fn wrote(&mut self, now: Time, at: Time, request: u64, len: u64) {
        if let Some(of) = self.open.get_mut(&request) {
            of.written += len;
            of.last = at;
        }
        self.tell(now, buffer::Event::Wrote { request, bytes: len as f64 });
    }

    fn forget(&mut self, request: u64, verdict: Verdict) {
        for held in self.open.remove(&request).into_iter().flat_map(|of| of.held) {
            self.release(held.write, verdict);
        }
    }

    fn release(&mut self, write: u64, verdict: Verdict) {
        self.actions.push_back(Action::Release { write, verdict });
    }

    fn release_at(&mut self, at: Time, write: u64) {
        self.serial += 1;
        self.timed.insert((at, self.serial), write);
    }

    /// Releases held writes of a checkpoint while there is room, each at its time.
    fn serve(&mut self, now: Time, request: u64) {
        loop {
            let Some(of) = self.open.get_mut(&request).filter(|of| of.going && !of.paused) else { return };
            let Some(front) = of.held.front() else { return };
            let len = front.len;
            if of.written + len > of.granted {
                if of.asked == 0 {
                    of.asked = len.max(self.piece);
                    of.going = false;
                    let bytes = of.asked as f64;
                    self.tell(now, buffer::Event::More { request, bytes });
                    if !self.config.full_waits {
                        self.refuse_if_short(now, request);
                    }
                }
                return;
            }
            let Some(held) = of.held.pop_front() else { return };
            let at = if of.direct { now } else { self.bucket.take(now, len) };
            if at <= now {
                self.release(held.write, Verdict::Go);
            } else {
                self.release_at(at, held.write);
            }
            self.wrote(now, at, request, len);
        }
    }

    /// Refuses a checkpoint that has its turn and no room.
    fn refuse_if_short(&mut self, now: Time, request: u64) {
        if !self.buffer.is_short(request) {
            return;
        }
        self.tell(now, buffer::Event::Refused { request });
        let Some(of) = self.open.get_mut(&request) else { return };
        (of.asked, of.going) = (0, true);
        for held in std::mem::take(&mut of.held) {
            self.release(held.write, Verdict::NoRoom);
        }
    }

    fn tell(&mut self, now: Time, event: buffer::Event) {
        self.buffer.handle(now, event);
        while let Some(action) = self.buffer.poll() {
            self.pass_on(now, action);
        }
        if self.config.full_waits {
            return;
        }
        let waits = |of: &Request| of.version.is_some() && !of.held.is_empty();
        let waiting: Vec<u64> = self.open.iter().filter(|(_, of)| waits(of)).map(|(n, _)| *n).collect();
        waiting.into_iter().for_each(|request| self.refuse_if_short(now, request));
    }

    fn pass_on(&mut self, now: Time, action: buffer::Action) {
        match action {
            buffer::Action::Go { request } => return self.actions.push_back(Action::Prepare { request }),
            buffer::Action::Turn { request, version, direct } => {
                self.actions.push_back(Action::Buffer(action));
                let Some(of) = self.open.get_mut(&request) else { return };
                (of.version, of.direct) = (Some(version), direct);
                // The checkpoint has the requested room, which may be 0.
                if std::mem::take(&mut of.again) {
                    of.going = true;
                    self.actions.push_back(Action::Prepare { request });
                }
                return;
            }
            buffer::Action::Rates(rates) => {
                self.rates = rates;
                let rate = (rates.write < NO_LIMIT).then_some(rates.write as u64);
                self.bucket.set_rate(now, rate);
            }
            _ => {}
        }
        self.actions.push_back(Action::Buffer(action));
    }
}

impl Machine for Admission {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        use buffer::Event as Of;
        self.period_ends.get_or_insert(now + self.config.buffer.period);
        match event {
            Event::Hold { request, write, len } => self.hold(now, request, Held { write, len, since: now }),
            Event::Prepared { request } => self.prepared(now, request),
            Event::NoRoom { request, write, len, waited } => self.no_room(now, request, write, len, waited),
            Event::Close => self.end_all(Verdict::Closed),
            Event::HandOver => self.hand_over(),
            Event::Buffer(of @ Of::Arrive { request, bytes, .. }) => {
                let asked = bytes as u64;
                self.open.insert(request, Request { since: now, asked, last: now, ..Request::default() });
                self.tell(now, of);
            }
            Event::Buffer(of @ (Of::Committed { request, .. } | Of::Abandoned { request })) => {
                self.forget(request, Verdict::Go);
                self.tell(now, of);
            }
            Event::Buffer(Of::Tick) => self.tick(now),
            Event::Buffer(of) => self.tell(now, of),
        }
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        let timed = self.timed.first_key_value().map(|((at, _), _)| *at);
        let waits = self.buffer.waiting() > 0;
        let idle = self.open.values().filter(|of| waits && of.rests()).map(|of| of.last + IDLE);
        let short = self.open.iter().filter(|(request, _)| self.buffer.is_short(**request));
        let late = short.filter_map(|(_, of)| of.held.front()).map(|held| held.since + self.config.full_wait);
        let known = [timed, self.period_ends, self.buffer.next_deadline()];
        known.into_iter().flatten().chain(idle).chain(late).min()
    }
}

#[cfg(test)]
mod tests;
