//! Parallel web server: whole files, by popularity.
//!
//! Published (Chen et al., WS-ROS): 1.5 million requests of four clients, 36 GB sent, so 24 KB each. Guesses: 100 000
//! files, Zipf 0.9, sizes exponentially distributed around the mean. A file is read in requests of at most 64 KiB.

use super::{Popularity, Rng};
use crate::trace::{Op, Record};
use std::collections::VecDeque;

const REQUESTS: u64 = 1_500_000;
const FILES: usize = 100_000;
const MEAN_BYTES: f64 = 24_000.0;
const REQUEST_BYTES: u64 = 64 << 10;
const CLIENTS: u64 = 4;

/// Iterator over the trace.
#[derive(Debug)]
pub struct WebServer {
    rng: Rng,
    popularity: Popularity,
    /// Size of each file, the most popular first.
    sizes: Vec<u64>,
    left: u64,
    ready: VecDeque<Record>,
}

impl WebServer {
    /// Creates a trace; `scale` applies to the requests and the files.
    pub fn new(scale: f64, seed: u64) -> WebServer {
        let mut rng = Rng::new(seed, 0);
        let files = ((FILES as f64 * scale) as usize).max(10);
        let sizes = (0..files).map(|_| rng.exponential(MEAN_BYTES).max(256.0) as u64).collect();
        let left = ((REQUESTS as f64 * scale) as u64).max(1);
        WebServer { rng, popularity: Popularity::new(files, 0.9), sizes, left, ready: VecDeque::new() }
    }
}

impl Iterator for WebServer {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.ready.is_empty() && self.left > 0 {
            self.left -= 1;
            let rank = self.popularity.draw(&mut self.rng);
            let client = self.rng.below(CLIENTS) as u32;
            let mut offset = 0;
            while offset < self.sizes[rank] {
                let length = (self.sizes[rank] - offset).min(REQUEST_BYTES) as u32;
                let file = rank as u32 + 1;
                self.ready.push_back(Record { offset, length, file, client, op: Op::Read, ..Record::default() });
                offset += u64::from(length);
            }
        }
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_bytes_are_those_published() {
        let records: Vec<_> = WebServer::new(0.01, 1).collect();
        let begun = records.iter().filter(|r| r.offset == 0).count();
        assert_eq!(begun, 15_000);
        let bytes: u64 = records.iter().map(|r| u64::from(r.length)).sum();
        assert!((0.5..2.0).contains(&(bytes as f64 / 0.36e9)), "{bytes}");
    }
}
