//! A mix of sequential runs and random accesses on one device, with a given footprint: OLTP-like and Web-like.
//!
//! ```text
//!   request --- random share --- half: somewhere, once
//!           |                 \- half: somewhere, and a run begins there (it takes the place of another run)
//!           \-- otherwise ------ one of the runs goes on
//!   somewhere --- untouched, with the probability that brings the footprint to its size by the end
//!             \-- where a random access went before, recent ones more likely
//! ```
//! Published (Zhang, section 3.6.2): 10 GB of data requested, footprints of 529 and 8392 MB, 11 and 74 % random
//! requests. From the traces it names (UMass Financial1, WebSearch1): request sizes, rates, shares of reads. Guesses:
//! number of concurrent runs, kinds of random accesses, and preference for recent places.

use super::Rng;
use crate::trace::{Op, Record};

const PAGE_BYTES: u64 = 4096;

/// Earlier random accesses that are recorded.
const PLACES_MAX: usize = 1 << 16;

/// Share of random accesses that begin a run.
const RUN_SHARE: f64 = 0.5;

/// Parameters of the trace.
#[derive(Clone, Debug, PartialEq)]
pub struct MixedShape {
    /// Number of different bytes touched.
    pub footprint_bytes: u64,
    /// Sum of the requested bytes.
    pub total_bytes: u64,
    /// Share of requests that continue no earlier one.
    pub random_share: f64,
    /// Share of reads.
    pub read_share: f64,
    /// Requests per second, arriving at random.
    pub rate_per_s: f64,
    /// Number of concurrent runs.
    pub runs: usize,
    /// Sizes of requests in pages of 4 KiB, each with its weight.
    pub pages: Vec<(u32, f64)>,
}

impl MixedShape {
    /// Reduces the footprint and the data, for quick runs.
    pub fn scaled(mut self, scale: f64) -> MixedShape {
        let shrink = |bytes: u64| (bytes as f64 * scale) as u64;
        self.footprint_bytes = shrink(self.footprint_bytes);
        self.total_bytes = shrink(self.total_bytes);
        self
    }
}

/// Parameters like the SPC OLTP trace: 11 % random, 529 MiB. The paper does not describe its treatment of writes
/// (Financial1 has 77 %), so all requests are reads unless `read_share` is set.
pub fn oltp_like() -> MixedShape {
    MixedShape {
        footprint_bytes: 529 << 20,
        total_bytes: 10 << 30,
        random_share: 0.11,
        read_share: 1.0,
        rate_per_s: 122.0,
        runs: 4,
        pages: vec![(1, 0.80), (2, 0.15), (4, 0.05)],
    }
}

/// Parameters like the SPC Web trace: 74 % random, 8392 MiB.
pub fn web_like() -> MixedShape {
    MixedShape {
        footprint_bytes: 8392 << 20,
        total_bytes: 10 << 30,
        random_share: 0.74,
        read_share: 0.9998,
        rate_per_s: 335.0,
        runs: 2,
        pages: vec![(2, 0.50), (4, 0.26), (6, 0.10), (8, 0.14)],
    }
}

/// Iterator over the trace.
#[derive(Debug)]
pub struct Mixed {
    shape: MixedShape,
    rng: Rng,
    space: Space,
    /// Next page of each run.
    runs: Vec<u64>,
    /// Pages of earlier random accesses, the latest at `latest`.
    places: Vec<u64>,
    latest: usize,
    remaining_pages: u64,
    now_ns: f64,
}

impl Mixed {
    /// Creates a trace of that shape.
    pub fn new(shape: MixedShape, seed: u64) -> Mixed {
        let pages = (shape.footprint_bytes / PAGE_BYTES).max(64);
        let mut rng = Rng::new(seed, 0);
        let runs = (0..shape.runs.max(1)).map(|_| rng.below(pages)).collect();
        let remaining_pages = shape.total_bytes / PAGE_BYTES;
        let space = Space::new(pages);
        Mixed { shape, rng, space, runs, places: Vec::new(), latest: 0, remaining_pages, now_ns: 0.0 }
    }

    fn size(&mut self) -> u64 {
        let sum: f64 = self.shape.pages.iter().map(|p| p.1).sum();
        let mut at = self.rng.unit() * sum;
        for (pages, weight) in &self.shape.pages {
            at -= weight;
            if at < 0.0 {
                return u64::from(*pages);
            }
        }
        self.shape.pages.last().map_or(1, |p| u64::from(p.0))
    }

    /// Returns a page that continues no run.
    fn somewhere(&mut self) -> u64 {
        let cold = self.space.untouched as f64 / self.remaining_pages.max(1) as f64;
        let remembered = self.places.len();
        let fresh =
            if remembered == 0 || self.rng.chance(cold) { self.space.untouched_page(&mut self.rng) } else { None };
        let page = match fresh {
            Some(page) => page,
            None if remembered == 0 => self.rng.below(self.space.pages),
            None => {
                let back = self.rng.small_below(remembered as u64) as usize;
                return self.places[(self.latest + remembered - back) % remembered];
            }
        };
        if remembered < PLACES_MAX {
            self.latest = remembered;
            self.places.push(page);
        } else {
            self.latest = (self.latest + 1) % PLACES_MAX;
            self.places[self.latest] = page;
        }
        page
    }

