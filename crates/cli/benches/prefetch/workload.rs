//! The workloads: generated records, the same for both worlds.

use crate::Figures;
use sim::generate::{copies, vod};
use sim::trace::Record;
use std::collections::BTreeMap;

/// Bytes of a copy's requests: a copy reads 64 KiB at a time, while the generator uses pages.
const COPY_REQUEST_BYTES: u32 = 64 << 10;

pub struct Workload {
    pub name: String,
    pub copies: bool,
    pub seconds: u64,
    /// In order of time; a client is a stream.
    pub records: Vec<Record>,
}

impl Workload {
    /// Video on demand: each stream thinks 33 ms after each answer.
    pub fn vod(streams: u32, seconds: u64, seed: u64) -> Workload {
        let records = vod(streams, 0, seconds, false, seed).collect();
        Workload { name: format!("video {streams}"), copies: false, seconds, records }
    }

    /// Copies to a local disk, to NFS and to six sites: each reads as fast as its destination takes it.
    pub fn copies(seconds: u64, seed: u64) -> Workload {
        let mut open: BTreeMap<u32, Record> = BTreeMap::new();
        let mut records = Vec::new();
        for record in copies(seconds, seed) {
            match open.get_mut(&record.client) {
                Some(joined)
                    if joined.file == record.file
                        && joined.offset + u64::from(joined.length) == record.offset
                        && joined.length < COPY_REQUEST_BYTES =>
                {
                    joined.length += record.length;
                }
                _ => records.extend(open.insert(record.client, record)),
            }
        }
        records.extend(open.into_values());
        records.sort_by_key(|record| (record.time_ns, record.client));
        Workload { name: "copies".into(), copies: true, seconds, records }
    }

    pub fn streams(&self) -> usize {
        self.records.iter().map(|record| record.client as usize + 1).max().unwrap_or(0)
    }

    /// Each stream's records.
    pub fn by_stream(&self) -> Vec<Vec<Record>> {
        let mut streams = vec![Vec::new(); self.streams()];
        self.records.iter().for_each(|record| streams[record.client as usize].push(*record));
        streams
    }

    /// Bytes of each file, in the order in which they are first read.
    pub fn files(&self) -> Vec<(u32, u64)> {
        let mut at: BTreeMap<u32, usize> = BTreeMap::new();
        let mut files: Vec<(u32, u64)> = Vec::new();
        for record in &self.records {
            let index = *at.entry(record.file).or_insert_with(|| {
                files.push((record.file, 0));
                files.len() - 1
            });
            files[index].1 = files[index].1.max(record.offset + u64::from(record.length));
        }
        files
    }

    /// Whether the streams got less than nine tenths of what they would have on disks that answer at once.
    pub fn is_saturated(&self, figures: &Figures) -> bool {
        let asked: u64 = self.records.iter().map(|record| u64::from(record.length)).sum();
        figures.mb_s < 0.9 * asked as f64 / self.seconds as f64 / 1e6
    }
}
