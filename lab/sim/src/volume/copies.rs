//! Slow copies of segments on the fast tier, which are in no layout: a segment with a copy can be demoted without a
//! transfer.
//!
//! They take space on the slow targets. When space runs short, copies are dropped until the configured share is free
//! ([`policy::tier::room`]). A write to the segment drops its copy.

use super::carry::Edit;
use super::files::{Placed, objects_of_segment};
use super::world::World;
use policy::layout::ObjectState;
use policy::tier::machine::{self, Reorganizer};
use policy::tier::room::{self, SlowTarget};
use policy::tier::{Location, Tier};
use policy::volume::{Change, Event, Outcome};
use policy::{FileId, TargetId, Time};
use std::collections::BTreeMap;

/// All copies of a world.
#[derive(Debug, Default)]
pub(super) struct Copies {
    held: BTreeMap<(FileId, u64), Vec<Placed>>,
    bytes: u64,
    most_bytes: u64,
}

impl Copies {
    /// Maximum of bytes of copies at a time.
    pub(super) fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Number of copies.
    pub(super) fn count(&self) -> usize {
        self.held.len()
    }

    /// Returns the space of each copy's objects.
    pub(super) fn objects(&self) -> impl Iterator<Item = (TargetId, u64)> + '_ {
        self.held.values().flatten().map(|(_, object, len)| (object.target, *len))
    }

    fn take(&mut self, file: FileId, segment: u64) -> Option<Vec<Placed>> {
        let copy = self.held.remove(&(file, segment))?;
        self.bytes -= bytes_of(&copy);
        Some(copy)
    }
}

fn bytes_of(copy: &[Placed]) -> u64 {
    copy.iter().map(|(.., len)| len).sum()
}

