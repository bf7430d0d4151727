//! Jobs that wait in one queue, in order: arrays for fast scans through many jobs, with the minimum of each block
//! beside them.
//!
//! ```text
//!  place      base ....................................... base + len
//!  needs      [ 4 8 x 2 | x x 16 1 | 2 2 ...              x: left the queue
//!  estimates  [ . . . . | . .  . . | . . ...
//!  blocks     [ least 2 | least  1 | ...                  a block in which nothing can start is passed over; what is noted may be
//!                                                         less than the least that is left, until it has misled a look
//!  groups     [ least 1              | ...                the same of many blocks
//! ```
//!
//! A job's *place* is a number that only grows, so the order of places is the order of entering. Places that were left
//! stay until they are half of the array; then every job gets a new one.

use crate::time::Time;

/// Places in a block. Both numbers are small in tests, so that short queues have several groups.
const BLOCK: usize = if cfg!(test) { 4 } else { 32 };
/// Places in a group: whole blocks.
const GROUP: usize = BLOCK * if cfg!(test) { 3 } else { 32 };

/// No job in the slab has this slot.
const NOBODY: u32 = u32::MAX;

/// Limits for a job that is to start beside the blocked head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Capacity that is free now; more than 0.
    pub free: i64,
    /// Capacity that is free at the shadow time beside the head.
    pub extra: i64,
    /// How long it is until then.
    pub span: Time,
}

impl Limits {
    fn allow(&self, need: u32, estimate: Time) -> bool {
        let need = i64::from(need);
        (need <= self.free) & ((estimate <= self.span) | (need <= self.extra))
    }
}

/// Minimum of a block; the block may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Least {
    need: u32,
    estimate: Time,
}

impl Least {
    const NOBODY: Least = Least { need: u32::MAX, estimate: Time(u64::MAX) };

    fn with(self, need: u32, estimate: Time) -> Least {
        Least { need: self.need.min(need), estimate: self.estimate.min(estimate) }
    }
}

/// The jobs of a queue.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The place of the first entry of the arrays.
    base: u64,
    /// Entries before this one are empty.
    first: usize,
    count: usize,
    slots: Vec<u32>,
    needs: Vec<u32>,
    estimates: Vec<Time>,
    blocks: Vec<Least>,
    groups: Vec<Least>,
}

impl Waiting {
    /// The first job.
    pub(super) fn head(&self) -> Option<u32> {
        self.slots.get(self.first).copied()
    }

    /// The place of the first job, or of the next to come.
    pub(super) fn head_place(&self) -> u64 {
        self.base + self.first as u64
    }

