//! Layouts of files, as events for the machine.

use super::Adapt;
use super::record::read_from;
use engine::file::File;
use object::target::State;
use policy::layout::{Layout, MirrorState, ObjectState, Reason};
use policy::stripe::forks::Shape;
use policy::tier::Tier;
use policy::volume::ownership::{Aspect, Mechanism};
use policy::volume::{Event, FileEvent, Lies, Mirror, Purpose};

impl Adapt {
    /// Event that reports the layout of a file; `None` for a file whose bytes are in its stub.
    pub(super) fn lies(&self, file: &File) -> Option<Event> {
        let known = file.id().and_then(|id| self.driver.machine().owner(id, Aspect::Tier));
        self.lies_if(file, known == Some(Mechanism::Burst))
    }

    /// Like `lies`, given whether the file belongs to a checkpoint: the machine does not know it before a version is
    /// complete.
    pub(super) fn lies_if(&self, file: &File, is_checkpoint: bool) -> Option<Event> {
        let layout = file.layout()?;
        let segments = self.recorder.segments(&layout).map(|(_, tier)| tier);
        let segments: Vec<Tier> = if file.follows_tiers() { segments.collect() } else { Vec::new() };
        self.tiers.lie(&layout, &segments, self.settings.segment_bytes);
        let (bytes, keep) = (file.size(), self.recorder.forks.keep(layout.file, layout.mirrors.len()));
        let of_checkpoint = self.burst.as_ref().filter(|_| is_checkpoint).map(|burst| burst.purposes(&layout));
        let replica = self.replicas.mirror_of(layout.file);
        let usual = |at| if at < keep { Purpose::Data } else { Purpose::Fork };
        let purpose = |at| of_checkpoint.as_ref().map_or_else(|| usual(at), |purposes| purposes[at]);
        let mirrors = layout.mirrors.iter().enumerate().map(|(at, mirror)| Mirror {
            purpose: if replica == Some(at) { Purpose::Replica } else { purpose(at) },
            shape: Shape::of(mirror, bytes),
            intact: mirror.state == MirrorState::InSync
                && mirror.segments.iter().flat_map(|s| &s.objects).all(|o| o.state == ObjectState::Complete),
        });
        let lies = Lies {
            bytes,
            users: file.handles() as u32,
            away: self.away(&layout, segments.len()),
            segments,
            mirrors: mirrors.collect(),
            asked_for: is_asked_for(file, &layout),
            elsewhere: !self.is_on_stripes(&layout),
        };
        Some(Event::File(layout.file, FileEvent::LaidOut(lies)))
    }

    /// Indices of the first `count` segments that have an object on a failed target.
    fn away(&self, layout: &Layout, count: usize) -> Vec<u64> {
        let targets = &self.recorder.targets;
        let works = |target| targets.get(target).is_some_and(|target| target.state() != State::Failed);
        let segments = read_from(layout).map_or(&[][..], |(_, segments)| segments).iter().take(count);
        let away =
            (0..).zip(segments).filter(|(_, segment)| !segment.objects.iter().all(|object| works(object.target)));
        away.map(|(index, _)| index).collect()
    }

    /// Whether the whole file lies on the targets that files are striped over by load.
    fn is_on_stripes(&self, layout: &Layout) -> bool {
        let Some(tier) = self.settings.stripes.as_ref().and_then(|of| of.tier) else { return true };
        let targets = &self.recorder.targets;
        let on_tier = |target| targets.get(target).is_some_and(|target| target.tier() == tier);
        layout.objects().all(|(_, object)| on_tier(object.target))
    }

    /// Index of the mirror that is read, and one of its segments.
    pub(super) fn segment(&self, file: &File, index: u64) -> Option<(usize, policy::layout::Segment)> {
        let layout = file.layout()?;
        let (mirror, segments) = read_from(&layout)?;
        Some((mirror, segments.get(usize::try_from(index).ok()?)?.clone()))
    }
}

/// Whether a user requested the file's layout, or another mechanism decides it.
fn is_asked_for(file: &File, layout: &Layout) -> bool {
    let requested = layout.history.iter().any(|(_, reason)| *reason == Reason::Requested);
    requested || layout.is_merged() || file.is_claimed(Mechanism::Burst)
}
