//! Descriptors of a file: a fixed number for each object, charged to a user of the file.

use super::File;
use crate::Result;
use std::sync::{Arc, Weak};

/// Account of the descriptors of a file's objects.
pub trait Payer: Send + Sync {
    /// Checks that the file may have `descriptors` more.
    fn admit(&self, descriptors: u64) -> Result<()>;
    /// Records that the file now has `descriptors`.
    fn has(&self, descriptors: u64);
}

impl File {
    /// Sets the account of the file's descriptors; a weak reference, so the file does not keep it alive.
    pub fn set_payer(&self, payer: Weak<dyn Payer>) {
        *self.payer.lock() = Some(payer);
    }

    fn payer(&self) -> Option<Arc<dyn Payer>> {
        self.payer.lock().as_ref()?.upgrade()
    }

    /// Maximum number of descriptors that the file's objects take.
    pub fn descriptors(&self) -> u64 {
        self.view().all().count() as u64 * self.pool.targets.descriptors_per_object()
    }

    /// Checks that `more` objects may be created, as far as descriptors are concerned.
    pub(super) fn admit_objects(&self, more: usize) -> Result<()> {
        self.payer().map_or(Ok(()), |payer| payer.admit(more as u64 * self.pool.targets.descriptors_per_object()))
    }

    /// Reports the number of descriptors after a change of the layout.
    pub(super) fn tell_objects(&self) {
        if let Some(payer) = self.payer() {
            payer.has(self.descriptors());
        }
    }
}
