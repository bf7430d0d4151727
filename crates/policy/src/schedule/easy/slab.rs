//! The jobs, in reusable slots, so that a job costs no allocation of its own.

use super::{JobId, Standing};
use crate::time::Time;
#[expect(
    clippy::disallowed_types,
    reason = "asked for one number at a time, never gone through: its order does not matter"
)]
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::{Index, IndexMut};

/// Data that the scheduler keeps of a job.
#[derive(Debug)]
pub(super) struct Slot {
    pub id: JobId,
    pub queue: usize,
    /// Share of its queue's capacity that it takes.
    pub need: u32,
    pub estimate: Time,
    pub standing: Standing,
    /// Estimated end of a running job.
    pub end: Time,
    /// Dependencies that have not ended yet.
    pub unmet: u32,
    /// The jobs that wait for its end.
    pub dependants: Vec<Dependant>,
    /// Place of a waiting job in its queue.
    pub place: u64,
}

/// A job that waits for the end of another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dependant {
    pub id: JobId,
    /// Whether the dependant is dropped if the other job fails.
    pub must_succeed: bool,
}

/// All known jobs.
#[derive(Debug, Default)]
pub(super) struct Slab {
    slots: Vec<Slot>,
    free: Vec<u32>,
    #[expect(clippy::disallowed_types, reason = "see above")]
    by_id: HashMap<JobId, u32, BuildHasherDefault<OfNumber>>,
}

/// Hash of job numbers, which mostly count up; the same in every run.
#[derive(Debug, Default)]
struct OfNumber(u64);

impl Hasher for OfNumber {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15); // 2^64 over the golden ratio (Knuth, 6.4)
        self.0 = mixed ^ mixed >> 32;
    }
}

impl Slab {
    /// Slot of a job.
    pub(super) fn find(&self, id: JobId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// Adds a new job, which is held.
    pub(super) fn insert(&mut self, id: JobId, queue: usize, need: u32, estimate: Time) -> u32 {
        let job = Slot {
            id,
            queue,
            need,
            estimate,
            standing: Standing::Held,
            end: Time::ZERO,
            unmet: 0,
            dependants: Vec::new(),
            place: 0,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = job;
                slot
            }
            None => {
                self.slots.push(job);
                (self.slots.len() - 1) as u32
            }
        };
        self.by_id.insert(id, slot);
        slot
    }

    /// Removes a job; returns the jobs that waited for it.
    pub(super) fn remove(&mut self, slot: u32) -> Vec<Dependant> {
        let id = self[slot].id;
        self.by_id.remove(&id);
        self.free.push(slot);
        std::mem::take(&mut self[slot].dependants)
    }
}

impl Index<u32> for Slab {
    type Output = Slot;
    fn index(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }
}

impl IndexMut<u32> for Slab {
    fn index_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }
}
