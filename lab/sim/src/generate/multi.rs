//! Three programs at once on many files: Multi-like (cscope, gcc, viewperf of the Purdue traces).
//!
//! Each program scans its files from beginning to end, unread ones first, then some again; in between it reads random
//! pages of files read before. Published (Zhang, section 3.6.2): 12 514 files, 792 MB, 25 % random accesses, closed
//! loop (so all times are 0: the next request is issued at a completion). Guesses: division of files and bytes
//! between the programs, request size (a page), number of requests.

use super::Rng;
use crate::trace::Record;

const PAGE_BYTES: u64 = 4096;

/// Parameters of the trace.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiShape {
    /// Files of all programs.
    pub files: u32,
    /// Bytes of all files.
    pub footprint_bytes: u64,
    /// Share of requests that continue no earlier one.
    pub random_share: f64,
    /// Number of requests.
    pub requests: u64,
}

impl Default for MultiShape {
    fn default() -> MultiShape {
        MultiShape { files: 12_514, footprint_bytes: 792 << 20, random_share: 0.25, requests: 400_000 }
    }
}

impl MultiShape {
    /// Reduces the trace by a factor.
    pub fn scaled(self, scale: f64) -> MultiShape {
        MultiShape {
            files: (f64::from(self.files) * scale) as u32,
            footprint_bytes: (self.footprint_bytes as f64 * scale) as u64,
            requests: (self.requests as f64 * scale) as u64,
            ..self
        }
    }
}

/// Shares of the programs: of the files, and of the bytes (and so of the requests).
const PROGRAMS: [(f64, f64); 3] = [(0.20, 0.25), (0.799, 0.30), (0.001, 0.45)];

/// Iterator over the trace.
#[derive(Debug)]
pub struct Multi {
    shape: MultiShape,
    rng: Rng,
    programs: Vec<Program>,
    issued: u64,
    random: u64,
}

#[derive(Debug)]
struct Program {
    /// Pages of each file; the n-th is number `first_file + n` of the trace.
    files: Vec<u32>,
    first_file: u32,
    /// Number of files read so far, or being read.
    known: usize,
    scanning: usize,
    page: u32,
}

impl Multi {
    /// Creates a trace of that shape.
    pub fn new(shape: MultiShape, seed: u64) -> Multi {
        let mut rng = Rng::new(seed, 0);
        let pages = shape.footprint_bytes / PAGE_BYTES;
        let (mut files_left, mut pages_left, mut first_file) = (shape.files.max(3), pages, 1);
        let mut programs = Vec::new();
        for (n, (of_files, of_pages)) in PROGRAMS.iter().enumerate() {
            let last = n + 1 == PROGRAMS.len();
            let files = if last { files_left } else { (f64::from(shape.files) * of_files) as u32 }.clamp(1, files_left);
            let pages = if last { pages_left } else { (pages as f64 * of_pages) as u64 }.min(pages_left);
            programs.push(Program::new(files, pages, first_file, &mut rng));
            (files_left, pages_left, first_file) = (files_left - files, pages_left - pages, first_file + files);
        }
        Multi { shape, rng, programs, issued: 0, random: 0 }
    }
}

impl Program {
    /// Divides pages among files: each has one, the rest is divided by random shares.
    fn new(files: u32, pages: u64, first_file: u32, rng: &mut Rng) -> Program {
        let shares: Vec<f64> = (0..files).map(|_| rng.exponential(1.0)).collect();
        let sum: f64 = shares.iter().sum();
        let spare = pages.saturating_sub(u64::from(files)) as f64;
        let mut sizes: Vec<u32> = shares.iter().map(|s| 1 + (spare * s / sum) as u32).collect();
        let given: u64 = sizes.iter().map(|s| u64::from(*s)).sum();
        if let Some(first) = sizes.first_mut() {
            *first += pages.saturating_sub(given) as u32;
        }
        Program { files: sizes, first_file, known: 1, scanning: 0, page: 0 }
    }

    /// Returns the next file and page of the scan, and whether a file begins there.
    fn scan(&mut self, rng: &mut Rng) -> (usize, u32, bool) {
        if self.page == self.files[self.scanning] {
            self.page = 0;
            if self.known < self.files.len() {
                self.scanning = self.known;
                self.known += 1;
            } else {
                self.scanning = rng.below(self.files.len() as u64) as usize;
            }
        }
        self.page += 1;
        (self.scanning, self.page - 1, self.page == 1)
    }

    /// Returns a random page of a file already read.
    fn anywhere(&self, rng: &mut Rng) -> (usize, u32) {
        let file = rng.below(self.known as u64) as usize;
        (file, rng.below(u64::from(self.files[file])) as u32)
    }
}

impl Iterator for Multi {
    type Item = Record;
    fn next(&mut self) -> Option<Record> {
        if self.issued == self.shape.requests {
            return None;
        }
        let draw = self.rng.unit();
        let which = if draw < PROGRAMS[0].1 { 0 } else { 1 + usize::from(draw >= PROGRAMS[0].1 + PROGRAMS[1].1) };
        let program = &mut self.programs[which];
        // Beginnings of files count as random accesses, so random pages only fill the remaining share.
        let missing = (self.random + 1) as f64 <= self.shape.random_share * (self.issued + 1) as f64;
        let (file, page, random) = if missing && self.rng.chance(0.5) {
            let (file, page) = program.anywhere(&mut self.rng);
            (file, page, true)
        } else {
            program.scan(&mut self.rng)
        };
        self.issued += 1;
        self.random += u64::from(random);
        Some(Record {
            offset: u64::from(page) * PAGE_BYTES,
            length: PAGE_BYTES as u32,
            client: which as u32,
            file: program.first_file + file as u32,
            ..Record::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Census;

    #[test]
    fn multi_like_is_as_published() {
        let mut census = Census::new(4096);
        Multi::new(MultiShape::default(), 1).for_each(|r| census.add(&r));
        let r = census.report();
        assert_eq!((r.records, r.files, r.clients), (400_000, 12_514, 3));
        assert_eq!(r.footprint_bytes, 792 << 20);
        assert!((1.0 - r.sequential_streams - 0.25).abs() < 0.01, "random {}", 1.0 - r.sequential_streams);
        assert_eq!(r.last_ns, 0);
    }

    #[test]
    fn a_seed_gives_the_same_trace_and_small_ones_work() {
        let take = |seed| Multi::new(MultiShape::default().scaled(0.01), seed).collect::<Vec<_>>();
        assert_eq!(take(9), take(9));
        assert_ne!(take(9), take(10));
        let tiny = MultiShape { files: 0, footprint_bytes: 0, requests: 10, random_share: 0.25 };
        assert_eq!(Multi::new(tiny, 1).count(), 10);
    }
}
