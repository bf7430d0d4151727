//! DB2-like: five queries over 5.2 GB, one after the other.
//!
//! Published (Chen et al., WS-ROS): 5.2 GB of data, five consecutive queries with joins, set operations and
//! aggregates. The rest is a guess: tables of 3.2 and 1.2 GB, an index of 0.4 GB, temporary data of 0.4 GB. Each
//! query scans a part of the large table in 64 KiB requests. For each request it looks up the index and the small
//! table (8 KiB, Zipf 0.9). Joins write and read back temporary data.

use super::{Popularity, Rng};
use crate::trace::{Op, Record};
use std::collections::VecDeque;

const SCAN_BYTES: u32 = 64 << 10;
const PAGE_BYTES: u32 = 8 << 10;
/// Bytes of the large table, the small one, the index, and the temporary data.
const TABLES: [u64; 4] = [3_200_000_000, 1_200_000_000, 400_000_000, 400_000_000];
/// Queries: start and length of the scan of the large table, in tenths; lookups per scanned request; whether
/// temporary data are written.
const QUERIES: [(u64, u64, u32, bool); 5] =
    [(0, 10, 1, false), (2, 4, 4, true), (0, 5, 2, true), (5, 5, 6, false), (0, 3, 8, true)];

/// The trace; `scale` reduces the tables.
#[derive(Debug)]
pub struct Queries {
    rng: Rng,
    tables: [u64; 4],
    lookups: [Popularity; 2],
    scattered: [Vec<u32>; 2],
    query: usize,
    scanned: u64,
    temporary: u64,
    ready: VecDeque<Record>,
}

impl Queries {
    /// Creates the five queries.
    pub fn new(scale: f64, seed: u64) -> Queries {
        let mut rng = Rng::new(seed, 0);
        let tables = TABLES.map(|bytes| ((bytes as f64 * scale) as u64).max(4 * u64::from(SCAN_BYTES)));
        let pages = |table: usize| (tables[table] / u64::from(PAGE_BYTES)) as usize;
        let mut scatter = |table: usize| {
            let mut order: Vec<u32> = (0..pages(table) as u32).collect();
            rng.shuffle(&mut order);
            order
        };
        let scattered = [scatter(1), scatter(2)];
        let lookups = [Popularity::new(pages(1), 0.9), Popularity::new(pages(2), 0.9)];
        Queries { rng, tables, lookups, scattered, query: 0, scanned: 0, temporary: 0, ready: VecDeque::new() }
    }

    /// Adds one scanned request and its lookups; returns `false` at the end.
    fn step(&mut self) -> bool {
        let Some(&(first, tenths, lookups, writes)) = QUERIES.get(self.query) else { return false };
        let scan = u64::from(SCAN_BYTES);
        let requests = self.tables[0] / scan * tenths / 10;
        if self.scanned >= requests {
            // Temporary data are read back once, at the end of the query.
            let back = std::mem::take(&mut self.temporary);
            (0..back).for_each(|n| self.push(4, n * scan, SCAN_BYTES, Op::Read));
            self.query += 1;
            self.scanned = 0;
            return true;
        }
        let at = self.tables[0] / scan * first / 10 + self.scanned;
        self.push(1, at * scan, SCAN_BYTES, Op::Read);
        for n in 0..lookups {
            let which = (n % 2) as usize;
            let page = self.scattered[which][self.lookups[which].draw(&mut self.rng)];
            self.push(2 + which as u32, u64::from(page) * u64::from(PAGE_BYTES), PAGE_BYTES, Op::Read);
        }
        if writes && self.scanned.is_multiple_of(8) && (self.temporary + 1) * scan <= self.tables[3] {
            self.push(4, self.temporary * scan, SCAN_BYTES, Op::Write);
            self.temporary += 1;
        }
        self.scanned += 1;
        true
    }

    fn push(&mut self, file: u32, offset: u64, length: u32, op: Op) {
        self.ready.push_back(Record { offset, length, file, op, ..Record::default() });
    }
}

impl Iterator for Queries {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        while self.ready.is_empty() && self.step() {}
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_queries_scan_look_up_and_keep_temporary_data() {
        let records: Vec<_> = Queries::new(0.01, 1).collect();
        let of = |file: u32, op: Op| records.iter().filter(move |r| r.file == file && r.op == op);
        let table = 32_000_000 / 65_536;
        assert_eq!(
            of(1, Op::Read).count() as u64,
            [10, 4, 5, 5, 3].map(|tenths| table * tenths / 10).iter().sum::<u64>()
        );
        assert!(of(2, Op::Read).count() > 1000 && of(3, Op::Read).count() > 500);
        assert!(of(4, Op::Write).count() > 50);
        assert_eq!(of(4, Op::Write).count(), of(4, Op::Read).count());
        assert!(records.iter().all(|r| r.file != 1 || r.end() <= 32_000_000));
    }
}
