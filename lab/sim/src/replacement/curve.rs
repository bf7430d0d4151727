//! Miss-ratio curves: exact for LRU in one pass, sampled for every policy.

use super::sequence::Sequence;
use super::{Policy, Tally};
use crate::grid::side_by_side;
use crate::setup::Size;

/// Number of sizes of a curve, and their smallest share of the footprint.
const SIZES: (i32, f64) = (20, 0.001);

/// Number of sizes from which one pass for the whole curve of LRU is faster than a pass each. Measured: it takes as long
/// as four to six caches.
const ONE_PASS_SIZES: usize = 6;

/// Returns `sizes` in blocks, each at least one. `None` stands for the sizes of a curve: twenty from 0.1 % to all of the
/// footprint, in equal ratios.
pub fn capacities(sizes: Option<&[Size]>, sequence: &Sequence, block_bytes: u32) -> Vec<usize> {
    let blocks = sequence.blocks();
    let (count, first) = SIZES;
    let at = |n: i32| (blocks as f64 * first.powf(1.0 - f64::from(n) / f64::from(count - 1))).round() as usize;
    let mut capacities: Vec<usize> = match sizes {
        None => (0..count).map(at).collect(),
        Some(sizes) => sizes.iter().map(|size| size.blocks(blocks as u64, u64::from(block_bytes)) as usize).collect(),
    };
    capacities.iter_mut().for_each(|capacity| *capacity = (*capacity).max(1));
    capacities.dedup();
    capacities
}

/// Returns the curves of all policies, estimated if there are samples. Exact LRU takes one pass for many capacities, other
/// caches one pass each; `threads` caches run side by side, by default as many as there are cores.
pub fn curves(
    policies: &[Policy],
    capacities: &[usize],
    sequence: &Sequence,
    samples: Option<&Samples>,
    threads: Option<usize>,
) -> Vec<Curve> {
    let one_pass = |policy: Policy| policy == Policy::Lru && samples.is_none() && capacities.len() >= ONE_PASS_SIZES;
    let chunk = |policy| if one_pass(policy) { capacities.len().max(1) } else { 1 };
    let caches: Vec<(Policy, &[usize])> =
        policies.iter().flat_map(|policy| capacities.chunks(chunk(*policy)).map(|some| (*policy, some))).collect();
    let done = side_by_side(&caches, threads, |(policy, sizes)| match samples {
        Some(samples) => samples.curve(*policy, sizes),
        None if one_pass(*policy) => lru_curve(sequence, sizes),
        None => Curve::exact(*policy, sequence, sizes),
    });
    let whole = |policy: &Policy| {
        let of = done.iter().filter(|curve| curve.policy == *policy);
        let mut points: Vec<Point> = of.flat_map(|curve| curve.points.iter().copied()).collect();
        points.sort_by_key(|point| point.capacity);
        Curve { policy: *policy, points }
    };
    policies.iter().map(whole).collect()
}

/// Miss ratios of one policy over sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Policy of all points.
    pub policy: Policy,
    /// Its points, by size.
    pub points: Vec<Point>,
}

/// Miss ratio at one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Blocks of the cache.
    pub capacity: usize,
    /// Estimated or exact miss ratio.
    pub miss_ratio: f64,
    /// Two standard errors over the samples; 0 for an exact ratio.
    pub error: f64,
    /// Accounts of the cache; `None` for an estimate.
    pub tally: Option<Tally>,
}

impl Point {
    fn exact(capacity: usize, tally: Tally) -> Point {
        let miss_ratio = tally.misses as f64 / (tally.hits + tally.misses) as f64;
        Point { capacity, miss_ratio, error: 0.0, tally: Some(tally) }
    }
}

impl Curve {
    /// Returns the exact miss ratios at `sizes`, with a pass over the sequence for each.
    pub fn exact(policy: Policy, sequence: &Sequence, sizes: &[usize]) -> Curve {
        let points = sizes.iter().map(|&capacity| Point::exact(capacity, policy.tally(sequence, capacity)));
        Curve { policy, points: points.collect() }
    }
}

