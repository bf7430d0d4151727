//! Detection of idle devices, from the counters of their targets.
//!
//! A device is quiet if its tier had no accesses and its target no traffic since the last look, and it has no running
//! work. The traffic of targets that our own moves use, or used since the last look, is ignored; for them only accesses
//! count.

use super::log::Access;
use object::target::Targets;
use parking_lot::Mutex;
use policy::TargetId;
use policy::tier::Tier;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(super) struct Quiet {
    /// Bytes transferred by each target, at the last look.
    seen: BTreeMap<TargetId, u64>,
}

/// The targets of moves that run, or ran since the last look, with the numbers of those that run.
#[derive(Default)]
pub(super) struct Ours(Mutex<BTreeMap<TargetId, u32>>);

impl Ours {
    pub fn begin(&self, targets: &[TargetId]) {
        let mut moves = self.0.lock();
        targets.iter().for_each(|target| *moves.entry(*target).or_default() += 1);
    }

    pub fn end(&self, targets: &[TargetId]) {
        let mut moves = self.0.lock();
        targets.iter().for_each(|target| *moves.entry(*target).or_default() -= 1);
    }

    fn take(&self) -> BTreeSet<TargetId> {
        let mut moves = self.0.lock();
        let all = moves.keys().copied().collect();
        moves.retain(|_, running| *running > 0);
        all
    }
}

impl Quiet {
    /// Whether the fast and the slow tier were quiet since the last look.
    pub fn look(&mut self, targets: &Targets, accesses: &[Access], ours: &Ours, tiers: [u8; 2]) -> [bool; 2] {
        let mut quiet = [Tier::Fast, Tier::Slow].map(|tier| accesses.iter().all(|access| access.tier != tier));
        let ours = ours.take();
        for target in targets.all() {
            let Some(at) = tiers.iter().position(|tier| *tier == target.tier()) else { continue };
            let counters = target.counters();
            let bytes = counters.read_bytes.get() + counters.written_bytes.get();
            let same = self.seen.insert(target.id(), bytes).is_none_or(|seen| seen == bytes);
            let counts = !ours.contains(&target.id());
            quiet[at] &= !counts || (same && counters.under_way().operations == 0);
        }
        quiet
    }
}
