//! A target in memory, with faults on demand: for tests of everything above targets.
//!
//! It keeps for every object what is synced and what is not, as a page cache would; [`MemoryMedium::crash`] keeps or
//! loses each unsynced part as the seed decides. Deterministic: the same seed and calls give the same results.

use super::medium::{Handle, Medium, Space};
use policy::ObjectId;
use rustix::io::Errno;
use std::sync::Arc;

/// What [`super::Execution::Inline`] takes for a missed deadline.
pub const MISSED_DEADLINE: Errno = Errno::TIME;

/// What goes wrong. All chances are in 65 536.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The n-th operation from now (counting from 1) fails with this error, once.
    pub nth: Option<(u64, Errno)>,
    /// Chance that an operation fails with `EIO`.
    pub io_chance: u16,
    /// Chance that a write or create fails with `ENOSPC`.
    pub nospace_chance: u16,
    /// Chance that an open fails with `ENOENT`.
    pub noent_chance: u16,
    /// Chance that an operation misses its deadline: it has its effect or not, and says [`MISSED_DEADLINE`].
    pub deadline_chance: u16,
    /// Chance that of a write only a first part lands, and the write fails with `EIO`.
    pub torn_chance: u16,
}

/// Objects in memory. Clones share the objects.
#[derive(Clone)]
pub struct MemoryMedium {}

impl MemoryMedium {
    /// An empty medium without faults and without limit.
    pub fn new(seed: u64) -> MemoryMedium {
        let _ = seed;
        todo!()
    }
    /// Replaces the fault plan.
    pub fn set_faults(&self, faults: Faults) {
        let _ = faults;
        todo!()
    }
    /// Makes all operations fail with `ENODEV` (`true`), or brings the medium back as it was (`false`).
    pub fn set_gone(&self, gone: bool) {
        let _ = gone;
        todo!()
    }
    /// Limits the bytes that fit.
    pub fn set_capacity_bytes(&self, capacity_bytes: u64) {
        let _ = capacity_bytes;
        todo!()
    }
    /// Loses power: what was not synced is kept or lost, as the seed decides. Handles opened before fail with `EIO`.
    pub fn crash(&self) {
        todo!()
    }
    /// Operations so far.
    pub fn operations(&self) -> u64 {
        todo!()
    }
    /// The bytes of an object as they are now, without faults.
    pub fn peek(&self, id: ObjectId) -> Option<Vec<u8>> {
        let _ = id;
        todo!()
    }
    /// Changes the bytes of an object behind everybody's back.
    pub fn poke(&self, id: ObjectId, offset: u64, data: &[u8]) {
        let _ = (id, offset, data);
        todo!()
    }
}

impl Medium for MemoryMedium {
    fn create(&self, _: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        todo!()
    }
    fn open(&self, _: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        todo!()
    }
    fn remove(&self, _: ObjectId) -> Result<(), Errno> {
        todo!()
    }
    fn sync_names(&self) -> Result<(), Errno> {
        todo!()
    }
    fn list(&self) -> Result<Vec<ObjectId>, Errno> {
        todo!()
    }
    fn probe(&self) -> Result<(), Errno> {
        todo!()
    }
    fn space(&self) -> Result<Space, Errno> {
        todo!()
    }
}
