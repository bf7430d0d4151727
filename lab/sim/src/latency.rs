//! A histogram of times with a relative error below one percent, in bounded memory.
//!
//! Buckets: 64 per power of two; below 64 ns one per nanosecond. Mean and extremes are exact.

use policy::time::Time;

const SUB_BITS: u32 = 6;
const SUB: usize = 1 << SUB_BITS;

/// Histogram of times.
#[derive(Clone, Debug)]
pub struct Latencies {
    buckets: Box<[u64]>,
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let buckets = (64 - SUB_BITS as usize + 1) * SUB;
        Latencies { buckets: vec![0; buckets].into(), count: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl Latencies {
    /// Adds one time.
    #[inline]
    pub fn add(&mut self, time: Time) {
        self.add_many(time, 1);
    }

    /// Adds one time `count` times.
    #[inline]
    pub fn add_many(&mut self, time: Time, count: u64) {
        if count == 0 {
            return;
        }
        self.buckets[bucket(time.0)] += count;
        self.count += count;
        self.sum_ns += u128::from(time.0) * u128::from(count);
        self.min_ns = self.min_ns.min(time.0);
        self.max_ns = self.max_ns.max(time.0);
    }

    /// Adds all times of `other`.
    pub fn merge(&mut self, other: &Latencies) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean in milliseconds; 0 if there are none.
    pub fn mean_ms(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 / 1e6 }
    }

    /// Sum of all times.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Maximum in milliseconds.
    pub fn max_ms(&self) -> f64 {
        self.max_ns as f64 / 1e6
    }

    /// Returns the time that a share `quantile` of all does not exceed, in milliseconds, as the upper end of its
    /// bucket.
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        let rank = ((self.count as f64 * quantile).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (at, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper(at).clamp(self.min_ns, self.max_ns) as f64 / 1e6;
            }
        }
        0.0
    }
}

fn bucket(ns: u64) -> usize {
    if ns < SUB as u64 {
        return ns as usize;
    }
    let shift = 63 - ns.leading_zeros() - SUB_BITS;
    (shift as usize + 1) * SUB + ((ns >> shift) as usize & (SUB - 1))
}

fn upper(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let shift = (bucket / SUB - 1) as u32;
    let lower = ((SUB + bucket % SUB) as u64) << shift;
    lower + ((1u64 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_within_two_percent_of_the_sorted_values(
            mut times in prop::collection::vec(0u64..1 << 40, 1..300),
            quantile in 0.0f64..1.0,
        ) {
            let mut latencies = Latencies::default();
            times.iter().for_each(|&ns| latencies.add(Time(ns)));
            times.sort_unstable();
            let rank = ((times.len() as f64 * quantile).ceil() as usize).clamp(1, times.len());
            let exact = times[rank - 1] as f64 / 1e6;
            let said = latencies.quantile_ms(quantile);
            prop_assert!(said >= exact && said <= exact * 1.02 + 1e-6, "{said} for {exact}");
            let mean = times.iter().sum::<u64>() as f64 / times.len() as f64 / 1e6;
            prop_assert!((latencies.mean_ms() - mean).abs() <= mean * 1e-9);
        }
    }

    #[test]
    fn every_bucket_ends_where_the_next_begins() {
        for ns in [0, 1, 63, 64, 65, 127, 128, 1000, 123_456_789, u64::MAX] {
            let at = bucket(ns);
            assert!(upper(at) >= ns);
            if at > 0 {
                assert!(upper(at - 1) < ns);
            }
        }
    }
}
