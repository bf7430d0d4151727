//! The recorder: logs accesses of applications, and decides the layout of new segments and the writes of mirrors.

use super::Settings;
use super::driver::Driver;
use super::forks::Forks;
use super::log::{Access, AccessLog};
use super::placing::Placing;
use super::tiers::look_every;
use engine::file::{self, Adviser, File, Happened, MirrorWrites};
use engine::volume::TieringPolicy;
use object::target::Targets;
use policy::layout::{Layout, MirrorState, OPEN_END, Placement, Segment};
use policy::stripe::advice::Mode;
use policy::tier::{Region, Tier};
use policy::volume::ownership::Mechanism;
use policy::{TargetId, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limit of segments that one growth adds and that are examined at once; the others are reported by their next access.
const NEW_MAX: usize = 64;

/// Recorder of applications' accesses. See the module above.
pub struct Recorder {
    /// The volume's targets.
    pub(super) targets: Arc<Targets>,
    pub(super) driver: Arc<Driver>,
    pub(super) forks: Forks,
    /// The fast and the slow tier, if segments are moved between them.
    tiers: Option<[u8; 2]>,
    /// Whether requests are counted for the stripes, and whether stripes change.
    counts: bool,
    stripes_change: bool,
    pub(super) log: AccessLog,
    /// Interval of looks at the log.
    look_every: Time,
    /// Where new segments go.
    pub(super) placing: Placing,
    /// Time of the last access to one of the two tiers, in nanoseconds plus one; 0: never.
    used: AtomicU64,
}

impl Recorder {
    pub(super) fn new(settings: &Settings, driver: Arc<Driver>, forks: Forks, targets: Arc<Targets>) -> Arc<Recorder> {
        let (of, stripes) = (&settings.tiering, settings.stripes.as_ref());
        Arc::new(Recorder {
            placing: Placing::new(targets.clone(), of.fast, of.slow),
            targets,
            driver,
            forks,
            tiers: (of.policy != TieringPolicy::Off).then_some([of.fast, of.slow]),
            counts: stripes.is_some(),
            stripes_change: stripes.is_some_and(|of| !matches!(of.mode, Mode::Fixed(_))),
            log: AccessLog::default(),
            look_every: look_every(of.idle),
            used: AtomicU64::new(0),
        })
    }

    /// Time of applications' last access to one of the two tiers.
    pub(super) fn last_used(&self) -> Option<Time> {
        self.used.load(Ordering::Relaxed).checked_sub(1).map(Time)
    }

    /// Tier of a target, if it is one of the two.
    fn tier_of_target(&self, target: TargetId) -> Option<Tier> {
        let tier = self.targets.get(target)?.tier();
        let at = self.tiers?.iter().position(|known| *known == tier)?;
        Some([Tier::Fast, Tier::Slow][at])
    }

    fn is_on_tiers(&self, segment: &Segment) -> bool {
        segment.objects.iter().any(|object| self.tier_of_target(object.target).is_some())
    }

    /// Tier of a segment that tiering handles: one with an end. A segment on both tiers, or elsewhere, counts as slow.
    pub(super) fn tier_of(&self, segment: &Segment) -> Option<Tier> {
        if self.tiers.is_none() || segment.end == OPEN_END {
            return None;
        }
        let fast = segment.objects.iter().all(|object| self.tier_of_target(object.target) == Some(Tier::Fast));
        Some(if fast { Tier::Fast } else { Tier::Slow })
    }

    /// Segments that tiering handles.
    pub(super) fn segments<'a>(&'a self, layout: &'a Layout) -> impl Iterator<Item = (&'a Segment, Tier)> + 'a {
        let segments = read_from(layout).map_or(&[][..], |(_, segments)| segments);
        segments.iter().map_while(|segment| Some((segment, self.tier_of(segment)?)))
    }

    fn has_tiers(&self, file: &File) -> bool {
        self.tiers.is_some() && file.layout().is_some_and(|layout| self.segments(&layout).next().is_some())
    }

    fn record_access(&self, file: &File, access: file::Access) {
        let Some(layout) = file.layout() else { return };
        let Some((_, segments)) = read_from(&layout) else { return };
        let size = if access.write { u64::MAX } else { file.size() };
        let end = access.offset.saturating_add(access.len).min(size);
        let first = segments.partition_point(|segment| segment.end <= access.offset);
        let (at, ours) = (self.driver.now(), file.follows_tiers());
        let region = if access.write { Region::Write } else { Region::Read };
        let mut touched = None;
        for (index, segment) in segments.iter().enumerate().skip(first).take_while(|(_, s)| s.start < end) {
            // Accesses to segments that tiering may not move keep the devices busy, too.
            if self.is_on_tiers(segment) {
                self.used.fetch_max(at.0 + 1, Ordering::Relaxed);
            }
            let Some(tier) = self.tier_of(segment).filter(|_| ours) else { continue };
            let bytes = end.min(segment.end).saturating_sub(access.offset.max(segment.start));
            if bytes > 0 {
                let (file, segment) = (layout.file, index as u64);
                let this = Access { at, file, segment, tier, bytes, region, ends_request: false };
                touched.replace(this).into_iter().for_each(|before| self.log_access(before));
            }
        }
        touched.into_iter().for_each(|last| self.log_access(Access { ends_request: true, ..last }));
    }

    fn log_access(&self, access: Access) {
        if self.log.access(access) {
            self.stir();
        }
    }

    /// Has the loop look at the log soon, also after a calm time.
    fn stir(&self) {
        if self.tiers.is_some() {
            self.driver.step_in(self.look_every);
        }
    }

    fn record_lies(&self, file: &File) {
        if !file.follows_tiers() {
            return;
        }
        let Some(layout) = file.layout() else { return };
        let Some((_, segments)) = read_from(&layout) else { return };
        if segments.iter().rev().take(NEW_MAX).any(|segment| self.tier_of(segment) == Some(Tier::Fast)) {
            self.log.laid_out(layout.file);
            self.stir();
        }
    }
}

