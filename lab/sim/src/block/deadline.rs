//! The deadline scheduler of Linux 2.6: batches in sector order, reads before writes, and no request waits without
//! limit.
//!
//! Reference, section 5. A batch continues in sector order for up to `batch_max` requests. A new batch prefers reads
//! unless writes were passed over `writes_starved_max` times. It starts at the oldest request of its direction if
//! that has expired, otherwise behind the last one started, otherwise at the lowest sector. *Behind* compares the
//! starts of requests, as in Linux' tree: a request that begins within the last one is next, and does not wait for
//! another round.

use super::pending::{Pending, Slot};
use policy::time::Time;

/// Parameters; the defaults are those of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// Time until a read expires: 500 ms.
    pub read_expiry: Time,
    /// Time until a write expires: 5 s.
    pub write_expiry: Time,
    /// Requests in a batch: 16.
    pub batch_max: u32,
    /// Read batches that may pass waiting writes: 2.
    pub writes_starved_max: u32,
}

impl Default for Deadline {
    fn default() -> Deadline {
        Deadline {
            read_expiry: Time::from_millis(500),
            write_expiry: Time::from_secs(5),
            batch_max: 16,
            writes_starved_max: 2,
        }
    }
}

#[derive(Debug)]
pub(super) struct State {
    config: Deadline,
    write: bool,
    batched: u32,
    last_sector: u64,
    writes_starved: u32,
}

impl State {
    pub(super) fn new(config: Deadline) -> State {
        // No batch is under way, so the batch counts as used up.
        State { config, write: false, batched: u32::MAX, last_sector: 0, writes_starved: 0 }
    }

    /// Chooses the next of the waiting requests, of which there is at least one.
    pub(super) fn choose(&mut self, now: Time, pending: &Pending) -> Slot {
        let continued =
            (self.batched < self.config.batch_max).then(|| pending.at_or_after(self.write, self.last_sector)).flatten();
        let slot = match continued {
            Some(slot) => slot,
            None => self.new_batch(now, pending),
        };
        self.batched += 1;
        self.last_sector = pending.io(slot).sector;
        slot
    }

    fn new_batch(&mut self, now: Time, pending: &Pending) -> Slot {
        let (reads, writes) = (pending.waiting_of(false) > 0, pending.waiting_of(true) > 0);
        let starved = writes && self.writes_starved >= self.config.writes_starved_max;
        let write = !reads || starved;
        self.writes_starved = match (write, writes) {
            (false, true) => self.writes_starved + 1,
            (false, false) => self.writes_starved,
            (true, _) => 0,
        };
        self.write = write;
        self.batched = 0;
        let expiry = if write { self.config.write_expiry } else { self.config.read_expiry };
        let (oldest, since) = pending.oldest(write).expect("the direction has requests");
        if since + expiry <= now {
            return oldest;
        }
        let onward = pending.at_or_after(write, self.last_sector);
        onward.or_else(|| pending.at_or_after(write, 0)).expect("the direction has requests")
    }
}
