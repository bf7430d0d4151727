//! Moves and slow copies in steps that give way to requests (`policy::tier::yielding`), as the live carriers make them: a step is read from the
//! one device and written to the other before the next begins.

use super::{Happening, Job, World};
use crate::event::Rank;
use policy::tier::machine::Event;
use policy::tier::yielding::{Turn, Yielding};
use policy::tier::{Region, Tier};
use policy::time::Time;

/// What is left of a move or a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    /// Bytes whose step has not begun.
    left: u64,
    /// Bytes of the step under way.
    step: u64,
    /// Bytes of a step.
    step_bytes: u64,
    yielding: Yielding,
}

impl World<'_> {
    /// A whole location is moved or copied so.
    pub(super) fn stepwise(&mut self, now: Time, at: u32, (yielding, step_bytes): (Yielding, u64)) {
        self.steps.insert(at, Steps { left: self.setup.block_bytes, step: 0, step_bytes, yielding });
        self.next_step(now, at);
    }

    /// Bytes that a move or copy reads and then writes now.
    pub(super) fn step_bytes(&self, at: u32) -> u64 {
        self.steps.get(&at).map_or(self.setup.block_bytes, |steps| steps.step)
    }

    /// A step is done: whether it was not the last one.
    pub(super) fn step_done(&mut self, now: Time, at: u32) -> bool {
        match self.steps.get(&at) {
            Some(steps) if steps.left > 0 => {
                self.next_step(now, at);
                true
            }
            _ => {
                self.steps.remove(&at);
                false
            }
        }
    }

    /// The next step, now or when the devices have been left alone.
    pub(super) fn next_step(&mut self, now: Time, at: u32) {
        let used = self.used;
        let Some(steps) = self.steps.get_mut(&at) else { return };
        match steps.yielding.next(now, used) {
            Turn::Wait(until) => self.events.push(until, Rank::Timer, Happening::Step(at)),
            Turn::Go => {
                steps.step = steps.step_bytes.min(steps.left);
                steps.left -= steps.step;
                let bytes = steps.step;
                self.moved_bytes += bytes;
                let (from, job) = match self.moving.get(&at) {
                    Some((of, _)) => (self.device(at, of.to.other()), Job::MoveRead { at }),
                    None => (self.device(at, Tier::Fast), Job::CopyRead { at }),
                };
                let from = self.place[at as usize].unwrap_or(from);
                self.queue(now, from, job, Region::Read, bytes);
            }
            Turn::GiveUp => {
                self.steps.remove(&at);
                match self.moving.remove(&at) {
                    Some((of, _)) => self.tell(now, Event::Failed { location: of.location }),
                    None => self.give_copy_up(now, at),
                }
            }
        }
    }
}
