//! Descriptors that a file costs: as many as an object takes for each, answered for by somebody who has it open.

use super::File;
use crate::Result;
use std::sync::{Arc, Weak};

/// Answers for the descriptors of a file's objects.
pub trait Payer: Send + Sync {
    /// Whether the file may have so many descriptors more.
    fn admit(&self, descriptors: u64) -> Result<()>;
    /// It has so many now.
    fn has(&self, descriptors: u64);
}

impl File {
    /// From now on that one answers for its descriptors, as long as it lives.
    pub(crate) fn set_payer(&self, payer: Weak<dyn Payer>) {
        *self.payer.lock() = Some(payer);
    }

    fn payer(&self) -> Option<Arc<dyn Payer>> {
        self.payer.lock().as_ref()?.upgrade()
    }

    /// Descriptors that its objects take at most.
    pub(crate) fn descriptors(&self) -> u64 {
        self.view().all().count() as u64 * self.pool.targets.descriptors_per_object()
    }

    /// Whether so many objects more may be made for it, as far as descriptors go.
    pub(super) fn admit_objects(&self, more: usize) -> Result<()> {
        self.payer().map_or(Ok(()), |payer| payer.admit(more as u64 * self.pool.targets.descriptors_per_object()))
    }

    /// Its layout was replaced.
    pub(super) fn tell_objects(&self) {
        if let Some(payer) = self.payer() {
            payer.has(self.descriptors());
        }
    }
}
