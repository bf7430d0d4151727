//! Faults of a target in memory, decided by a seed.

use crate::target::MISSED_DEADLINE;
use rustix::io::Errno;

/// Faults to inject. All chances are in 65 536.
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
    /// Chance that an operation misses its deadline: it may have its effect, and returns [`MISSED_DEADLINE`].
    pub deadline_chance: u16,
    /// Probes fail with this error.
    pub probe: Option<Errno>,
    /// Chance that only a first part of a write lands, and the write fails with `EIO`.
    pub torn_chance: u16,
    /// Every sync of an object fails with `EIO` and loses changes that were not durable, as in a kernel whose writes
    /// were refused.
    pub syncs_lose: bool,
    /// Data and holes are those of the durable bytes, as on a file system that ignores its dirty pages.
    pub seeks_lag: bool,
    /// All changes are refused with `EROFS`.
    pub read_only: bool,
}

/// Kind of operation, for the choice of faults.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Create,
    Open,
    Read,
    Write,
    /// Fails only when the medium is gone or `Faults::probe` is set, so that tests control health.
    Probe,
    /// Any other change.
    Change,
    Other,
    /// Sync of an object.
    Sync,
}

/// Outcome of an operation that is not refused at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Normal,
    /// The effect happens, but the answer comes too late.
    Late,
    /// Only this share of 65 536 of a write lands.
    Torn(u16),
}

impl Verdict {
    /// Executes the operation with this outcome.
    pub fn apply<T>(self, operation: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        let result = operation();
        if self == Verdict::Late { Err(MISSED_DEADLINE) } else { result }
    }
}

/// Faults of one medium, and the random numbers that choose among them.
pub struct FaultPlan {
    faults: Faults,
    pub operations: u64,
    nth_at: u64,
    pub gone: bool,
    random: u64,
}

impl FaultPlan {
    pub fn new(seed: u64) -> FaultPlan {
        FaultPlan { faults: Faults::default(), operations: 0, nth_at: 0, gone: false, random: seed }
    }

    pub fn set(&mut self, faults: Faults) {
        self.nth_at = faults.nth.map_or(0, |(n, _)| self.operations + n);
        self.faults = faults;
    }

    /// Whether seeking reports only durable bytes.
    pub fn seeks_lag(&self) -> bool {
        self.faults.seeks_lag
    }

    /// Whether a sync of an object loses its changes.
    pub fn syncs_lose(&self) -> bool {
        self.faults.syncs_lose
    }

    /// Returns a random bit.
    pub fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// Counts an operation and returns its outcome.
    pub fn begin(&mut self, kind: Kind) -> Result<Verdict, Errno> {
        self.operations += 1;
        if self.gone {
            return Err(Errno::NODEV);
        }
        if self.faults.read_only && matches!(kind, Kind::Create | Kind::Write | Kind::Change | Kind::Probe) {
            return Err(Errno::ROFS);
        }
        if kind == Kind::Probe {
            return self.faults.probe.map_or(Ok(Verdict::Normal), Err);
        }
        if let Some((_, errno)) = self.faults.nth
            && self.operations == self.nth_at
        {
            return Err(errno);
        }
        let makes_space_scarce = matches!(kind, Kind::Write | Kind::Create);
        if self.chance(self.faults.io_chance) {
            return Err(Errno::IO);
        }
        if makes_space_scarce && self.chance(self.faults.nospace_chance) {
            return Err(Errno::NOSPC);
        }
        if kind == Kind::Open && self.chance(self.faults.noent_chance) {
            return Err(Errno::NOENT);
        }
        if self.chance(self.faults.deadline_chance) {
            return if self.coin() { Ok(Verdict::Late) } else { Err(MISSED_DEADLINE) };
        }
        if kind == Kind::Write && self.chance(self.faults.torn_chance) {
            return Ok(Verdict::Torn(self.next() as u16));
        }
        Ok(Verdict::Normal)
    }

    fn chance(&mut self, chance: u16) -> bool {
        chance > 0 && (self.next() as u16) < chance
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
