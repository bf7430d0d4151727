//! Replacement policies against libCacheSim 0.3.5, and against each other.
//!
//! The misses below are those of libCacheSim's Python package (`pip install libcachesim`), with objects of size 1 and
//! default parameters, for the accesses of [`accesses`]: `cache.get(request)` for each of them. Its LIRS demotes a block
//! at each hit outside the stack, which the paper does not. Its W-TinyLFU counts and ages otherwise, so it is left out.

use sim::replacement::{Policy, Samples, Sequence, lru_curve};

const SIZES: [usize; 3] = [50, 200, 600];

/// Misses of libCacheSim at [`SIZES`], and the allowed difference.
const REFERENCE: [(Policy, [u64; 3], u64); 10] = [
    (Policy::Fifo, [18546, 14738, 8611], 0),
    (Policy::Lru, [18523, 14420, 8035], 0),
    (Policy::Clock, [18505, 14280, 7947], 0),
    (Policy::Lfu, [17738, 13255, 6532], 0),
    (Policy::TwoQ, [17959, 13578, 7151], 0),
    (Policy::Arc, [17918, 13588, 7065], 0),
    (Policy::Lirs, [17814, 13374, 6513], 20),
    (Policy::S3Fifo, [17646, 13139, 7026], 0),
    (Policy::Sieve, [17581, 12996, 6513], 0),
    (Policy::Belady, [13974, 8989, 4925], 0),
];

/// 20,000 accesses, with dense numbers: small numbers more often, with scans of 1,000 steps over 700 other blocks.
fn accesses() -> Sequence {
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 1000
    };
    let mut at = |i: u64| {
        let (a, b) = (draw(), draw());
        if i % 5000 < 4000 { a * b / 1000 } else { 1000 + i % 5000 % 700 }
    };
    Sequence::of((0..20_000).map(|i| at(i) as u32).collect()).sample(1.0, 0)
}

#[test]
fn misses_are_those_of_libcachesim() {
    let sequence = accesses();
    for (policy, reference, allowed) in REFERENCE {
        for (capacity, expected) in SIZES.into_iter().zip(reference) {
            let misses = policy.tally(&sequence, capacity).misses;
            assert!(misses.abs_diff(expected) <= allowed, "{policy:?} at {capacity}: {misses}, expected {expected}");
        }
    }
}

#[test]
fn no_policy_beats_belady_and_none_misses_a_block_twice_that_fits() {
    let sequence = accesses();
    let all = sequence.blocks();
    let used = sequence.accesses().iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
    for policy in Policy::ALL.iter().copied() {
        let word = policy.text();
        assert_eq!(Policy::named(word), Some(policy));
        for capacity in [1, 2, 3, 7, 50, 200, 600] {
            assert!(
                policy.tally(&sequence, capacity).misses >= Policy::Belady.tally(&sequence, capacity).misses,
                "{word} {capacity}"
            );
        }
        // The window and the HIR queue are parts of the cache: policies with parts may need twice the space.
        assert_eq!(policy.tally(&sequence, 2 * all).misses, used, "{word}");
    }
}

#[test]
fn the_curve_of_one_pass_is_that_of_many_caches() {
    let sequence = accesses();
    let sizes: Vec<usize> = (1..40).map(|n| n * n).collect();
    let curve = lru_curve(&sequence, &sizes);
    for point in curve.points {
        let misses = Policy::Lru.tally(&sequence, point.capacity).misses as f64;
        assert!((point.miss_ratio - misses / 20_000.0).abs() < 1e-12, "{point:?}");
    }
}

#[test]
fn a_sample_of_the_blocks_estimates_the_ratio_and_its_error() {
    let sequence = accesses();
    let samples = Samples::draw(&sequence, 0.2, 20);
    for policy in [Policy::Lru, Policy::S3Fifo] {
        let exact = policy.tally(&sequence, 200).misses as f64 / 20_000.0;
        let estimate = samples.curve(policy, &[200]).points[0];
        assert!((estimate.miss_ratio - exact).abs() < 2.0 * estimate.error, "{policy:?}: {exact} {estimate:?}");
        assert!(estimate.error < 0.1 && estimate.error > 0.0, "{estimate:?}");
    }
}
