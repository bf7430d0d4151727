//! Checksums of closed files, computed one after the other in the background.

use super::Core;
use crate::Error;
use engine::stats::Metric;
use engine::volume::Summed;
use policy::FileId;
use policy::maintenance::{Outcome, Task};

/// Subscribes to closed files, if `volume.toml` requests checksums for them.
pub(super) fn start(core: &Core) {
    if core.volume.config().checksums.files == Summed::Closed {
        let maintenance = core.maintenance.clone();
        drop(core.pool.closed.set(Box::new(move |file| maintenance.want(Task::Sum(file)))));
    }
}

/// Computes the checksums of a file, unless the daemon stops.
pub(super) fn run(core: &Core, file: FileId) -> Outcome {
    let Some(open) = core.files.noted(file) else { return Outcome::Done }; // the file is gone
    match core.checker.sum(&open, &|bytes| core.mover.throttle(bytes), core.maintenance.stop_flag()) {
        Ok(true) => {}
        Err(Error::Busy(_)) => return Outcome::Again,
        Ok(false) => core.volume.stats().add(Metric::SumsLeft, 1),
        Err(error) => {
            core.volume.stats().add(Metric::SumsLeft, 1);
            tracing::info!("{} gets no checksums now: {error}", core.pool.name_of(file));
        }
    }
    Outcome::Done
}
