//! The anticipatory scheduler of Linux 2.6: after a read it waits briefly, in case its owner's next one is near.
//!
//! Reference, section 5. Requests go in the order of a one-way elevator. It may step back at most `back_sectors_max`,
//! and less than half as far as the next request forward. Batches of reads and writes alternate by time; an expired
//! request starts its batch. In a read batch the device has one read at a time. After each read the scheduler idles
//! up to `wait_max` if the owner's think time and seek distance make a near request likely.

use super::pending::{Io, Pending, Slot};
use policy::time::Time;

/// Parameters; the defaults are those of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anticipatory {
    /// Time until a read expires: 125 ms.
    pub read_expiry: Time,
    /// Time until a write expires: 250 ms.
    pub write_expiry: Time,
    /// Length of a batch of reads while writes wait: 500 ms.
    pub read_batch: Time,
    /// Length of a batch of writes while reads wait: 125 ms.
    pub write_batch: Time,
    /// Maximum wait for a near read: 6 ms.
    pub wait_max: Time,
    /// Longest think time for which the scheduler waits; longer samples count as this: 20 ms.
    pub think_max: Time,
    /// Longest step back: 1048576 sectors.
    pub back_sectors_max: u64,
}

impl Default for Anticipatory {
    fn default() -> Anticipatory {
        Anticipatory {
            read_expiry: Time::from_millis(125),
            write_expiry: Time::from_millis(250),
            read_batch: Time::from_millis(500),
            write_batch: Time::from_millis(125),
            wait_max: Time::from_millis(6),
            think_max: Time::from_millis(20),
            back_sectors_max: 1 << 20,
        }
    }
}

/// Owners that are recorded; the table is direct-mapped by the owner's number.
const OWNERS: usize = 256;

#[derive(Debug)]
pub(super) struct State {
    config: Anticipatory,
    write: bool,
    batch_until: Time,
    head: u64,
    owners: Vec<Owner>,
    /// Owner of the last completed read, and the end of the wait for its next one.
    waiting: Option<(u32, Time)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Owner {
    owner: u32,
    last_end: u64,
    last_done: Time,
    think_mean_ns: u64,
    seek_mean_sectors: u64,
    samples: u32,
}

pub(super) enum Dispatch {
    Start(Slot),
    WaitUntil(Time),
}

impl State {
    pub(super) fn new(config: Anticipatory) -> State {
        let owner = Owner { owner: u32::MAX, ..Owner::default() };
        State { config, write: false, batch_until: Time::ZERO, head: 0, owners: vec![owner; OWNERS], waiting: None }
    }

    /// Records the arrival of a request in the statistics of its owner.
    pub(super) fn arrived(&mut self, now: Time, io: &Io) {
        if io.write {
            return;
        }
        let think_max = self.config.think_max.0;
        let entry = &mut self.owners[io.owner as usize % OWNERS];
        if entry.owner != io.owner {
            *entry = Owner { owner: io.owner, last_end: io.end(), last_done: now, ..Owner::default() };
            return;
        }
        let think = (now - entry.last_done).0.min(think_max);
        let seek = io.sector.abs_diff(entry.last_end);
        let mean = |mean: u64, sample: u64| mean - mean / 8 + sample / 8;
        let first = entry.samples == 0;
        entry.think_mean_ns = if first { think } else { mean(entry.think_mean_ns, think) };
        entry.seek_mean_sectors = if first { seek } else { mean(entry.seek_mean_sectors, seek) };
        entry.samples += 1;
        entry.last_end = io.end();
    }

    pub(super) fn completed(&mut self, now: Time, io: &Io) {
        if io.write {
            return;
        }
        let entry = &mut self.owners[io.owner as usize % OWNERS];
        if entry.owner != io.owner {
            return;
        }
        entry.last_done = now;
        let likely = entry.samples > 0
            && entry.think_mean_ns <= self.config.wait_max.0
            && entry.seek_mean_sectors <= self.config.back_sectors_max;
        self.waiting = likely.then(|| (io.owner, now + self.config.wait_max));
    }

    /// Chooses the next of the waiting requests, of which there is at least one, or the time to wait for a better
    /// one.
    pub(super) fn choose(&mut self, now: Time, pending: &Pending) -> Dispatch {
        let batch_goes_on = !self.write && now < self.batch_until && pending.waiting_of(false) == 0;
        if let Some((_, until)) = self.waiting.filter(|&(_, until)| batch_goes_on && now < until) {
            return Dispatch::WaitUntil(until); // only writes wait, and a write would move the head away
        }
        let write = self.direction(now, pending);
        if write != self.write {
            self.waiting = None;
        }
        let slot = self.elevator(now, write, pending);
        if !write && let Some((owner, until)) = self.waiting {
            let io = pending.io(slot);
            let near = io.owner == owner || io.sector.abs_diff(self.head) <= self.near(owner);
            if now < until && !near && !self.expired(now, false, pending) {
                return Dispatch::WaitUntil(until);
            }
        }
        if write != self.write || self.batch_until == Time::ZERO {
            self.write = write;
            self.batch_until = now + if write { self.config.write_batch } else { self.config.read_batch };
        }
        self.waiting = None;
        self.head = pending.io(slot).end();
        Dispatch::Start(slot)
    }

    /// Distance at which another owner's request is as good as the owner's own.
    fn near(&self, owner: u32) -> u64 {
        self.owners[owner as usize % OWNERS].seek_mean_sectors
    }

    fn expired(&self, now: Time, write: bool, pending: &Pending) -> bool {
        let expiry = if write { self.config.write_expiry } else { self.config.read_expiry };
        pending.oldest(write).is_some_and(|(_, since)| since + expiry <= now)
    }

    fn direction(&self, now: Time, pending: &Pending) -> bool {
        let (reads, writes) = (pending.waiting_of(false) > 0, pending.waiting_of(true) > 0);
        match (reads, writes) {
            (true, false) => false,
            (false, _) => true,
            (true, true) if now >= self.batch_until => !self.write,
            (true, true) => self.write,
        }
    }

    fn elevator(&self, now: Time, write: bool, pending: &Pending) -> Slot {
        if self.expired(now, write, pending) {
            return pending.oldest(write).expect("it has expired").0;
        }
        let forward = pending.at_or_after(write, self.head);
        let back = pending.before(write, self.head);
        match (forward, back) {
            (Some(forward), Some(back)) => {
                let ahead = pending.io(forward).sector - self.head;
                let behind = self.head - pending.io(back).sector;
                if behind <= self.config.back_sectors_max && behind * 2 < ahead { back } else { forward }
            }
            (Some(forward), None) => forward,
            (None, _) => pending.at_or_after(write, 0).expect("the direction has requests"),
        }
    }
}