/// The mirror that is usually read, the first in sync: its index and its segments.
pub(super) fn read_from(layout: &Layout) -> Option<(usize, &[Segment])> {
    let mut mirrors = layout.mirrors.iter().enumerate();
    mirrors.find(|(_, m)| m.state == MirrorState::InSync).map(|(at, m)| (at, &m.segments[..]))
}

impl Adviser for Recorder {
    fn record(&self, file: &File, what: Happened<'_>) {
        match what {
            Happened::Accessed(access) => {
                if self.counts {
                    file.load().count(access);
                }
                if self.tiers.is_some() {
                    self.record_access(file, access);
                }
            }
            Happened::LaidOut if self.tiers.is_some() => self.record_lies(file),
            Happened::Removed => {
                file.id().into_iter().for_each(|id| self.log.removed(id));
                self.stir();
            }
            _ => {}
        }
    }

    fn watches(&self, file: &File) -> bool {
        // Files in a single open-ended object are never moved, so they may use the fastest path.
        self.stripes_change || self.has_tiers(file)
    }

    fn claims(&self, file: &File, mechanism: Mechanism) -> bool {
        mechanism == Mechanism::Tiers && self.has_tiers(file)
    }

    /// Files with a layout requested by their owner or directory keep it.
    fn place(&self, file: &File, _from: u64, place: &mut Placement) {
        let usual = &file.pool().placement;
        let as_usual = (place.stripe_size, place.stripe_count) == (usual.stripe_size, usual.stripe_count);
        if self.stripes_change
            && as_usual
            && let Some(shape) = self.driver.machine().placement(file.id())
        {
            place.stripe_size = shape.unit_bytes;
            place.stripe_count = shape.devices as usize;
        }
        if self.tiers.is_some() && place.tier.is_none() {
            place.tier = self.placing.next();
        }
    }

    /// Rule for writes of mirrors of a file with forks. `None`: other mirrors follow the volume's rule.
    fn mirror_writes(&self, file: &File) -> Option<MirrorWrites> {
        let id = file.id().filter(|id| self.counts && self.forks.has(*id))?;
        let online = self.driver.machine().striper().is_none_or(|striper| striper.online(id));
        Some(if online { MirrorWrites::Sync } else { MirrorWrites::Stale })
    }
}
