//! SARC's replacement: a sequential and a random list whose sizes follow their marginal utilities (section 3.5).
//!
//! ```text
//!            MRU                              LRU
//!   SEQ       o o o o o o o o o o o o | o o o o      the bottom: the last delta blocks
//!   RANDOM    o o o o o o o o o o o o o o o | o o
//! ```
//!
//! A longer SEQ saves about `2 s / |SEQ|` misses per block and time, `s` being the rate of sequential misses. A longer
//! RANDOM saves as many as the hits in its bottom. Between two such hits, the two compare as
//! `ratio = 2 * seq_miss * delta / |SEQ|` against 1: above, SEQ should grow.
//!
//! The bottom is the exact last `delta` blocks, kept with a boundary, and not the estimate by timestamps. The
//! prefetcher decides which blocks are sequential; a block stays in the list it was put into.

use super::page::{BOTTOM, SEQUENTIAL};
use super::slab::{List, NIL, Slab};

/// Parameters of the two lists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoLists {
    /// Bottom of a list, as a fraction of the cache: the adaptation counts the hits there (A-06: 0.02, a choice).
    pub bottom_fraction: f64,
    /// A hit in the sequential bottom at a ratio above this makes the sequential list grow at full speed.
    pub large_ratio: f64,
}

impl Default for TwoLists {
    fn default() -> TwoLists {
        TwoLists { bottom_fraction: 0.02, large_ratio: 20.0 }
    }
}

/// List with a marked bottom: its last `delta` blocks.
#[derive(Clone, Debug)]
struct Bottomed {
    list: List,
    /// Most recently used block of the bottom.
    boundary: u32,
    /// Number of blocks in the bottom: `min(delta, len)`.
    count: u32,
}

impl Bottomed {
    fn new() -> Bottomed {
        Bottomed { list: List::new(), boundary: NIL, count: 0 }
    }

    fn push_front(&mut self, slab: &mut Slab, slot: u32, delta: u32) {
        self.list.push_front(slab, slot);
        if self.count < delta {
            // The list is shorter than the bottom: all of it is bottom.
            slab.node_mut(slot).flags |= BOTTOM;
            self.boundary = slot;
            self.count += 1;
        }
    }

    fn push_back(&mut self, slab: &mut Slab, slot: u32, delta: u32) {
        self.list.push_back(slab, slot);
        slab.node_mut(slot).flags |= BOTTOM;
        if self.count < delta {
            self.count += 1;
            if self.boundary == NIL {
                self.boundary = slot;
            }
        } else {
            slab.node_mut(self.boundary).flags &= !BOTTOM;
            self.boundary = slab.node(self.boundary).next;
        }
    }

    fn remove(&mut self, slab: &mut Slab, slot: u32) {
        if slab.node(slot).flags & BOTTOM != 0 {
            slab.node_mut(slot).flags &= !BOTTOM;
            let above = slab.node(self.boundary).prev;
            if above != NIL {
                slab.node_mut(above).flags |= BOTTOM;
                self.boundary = above;
            } else {
                self.count -= 1;
                if self.boundary == slot {
                    self.boundary = slab.node(slot).next;
                }
            }
        }
        self.list.remove(slab, slot);
    }
}

/// The two lists and their adaptation.
#[derive(Clone, Debug)]
pub(crate) struct Sarc {
    config: TwoLists,
    delta: u32,
    seq: Bottomed,
    random: Bottomed,
    /// Touch count when a slot was last put at an end: the older of the two ends may go first. 0 for a demoted block.
    stamps: Vec<u64>,
    touches: u64,
    seq_miss: u64,
    adapt: f64,
    desired: f64,
}

impl Sarc {
    pub(crate) fn new(config: TwoLists, capacity: u32) -> Sarc {
        let delta = ((f64::from(capacity) * config.bottom_fraction) as u32).max(1);
        Sarc {
            config,
            delta,
            seq: Bottomed::new(),
            random: Bottomed::new(),
            stamps: Vec::new(),
            touches: 0,
            seq_miss: 0,
            adapt: 0.0,
            desired: 0.0,
        }
    }

