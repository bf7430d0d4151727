//! What the mount's threads ask of the stripes: they count, and say how files grow and are written.

use super::Stripes;
use crate::file::{Access, Adviser, File, MirrorWrites};
use policy::layout::Placement;

impl Adviser for Stripes {
    fn watches(&self, _file: &File) -> bool {
        self.adapts()
    }

    fn accessed(&self, file: &File, access: Access) {
        file.load().count(access);
    }

    /// Files whose directory or owner asked for a layout of their own keep it.
    fn place(&self, file: &File, _from: u64, place: &mut Placement) {
        let usual = &file.pool().placement;
        if (place.stripe_size, place.stripe_count) != (usual.stripe_size, usual.stripe_count) {
            return;
        }
        if let Some(shape) = self.machine.lock().placement(file.id()) {
            place.stripe_size = shape.unit_bytes;
            place.stripe_count = shape.devices as usize;
        }
    }

    /// A file with forks is written as the rules say; one whose mirrors are there for safety as the volume says.
    fn mirror_writes(&self, file: &File) -> Option<MirrorWrites> {
        let id = file.id().filter(|id| self.forks.has(*id))?;
        let online = self.machine.lock().online(id);
        Some(if online { MirrorWrites::Sync } else { MirrorWrites::Stale })
    }
}
