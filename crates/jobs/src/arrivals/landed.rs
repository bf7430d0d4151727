//! Staged data that have landed: they occupy space and no longer count as promised.

use super::Shared;
use policy::Time;
use std::time::{Duration, Instant};

/// Shortest interval between two measurements, so that callers are not delayed each time. A guess.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// State of the measurements.
pub struct Landed {
    began: Instant,
    next: Instant,
}

impl Default for Landed {
    fn default() -> Landed {
        Landed { began: Instant::now(), next: Instant::now() }
    }
}

impl Landed {
    /// Updates the bytes that are still to come, from the progress that the volume reports.
    pub fn look(&mut self, shared: &Shared) {
        if Instant::now() < self.next {
            return;
        }
        let coming = shared.view.lock().coming();
        for (ticket, mut parts) in coming {
            for part in &mut parts {
                let left = shared.volume.left(part.owner, &part.wanted, part.coming.promised());
                let now = Time(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX));
                part.coming.told(now, left);
            }
            shared.view.lock().comes(ticket, parts);
        }
        self.next = Instant::now() + LOOK_EVERY;
    }
}
