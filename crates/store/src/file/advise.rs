//! Advisers: who sees what applications read and write, and has a say in how files lie.
//!
//! The parts that adapt the volume to its load (tiers, stripes, the burst buffer) are advisers. A volume without any pays
//! for one look at an empty list.

use super::{File, Pool};
use policy::layout::Placement;
use std::sync::Arc;

/// A read or a write of an application, as it came in. What the kernel answers from its own cache, or does by itself on a
/// passed-through object, is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether it writes.
    pub write: bool,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes asked for.
    pub len: u64,
}

/// Hears of accesses and has a say in layouts. Called on the threads that serve applications: must be quick, must not
/// wait, and must not call back into the file.
pub trait Adviser: Send + Sync {
    /// Whether it must hear of every access to this file; such a file is not passed through.
    fn watches(&self, file: &File) -> bool;
    /// An application reads or writes.
    fn accessed(&self, file: &File, access: Access);
    /// The file is to get segments from the byte `from` on: changes how they will lie, or leaves it.
    fn place(&self, file: &File, from: u64, place: &mut Placement);
}

impl Pool {
    /// The advisers of the volume, in the order in which they are asked.
    pub(crate) fn advisers(&self) -> &[Arc<dyn Adviser>] {
        self.advisers.get().map_or(&[], Vec::as_slice)
    }
}

impl File {
    /// An application reads or writes: tells the advisers.
    pub(crate) fn accessed(&self, access: Access) {
        for adviser in self.pool.advisers() {
            adviser.accessed(self, access);
        }
    }

    /// Whether somebody must hear of every access.
    pub(crate) fn is_watched(&self) -> bool {
        self.pool.advisers().iter().any(|adviser| adviser.watches(self))
    }

    /// How segments from the byte `from` on are to lie.
    pub(super) fn advised_placement(&self, from: u64) -> Placement {
        let mut place = self.placement();
        for adviser in self.pool.advisers() {
            adviser.place(self, from, &mut place);
        }
        place
    }
}
