//! What has landed of data that come: it is used space, and counts no more as promised.

use super::Shared;
use policy::Time;
use std::time::{Duration, Instant};

/// From one look to the next, at least: those who call are not held up by it each time. A guess.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The looks at it.
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
    /// Asks the volume how much of what comes is still to come.
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
