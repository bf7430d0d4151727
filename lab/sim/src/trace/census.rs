//! Census of a trace: number and kinds of requests, time span, amount of data, sequentiality.

mod footprint;
mod sequential;

use super::{Accounting, Op, Record};
pub use footprint::Footprint;
use sequential::Sequential;
use serde::Serialize;
use std::collections::HashSet;

/// Limit of counted clients, devices and files, so that memory stays bounded.
const DISTINCT_MAX: usize = 1 << 22;

/// A running census of records.
#[derive(Debug, Default)]
pub struct Census {
    counts: [u64; 4],
    bytes: [u64; 4],
    length_min: u32,
    length_max: u32,
    first_ns: u64,
    last_ns: u64,
    previous_ns: u64,
    out_of_order: u64,
    /// Sums over the times between two requests, in seconds.
    gap_sum_s: f64,
    gap_squares_s2: f64,
    address_end: u64,
    references: u64,
    footprint: Footprint,
    sequential: Sequential,
    clients: HashSet<u32>,
    devices: HashSet<u16>,
    files: HashSet<u64>,
}

/// Results of a census. Shares are of reads and writes; rates are 0 for a trace without times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Records of any kind.
    pub records: u64,
    /// Reads and writes.
    pub requests: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of discards.
    pub trims: u64,
    /// Number of flushes.
    pub syncs: u64,
    /// Sum of the bytes read.
    pub read_bytes: u64,
    /// Sum of the bytes written.
    pub write_bytes: u64,
    /// Mean size of reads and writes.
    pub length_mean_bytes: f64,
    /// Smallest size of these.
    pub length_min_bytes: u32,
    /// Largest size of these.
    pub length_max_bytes: u32,
    /// Number of touched blocks, with repetitions.
    pub references: u64,
    /// Size of a block in bytes.
    pub block_bytes: u32,
    /// Number of different blocks touched.
    pub footprint_blocks: u64,
    /// Footprint in bytes.
    pub footprint_bytes: u64,
    /// Whether the footprint is exact; otherwise it is a lower limit.
    pub footprint_exact: bool,
    /// End of the highest request.
    pub address_end_bytes: u64,
    /// Share of requests that start at the end of the previous one on the same device.
    pub sequential_strict: f64,
    /// Share of requests that start at the end of one of the previous 32 on the same device: sequential, if
    /// interleaved.
    pub sequential_streams: f64,
    /// Number of clients, counted up to 4 Mi (as devices and files).
    pub clients: u64,
    /// Number of devices.
    pub devices: u64,
    /// Number of files.
    pub files: u64,
    /// The earliest time.
    pub first_ns: u64,
    /// The latest time.
    pub last_ns: u64,
    /// Time from the earliest to the latest record, in seconds.
    pub span_s: f64,
    /// Records per second.
    pub records_per_s: f64,
    /// Bytes read and written per second.
    pub bytes_per_s: f64,
    /// Coefficient of variation of the times between two records.
    pub gap_variation: f64,
    /// Records that are earlier than the previous one.
    pub out_of_order: u64,
}

impl Census {
    /// Creates an empty census; the footprint is counted in blocks of that size.
    pub fn new(block_bytes: u32) -> Census {
        Census { length_min: u32::MAX, footprint: Footprint::new(block_bytes), ..Census::default() }
    }

    /// Counts a record.
    pub fn add(&mut self, record: &Record) {
        self.add_time(record.time_ns);
        let kind = record.op as usize;
        self.counts[kind] += 1;
        self.bytes[kind] += u64::from(record.length);
        if matches!(record.op, Op::Read | Op::Write) {
            self.length_min = self.length_min.min(record.length);
            self.length_max = self.length_max.max(record.length);
            self.address_end = self.address_end.max(record.end());
            self.references += self.footprint.add(record);
            self.sequential.add(record);
        }
        note(&mut self.clients, record.client);
        note(&mut self.devices, record.device);
        if record.file != 0 {
            note(&mut self.files, record.space());
        }
    }

    fn add_time(&mut self, now_ns: u64) {
        if self.records() == 0 {
            (self.first_ns, self.last_ns) = (now_ns, now_ns);
        } else {
            self.first_ns = self.first_ns.min(now_ns);
            self.out_of_order += u64::from(now_ns < self.previous_ns);
            let gap_s = now_ns.saturating_sub(self.previous_ns) as f64 / 1e9;
            self.gap_sum_s += gap_s;
            self.gap_squares_s2 += gap_s * gap_s;
            self.last_ns = self.last_ns.max(now_ns);
        }
        self.previous_ns = now_ns;
    }