    fn start(&mut self, size: u64) -> u64 {
        let run = self.rng.below(self.runs.len() as u64) as usize;
        let fits = self.runs[run] + size <= self.space.pages;
        if fits && !self.rng.chance(self.shape.random_share) {
            let start = self.runs[run];
            self.runs[run] += size;
            return start;
        }
        let start = self.somewhere().min(self.space.pages.saturating_sub(size));
        if !fits || self.rng.chance(RUN_SHARE) {
            self.runs[run] = start + size;
        }
        start
    }
}

impl Iterator for Mixed {
    type Item = Record;
    fn next(&mut self) -> Option<Record> {
        if self.remaining_pages == 0 {
            return None;
        }
        let size = self.size().min(self.remaining_pages).min(self.space.pages);
        let start = self.start(size);
        self.space.touch(start, size);
        self.remaining_pages -= size;
        self.now_ns += self.rng.exponential(1e9 / self.shape.rate_per_s.max(1e-9));
        let op = if self.rng.chance(self.shape.read_share) { Op::Read } else { Op::Write };
        let (offset, length) = (start * PAGE_BYTES, (size * PAGE_BYTES) as u32);
        Some(Record { time_ns: self.now_ns as u64, offset, length, op, ..Record::default() })
    }
}

/// Set of touched pages, in words of 64.
#[derive(Debug)]
struct Space {
    pages: u64,
    untouched: u64,
    words: Vec<u64>,
    /// Words that may have untouched pages.
    open: Vec<u32>,
}

impl Space {
    fn new(pages: u64) -> Space {
        let words = pages.div_ceil(64);
        let mut space =
            Space { pages, untouched: pages, words: vec![0; words as usize], open: (0..words as u32).collect() };
        // Pages beyond the end count as touched.
        if !pages.is_multiple_of(64) {
            space.words[words as usize - 1] = u64::MAX << (pages % 64);
        }
        space
    }

    fn touch(&mut self, start: u64, pages: u64) {
        for page in start..start + pages {
            let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
            self.untouched -= u64::from(self.words[word] & bit == 0);
            self.words[word] |= bit;
        }
    }

    /// Returns the first untouched page of a random word.
    fn untouched_page(&mut self, rng: &mut Rng) -> Option<u64> {
        while !self.open.is_empty() {
            let at = rng.below(self.open.len() as u64) as usize;
            let word = self.open[at];
            let free = self.words[word as usize].trailing_ones();
            if free < 64 {
                return Some(u64::from(word) * 64 + u64::from(free));
            }
            self.open.swap_remove(at);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Census, Report};

    fn report(shape: MixedShape, seed: u64) -> Report {
        let mut census = Census::new(4096);
        Mixed::new(shape, seed).for_each(|r| census.add(&r));
        census.report()
    }

    fn near(seen: f64, asked: f64, share: f64) -> bool {
        (seen / asked - 1.0).abs() < share
    }

    /// The characteristics hold at any scale, so a small one is enough.
    #[test]
    fn oltp_like_is_as_published() {
        let shape = oltp_like().scaled(0.05);
        let r = report(shape.clone(), 1);
        assert_eq!(r.read_bytes, shape.total_bytes / 4096 * 4096);
        assert!(near(1.0 - r.sequential_streams, 0.11, 0.05), "random {}", 1.0 - r.sequential_streams);
        assert!(near(r.footprint_bytes as f64, shape.footprint_bytes as f64, 0.02), "{}", r.footprint_bytes);
        assert!(near(r.records_per_s, 122.0, 0.03), "{}", r.records_per_s);
        assert!(near(r.length_mean_bytes, 5528.0, 0.06), "{}", r.length_mean_bytes);
        assert_eq!((r.writes, r.out_of_order), (0, 0));
    }

    #[test]
    fn web_like_is_as_published() {
        let shape = web_like().scaled(0.05);
        let r = report(shape.clone(), 1);
        assert!(near(1.0 - r.sequential_streams, 0.74, 0.02), "random {}", 1.0 - r.sequential_streams);
        assert!(near(r.footprint_bytes as f64, shape.footprint_bytes as f64, 0.02), "{}", r.footprint_bytes);
        assert!(near(r.length_mean_bytes, 15_419.0, 0.02), "{}", r.length_mean_bytes);
        assert!(near(r.records_per_s, 335.0, 0.03), "{}", r.records_per_s);
        assert!(r.writes < r.records / 1000);
    }

    #[test]
    fn shares_of_writes_are_as_asked() {
        let r = report(MixedShape { read_share: 0.23, ..oltp_like().scaled(0.01) }, 2);
        assert!(near(r.writes as f64 / r.records as f64, 0.77, 0.02));
    }

    #[test]
    fn a_seed_gives_the_same_trace() {
        let take = |seed| Mixed::new(oltp_like().scaled(0.001), seed).collect::<Vec<_>>();
        assert_eq!(take(9), take(9));
        assert_ne!(take(9), take(10));
    }
}
