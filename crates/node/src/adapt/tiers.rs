//! Inputs of the machine about the two tiers: their speeds, their free space, and their idle times.

use super::Adapt;
use super::log::Access;
use super::placing::Placing;
use super::quiet::{Ours, Quiet};
use super::reports;
use object::target::Space;
use parking_lot::Mutex;
use policy::layout::{Layout, TargetView};
use policy::tier::cost::Costs;
use policy::tier::machine::Event as TierEvent;
use policy::tier::room::{self, SlowTarget};
use policy::tier::{Location, Region, Tier};
use policy::volume::Event;
use policy::{FileId, TargetId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// State of the tiers as reported to the machine, and its sources.
#[derive(Default)]
pub struct Tiers {
    pub ours: Ours,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Whether the operator paused all moves.
    paused: bool,
    quiet: Quiet,
    /// Time until which each tier counts as used by other nodes.
    busy_elsewhere: [Option<Time>; 2],
    /// Segments on the fast tier of unusual length, and their difference from the usual one.
    odd: BTreeMap<Location, i64>,
    fast_bytes: u64,
    /// Slow targets, as last reported for the room for copies.
    slow: Vec<SlowTarget>,
    /// For each slow target short of space: bytes of its removed copies, and its free bytes at that time.
    given_up: BTreeMap<TargetId, (u64, u64)>,
    /// Numbers of reads and of all accesses so far.
    reads: (u64, u64),
}

impl Tiers {
    pub fn pause(&self, paused: bool) {
        self.known.lock().paused = paused;
    }

    pub fn is_paused(&self) -> bool {
        self.known.lock().paused
    }

    /// Records the segments on the fast tier whose length is unusual.
    pub fn lie(&self, layout: &Layout, tiers: &[Tier], segment_bytes: u64) {
        let mut known = self.known.lock();
        let segments = super::record::read_from(layout).map_or(&[][..], |(_, segments)| segments);
        for (index, (segment, tier)) in segments.iter().zip(tiers).enumerate() {
            let location = Location { file: layout.file.0, segment: index as u64 };
            match (segment.end - segment.start) as i64 - segment_bytes as i64 {
                odd if odd != 0 && *tier == Tier::Fast => drop(known.odd.insert(location, odd)),
                _ => drop(known.odd.remove(&location)),
            }
        }
    }

    /// Marks the tiers that other nodes accessed as used, for the time that their report covers.
    pub fn heard(&self, accesses: &[Access]) {
        if !accesses.is_empty() {
            let busy = [Tier::Fast, Tier::Slow].map(|tier| accesses.iter().any(|access| access.tier == tier));
            self.known.lock().busy_elsewhere = busy.map(|busy| busy.then(|| accesses[0].at + reports::EVERY));
        }
    }

    /// Forgets a removed file.
    pub fn forget(&self, file: FileId) {
        self.known.lock().odd.retain(|at, _| at.file != file.0);
    }
}

impl Adapt {
    /// Sets the speeds of the devices and starts the tiers.
    pub fn set_costs(&self, costs: Costs) {
        let (tiering, segment_bytes) = (&self.settings.tiering, self.settings.segment_bytes);
        let fast_bytes = self.fast_bytes(0);
        let config = tiering.machine(costs, fast_bytes, segment_bytes, self.settings.concurrent);
        self.recorder.placing.set_costs(&costs, tiering.proportional, segment_bytes);
        let paused = {
            let mut known = self.tiers.known.lock();
            known.fast_bytes = fast_bytes;
            known.paused
        };
        self.driver.machine().begin_tiers(config, self.driver.now());
        self.driver.tell(Event::Tiers(TierEvent::Paused(paused)));
        self.publish();
    }

    /// Share of the fast tier for hot data: a part of all its bytes, limited by the free ones and the `held` bytes of
    /// segments.
    fn fast_bytes(&self, held: u64) -> u64 {
        let tiering = &self.settings.tiering;
        let space = self.recorder.targets.space_on(tiering.fast);
        let share = u128::from(space.total_bytes) * u128::from(tiering.share_percent) / 100;
        // Room for one segment stays free, since a change of free space is noticed late.
        let free =
            (held + space.free_bytes).saturating_sub(self.settings.segment_bytes * self.settings.concurrent as u64);
        (share as u64).min(free)
    }

    /// Events of the tiers' devices: idle times, room, space.
    pub(super) fn of_tiers(&self, accesses: &[Access]) -> Vec<Event> {
        let Some(fast) = self.driver.machine().tiers().map(|tiers| tiers.fast_locations()) else {
            return Vec::new();
        };
        let (tiering, segment_bytes) = (&self.settings.tiering, self.settings.segment_bytes);
        let mut known = self.tiers.known.lock();
        let reads = accesses.iter().filter(|access| access.region == Region::Read).count();
        known.reads = (known.reads.0 + reads as u64, known.reads.1 + accesses.len() as u64);
        let tiers = [tiering.fast, tiering.slow];
        let quiet = known.quiet.look(&self.recorder.targets, accesses, &self.tiers.ours, tiers);
        let (now, elsewhere) = (self.driver.now(), known.busy_elsewhere);
        let quiet = [0, 1].map(|at| quiet[at] && elsewhere[at].is_none_or(|until| now >= until));
        let of = |(tier, quiet)| if quiet { TierEvent::Idle(tier) } else { TierEvent::Busy(tier) };
        let mut told: Vec<TierEvent> = [Tier::Fast, Tier::Slow].into_iter().zip(quiet).map(of).collect();
        // Odd segments and the tier's free space change the share that is left.
        let odd: i64 = known.odd.values().sum();
        let held = (fast as u64 * segment_bytes).saturating_add_signed(odd);
        let fast_bytes = self.fast_bytes(held).saturating_add_signed(-odd);
        if fast_bytes != known.fast_bytes {
            known.fast_bytes = fast_bytes;
            told.push(TierEvent::FastBytes(fast_bytes));
        }
        let views = self.recorder.targets.views();
        let slow = views.iter().filter(|view| view.usable && view.tier == tiering.slow);
        let slow: Vec<SlowTarget> = slow.map(|view| self.slow_target(view)).collect();
        // Free space is measured at intervals; in between, the machine subtracts what it has copied.
        if slow != known.slow {
            let room = room::room_bytes(slow.iter().copied(), tiering.copies_free_percent, segment_bytes);
            known.slow = slow;
            told.push(TierEvent::CopyBytes(room));
        }
        told.into_iter().map(Event::Tiers).collect()
    }

    pub(super) fn slow_target(&self, view: &TargetView) -> SlowTarget {
        let total_bytes = self.recorder.targets.get(view.id).map_or(0, |target| target.space().total_bytes);
        SlowTarget { total_bytes, free_bytes: view.free_bytes }
    }

    /// Publishes the state that the placement of new segments uses.
    pub(super) fn publish(&self) {
        let room = self.driver.machine().tiers().map_or(0, |tiers| tiers.free_locations());
        let (reads, all) = self.tiers.known.lock().reads;
        let placing: &Placing = &self.recorder.placing;
        placing.publish(room, if reads * 2 >= all { Region::Read } else { Region::Write });
    }

    /// Removes useless copies, and copies on slow targets that are short of space until the shortage is covered.
    /// Reports the removed copies to the machine.
    pub(super) fn tidy_copies(&self) {
        let slow = self.settings.tiering.slow;
        let targets = self.recorder.targets.all();
        for target in targets.iter().filter(|target| self.mover.copies() > 0 && target.tier() == slow) {
            let Space { total_bytes, free_bytes, .. } = target.space();
            let short_bytes =
                SlowTarget { total_bytes, free_bytes }.short_bytes(self.settings.tiering.copies_free_percent);
            if short_bytes == 0 {
                continue;
            }
            // Space freed since the last measurement is not included in it yet.
            let given_up = self.tiers.known.lock().given_up.get(&target.id()).copied().unwrap_or_default();
            let so_far = if given_up.0 == free_bytes { given_up.1 } else { 0 };
            let more = self.give_up_copies(target.id(), short_bytes.saturating_sub(so_far));
            self.tiers.known.lock().given_up.insert(target.id(), (free_bytes, so_far + more));
        }
        if let Err(error) = self.mover.remove_stale_copies() {
            tracing::warn!("slow copies that are of no use any more stay until the next start: {error}");
        }
        let gone: Vec<Event> = self.mover.take_copies_gone().into_iter().filter_map(|of| self.copy_gone(of)).collect();
        if !gone.is_empty() {
            self.driver.tell_all(gone);
        }
    }

    /// Removes copies with a part on a target until these parts have `short_bytes` bytes. Returns their bytes.
    fn give_up_copies(&self, target: TargetId, short_bytes: u64) -> u64 {
        let segment = |at: Location| Some(self.segment(&*self.files.noted(FileId(at.file))?, at.segment)?.1);
        let bytes = |at: Location| segment(at).map_or(0, |of| self.mover.copy_bytes_on(FileId(at.file), &of, target));
        let copies = self.driver.machine().tiers().map(|tiers| tiers.copies_to_give_up());
        let (go, freed) = room::give_up(copies.unwrap_or_default(), short_bytes, bytes);
        for (at, of) in go.into_iter().filter_map(|at| Some((at, segment(at)?))) {
            self.mover.forget_copy(FileId(at.file), of.start);
        }
        // The remaining copies are of files that the machine no longer tracks, so no segment returns to them.
        if freed < short_bytes { freed + self.mover.forget_copies_on(target) } else { freed }
    }

    /// Event that a segment lost its slow copy; `None` if it has another one already.
    fn copy_gone(&self, (file, start): (FileId, u64)) -> Option<Event> {
        let layout = self.files.noted(file)?.layout()?;
        let (_, segments) = super::record::read_from(&layout)?;
        let index = segments.iter().position(|s| s.start == start && !self.mover.has_copy(file, s))?;
        let location = Location { file: file.0, segment: index as u64 };
        Some(Event::Tiers(TierEvent::CopyGone(location)))
    }
}

/// Interval between two looks at devices and at recorded accesses: a quarter of the machine's idle time, but at most
/// what the log of accesses has room for. So idleness is seen at most a quarter late.
pub fn look_every(idle: Duration) -> Time {
    Time((idle / 4).clamp(Duration::from_millis(10), Duration::from_millis(250)).as_nanos() as u64)
}
