//! The desk: where checkpoints ask to be written. Holds writes until their application has its turn, its room and its share of the speed.
//!
//! Drives [`policy::burst::buffer::Buffer`]; knows no files and no threads. Time comes in from outside, and what is to be done
//! goes out as [`Effect`]s, in order.

use crate::file::Resume;
use crate::volume::Burst as Settings;
use crate::{Error, Result};
use policy::Time;
use policy::burst::buffer::{Action, Buffer, Event, Logged};
use policy::burst::control::Rates;
use policy::burst::queue::App;
use policy::burst::tables::{Demotion, Version};
use policy::machine::Machine;
use policy::throttle::Throttle;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};

/// Room is asked for in pieces of at most this, and at most a 64th of the buffer, by who writes more than it said, or said nothing. A guess.
const PIECE_BYTES: u64 = 64 << 20;
const PIECE_SHARE: u64 = 64;
/// Bytes that may be written at once before the bucket bites. One write of the kernel.
const BURST_BYTES: u64 = 1 << 20;
/// Who has its turn and writes nothing for so long lets others write. A guess: longer than a pause between two files.
const IDLE: Time = Time::from_secs(2);
/// From a write for which the devices had no room to the next attempt. A guess: as often as their space is looked at.
const AGAIN: Time = Time::from_millis(250);
/// Rates above this are no limit.
const NO_LIMIT: f64 = 1e12;

/// What is to be done, in the order in which it is said.
pub enum Effect {
    /// Let a write go on, or fail.
    Resume(Resume, Result<()>),
    /// Make the files of a checkpoint ready to be written on its tier; then say [`Desk::prepared`].
    Prepare(u64),
    /// Copy to the capacity tier; then say [`Desk::demoted`] or [`Desk::demotion_failed`].
    Demote(Demotion),
    /// Delete the copy in the buffer, of so many bytes; say [`Desk::drop_failed`] if it cannot go.
    Drop(Version, u64),
    /// Copy to the replica group; then say [`Desk::replicated`].
    Replicate(Version),
    /// Copy to the replica group so fast.
    ReplicaRate(f64),
    /// An application restarted; whether its newest version was in the buffer.
    Restarted(bool),
    /// Write and demote so fast.
    Rates(Rates),
}

/// A write that waits.
struct Held {
    len: u64,
    since: Time,
    resume: Resume,
}

/// A checkpoint that is being written.
pub struct Request {
    /// Whose.
    pub app: App,
    /// Its version, once it had its turn.
    pub version: Option<Version>,
    /// Whether it goes straight to the capacity tier.
    pub direct: bool,
    /// Since when.
    pub since: Time,
    /// Bytes written so far.
    pub written: u64,
    granted: u64,
    asked: u64,
    going: bool,
    paused: bool,
    /// It paused, and asked for its turn again.
    again: bool,
    last: Time,
    held: VecDeque<Held>,
}

/// The desk.
pub struct Desk {
    buffer: Buffer,
    full_waits: bool,
    full_wait: Time,
    period: Time,
    period_ends: Option<Time>,
    open: BTreeMap<u64, Request>,
    next_request: u64,
    bucket: Throttle,
    timed: BTreeMap<(Time, u64), Resume>,
    serial: u64,
    piece: u64,
    rates: Rates,
    effects: VecDeque<Effect>,
}

impl Desk {
    /// An empty desk over a buffer of so many bytes.
    pub fn new(settings: &Settings, capacity: u64) -> Desk {
        let mut config = settings.buffer;
        config.device.capacity = capacity as f64;
        Desk {
            buffer: Buffer::new(config),
            full_waits: settings.full_waits,
            full_wait: Time(settings.full_wait.as_nanos() as u64),
            period: config.period,
            period_ends: None,
            open: BTreeMap::new(),
            next_request: 0,
            bucket: Throttle::new(None, BURST_BYTES, Time::ZERO),
            timed: BTreeMap::new(),
            serial: 0,
            piece: PIECE_BYTES.min(capacity / PIECE_SHARE),
            rates: Rates { write: config.device.write_max, demote: config.device.demote_idle },
            effects: VecDeque::new(),
        }
    }

