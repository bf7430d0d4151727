//! Layout changes under way: bytes are copied step by step beside the applications' requests, then the layout is
//! changed at once.

use super::files::{File, Placed, add_parts, objects, objects_of_segment};
use super::targets::Origin;
use super::world::{Happening, World};
use crate::event::Rank;
use crate::steps::Steps;
use policy::layout::{Mirror, Object, ObjectState, Position};
use policy::stripe::forks::Shape;
use policy::tier::Tier;
use policy::tier::yielding::Turn;
use policy::volume::{Change, Event, Outcome, Purpose, Ticket, Verb};
use policy::{FileId, ObjectId, TargetId, Time};
use std::collections::BTreeSet;

/// Limits of a copy step, unless the machine sets it: a row of stripes of the source, as the mover copies.
const STEP_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=4 << 20;
/// Steps of a copy at most, and the largest step for that: a day of large checkpoints has to end.
const STEPS_MAX: u64 = 1024;
const STEP_BYTES_MAX: u64 = 32 << 20;
/// Time until the next look at a copy whose rate is 0: it stands still.
const STALLED: Time = Time::from_millis(20);
/// Rate of an external source, in bytes per second.
const SOURCE_RATE: f64 = 200e6;

/// A change under way.
#[derive(Debug)]
pub(super) struct Carry {
    pub(super) change: Change,
    pub(super) edit: Edit,
    pub(super) to: Mirror,
    /// New objects of the change.
    fresh: BTreeSet<ObjectId>,
    /// Space reserved for them, with the number of the target's failures at that time.
    pub(super) taken: Vec<(TargetId, u64, u64)>,
    pub(super) at: u64,
    pub(super) steps: Steps,
    /// Part that was read, to be written next.
    pub(super) read: Option<(u64, u64)>,
    /// Earliest end of the current step, by the rate of the change.
    due: Time,
    /// Bytes that applications wrote to the segment during the move; `caught_up` once these were copied again.
    pub(super) written: u64,
    pub(super) caught_up: bool,
    pub(super) bytes: u64,
    began: Time,
}

/// Edit of the layout that ends a change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edit {
    Push(Purpose),
    Swap(usize),
    Segment(usize),
    Objects(usize),
    /// No edit: the copy of a segment.
    Copy(usize),
}

impl Carry {
    /// Records an application's write to a segment.
    pub(super) fn overwritten(&mut self, segment: u64, bytes: u64) {
        if let Edit::Segment(at) | Edit::Copy(at) = self.edit
            && at as u64 == segment
        {
            self.written += bytes;
        }
    }
}

/// Returns the size of a step that copies `left` bytes of a file.
fn step_bytes(file: &File, left: u64) -> u64 {
    let row = file.mirrors.first().and_then(|(_, mirror)| mirror.segments.first());
    let row = row.map_or(0, |segment| segment.stripe_size.saturating_mul(segment.objects.len() as u64));
    row.clamp(*STEP_BYTES.start(), *STEP_BYTES.end()).max((left / STEPS_MAX).min(STEP_BYTES_MAX))
}

/// Returns offset and length of each piece of a range of the file that lies in a new object.
fn fresh_pieces(to: &Mirror, fresh: &BTreeSet<ObjectId>, at: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
    let object = |at: Position| &to.segments[at.segment].objects[at.index];
    let pieces = to.pieces(0, at, len).filter(move |piece| fresh.contains(&object(piece.at).id));
    pieces.map(|piece| (piece.file_offset, piece.len))
}