impl World<'_> {
    pub(super) fn keeps_copies(&self) -> bool {
        self.setup.config.tiers.is_some_and(|tiers| tiers.keep_copies)
    }

    /// Makes the objects of a finished change the copy of a segment, if the machine accepts it.
    pub(super) fn hold_copy(&mut self, file: FileId, segment: u64, copy: Vec<Placed>) {
        let location = Location { file: file.0, segment };
        let intact = copy.iter().all(|(_, object, _)| object.state == ObjectState::Complete);
        if intact && self.volume.tiers().is_some_and(|tiers| tiers.has_copy(location)) {
            self.copies.bytes += bytes_of(&copy);
            self.copies.most_bytes = self.copies.most_bytes.max(self.copies.bytes);
            self.copies.held.insert((file, segment), copy);
        } else {
            self.free(copy);
            self.tell(Event::Tiers(machine::Event::CopyGone(location)));
        }
        self.look_at_copies();
    }

    /// Demotes a segment with a copy: only the layout changes. Returns whether it had one.
    pub(super) fn leaves_for_its_copy(&mut self, change: &Change, segment: u64) -> bool {
        let Some(copy) = self.copies.take(change.file, segment) else { return false };
        let Some(file) = self.files.get_mut(&change.file) else { return false };
        let (_, mirror) = &mut file.mirrors[0];
        let at = segment as usize;
        let gone = objects_of_segment(mirror, file.bytes, at);
        mirror.segments[at].objects = copy.into_iter().map(|(_, object, _)| object).collect();
        self.free(gone);
        self.carried(change.by, 0, Time::ZERO);
        self.lies_elsewhere(change.file);
        self.tell_lies(change.file);
        self.tell(Event::Done { ticket: change.ticket, result: Outcome::Made { bytes: 0, took: Time::ZERO } });
        self.look_at_copies();
        true
    }

    /// Handles an application's write to a segment: its copy is dropped, and changes under way catch up.
    pub(super) fn overwritten(&mut self, file: FileId, segment: u64, bytes: u64) {
        if let Some(copy) = self.copies.take(file, segment) {
            self.free(copy);
        }
        for carry in self.carries.values_mut().filter(|carry| carry.change.file == file) {
            carry.overwritten(segment, bytes);
        }
    }

    /// Drops the copies of a file that is removed.
    pub(super) fn copies_gone_with(&mut self, file: FileId) {
        let of: Vec<u64> =
            self.copies.held.range((file, 0)..=(file, u64::MAX)).map(|((_, segment), _)| *segment).collect();
        for copy in of.into_iter().filter_map(|segment| self.copies.take(file, segment)).collect::<Vec<_>>() {
            self.free(copy);
        }
    }

    /// Drops the copies on a failed target.
    pub(super) fn copies_lost_with(&mut self, target: TargetId) {
        let is_lost = |(_, copy): &(&(FileId, u64), &Vec<Placed>)| copy.iter().any(|(_, of, _)| of.target == target);
        let lost: Vec<(FileId, u64)> = self.copies.held.iter().filter(is_lost).map(|(of, _)| *of).collect();
        for (file, segment) in lost {
            let copy = self.copies.take(file, segment).unwrap_or_default();
            self.free(copy.into_iter().filter(|(_, object, _)| object.target != target).collect());
            let location = Location { file: file.0, segment };
            self.tell(Event::Tiers(machine::Event::CopyGone(location)));
        }
    }

    /// Reports the free space of the slow tier to the machine; drops copies if they exceed their share.
    pub(super) fn look_at_copies(&mut self) {
        if !self.keeps_copies() {
            return;
        }
        let free_percent = self.setup.copies_free_percent;
        for (target, used_bytes, total_bytes) in self.slow_targets() {
            let of = SlowTarget { total_bytes, free_bytes: total_bytes.saturating_sub(used_bytes) };
            let short = of.short_bytes(free_percent) + used_bytes.saturating_sub(total_bytes);
            if short > 0 {
                self.give_up_copies(target, short);
            }
        }
        let making = self.carries.values().filter(|carry| matches!(carry.edit, Edit::Copy(_)));
        let making: Vec<(TargetId, u64)> =
            making.flat_map(|carry| &carry.taken).map(|(at, len, _)| (*at, *len)).collect();
        let room = |(target, used, total_bytes): (TargetId, u64, u64)| {
            let under_way: u64 = making.iter().filter(|(at, _)| *at == target).map(|(_, len)| len).sum();
            SlowTarget { total_bytes, free_bytes: total_bytes.saturating_sub(used.saturating_sub(under_way)) }
        };
        let rooms = self.slow_targets().into_iter().map(room);
        let bytes = room::room_bytes(rooms, free_percent, self.setup.segment_bytes);
        self.tell(Event::Tiers(machine::Event::CopyBytes(bytes)));
    }

    /// Returns the working slow targets: used bytes of each, and capacity as far as copies may use it.
    fn slow_targets(&self) -> Vec<(TargetId, u64, u64)> {
        let slow = || self.targets.all.iter().enumerate().filter(|(_, target)| target.tier == Tier::Slow as u8);
        let share = self.setup.copies_within.map(|bytes| bytes / (slow().count() as u64).max(1));
        let of = |(at, target): (usize, &super::targets::Target)| {
            (TargetId(at as u16), target.used, share.unwrap_or(target.bytes))
        };
        slow().filter(|(_, target)| target.up).map(of).collect()
    }

    fn give_up_copies(&mut self, target: TargetId, short: u64) {
        let on_target = |at: Location| {
            let copy = self.copies.held.get(&(FileId(at.file), at.segment));
            copy.into_iter().flatten().filter(|(_, object, _)| object.target == target).map(|(.., len)| len).sum()
        };
        let all = self.volume.tiers().map(Reorganizer::copies_to_give_up).unwrap_or_default();
        for location in room::give_up(all, short, on_target).0 {
            if let Some(copy) = self.copies.take(FileId(location.file), location.segment) {
                self.free(copy);
            }
            self.tell(Event::Tiers(machine::Event::CopyGone(location)));
        }
    }
}
