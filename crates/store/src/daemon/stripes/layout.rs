//! How a file lies, in the striper's words.

use super::Stripes;
use crate::daemon::Core;
use crate::file::File;
use policy::FileId;
use policy::layout::{Layout, Mirror, MirrorState, ObjectState, Reason};
use policy::stripe::forks::Shape;
use policy::stripe::striper::Event;
use std::sync::Arc;

/// The shape of most of a mirror: that of its longest segment within the file.
fn shape(mirror: &Mirror, size: u64) -> Shape {
    let len = |segment: &&policy::layout::Segment| segment.end.min(size.max(1)).saturating_sub(segment.start);
    let longest = mirror.segments.iter().max_by_key(len);
    longest.map_or(Shape { devices: 1, unit_bytes: 4096 }, |segment| Shape {
        devices: segment.objects.len() as u32,
        unit_bytes: segment.stripe_size,
    })
}

impl Stripes {
    /// How the file lies, and whether it may be changed now.
    pub(super) fn lies(&self, core: &Core, id: FileId, file: &Arc<File>) -> Option<Event> {
        let layout = file.layout()?;
        let bytes = file.size();
        let forks: Vec<Shape> = layout.mirrors.iter().map(|mirror| shape(mirror, bytes)).collect();
        let keep = self.forks.keep(id, forks.len());
        let movable = self.adapts() && self.is_ours(core, file, &layout) && bytes > 0;
        Some(Event::Lies { file: id, forks, keep, bytes, movable, open: file.is_open() })
    }

    /// Whether nobody else has a say in how it lies.
    fn is_ours(&self, core: &Core, file: &File, layout: &Layout) -> bool {
        let tier = self.section.tier;
        let on_tier =
            |target| core.pool.targets.get(target).is_some_and(|target| tier.is_none_or(|tier| target.tier() == tier));
        // The burst buffer and the tiers have their own mind about where their files lie.
        let others_watch = file.pool().advisers().iter().filter(|adviser| adviser.watches(file)).count() > 1;
        let asked_for = layout.history.iter().any(|(_, reason)| *reason == Reason::Requested);
        !asked_for
            && !layout.is_merged()
            && !core.replicas.has(layout.file)
            && !others_watch
            && layout.mirrors.iter().all(|mirror| mirror.state == MirrorState::InSync)
            && layout.objects().all(|(_, object)| object.state == ObjectState::Complete && on_tier(object.target))
    }
}