impl World<'_> {
    pub(super) fn begin(&mut self, change: Change) {
        let purpose_of = |mirror: usize| Some(self.files.get(&change.file)?.mirrors.get(mirror)?.0);
        let purpose = match change.verb {
            Verb::AddMirror { purpose, .. } => Some(purpose),
            Verb::DropMirror(mirror) | Verb::Restripe { mirror, .. } => purpose_of(mirror),
            Verb::MoveSegment { .. } | Verb::CopySegment { .. } => None,
            Verb::ReplaceTargets { .. } | Verb::ReplaceTarget { .. } | Verb::Swap { .. } => None,
        };
        self.watch.begun(&change, purpose);
        match change.verb {
            Verb::DropMirror(mirror) => return self.drop_mirror(&change, mirror),
            Verb::MoveSegment { segment, to: Tier::Slow } if self.leaves_for_its_copy(&change, segment) => return,
            Verb::Swap { replica, target } => return self.swap(&change, replica, target),
            _ => {}
        }
        let Some((edit, to, range)) = self.planned(&change) else { return self.done(change.ticket, Outcome::Failed) };
        let file = &self.files[&change.file];
        let old: BTreeSet<ObjectId> = file
            .mirrors
            .iter()
            .flat_map(|(_, mirror)| objects(mirror, file.bytes))
            .map(|(_, object, _)| object.id)
            .collect();
        let fresh: Vec<Placed> = objects(&to, file.bytes).filter(|(_, object, _)| !old.contains(&object.id)).collect();
        if !self.targets.take_all(&fresh) {
            return self.done(change.ticket, Outcome::Failed);
        }
        let failures = |target: TargetId| self.targets.all[usize::from(target.0)].failures;
        let taken = fresh.iter().map(|(_, object, len)| (object.target, *len, failures(object.target))).collect();
        let fresh = fresh.into_iter().map(|(_, object, _)| object.id).collect();
        let (at, end) = range;
        let flows = purpose == Some(Purpose::Demoted) && self.begins_to_flow(change.ticket, end);
        let (left, bytes) = if flows || self.setup.free_copies { (0, end) } else { (end - at, 0) };
        let steps = Steps::new(left, change.pace, step_bytes(&self.files[&change.file], left));
        self.changes += 1;
        let (read, written, caught_up, due, began) = (None, 0, false, self.now, self.now);
        let carry = Carry { change, edit, to, fresh, taken, at, steps, read, due, written, caught_up, bytes, began };
        self.carries.insert(change.ticket, carry);
        if !flows {
            self.events.push(self.now, Rank::Timer, Happening::Step(change.ticket));
        }
    }

    /// Plans a change: the edit, the future mirror, and the range of the file that is copied.
    fn planned(&mut self, change: &Change) -> Option<(Edit, Mirror, (u64, u64))> {
        let file = self.files.get(&change.file)?.clone();
        let all = (0, file.bytes);
        match change.verb {
            Verb::AddMirror { purpose, shape } => {
                let (_, first) = file.mirrors.first()?;
                let below = matches!(purpose, Purpose::Demoted | Purpose::Group);
                let usual = Shape { devices: self.setup.stripe_count.max(1), unit_bytes: self.setup.stripe_bytes };
                let like = || if below { usual } else { Shape::of(first, file.bytes) };
                let shape = shape.unwrap_or_else(like);
                let protects = matches!(purpose, Purpose::Replica | Purpose::Group);
                let avoid = if protects { file.targets() } else { Vec::new() };
                let cuts = self.cuts(first, below.then_some(1));
                let to = self.maker.mirror(&mut self.targets, &cuts, shape, &avoid)?;
                Some((Edit::Push(purpose), to, all))
            }
            Verb::Restripe { mirror, to } => {
                let cuts = self.cuts(&file.mirrors.get(mirror)?.1, None);
                let to = self.maker.mirror(&mut self.targets, &cuts, to, &[])?;
                Some((Edit::Swap(mirror), to, all))
            }
            Verb::MoveSegment { segment, to } => {
                let (mirror, range) = self.elsewhere(&file, segment, to)?;
                Some((Edit::Segment(segment as usize), mirror, range))
            }
            Verb::CopySegment(segment) => {
                let (mirror, range) = self.elsewhere(&file, segment, Tier::Slow)?;
                Some((Edit::Copy(segment as usize), mirror, range))
            }
            Verb::ReplaceTargets(mirror) => {
                let to = self.mended(&file, mirror)?;
                Some((Edit::Objects(mirror), to, all))
            }
            Verb::ReplaceTarget(target) => {
                let lost = |(_, mirror): &(Purpose, Mirror)| lies_lost_on(mirror, target);
                let mirror = file.mirrors.iter().position(lost)?;
                Some((Edit::Objects(mirror), self.mended(&file, mirror)?, all))
            }
            Verb::DropMirror { .. } | Verb::Swap { .. } => None,
        }
    }

    /// Returns the start, end and tier of each segment of a mirror.
    fn cuts(&mut self, mirror: &Mirror, tier: Option<u8>) -> Vec<(u64, u64, u8)> {
        let mut of = |target| self.targets.of(target).tier;
        let cut = |segment: &policy::layout::Segment| {
            (segment.start, segment.end, tier.unwrap_or_else(|| of(segment.objects[0].target)))
        };
        mirror.segments.iter().map(cut).collect()
    }

    /// Returns the mirror with new objects in place of lost ones, on targets of the same tier.
    fn mended(&mut self, file: &File, mirror: usize) -> Option<Mirror> {
        let mut to = file.mirrors.get(mirror)?.1.clone();
        let others = file.targets();
        for segment in &mut to.segments {
            for object in segment.objects.iter_mut().filter(|object| object.state == ObjectState::Partial) {
                let (tier, views) = (self.targets.of(object.target).tier, self.targets.views());
                let chosen = policy::layout::choose_targets(&views, Some(tier), 1, &others, object.id.0);
                *object = self.maker.object(*chosen.first()?);
            }
        }
        Some(to)
    }

    /// Copies the next bytes of a change, or ends it.
    pub(super) fn step(&mut self, ticket: Ticket) {
        if self.flows(ticket) {
            return;
        }
        let Some(carry) = self.carries.get_mut(&ticket) else { return };
        let file = &self.files[&carry.change.file];
        if matches!(carry.edit, Edit::Segment(_) | Edit::Copy(_)) {
            return self.step_of_segment(ticket);
        }
        if let Some(read) = carry.read.take() {
            return self.write_step(ticket, read);
        }
        if carry.steps.is_done() {
            return self.finish(ticket);
        }
        let from = file.intact().next();
        if from.is_none() && !file.source {
            return self.fail(ticket);
        }
        let rate = match carry.change.verb {
            Verb::AddMirror { purpose: Purpose::Demoted, .. } => self.rates.demote,
            Verb::AddMirror { purpose: Purpose::Group, .. } => self.replica_rate,
            _ => f64::INFINITY,
        };
        if rate <= 0.0 {
            return self.events.push(self.now + STALLED, Rank::Timer, Happening::Step(ticket));
        }
        let len = match carry.steps.next(self.now, self.used) {
            (Turn::Go, len) => len,
            (Turn::Wait(until), _) => return self.events.push(until, Rank::Timer, Happening::Step(ticket)),
            (Turn::GiveUp, _) => return self.fail(ticket),
        };
        let at = carry.at;
        let mut parts = Vec::new();
        add_parts(&mut parts, &carry.to, at, len);
        let copied: u64 = parts.drain(..).filter(|(of, _)| carry.fresh.contains(&of.id)).map(|(_, bytes)| bytes).sum();
        carry.due = self.now + Time((copied as f64 / rate * 1e9) as u64);
        (carry.at, carry.bytes, carry.read) = (at + len, carry.bytes + copied, Some((at, len)));
        let done = match from.filter(|_| copied > 0) {
            Some(from) => {
                let from = &file.mirrors[from].1;
                match carry.edit {
                    Edit::Objects(_) => fresh_pieces(&carry.to, &carry.fresh, at, len)
                        .for_each(|(at, len)| add_parts(&mut parts, from, at, len)),
                    _ => add_parts(&mut parts, from, at, len),
                }
                self.serve_change(ticket, parts, false)
            }
            None => self.now + Time((copied as f64 / SOURCE_RATE * 1e9) as u64),
        };
        self.events.push(done, Rank::Completion, Happening::Step(ticket));
    }

    /// Writes a part that was read to the new objects.
    fn write_step(&mut self, ticket: Ticket, (at, len): (u64, u64)) {
        let Some(carry) = self.carries.get(&ticket) else { return };
        let (due, mut parts) = (carry.due, Vec::new());
        add_parts(&mut parts, &carry.to, at, len);
        parts.retain(|(object, _)| carry.fresh.contains(&object.id));
        let done = self.serve_change(ticket, parts, true).max(due);
        self.events.push(done, Rank::Completion, Happening::Step(ticket));
    }

    /// Serves parts of a change on their targets; returns the end of the last.
    pub(super) fn serve_change(&mut self, ticket: Ticket, parts: Vec<(Object, u64)>, write: bool) -> Time {
        let Some(by) = self.carries.get(&ticket).map(|carry| carry.change.by) else { return self.now };
        let (now, targets) = (self.now, &mut self.targets);
        let serve =
            |(object, bytes): (Object, u64)| targets.serve(now, object.target, bytes, write, Origin::Change(by));
        parts.into_iter().map(serve).max().unwrap_or(now)
    }

    pub(super) fn finish(&mut self, ticket: Ticket) {
        let Some(carry) = self.carries.remove(&ticket) else { return };
        let keeps = self.keeps_copies();
        let lost = carry.taken.iter().any(|(target, _, failures)| self.targets.of(*target).failures != *failures);
        let Some(file) = self.files.get_mut(&carry.change.file).filter(|_| !lost) else {
            self.give_back(&carry.taken);
            return self.done(ticket, Outcome::Failed);
        };
        let bytes = file.bytes;
        let mut copy = None;
        let gone: Vec<Placed> = match carry.edit {
            Edit::Push(purpose) => {
                file.mirrors.push((purpose, carry.to));
                Vec::new()
            }
            Edit::Swap(mirror) => {
                let old = std::mem::replace(&mut file.mirrors[mirror].1, carry.to);
                objects(&old, bytes).collect()
            }
            Edit::Segment(segment) => {
                let current = &mut file.mirrors[0].1;
                let gone = objects_of_segment(current, bytes, segment);
                current.segments[segment] = carry.to.segments[segment].clone();
                let rises = matches!(carry.change.verb, Verb::MoveSegment { to: Tier::Fast, .. });
                if keeps && rises && carry.written == 0 {
                    copy = Some((segment, gone));
                    Vec::new()
                } else {
                    gone
                }
            }
            Edit::Copy(segment) => {
                copy = Some((segment, objects_of_segment(&carry.to, bytes, segment)));
                Vec::new()
            }
            Edit::Objects(mirror) => {
                let fresh: Vec<Placed> =
                    objects(&carry.to, bytes).filter(|(_, object, _)| carry.fresh.contains(&object.id)).collect();
                for ((s, at), object, _) in fresh {
                    file.mirrors[mirror].1.segments[s].objects[at] = object;
                }
                Vec::new()
            }
        };
        self.free(gone);
        let took = self.now.since(carry.began);
        self.carried(carry.change.by, carry.bytes, took);
        if !matches!(carry.edit, Edit::Copy(_)) {
            self.lies_elsewhere(carry.change.file);
            self.tell_lies(carry.change.file);
        }
        self.done(ticket, Outcome::Made { bytes: carry.bytes, took });
        if let Some((segment, objects)) = copy {
            self.hold_copy(carry.change.file, segment as u64, objects);
        }
    }

    fn drop_mirror(&mut self, change: &Change, mirror: usize) {
        let Some(file) = self.files.get_mut(&change.file).filter(|file| mirror < file.mirrors.len()) else {
            return self.done(change.ticket, Outcome::Failed);
        };
        let (_, old) = file.mirrors.remove(mirror);
        let gone = objects(&old, file.bytes).collect();
        self.free(gone);
        self.carried(change.by, 0, Time::ZERO);
        self.tell_lies(change.file);
        self.done(change.ticket, Outcome::Made { bytes: 0, took: Time::ZERO });
    }

    /// Swaps objects lost with a target with their counterparts in a replica.
    fn swap(&mut self, change: &Change, replica: usize, target: TargetId) {
        // Other changes of the file were planned for the earlier layout.
        self.fail_all(change.file);
        let all = self.files.get_mut(&change.file).map(|file| &mut file.mirrors[..]).unwrap_or_default();
        let (others, replica) = all.split_at_mut(replica.min(all.len()));
        let Some((_, replica)) = replica.first_mut() else { return self.done(change.ticket, Outcome::Failed) };
        let mut swapped = lies_lost_on(replica, target);
        for (_, mirror) in others {
            for (of, with) in mirror.segments.iter_mut().zip(&mut replica.segments) {
                let alike = (of.stripe_size, of.objects.len()) == (with.stripe_size, with.objects.len());
                for (of, with) in of.objects.iter_mut().zip(&mut with.objects).filter(|_| alike) {
                    if is_lost_on(of, target) && with.state == ObjectState::Complete {
                        std::mem::swap(of, with);
                        swapped = true;
                    }
                }
            }
        }
        if !swapped {
            return self.done(change.ticket, Outcome::Failed);
        }
        self.carried(change.by, 0, Time::ZERO);
        self.tell_lies(change.file);
        self.done(change.ticket, Outcome::Made { bytes: 0, took: Time::ZERO });
    }

    /// Gives up all changes of a file.
    pub(super) fn fail_all(&mut self, file: FileId) {
        let under_way: Vec<Ticket> =
            self.carries.iter().filter(|(_, carry)| carry.change.file == file).map(|(ticket, _)| *ticket).collect();
        under_way.into_iter().for_each(|ticket| self.fail(ticket));
    }

    pub(super) fn fail(&mut self, ticket: Ticket) {
        if let Some(carry) = self.carries.remove(&ticket) {
            self.give_back(&carry.taken);
            self.done(ticket, Outcome::Failed);
        }
    }

    fn done(&mut self, ticket: Ticket, result: Outcome) {
        if result == Outcome::Failed {
            self.figures.failed += 1;
        }
        self.tell(Event::Done { ticket, result });
    }

    fn give_back(&mut self, taken: &[(TargetId, u64, u64)]) {
        for (target, len, failures) in taken {
            if self.targets.of(*target).failures == *failures {
                self.targets.give(*target, *len);
            }
        }
    }

    /// Frees the space of objects that are in no layout any more. Lost ones have none.
    pub(super) fn free(&mut self, gone: Vec<Placed>) {
        for (_, object, len) in gone {
            if object.state == ObjectState::Complete {
                self.targets.give(object.target, len);
            }
        }
    }
}