    /// The jobs in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.slots[self.first..].iter().copied().filter(|slot| *slot != NOBODY)
    }

    /// Puts a job at the end; returns its place.
    pub(super) fn push(&mut self, slot: u32, need: u32, estimate: Time) -> u64 {
        if self.slots.len().is_multiple_of(BLOCK) {
            self.blocks.push(Least::NOBODY);
        }
        if self.slots.len().is_multiple_of(GROUP) {
            self.groups.push(Least::NOBODY);
        }
        for least in [self.blocks.last_mut(), self.groups.last_mut()].into_iter().flatten() {
            *least = least.with(need, estimate);
        }
        self.slots.push(slot);
        self.needs.push(need);
        self.estimates.push(estimate);
        self.count += 1;
        self.base + self.slots.len() as u64 - 1
    }

    /// Takes out the job at a place.
    pub(super) fn remove(&mut self, place: u64) {
        let at = (place - self.base) as usize;
        self.slots[at] = NOBODY;
        self.count -= 1;
        (self.needs[at], self.estimates[at]) = (u32::MAX, Time(u64::MAX));
        while self.slots.get(self.first) == Some(&NOBODY) {
            self.first += 1;
        }
    }

    /// Whether enough places are empty that every job should get a new one.
    pub(super) fn is_sparse(&self) -> bool {
        self.slots.len() > 64 && self.count < self.slots.len() / 2
    }

    /// Drops empty places. `moved` receives each job's new place, in order.
    pub(super) fn compact(&mut self, mut moved: impl FnMut(u32, u64)) {
        let all = std::mem::take(self);
        self.base = all.base + all.slots.len() as u64;
        for (at, slot) in all.slots.iter().enumerate().filter(|(_, slot)| **slot != NOBODY) {
            moved(*slot, self.push(*slot, all.needs[at], all.estimates[at]));
        }
    }

    /// The place behind the `n`-th job at or after a place.
    pub(super) fn behind(&self, place: u64, n: usize) -> u64 {
        let at = place.saturating_sub(self.base) as usize;
        let jobs = self.slots.iter().enumerate().skip(at).filter(|(_, slot)| **slot != NOBODY);
        match n.checked_sub(1) {
            None => place,
            Some(n) => jobs.map(|(at, _)| self.base + at as u64 + 1).nth(n).unwrap_or(u64::MAX),
        }
    }

    /// The first job from one place to before another that may start; its place and slot.
    pub(super) fn first_within(&mut self, from: u64, to: u64, limits: &Limits) -> Option<(u64, u32)> {
        let end = (to.saturating_sub(self.base)).min(self.slots.len() as u64) as usize;
        let mut at = (from.saturating_sub(self.base) as usize).max(self.first);
        let mut looked_into = usize::MAX;
        while at < end {
            let group = at / GROUP;
            if group != looked_into {
                let least = self.groups[group];
                if !limits.allow(least.need, least.estimate) {
                    at = (group + 1) * GROUP;
                    continue;
                }
                looked_into = group;
            }
            let block = at / BLOCK;
            let last = ((block + 1) * BLOCK).min(end);
            let least = self.blocks[block];
            if limits.allow(least.need, least.estimate) {
                let jobs = self.needs[at..last].iter().zip(&self.estimates[at..last]);
                let allowed = jobs.enumerate().filter(|(_, (need, estimate))| limits.allow(**need, **estimate));
                let somebody = allowed.map(|(n, _)| at + n).find(|at| self.slots[*at] != NOBODY);
                if let Some(at) = somebody {
                    return Some((self.base + at as u64, self.slots[at]));
                }
                self.blocks[block] = self.least_of(block);
            }
            at = last;
            if at.is_multiple_of(GROUP) {
                self.groups[group] = self.least_of_group(group); // it has misled this look
            }
        }
        None
    }

    /// Panics if an invariant is broken.
    pub(super) fn check(&self) {
        assert_eq!(self.iter().count(), self.count);
        assert!(self.head().is_none_or(|slot| slot != NOBODY), "the first is somebody");
        assert_eq!(self.blocks.len(), self.slots.len().div_ceil(BLOCK));
        for (block, least) in self.blocks.iter().enumerate() {
            let left = self.least_of(block);
            assert!(
                least.need <= left.need && least.estimate <= left.estimate,
                "no more than the least of block {block}"
            );
        }
        assert_eq!(self.groups.len(), self.slots.len().div_ceil(GROUP));
        for (group, least) in self.groups.iter().enumerate() {
            let left = self.least_of_group(group);
            assert!(least.need <= left.need && least.estimate <= left.estimate, "no more than that of group {group}");
        }
    }

    fn least_of_group(&self, group: usize) -> Least {
        let blocks = group * GROUP / BLOCK..((group + 1) * GROUP / BLOCK).min(self.blocks.len());
        self.blocks[blocks].iter().fold(Least::NOBODY, |all, least| all.with(least.need, least.estimate))
    }

    fn least_of(&self, block: usize) -> Least {
        let range = block * BLOCK..((block + 1) * BLOCK).min(self.slots.len());
        let jobs = self.needs[range.clone()].iter().zip(&self.estimates[range]);
        jobs.fold(Least::NOBODY, |least, (need, estimate)| least.with(*need, *estimate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The tree finds the same jobs as a walk of a list.
        #[test]
        fn finds_what_a_walk_finds(
            steps in prop::collection::vec((0u8..4, 1u32..20, 0u64..50, any::<prop::sample::Index>()), 1..400),
        ) {
            let mut waiting = Waiting::default();
            let mut plain: BTreeMap<u64, (u32, u32, u64)> = BTreeMap::new();
            for (number, (what, need, estimate, which)) in steps.into_iter().enumerate() {
                if what < 2 {
                    let place = waiting.push(number as u32, need, Time(estimate));
                    prop_assert!(plain.keys().all(|p| *p < place));
                    plain.insert(place, (number as u32, need, estimate));
                } else if what == 2 && !plain.is_empty() {
                    let place = *plain.keys().nth(which.index(plain.len())).expect("in range");
                    plain.remove(&place);
                    waiting.remove(place);
                }
                if waiting.is_sparse() {
                    let mut moved = BTreeMap::new();
                    let old: Vec<_> = plain.values().copied().collect();
                    waiting.compact(|slot, place| assert!(moved.insert(place, slot).is_none()));
                    prop_assert!(moved.values().eq(old.iter().map(|(slot, ..)| slot)));
                    plain = moved.into_keys().zip(old).collect();
                }
                waiting.check();
                prop_assert_eq!(waiting.head(), plain.values().next().map(|j| j.0));
                prop_assert!(waiting.iter().eq(plain.values().map(|j| j.0)));
                let from = plain.keys().nth(which.index(plain.len() + 1)).copied().unwrap_or(0);
                let n = which.index(7);
                let to = plain.range(from..).map(|(p, _)| p + 1).nth(n.wrapping_sub(1)).unwrap_or(u64::MAX);
                let to = if n == 0 { from } else { to };
                prop_assert_eq!(waiting.behind(from, n), to);
                let limits = Limits { free: i64::from(need), extra: estimate as i64 - 25, span: Time(estimate / 2) };
                let fits = |(_, j): &(&u64, &(u32, u32, u64))| limits.allow(j.1, Time(j.2));
                for to in [to, u64::MAX] {
                    let found = plain.range(from..to.max(from)).find(fits).map(|(p, j)| (*p, j.0));
                    prop_assert_eq!(waiting.first_within(from, to, &limits), found);
                }
            }
        }
    }
}