/// Returns the exact LRU miss ratios at `sizes` (Mattson et al., IBM Systems Journal 1970), by one pass over the
/// sequence.
pub fn lru_curve(sequence: &Sequence, sizes: &[usize]) -> Curve {
    let mut hits = vec![0u64; sequence.blocks() + 1];
    let mut stack = Stack::new(sequence.blocks());
    for block in sequence.accesses() {
        if let Some(distance) = stack.access(*block) {
            hits[distance] += 1;
        }
    }
    // hits[d]: accesses whose block is the d-th of the stack; a cache of d blocks or more has it.
    let total = sequence.accesses().len() as u64;
    let mut below = hits;
    for at in 1..below.len() {
        below[at] += below[at - 1];
    }
    let point = |&capacity: &usize| {
        let hits = below[capacity.min(below.len() - 1)];
        let tally = Tally { hits, misses: total - hits };
        assert!(tally.closes(sequence), "lru at {capacity} blocks: {tally:?}");
        Point::exact(capacity, tally)
    };
    Curve { policy: Policy::Lru, points: sizes.iter().map(point).collect() }
}

/// Samples of the blocks of a sequence, drawn once for all policies and sizes: SHARDS with a fixed rate and its
/// correction of the count (Waldspurger et al., FAST 2015).
pub struct Samples {
    drawn: Vec<Sequence>,
    rate: f64,
    /// Accesses that a sample has on average; surplus ones count as hits, missing ones likewise.
    expected: f64,
}

impl Samples {
    /// Draws `count` samples of the blocks at `rate`.
    pub fn draw(sequence: &Sequence, rate: f64, count: u64) -> Samples {
        let drawn = (0..count.max(1)).map(|seed| sequence.sample(rate, seed)).collect();
        Samples { drawn, rate, expected: sequence.accesses().len() as f64 * rate }
    }

    /// Returns the estimated miss ratios at `sizes`.
    pub fn curve(&self, policy: Policy, sizes: &[usize]) -> Curve {
        let point = |&capacity: &usize| {
            let scaled = ((capacity as f64 * self.rate).round() as usize).max(1);
            let ratio =
                |sample: &Sequence| (policy.tally(sample, scaled).misses as f64 / self.expected).clamp(0.0, 1.0);
            let ratios: Vec<f64> = self.drawn.iter().map(ratio).collect();
            let n = ratios.len() as f64;
            let mean = ratios.iter().sum::<f64>() / n;
            let square = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>();
            let error = if n > 1.0 { 2.0 * (square / (n - 1.0) / n).sqrt() } else { f64::NAN };
            Point { capacity, miss_ratio: mean, error, tally: None }
        };
        Curve { policy, points: sizes.iter().map(point).collect() }
    }
}

/// The LRU stack as a Fenwick tree over the times of last accesses; times are renumbered when they run out.
struct Stack {
    /// Time of the last access of each block, from 1; 0 for none.
    last: Vec<usize>,
    /// Block that was accessed last at each time.
    at: Vec<u32>,
    tree: Vec<u32>,
    now: usize,
    present: usize,
}

impl Stack {
    fn new(blocks: usize) -> Stack {
        let times = blocks * 2 + 2;
        Stack { last: vec![0; blocks], at: vec![u32::MAX; times], tree: vec![0; times], now: 0, present: 0 }
    }

    /// Accesses a block; returns its place in the stack, from 1.
    fn access(&mut self, block: u32) -> Option<usize> {
        if self.now + 1 >= self.tree.len() {
            self.renumber();
        }
        let last = std::mem::take(&mut self.last[block as usize]);
        let distance = (last > 0).then(|| self.present - self.up_to(last - 1));
        if last > 0 {
            self.add(last, -1);
        } else {
            self.present += 1;
        }
        self.now += 1;
        self.add(self.now, 1);
        (self.last[block as usize], self.at[self.now]) = (self.now, block);
        distance
    }

    fn renumber(&mut self) {
        let times = 1..=self.now;
        let kept: Vec<u32> = times.filter(|t| self.last[self.at[*t] as usize] == *t).map(|t| self.at[t]).collect();
        self.tree.fill(0);
        self.now = 0;
        for block in kept {
            self.now += 1;
            (self.last[block as usize], self.at[self.now]) = (self.now, block);
            self.add(self.now, 1);
        }
    }

    fn add(&mut self, mut time: usize, by: i32) {
        while time < self.tree.len() {
            self.tree[time] = self.tree[time].wrapping_add_signed(by);
            time += time & time.wrapping_neg();
        }
    }

    fn up_to(&self, mut time: usize) -> usize {
        let mut sum = 0;
        while time > 0 {
            sum += self.tree[time] as usize;
            time -= time & time.wrapping_neg();
        }
        sum
    }
}