    fn records(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns whether the accounts of the reader agree with the records counted here.
    pub fn agrees(&self, accounting: &Accounting) -> bool {
        accounting.agrees(self.records(), false)
    }

    /// Returns the report.
    pub fn report(&self) -> Report {
        let [reads, writes, trims, syncs] = self.counts;
        let (records, requests) = (self.records(), reads + writes);
        let moved = self.bytes[0] + self.bytes[1];
        let span_s = self.last_ns.saturating_sub(self.first_ns) as f64 / 1e9;
        let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
        let rate = |n: u64| if span_s > 0.0 { n as f64 / span_s } else { 0.0 };
        let block_bytes = self.footprint.block_bytes();
        Report {
            records,
            requests,
            reads,
            writes,
            trims,
            syncs,
            read_bytes: self.bytes[0],
            write_bytes: self.bytes[1],
            length_mean_bytes: share(moved, requests),
            length_min_bytes: if requests == 0 { 0 } else { self.length_min },
            length_max_bytes: self.length_max,
            references: self.references,
            block_bytes,
            footprint_blocks: self.footprint.blocks(),
            footprint_bytes: self.footprint.blocks().saturating_mul(u64::from(block_bytes)),
            footprint_exact: self.footprint.is_exact(),
            address_end_bytes: self.address_end,
            sequential_strict: share(self.sequential.strict(), requests),
            sequential_streams: share(self.sequential.in_streams(), requests),
            clients: self.clients.len() as u64,
            devices: self.devices.len() as u64,
            files: self.files.len() as u64,
            first_ns: self.first_ns,
            last_ns: self.last_ns,
            span_s,
            records_per_s: rate(records),
            bytes_per_s: rate(moved),
            gap_variation: self.gap_variation(),
            out_of_order: self.out_of_order,
        }
    }

    fn gap_variation(&self) -> f64 {
        let gaps = self.records().saturating_sub(1) as f64;
        if gaps == 0.0 || self.gap_sum_s == 0.0 {
            return 0.0;
        }
        let mean = self.gap_sum_s / gaps;
        (self.gap_squares_s2 / gaps - mean * mean).max(0.0).sqrt() / mean
    }
}

fn note<T: std::hash::Hash + Eq>(seen: &mut HashSet<T>, one: T) {
    if seen.len() < DISTINCT_MAX {
        seen.insert(one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(time_ns: u64, offset: u64, length: u32) -> Record {
        Record { time_ns, offset, length, ..Record::default() }
    }

    #[test]
    fn counts_what_a_reader_of_five_requests_would_count_by_hand() {
        let mut census = Census::new(4096);
        let records = [
            read(0, 0, 8192),
            read(1_000_000_000, 8192, 4096),
            Record { op: Op::Write, client: 7, ..read(2_000_000_000, 100_000, 1) },
            read(3_000_000_000, 12_288, 4096),
            Record { op: Op::Sync, length: 0, ..read(4_000_000_000, 0, 0) },
        ];
        records.iter().for_each(|r| census.add(r));
        let report = census.report();
        assert_eq!((report.records, report.requests, report.reads, report.writes, report.syncs), (5, 4, 3, 1, 1));
        assert_eq!((report.read_bytes, report.write_bytes), (16_384, 1));
        assert_eq!((report.references, report.footprint_blocks), (5, 5));
        assert_eq!((report.sequential_strict, report.sequential_streams), (0.25, 0.5));
        assert_eq!((report.span_s, report.records_per_s, report.gap_variation), (4.0, 1.25, 0.0));
        assert_eq!((report.clients, report.files, report.address_end_bytes), (2, 0, 100_001));
    }

    #[test]
    fn an_empty_trace_has_figures_too() {
        let report = Census::new(512).report();
        assert_eq!((report.records, report.length_min_bytes, report.records_per_s), (0, 0, 0.0));
    }

    #[test]
    fn times_that_go_back_are_counted_and_do_not_shrink_the_span() {
        let mut census = Census::new(4096);
        [5, 9, 2, 3].iter().for_each(|t| census.add(&read(*t, 0, 1)));
        let report = census.report();
        assert_eq!((report.out_of_order, report.first_ns, report.last_ns), (1, 2, 9));
    }
}
