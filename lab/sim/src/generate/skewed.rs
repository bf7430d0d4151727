//! Accesses to one device with a skew: Zipf, a moving hot spot, a scan. For the experiments with tiers.
//!
//! Parameters are round numbers; only the names are published. Hot blocks are scattered over the device, so that they
//! are not adjacent.

use super::{Popularity, Rng};
use crate::trace::{Op, Record};

/// Distribution of the accesses.
#[derive(Clone, Debug, PartialEq)]
pub enum Skew {
    /// Zipf with this exponent over all blocks.
    Zipf {
        /// The exponent; 0 is uniform.
        theta: f64,
    },
    /// A hot spot that moves and gets 90 % of the accesses.
    HotSpot {
        /// Share of the blocks in the spot.
        spot: f64,
        /// Requests after which the spot moves to other blocks.
        shift: u64,
    },
    /// Repeated scans from the first block to the last.
    Scan,
    /// A Zipf load with scans: every other tenth of the requests is a scan.
    ScanOver {
        /// The exponent of the Zipf load.
        theta: f64,
    },
}

/// Parameters of the trace.
#[derive(Clone, Debug, PartialEq)]
pub struct SkewedShape {
    /// Distribution of the accesses.
    pub skew: Skew,
    /// Bytes of the device that are used.
    pub footprint_bytes: u64,
    /// Bytes of a request, and of a block.
    pub request_bytes: u32,
    /// Number of requests.
    pub requests: u64,
    /// Whether blocks of similar popularity are scattered, or adjacent.
    pub scattered: bool,
    /// Share of writes.
    pub write_share: f64,
    /// Requests per second, arriving at random.
    pub rate_per_s: f64,
}

impl Default for SkewedShape {
    /// Zipf 1.0 over 4 GiB, 100 000 reads of 64 KiB.
    fn default() -> SkewedShape {
        SkewedShape {
            skew: Skew::Zipf { theta: 1.0 },
            scattered: true,
            footprint_bytes: 4 << 30,
            request_bytes: 64 << 10,
            requests: 100_000,
            write_share: 0.0,
            rate_per_s: 1000.0,
        }
    }
}

/// Iterator over the trace.
#[derive(Debug)]
pub struct Skewed {
    shape: SkewedShape,
    rng: Rng,
    popularity: Option<Popularity>,
    /// Block of each rank.
    scattered: Vec<u32>,
    made: u64,
    scanned: u64,
    now_ns: f64,
}

impl Skewed {
    /// Creates a trace of that shape.
    pub fn new(shape: SkewedShape, seed: u64) -> Skewed {
        let blocks = (shape.footprint_bytes / u64::from(shape.request_bytes.max(1))).clamp(1, u64::from(u32::MAX));
        let mut rng = Rng::new(seed, 0);
        let popularity = match shape.skew {
            Skew::Zipf { theta } | Skew::ScanOver { theta } => Some(Popularity::new(blocks as usize, theta)),
            Skew::HotSpot { .. } | Skew::Scan => None,
        };
        let mut scattered: Vec<u32> = (0..blocks as u32).collect();
        if shape.scattered {
            rng.shuffle(&mut scattered);
        }
        Skewed { shape, rng, popularity, scattered, made: 0, scanned: 0, now_ns: 0.0 }
    }

    fn scan(&mut self) -> u64 {
        self.scanned += 1;
        (self.scanned - 1) % self.scattered.len() as u64
    }

    fn block(&mut self) -> u64 {
        let blocks = self.scattered.len() as u64;
        match self.shape.skew {
            Skew::Scan => self.scan(),
            Skew::ScanOver { .. } if self.made * 10 / self.shape.requests.max(1) % 2 == 1 => self.scan(),
            Skew::Zipf { .. } | Skew::ScanOver { .. } => {
                let rank = self.popularity.as_ref().map_or(0, |popularity| popularity.draw(&mut self.rng));
                u64::from(self.scattered[rank])
            }
            Skew::HotSpot { spot, shift } => {
                let size = ((blocks as f64 * spot) as u64).clamp(1, blocks);
                let start = self.made / shift.max(1) * size % blocks;
                let rank = if self.rng.chance(0.9) { start + self.rng.below(size) } else { self.rng.below(blocks) };
                u64::from(self.scattered[(rank % blocks) as usize])
            }
        }
    }
}

impl Iterator for Skewed {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.made == self.shape.requests {
            return None;
        }
        let block = self.block();
        self.made += 1;
        self.now_ns += self.rng.exponential(1e9 / self.shape.rate_per_s.max(1e-9));
        let op = if self.rng.chance(self.shape.write_share) { Op::Write } else { Op::Read };
        let length = self.shape.request_bytes;
        Some(Record { time_ns: self.now_ns as u64, offset: block * u64::from(length), length, op, ..Record::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn counts(skew: Skew) -> BTreeMap<u64, u64> {
        let shape = SkewedShape { skew, footprint_bytes: 64 << 20, requests: 20_000, ..SkewedShape::default() };
        let mut counts = BTreeMap::new();
        Skewed::new(shape, 1).for_each(|record| *counts.entry(record.offset).or_default() += 1);
        counts
    }

    fn top_share(counts: &BTreeMap<u64, u64>, top: usize) -> f64 {
        let mut all: Vec<u64> = counts.values().copied().collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.iter().take(top).sum::<u64>() as f64 / all.iter().sum::<u64>() as f64
    }

    #[test]
    fn zipf_is_skewed_a_scan_is_flat_and_a_hot_spot_moves() {
        assert!(top_share(&counts(Skew::Zipf { theta: 1.0 }), 102) > 0.6);
        let flat = counts(Skew::Scan);
        assert!(flat.len() == 1024 && flat.values().all(|&n| n == 19 || n == 20));
        let still = counts(Skew::HotSpot { spot: 0.1, shift: 1 << 40 });
        assert!((top_share(&still, 102) - 0.91).abs() < 0.02);
        assert!(top_share(&counts(Skew::HotSpot { spot: 0.1, shift: 2_000 }), 102) < 0.2);
    }

    #[test]
    fn a_spot_lies_side_by_side_if_asked_for() {
        let shape = SkewedShape {
            skew: Skew::HotSpot { spot: 0.1, shift: 1 << 40 },
            footprint_bytes: 64 << 20,
            requests: 10_000,
            ..SkewedShape::default()
        };
        let in_front = |scattered| {
            let all = Skewed::new(SkewedShape { scattered, ..shape.clone() }, 1);
            all.filter(|record| record.offset < 64 << 20 >> 3).count()
        };
        assert!(in_front(false) > 9_000 && in_front(true) < 4_000, "{} {}", in_front(false), in_front(true));
    }

    #[test]
    fn writes_have_their_share() {
        let shape = SkewedShape { write_share: 0.3, requests: 10_000, ..SkewedShape::default() };
        let writes = Skewed::new(shape, 1).filter(|record| record.op == Op::Write).count();
        assert!((2_800..3_200).contains(&writes));
    }
}