    /// The buffer, for what it knows.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The buffer, to tell it what an earlier life knew.
    pub fn buffer_mut(&mut self) -> &mut Buffer {
        &mut self.buffer
    }

    /// The rates in force.
    pub fn rates(&self) -> Rates {
        self.rates
    }

    /// A checkpoint on its way.
    pub fn request(&self, request: u64) -> Option<&Request> {
        self.open.get(&request)
    }

    /// All checkpoints on their way.
    pub fn requests(&self) -> impl Iterator<Item = (u64, &Request)> {
        self.open.iter().map(|(n, of)| (*n, of))
    }

    /// Writes that are held.
    pub fn held(&self) -> usize {
        self.open.values().map(|of| of.held.len()).sum::<usize>() + self.timed.len()
    }

    /// The next thing to do; ask until `None`.
    pub fn effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// An application begins a checkpoint of about so many bytes (0: nobody knows).
    pub fn arrive(&mut self, now: Time, app: App, bytes: u64) -> u64 {
        self.next_request += 1;
        let request = self.next_request;
        let fresh = Request {
            app,
            version: None,
            direct: false,
            since: now,
            written: 0,
            granted: 0,
            asked: bytes,
            going: false,
            paused: false,
            again: false,
            last: now,
            held: VecDeque::new(),
        };
        self.open.insert(request, fresh);
        self.tell(now, Event::Arrive { app, request, bytes: bytes as f64 });
        request
    }

    /// Whether a write may go on at once; if so it counts.
    pub fn may_write(&mut self, now: Time, request: u64, len: u64) -> bool {
        let Some(of) = self.open.get_mut(&request) else { return true };
        if !of.going || of.paused || !of.held.is_empty() || of.written + len > of.granted {
            return false;
        }
        if self.bucket.take(now, 0) > now {
            return false;
        }
        self.bucket.take(now, len);
        self.wrote(now, request, len as f64);
        true
    }

    /// Holds a write until it may go on.
    pub fn hold(&mut self, now: Time, request: u64, len: u64, resume: Resume) {
        let Some(of) = self.open.get_mut(&request) else {
            return self.effects.push_back(Effect::Resume(resume, Ok(())));
        };
        of.held.push_back(Held { len, since: now, resume });
        if std::mem::take(&mut of.paused) {
            of.again = true;
            self.tell(now, Event::Again { request });
        }
        self.serve(now, request);
    }

    /// Its files are ready.
    pub fn prepared(&mut self, now: Time, request: u64) {
        // What was to leave for it did not: it waits on.
        if let Some(of) = self.open.get(&request).filter(|of| of.asked > 0 && !of.direct)
            && self.buffer.is_over()
        {
            let bytes = of.asked as f64;
            self.tell(now, Event::Back { request, bytes });
            return;
        }
        if let Some(of) = self.open.get_mut(&request) {
            of.granted += std::mem::take(&mut of.asked);
            of.going = true;
        }
        self.serve(now, request);
    }

    /// It is complete and durable, with so many bytes.
    pub fn committed(&mut self, now: Time, request: u64, bytes: u64) {
        self.forget(request, || Ok(()));
        self.tell(now, Event::Committed { request, bytes: bytes as f64 });
    }

    /// It will never be complete.
    pub fn abandoned(&mut self, now: Time, request: u64) {
        self.forget(request, || Ok(()));
        self.tell(now, Event::Abandoned { request });
    }

    /// The demotion under way is complete.
    pub fn demoted(&mut self, now: Time) {
        self.tell(now, Event::Demoted);
    }

    /// The demotion under way was given up.
    pub fn demotion_failed(&mut self, now: Time) {
        self.tell(now, Event::DemotionFailed);
    }

    /// The copy to the replica group ended.
    pub fn replicated(&mut self, now: Time, ok: bool) {
        self.tell(now, if ok { Event::Replicated } else { Event::ReplicaFailed });
    }

