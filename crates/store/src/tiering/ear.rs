//! The adviser: hears of accesses, says where new segments go.

mod placing;

pub use placing::Placing;

use super::heard::{Access, Heard, LaidOut};
use crate::file::{self, Adviser, File};
use crate::target::Targets;
use parking_lot::RwLock;
use policy::layout::{Layout, MirrorState, OPEN_END, Placement, Segment};
use policy::tier::{Location, Tier};
use policy::volume::ownership::Mechanism;
use policy::{TargetId, Time};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Segments that one growth adds at most and are told at once; of more, the next access to each tells.
const NEW_MAX: usize = 64;

/// Tells the time on the machine's clock.
pub type Clock = Box<dyn Fn() -> Time + Send + Sync>;

/// Hears of accesses to segments on the two tiers. See the module above.
pub struct Ear {
    targets: Arc<Targets>,
    clock: Clock,
    tiers: [u8; 2],
    /// Which of the two each target belongs to, as last looked.
    of_target: RwLock<BTreeMap<TargetId, Tier>>,
    heard: Heard,
    placing: Placing,
    /// When applications last used one of the two tiers, in nanoseconds and one more; 0: never.
    used: AtomicU64,
}

impl Ear {
    /// For the tiers with these numbers, fast and slow.
    pub fn new(targets: Arc<Targets>, clock: Clock, fast: u8, slow: u8) -> Arc<Ear> {
        let placing = Placing::new(targets.clone(), fast, slow);
        let ear = Ear {
            targets,
            clock,
            tiers: [fast, slow],
            of_target: RwLock::default(),
            heard: Heard::default(),
            placing,
            used: AtomicU64::new(0),
        };
        ear.look();
        Arc::new(ear)
    }

    /// The volume's targets.
    pub fn targets(&self) -> &Arc<Targets> {
        &self.targets
    }

    /// Where new segments go.
    pub fn placing(&self) -> &Placing {
        &self.placing
    }

    pub(super) fn now(&self) -> Time {
        (self.clock)()
    }

    /// When applications last used one of the two tiers.
    pub(super) fn last_used(&self) -> Option<Time> {
        self.used.load(Ordering::Relaxed).checked_sub(1).map(Time)
    }

    /// What was heard since this was last asked.
    pub(super) fn take(&self) -> Vec<Access> {
        self.look();
        self.heard.take()
    }

    pub(super) fn take_laid_out(&self) -> Vec<LaidOut> {
        self.heard.take_laid_out()
    }

    pub(super) fn take_removed(&self) -> Vec<u64> {
        self.heard.take_removed()
    }

    pub(super) fn take_lost(&self) -> u64 {
        self.heard.take_lost()
    }

    /// Which target belongs to which tier: seldom anything new.
    fn look(&self) {
        let known = |tier: u8| match tier {
            tier if tier == self.tiers[0] => Some(Tier::Fast),
            tier if tier == self.tiers[1] => Some(Tier::Slow),
            _ => None,
        };
        let all = self.targets.all();
        let now: BTreeMap<_, _> = all.iter().filter_map(|t| Some((t.id(), known(t.tier())?))).collect();
        if *self.of_target.read() != now {
            *self.of_target.write() = now;
        }
    }

    /// The tier on which all of a segment lies; none if it lies on both or elsewhere.
    fn tier_of(&self, segment: &Segment) -> Option<Tier> {
        let of_target = self.of_target.read();
        let mut tiers = segment.objects.iter().map(|object| of_target.get(&object.target).copied());
        let first = tiers.next()??;
        tiers.all(|tier| tier == Some(first)).then_some(first)
    }

    fn is_on_tiers(&self, segment: &Segment) -> bool {
        let of_target = self.of_target.read();
        segment.objects.iter().any(|object| of_target.contains_key(&object.target))
    }

    /// The segments that tiering knows: with an end, on one of the two tiers or on both (that counts as slow). With their length.
    pub(super) fn segments<'a>(&'a self, layout: &'a Layout) -> impl Iterator<Item = (Location, Tier, u64)> + 'a {
        let mirror = read_from(layout).map_or(&[][..], |(_, segments)| segments);
        mirror.iter().enumerate().filter_map(|(block, segment)| self.known(layout, block, segment))
    }

    fn known(&self, layout: &Layout, block: usize, segment: &Segment) -> Option<(Location, Tier, u64)> {
        let location = Location { file: layout.file.0, segment: block as u64 };
        let tier = self.tier_of(segment).unwrap_or(Tier::Slow);
        (segment.end != OPEN_END).then_some((location, tier, segment.end - segment.start))
    }
}

/// The mirror that is read as a rule: the first in sync. Its number and segments.
pub(super) fn read_from(layout: &Layout) -> Option<(usize, &[Segment])> {
    let mut mirrors = layout.mirrors.iter().enumerate();
    mirrors.find(|(_, m)| m.state == MirrorState::InSync).map(|(at, m)| (at, &m.segments[..]))
}

impl Adviser for Ear {
    fn watches(&self, file: &File) -> bool {
        // Those that one open-ended object holds are never moved, and may go on as fast as they can.
        file.layout().is_some_and(|layout| self.segments(&layout).next().is_some())
    }

    fn claims(&self, file: &File, mechanism: Mechanism) -> bool {
        mechanism == Mechanism::Tiers && self.watches(file)
    }

    fn accessed(&self, file: &File, access: file::Access) {
        let Some(layout) = file.layout() else { return };
        let Some((_, segments)) = read_from(&layout) else { return };
        let size = if access.write { u64::MAX } else { file.size() };
        let end = access.offset.saturating_add(access.len).min(size);
        let first = segments.partition_point(|segment| segment.end <= access.offset);
        let (at, ours) = (self.now(), file.follows_tiers());
        for (block, segment) in segments.iter().enumerate().skip(first).take_while(|(_, s)| s.start < end) {
            // Also what is not ours to move keeps devices busy.
            if self.is_on_tiers(segment) {
                self.used.fetch_max(at.0 + 1, Ordering::Relaxed);
            }
            if !ours {
                continue;
            }
            let Some((location, tier, segment_bytes)) = self.known(&layout, block, segment) else { continue };
            let bytes = end.min(segment.end).saturating_sub(access.offset.max(segment.start));
            if bytes > 0 {
                self.heard.note(Access { at, location, tier, segment_bytes, bytes, write: access.write });
            }
        }
    }

    fn place(&self, _file: &File, _from: u64, place: &mut Placement) {
        if place.tier.is_none() {
            place.tier = self.placing.next();
        }
    }

    fn removed(&self, file: &File) {
        if let Some(id) = file.id() {
            self.heard.note_removed(id.0);
        }
    }

    fn laid_out(&self, file: &File) {
        if !file.follows_tiers() {
            return;
        }
        let Some(layout) = file.layout() else { return };
        let Some((_, segments)) = read_from(&layout) else { return };
        // The new ones are the last; how many there are is not said, and one that is told again changes nothing.
        for (block, segment) in segments.iter().enumerate().rev().take(NEW_MAX) {
            if let Some((location, Tier::Fast, segment_bytes)) = self.known(&layout, block, segment) {
                self.heard.note_laid_out(LaidOut { location, segment_bytes });
            }
        }
    }
}
