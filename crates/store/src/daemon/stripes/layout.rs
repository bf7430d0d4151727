//! How a file lies, in the striper's words.

use super::Stripes;
use crate::daemon::Core;
use crate::file::File;
use policy::FileId;
use policy::layout::{Layout, MirrorState, ObjectState, Reason};
use policy::stripe::forks::Shape;
use policy::stripe::striper::Event;
use policy::volume::ownership::{Aspect, Mechanism, owner};
use std::sync::Arc;

impl Stripes {
    /// How the file lies, and whether it may be changed now.
    pub(super) fn lies(&self, core: &Core, id: FileId, file: &Arc<File>) -> Option<Event> {
        let layout = file.layout()?;
        let bytes = file.size();
        let forks: Vec<Shape> = layout.mirrors.iter().map(|mirror| Shape::of(mirror, bytes)).collect();
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