    /// The copy of a version in the buffer could not be deleted.
    pub fn drop_failed(&mut self, now: Time, version: Version, bytes: u64) {
        self.tell(now, Event::DropFailed { version, bytes });
    }

    /// Whether something of the capacity tier takes new data, and nothing of it has failed.
    pub fn capacity(&mut self, now: Time, usable: bool, whole: bool) {
        self.tell(now, Event::Capacity { usable, whole });
    }

    /// The devices had no room for a write that the buffer had room for; it has waited for so long. It is tried again, or fails.
    pub fn no_room(&mut self, now: Time, request: u64, len: u64, waited: Time, resume: Resume) {
        if !self.full_waits || waited >= self.full_wait {
            return self.effects.push_back(Effect::Resume(resume, Err(Error::Namespace(Errno::NOSPC))));
        }
        if self.open.get(&request).is_some_and(|of| !of.direct) {
            self.tell(now, Event::Full { bytes: len as f64 });
        }
        self.serial += 1;
        self.timed.insert((now + AGAIN, self.serial), resume);
    }

    /// An application restarts.
    pub fn restarted(&mut self, now: Time, app: App) {
        self.tell(now, Event::Restarted { app });
    }

    /// How long an application runs between failures.
    pub fn mtbf(&mut self, now: Time, app: App, mtbf_s: u64) {
        self.tell(now, Event::Mtbf { app, mtbf_s });
    }

    /// An application writes a checkpoint every so many seconds, says its owner.
    pub fn interval(&mut self, now: Time, app: App, interval_s: u64) {
        self.tell(now, Event::Interval { app, interval_s });
    }

    /// The buffer's devices have so much free space.
    pub fn free(&mut self, now: Time, bytes: f64) {
        self.tell(now, Event::Free { bytes });
    }

    /// A version was removed by its owner.
    pub fn removed(&mut self, now: Time, version: Version) {
        self.tell(now, Event::Removed { version });
    }

    /// A period begins.
    pub fn period(&mut self, now: Time) {
        self.tell(now, Event::Period);
    }

    /// Time has passed: who waited long enough goes on, or fails.
    pub fn tick(&mut self, now: Time) {
        while let Some(entry) = self.timed.first_entry().filter(|entry| entry.key().0 <= now) {
            self.effects.push_back(Effect::Resume(entry.remove(), Ok(())));
        }
        let ends = *self.period_ends.get_or_insert(now + self.period);
        if now >= ends {
            self.period_ends = Some(ends + self.period);
            self.period(now);
        }
        let rest = |of: &Request| of.version.is_some() && !of.paused && of.held.is_empty();
        let idle = |of: &Request| of.going && rest(of) && now.since(of.last) > IDLE;
        let waits = self.buffer.waiting() > 0;
        let idle: Vec<u64> = self.open.iter().filter(|(_, of)| waits && idle(of)).map(|(n, _)| *n).collect();
        for request in idle {
            if let Some(of) = self.open.get_mut(&request) {
                (of.paused, of.going) = (true, false);
            }
            self.tell(now, Event::Paused { request });
        }
        self.tell(now, Event::Tick);
        let late = |of: &Request| of.held.front().is_some_and(|held| now.since(held.since) >= self.full_wait);
        let late: Vec<u64> = self.open.iter().filter(|(_, of)| late(of)).map(|(n, _)| *n).collect();
        late.into_iter().for_each(|request| self.refuse_if_short(now, request));
    }

    /// When [`Desk::tick`] is due next at the latest.
    pub fn next_deadline(&self, now: Time) -> Time {
        let busy = !self.open.is_empty() || self.buffer.tables().in_buffer().1 > 0;
        let look = now + if busy { Time::from_millis(50) } else { Time::from_secs(1) };
        self.timed.first_key_value().map_or(look, |((at, _), _)| look.min(*at))
    }