fn is_lost_on(object: &Object, target: TargetId) -> bool {
    object.target == target && object.state == ObjectState::Partial
}

fn lies_lost_on(mirror: &Mirror, target: TargetId) -> bool {
    mirror.segments.iter().flat_map(|segment| &segment.objects).any(|object| is_lost_on(object, target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::jobs::single;
    use policy::layout::{MirrorState, Segment};

    #[test]
    fn a_step_is_a_row_of_the_source_within_the_mover_s_limits() {
        let step = |devices: u64, unit_kib: u64, left: u64| {
            let objects = (0..devices).map(|n| Object::whole(ObjectId(n), TargetId(n as u16))).collect();
            let segments = vec![Segment { start: 0, end: left, stripe_size: unit_kib << 10, objects }];
            step_bytes(&single(left, Mirror { state: MirrorState::InSync, segments }, false, false), left) >> 10
        };
        assert_eq!(step(8, 1024, 56 << 20), 4096, "8 MiB");
        assert_eq!((step(3, 512, 56 << 20), step(4, 112, 56 << 20)), (1536, 1024), "1.5 MiB and 448 KiB");
        assert_eq!((step(4, 112, 8 << 30), step(4, 112, 1 << 40)), (8192, 32768), "few steps for large files");
    }

    #[test]
    fn a_rebuild_reads_only_what_its_new_objects_lack() {
        let objects = (0..3).map(|n| Object::whole(ObjectId(n), TargetId(n as u16))).collect();
        let segments = vec![Segment { start: 0, end: 100, stripe_size: 10, objects }];
        let to = Mirror { state: MirrorState::InSync, segments };
        let ids = |of: &[u64]| of.iter().map(|id| ObjectId(*id)).collect::<BTreeSet<_>>();
        let pieces = |fresh: &[u64]| fresh_pieces(&to, &ids(fresh), 5, 60).collect::<Vec<_>>();
        assert_eq!(pieces(&[1]), [(10, 10), (40, 10)]);
        assert_eq!(pieces(&[0, 2]), [(5, 5), (20, 10), (30, 10), (50, 10), (60, 5)]);
    }
}