    fn stamp(&mut self, slot: u32, stamp: u64) {
        let at = slot as usize;
        if at >= self.stamps.len() {
            self.stamps.resize(at + 1, 0);
        }
        self.stamps[at] = stamp;
    }

    fn of(&mut self, sequential: bool) -> &mut Bottomed {
        if sequential { &mut self.seq } else { &mut self.random }
    }

    fn is_sequential(slab: &Slab, slot: u32) -> bool {
        slab.node(slot).flags & SEQUENTIAL != 0
    }

    /// Value of a longer SEQ relative to a longer RANDOM, since the last hit in RANDOM's bottom.
    pub(crate) fn ratio(&self) -> f64 {
        match self.seq.list.len {
            0 => 0.0,
            len => 2.0 * self.seq_miss as f64 * f64::from(self.delta) / f64::from(len),
        }
    }

    pub(crate) fn insert(&mut self, slab: &mut Slab, slot: u32) {
        self.touches += 1;
        self.stamp(slot, self.touches);
        let delta = self.delta;
        self.of(Sarc::is_sequential(slab, slot)).push_front(slab, slot, delta);
    }

    pub(crate) fn remove(&mut self, slab: &mut Slab, slot: u32) {
        self.of(Sarc::is_sequential(slab, slot)).remove(slab, slot);
    }

    pub(crate) fn renew(&mut self, slab: &mut Slab, slot: u32) {
        self.remove(slab, slot);
        self.insert(slab, slot);
    }

    pub(crate) fn demote(&mut self, slab: &mut Slab, slot: u32) {
        self.remove(slab, slot);
        self.stamp(slot, 0);
        let delta = self.delta;
        self.of(Sarc::is_sequential(slab, slot)).push_back(slab, slot, delta);
    }

    pub(crate) fn hit(&mut self, slab: &mut Slab, slot: u32, adapt: bool) {
        if adapt && slab.node(slot).flags & BOTTOM != 0 {
            let ratio = self.ratio();
            if !Sarc::is_sequential(slab, slot) {
                self.adapt = (ratio - 1.0).clamp(-1.0, 1.0);
                self.seq_miss = 0;
            } else if ratio > self.config.large_ratio {
                self.adapt = 1.0;
            }
        }
        self.renew(slab, slot);
    }

    pub(crate) fn missed(&mut self, sequential: bool) {
        self.seq_miss += u64::from(sequential);
    }

    pub(crate) fn victim(&self) -> u32 {
        let (seq, random) = (&self.seq.list, &self.random.list);
        if seq.len == 0 || random.len == 0 {
            return if seq.len == 0 { random.tail } else { seq.tail };
        }
        let from_seq = if seq.len < self.delta || random.len < self.delta {
            self.stamps[seq.tail as usize] < self.stamps[random.tail as usize]
        } else {
            f64::from(seq.len) > self.desired
        };
        if from_seq { seq.tail } else { random.tail }
    }