    /// Fails everything that is held, for the end.
    pub fn close(&mut self) {
        let error = || Err(Error::Busy("the volume is going down".into()));
        for request in self.open.keys().copied().collect::<Vec<_>>() {
            self.forget(request, error);
        }
        for resume in std::mem::take(&mut self.timed).into_values() {
            self.effects.push_back(Effect::Resume(resume, error()));
        }
    }

    /// Keeps what goes in and comes out of the buffer.
    pub fn start_log(&mut self) {
        self.buffer.start_log();
    }

    /// What was kept.
    pub fn log(&self) -> &[Logged] {
        self.buffer.log()
    }

    /// So many bytes of a checkpoint were written.
    pub fn wrote(&mut self, now: Time, request: u64, bytes: f64) {
        if let Some(of) = self.open.get_mut(&request) {
            of.written += bytes as u64;
            of.last = now;
        }
        self.tell(now, Event::Wrote { request, bytes });
    }

    fn forget(&mut self, request: u64, verdict: impl Fn() -> Result<()>) {
        let Some(of) = self.open.remove(&request) else { return };
        self.effects.extend(of.held.into_iter().map(|held| Effect::Resume(held.resume, verdict())));
    }

    /// Lets held writes of a checkpoint go on as far as there is room, each in its time.
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
                    self.tell(now, Event::More { request, bytes });
                    if !self.full_waits {
                        self.refuse_if_short(now, request);
                    }
                }
                return;
            }
            let Some(held) = of.held.pop_front() else { return };
            let at = self.bucket.take(now, len);
            if at <= now {
                self.effects.push_back(Effect::Resume(held.resume, Ok(())));
            } else {
                self.serial += 1;
                self.timed.insert((at, self.serial), held.resume);
            }
            self.wrote(now, request, len as f64);
        }
    }

    /// Who has its turn and no room gets `ENOSPC`.
    fn refuse_if_short(&mut self, now: Time, request: u64) {
        if !self.buffer.is_short(request) {
            return;
        }
        self.tell(now, Event::Refused { request });
        let Some(of) = self.open.get_mut(&request) else { return };
        (of.asked, of.going) = (0, true);
        for held in std::mem::take(&mut of.held) {
            self.effects.push_back(Effect::Resume(held.resume, Err(Error::Namespace(Errno::NOSPC))));
        }
    }

    fn tell(&mut self, now: Time, event: Event) {
        self.buffer.handle(now, event);
        while let Some(action) = self.buffer.poll() {
            match action {
                Action::Turn { request, version, direct } => {
                    if let Some(of) = self.open.get_mut(&request) {
                        (of.version, of.direct) = (Some(version), direct);
                        // It has what it asked for, which may be nothing.
                        if std::mem::take(&mut of.again) {
                            of.going = true;
                            self.effects.push_back(Effect::Prepare(request));
                        }
                    }
                }
                Action::Go { request } => self.effects.push_back(Effect::Prepare(request)),
                Action::Demote(demotion) => self.effects.push_back(Effect::Demote(demotion)),
                Action::Drop { version, bytes } => self.effects.push_back(Effect::Drop(version, bytes)),
                Action::Replicate { version } => self.effects.push_back(Effect::Replicate(version)),
                Action::ReplicaRate(rate) => self.effects.push_back(Effect::ReplicaRate(rate)),
                Action::Restart { hit, .. } => self.effects.push_back(Effect::Restarted(hit)),
                Action::Rates(rates) => {
                    self.rates = rates;
                    let rate = (rates.write < NO_LIMIT).then_some(rates.write as u64);
                    self.bucket.set_rate(now, rate);
                    self.effects.push_back(Effect::Rates(rates));
                }
            }
        }
        let short = |of: &Request| !self.full_waits && of.version.is_some() && !of.held.is_empty();
        let short: Vec<u64> = self.open.iter().filter(|(_, of)| short(of)).map(|(n, _)| *n).collect();
        for request in short.into_iter().filter(|request| self.buffer.is_short(*request)).collect::<Vec<_>>() {
            self.refuse_if_short(now, request);
        }
    }
}

#[cfg(test)]
mod tests;
