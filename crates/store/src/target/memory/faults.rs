//! What goes wrong with a target in memory, decided by a seed.

use rustix::io::Errno;

/// What [`Execution::Inline`](crate::target::Execution::Inline) takes for a missed deadline.
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
    /// Probes fail with this error.
    pub probe: Option<Errno>,
    /// Chance that of a write only a first part lands, and the write fails with `EIO`.
    pub torn_chance: u16,
    /// Every sync of an object fails with `EIO` and loses what was not durable, as a kernel does whose writes were refused.
    pub syncs_lose: bool,
    /// Data and holes are told by what is durable, as on a file system that does not look at what it has in memory.
    pub seeks_lag: bool,
    /// Everything that changes something is refused with `EROFS`.
    pub read_only: bool,
}

/// What an operation does, as far as faults are concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Create,
    Open,
    Read,
    Write,
    /// Suffers only when the medium is gone or told to, so that health follows what tests say.
    Probe,
    /// Any other change.
    Change,
    Other,
    /// Of an object.
    Sync,
}

/// What happens to an operation that is not refused at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Normal,
    /// It has its effect, but the answer comes too late.
    Late,
    /// Of a write, this share of 65 536 lands.
    Torn(u16),
}

impl Verdict {
    /// Carries the operation out as the verdict says.
    pub fn apply<T>(self, operation: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        let result = operation();
        if self == Verdict::Late { Err(MISSED_DEADLINE) } else { result }
    }
}

/// The faults of one medium and the random numbers that choose among them.
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

    /// Whether seeking sees only what is durable.
    pub fn seeks_lag(&self) -> bool {
        self.faults.seeks_lag
    }

    /// Whether a sync of an object loses what it was to make durable.
    pub fn syncs_lose(&self) -> bool {
        self.faults.syncs_lose
    }

    /// Heads or tails.
    pub fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// Counts an operation and says what happens to it.
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
