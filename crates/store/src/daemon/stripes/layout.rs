//! How a file lies, in the striper's words.

use super::Stripes;
use crate::daemon::Core;
use crate::file::File;
use policy::FileId;
use policy::layout::{Layout, Mirror, MirrorState, ObjectState, Reason};
use policy::stripe::forks::Shape;
use policy::stripe::striper::Event;
use policy::volume::ownership::{Aspect, Mechanism, owner};
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

    /// Whether stripes decide its shape, and it lies where they may.
    fn is_ours(&self, core: &Core, file: &File, layout: &Layout) -> bool {
        let tier = self.section.tier;
        let on_tier =
            |target| core.pool.targets.get(target).is_some_and(|target| tier.is_none_or(|tier| target.tier() == tier));
        let decides = owner(Aspect::Shape, |mechanism| has_claim(core, file, layout, mechanism));
        decides == Some(Mechanism::Stripes) && layout.objects().all(|(_, object)| on_tier(object.target))
    }
}

/// Whether a mechanism has a claim on a file that lies so.
fn has_claim(core: &Core, file: &File, layout: &Layout, mechanism: Mechanism) -> bool {
    match mechanism {
        Mechanism::Burst | Mechanism::Tiers => file.is_claimed(mechanism),
        Mechanism::Repair => {
            layout.mirrors.iter().any(|mirror| mirror.state != MirrorState::InSync)
                || layout.objects().any(|(_, object)| object.state != ObjectState::Complete)
        }
        Mechanism::User => layout.is_merged() || layout.history.iter().any(|(_, reason)| *reason == Reason::Requested),
        Mechanism::Replicas => core.replicas.has(layout.file),
        Mechanism::Stripes => true,
    }
}
