//! Segments on their way between the tiers, moved or copied: read and then written, step by step.

use super::carry::Edit;
use super::files::{File, add_parts};
use super::world::{Happening, World};
use crate::event::Rank;
use policy::layout::{Mirror, Object};
use policy::stripe::forks::Shape;
use policy::tier::Tier;
use policy::tier::yielding::Turn;
use policy::volume::Ticket;

impl World<'_> {
    /// Returns the first mirror of a file with one segment on the other tier, and the segment's range.
    pub(super) fn elsewhere(&mut self, file: &File, segment: u64, to: Tier) -> Option<(Mirror, (u64, u64))> {
        let mut mirror = file.mirrors.first()?.1.clone();
        let of = mirror.segments.get_mut(segment as usize)?;
        let shape = Shape { devices: of.objects.len() as u32, unit_bytes: of.stripe_size };
        let range = (of.start, of.end);
        *of = self.maker.segment(&mut self.targets, range, shape, to as u8, &[])?;
        Some((mirror, (range.0, range.1.min(file.bytes))))
    }

    /// Reads bytes of a segment, and writes them once they are read. Data written during a move are copied again at
    /// its end; a write ends a copy.
    pub(super) fn step_of_segment(&mut self, ticket: Ticket) {
        let (now, used) = (self.now, self.used);
        let Some(carry) = self.carries.get_mut(&ticket) else { return };
        let copy = matches!(carry.edit, Edit::Copy(_));
        if copy && carry.written > 0 {
            return self.fail(ticket);
        }
        if let Some((at, len)) = carry.read.take() {
            return self.write_segment(ticket, at, len);
        }
        if carry.steps.is_done() {
            let again = carry.written > 0 && !std::mem::replace(&mut carry.caught_up, true);
            let (Edit::Segment(at) | Edit::Copy(at)) = carry.edit else { return };
            let segment = &carry.to.segments[at];
            let (start, len) = (segment.start, carry.written.min(segment.end - segment.start));
            return if again { self.write_segment(ticket, start, len) } else { self.finish(ticket) };
        }
        let at_hand = self.playing.as_ref().map_or(0, |playing| playing.at_hand(carry.change.file));
        let at_hand = if copy || carry.at > 0 { 0 } else { at_hand };
        let len = match if at_hand > 0 { carry.steps.next_at_once() } else { carry.steps.next(now, used) } {
            (Turn::Go, len) => len,
            (Turn::Wait(until), _) => return self.events.push(until, Rank::Timer, Happening::Step(ticket)),
            (Turn::GiveUp, _) => return self.fail(ticket),
        };
        let at = carry.at;
        (carry.at, carry.read) = (at + len, Some((at, len)));
        let file = &self.files[&carry.change.file];
        let Some(from) = file.intact().next() else { return self.fail(ticket) };
        let mut parts = Vec::new();
        let rest = len.saturating_sub(at_hand);
        if rest > 0 {
            add_parts(&mut parts, &file.mirrors[from].1, at, rest);
        }
        self.carry_parts(ticket, parts, false);
    }

    fn write_segment(&mut self, ticket: Ticket, at: u64, len: u64) {
        let Some(carry) = self.carries.get_mut(&ticket) else { return };
        let mut parts = Vec::new();
        add_parts(&mut parts, &carry.to, at, len);
        carry.bytes += len;
        self.carry_parts(ticket, parts, true);
    }

    /// Reads or writes these parts, and continues the change after that.
    fn carry_parts(&mut self, ticket: Ticket, parts: Vec<(Object, u64)>, write: bool) {
        let moved = parts.iter().map(|(_, bytes)| bytes).sum();
        self.playing.iter_mut().for_each(|playing| playing.moved(moved));
        let done = self.serve_change(ticket, parts, write);
        self.events.push(done, Rank::Completion, Happening::Step(ticket));
    }
}
