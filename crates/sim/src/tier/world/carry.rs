//! Moves and slow copies: a location is read from one device and then written to another, queued with everything else.
//!
//! It is carried at once, or in steps that give way to requests (`policy::tier::yielding`), as the live carriers do it. What is written
//! to a location meanwhile is written once more at the end of a move; a copy is given up for it after the step under way.

use super::{Happening, Job, World};
use crate::event::Rank;
use crate::steps::Steps;
use policy::tier::machine::{Action, Event, Reorganizer};
use policy::tier::yielding::Turn;
use policy::tier::{Location, Region, Tier};
use policy::time::Time;

/// What is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub at: u32,
    /// Whether it is copied, or else moved.
    pub copy: bool,
}

/// A move or a slow copy under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carry {
    pub to: Tier,
    /// Bytes written to the location meanwhile, and whether these were written once more.
    pub written: u64,
    caught_up: bool,
    /// Bytes of the step under way, and those to come.
    step: u64,
    steps: Steps,
}

impl World<'_> {
    /// The machine wants a location moved or copied.
    pub(super) fn begin(&mut self, now: Time, action: &Action) {
        let (location, copy, to) = match *action {
            Action::Move(of) => (of.location, false, of.to),
            Action::Copy(location) => (location, true, Tier::Slow),
        };
        let known = self.requests.number_of(location);
        let Some((at, from)) = known.and_then(|at| Some((at, self.place[at as usize]?))) else {
            return self.tell(now, Event::Failed { location });
        };
        let (name, block) = (Name { at, copy }, self.setup.block_bytes);
        let at_hand = self.at_hand.get(&at).filter(|_| !copy).copied().unwrap_or(0);
        let rest = block.saturating_sub(at_hand);
        let pace = self.machine.as_ref().and_then(|machine: &Reorganizer| machine.yielding(action));
        let pace = pace.filter(|_| rest == block);
        let steps = Steps::new(if pace.is_some() { block } else { 0 }, pace, block);
        self.carries.insert(name, Carry { to, written: 0, caught_up: false, step: block, steps });
        if self.setup.free_moves || !copy && to == Tier::Slow && self.copies.held.contains(&at) {
            self.carried(now, name);
        } else if pace.is_some() {
            self.next_step(now, name);
        } else if rest > 0 {
            self.read(now, name, if copy { self.device(at, Tier::Fast) } else { from }, rest);
        } else {
            self.write(now, name, to, block);
        }
    }

    fn read(&mut self, now: Time, name: Name, from: usize, bytes: u64) {
        self.counts.moved_bytes += bytes;
        self.queue(now, from, Job::Read(name), Region::Read, bytes);
    }

    fn write(&mut self, now: Time, name: Name, to: Tier, bytes: u64) {
        self.counts.moved_bytes += bytes;
        // What is written twice is one location at most.
        let bytes = bytes.min(self.setup.block_bytes);
        self.queue(now, self.device(name.at, to), Job::Write(name), Region::Write, bytes);
    }

    /// The bytes of a step were read.
    pub(super) fn was_read(&mut self, now: Time, name: Name) {
        match self.carries.get(&name).copied() {
            Some(of) if name.copy && of.written > 0 => self.give_up(now, name),
            Some(of) => self.write(now, name, of.to, of.step),
            None => {}
        }
    }

    /// And written.
    pub(super) fn was_written(&mut self, now: Time, name: Name) {
        let Some(of) = self.carries.get_mut(&name) else { return };
        if !of.steps.is_done() {
            return self.next_step(now, name);
        }
        if of.written == 0 || name.copy || std::mem::replace(&mut of.caught_up, true) {
            return self.carried(now, name);
        }
        let (to, written) = (of.to, of.written);
        self.write(now, name, to, written);
    }

    /// The next step, now or when the devices have been left alone.
    pub(super) fn next_step(&mut self, now: Time, name: Name) {
        let used = self.used;
        let Some(of) = self.carries.get_mut(&name).filter(|of| !of.steps.is_done()) else { return };
        match of.steps.next(now, used) {
            (Turn::Wait(until), _) => self.events.push(until, Rank::Timer, Happening::Step(name)),
            (Turn::Go, bytes) => {
                of.step = bytes;
                let from = of.to.other();
                let from = self.place[name.at as usize].unwrap_or(self.device(name.at, from));
                self.read(now, name, from, bytes);
            }
            (Turn::GiveUp, _) => self.give_up(now, name),
        }
    }

    /// All bytes are there.
    fn carried(&mut self, now: Time, name: Name) {
        let Name { at, copy } = name;
        if copy && self.carries.get(&name).is_some_and(|of| of.written > 0) {
            return self.give_up(now, name);
        }
        let Some(of) = self.carries.remove(&name) else { return };
        let location = self.location(at);
        if copy {
            self.hold(at);
            self.tell(now, Event::Copied { location });
            return self.look_at_space(now);
        }
        self.lie[of.to as usize] += 1;
        self.lie[of.to.other() as usize] -= 1;
        match of.to {
            Tier::Fast if self.copies.kept && of.written == 0 => self.hold(at),
            Tier::Fast => {}
            Tier::Slow => _ = self.copies.held.remove(&at),
        }
        self.place[at as usize] = Some(self.device(at, of.to));
        self.forget_cached(now, location);
        self.tell(now, Event::Moved { location });
        self.look_at_space(now);
    }

    fn give_up(&mut self, now: Time, name: Name) {
        self.carries.remove(&name);
        self.tell(now, Event::Failed { location: self.location(name.at) });
        if name.copy {
            self.look_at_space(now);
        }
    }

    /// So much of a location is written by a request.
    pub(super) fn overwritten(&mut self, at: u32, bytes: u64) {
        self.copies.held.remove(&at);
        for copy in [false, true] {
            self.carries.entry(Name { at, copy }).and_modify(|of| of.written += bytes);
        }
    }

    /// Locations on their way to the fast tier.
    pub(super) fn coming(&self) -> u64 {
        self.carries.values().filter(|of| of.to == Tier::Fast).count() as u64
    }

    pub(super) fn location(&self, at: u32) -> Location {
        self.requests.locations()[at as usize]
    }
}