    pub(crate) fn evicted(&mut self) {
        if self.desired > 0.0 {
            self.desired += self.adapt / 2.0;
        } else {
            self.desired = f64::from(self.seq.list.len);
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.seq.list.len + self.random.list.len
    }

    pub(crate) fn list(&self, sequential: bool) -> &List {
        if sequential { &self.seq.list } else { &self.random.list }
    }

    pub(crate) fn check(&self, slab: &Slab) -> Result<(), String> {
        for half in [&self.seq, &self.random] {
            let len = half.list.len;
            let bottom = self.delta.min(len);
            if half.count != bottom {
                return Err(format!("the bottom of a list of {len} has {} blocks, not {bottom}", half.count));
            }
            for (rank, slot) in half.list.iter(slab).enumerate().take(len as usize) {
                let expected = rank as u32 >= len - bottom;
                if (slab.node(slot).flags & BOTTOM != 0) != expected {
                    return Err(format!("rank {rank} of {len} is wrongly marked as bottom or not"));
                }
            }
        }
        if !(-1.0..=1.0).contains(&self.adapt) {
            return Err(format!("SARC adapts by {}", self.adapt));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists with 400 sequential and 400 random blocks; delta is 20.
    fn filled() -> (Slab, Sarc) {
        let mut slab = Slab::new();
        let mut sarc = Sarc::new(TwoLists { bottom_fraction: 0.02, large_ratio: 20.0 }, 1000);
        for key in 0..800 {
            let slot = slab.take(key);
            slab.node_mut(slot).flags = if key < 400 { SEQUENTIAL } else { 0 };
            sarc.insert(&mut slab, slot);
        }
        (slab, sarc)
    }

    #[test]
    fn the_published_ratios_and_adaptations() {
        for (seq_miss, ratio, adapt) in
            [(5, 0.5, -0.5), (10, 1.0, 0.0), (15, 1.5, 0.5), (25, 2.5, 1.0), (250, 25.0, 1.0)]
        {
            let (mut slab, mut sarc) = filled();
            sarc.seq_miss = seq_miss;
            assert_eq!(sarc.ratio(), ratio);
            let bottom = sarc.random.list.tail;
            sarc.hit(&mut slab, bottom, true);
            assert_eq!(sarc.adapt, adapt);
            assert_eq!(sarc.seq_miss, 0);
            sarc.check(&slab).unwrap();
        }
    }

    #[test]
    fn only_a_large_ratio_boosts_from_the_sequential_bottom() {
        for (seq_miss, adapt) in [(25, 0.0), (200, 0.0), (250, 1.0)] {
            let (mut slab, mut sarc) = filled();
            sarc.seq_miss = seq_miss;
            let bottom = sarc.seq.list.tail;
            sarc.hit(&mut slab, bottom, true);
            assert_eq!((sarc.adapt, sarc.seq_miss), (adapt, seq_miss));
        }
    }

    #[test]
    fn what_only_a_prefetcher_wants_does_not_adapt() {
        let (mut slab, mut sarc) = filled();
        sarc.seq_miss = 15;
        let bottom = sarc.random.list.tail;
        sarc.hit(&mut slab, bottom, false);
        assert_eq!((sarc.adapt, sarc.seq_miss), (0.0, 15));
        assert_eq!(sarc.random.list.head, bottom);
    }

    #[test]
    fn hits_above_the_bottom_do_not_adapt() {
        let (mut slab, mut sarc) = filled();
        sarc.seq_miss = 15;
        let mut slot = sarc.random.list.tail;
        for _ in 0..20 {
            slot = slab.node(slot).prev;
        }
        sarc.hit(&mut slab, slot, true);
        assert_eq!(sarc.adapt, 0.0);
    }

    #[test]
    fn ten_evictions_at_half_speed_move_the_target_by_two_and_a_half() {
        let (_, mut sarc) = filled();
        sarc.desired = 400.0;
        sarc.adapt = -0.5;
        for _ in 0..10 {
            sarc.evicted();
        }
        assert_eq!(sarc.desired, 397.5);
    }

    #[test]
    fn the_victim_follows_the_target_and_short_lists_yield_to_age() {
        let (mut slab, mut sarc) = filled();
        sarc.desired = 399.0;
        assert_eq!(sarc.victim(), sarc.seq.list.tail);
        sarc.desired = 400.0;
        assert_eq!(sarc.victim(), sarc.random.list.tail);
        while sarc.random.list.len >= 20 {
            let slot = sarc.random.list.tail;
            sarc.remove(&mut slab, slot);
            slab.give(slot);
        }
        assert_eq!(sarc.victim(), sarc.seq.list.tail, "the sequential end is the older one");
        let tail = sarc.random.list.tail;
        sarc.demote(&mut slab, tail);
        assert_eq!(sarc.victim(), tail, "a demoted block is the oldest");
        sarc.check(&slab).unwrap();
    }
}
