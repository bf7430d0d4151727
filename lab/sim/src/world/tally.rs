//! Counters of a world at its end.

use super::{Access, World};
use crate::block;
use crate::latency::Latencies;
use crate::rounded::short;
use policy::cache::{Stats, StreamStats};
use policy::time::Time;
use serde::Serialize;
use std::collections::BTreeMap;

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Time of the last event that was requested.
    pub end: Time,
    /// Response times of the reads of all clients.
    pub reads: Latencies,
    /// Response times per client.
    pub clients: Vec<Latencies>,
    /// Blocks read by applications.
    pub read_blocks: u64,
    /// Number of the applications' writes.
    pub writes: u64,
    /// Blocks written by applications.
    pub written_blocks: u64,
    /// Writes that were dropped.
    pub dropped_writes: u64,
    /// Levels, that of the application first; private levels summed over the clients.
    pub levels: Vec<LevelTally>,
    /// Response times per stream, if requested.
    pub streams: Vec<StreamTally>,
    /// Replies over the link.
    pub link_replies: u64,
    /// Blocks over the link.
    pub link_blocks: u64,
    /// Counters of the block layer.
    pub storage: block::Counts,
    /// Busy time of the device, summed over devices.
    pub storage_busy_ns: u64,
}

/// Counters of a level.
#[derive(Clone, Debug)]
pub struct LevelTally {
    /// Capacity in blocks, of each client's level.
    pub capacity_blocks: u32,
    /// Statistics of the level.
    pub stats: Stats,
    /// Statistics per stream; empty unless requested.
    pub streams: Vec<StreamStats>,
}

/// Response times of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StreamTally {
    /// Number of the stream.
    pub stream: u32,
    /// Number of reads.
    pub reads: u64,
    /// Mean response time of its reads.
    #[serde(serialize_with = "short")]
    pub mean_ms: f64,
    /// Largest response time of its reads.
    #[serde(serialize_with = "short")]
    pub max_ms: f64,
}

/// Sums per stream, during the run.
#[derive(Debug, Default)]
pub(super) struct Streams(BTreeMap<u32, (u64, u64, u64)>);

impl Streams {
    pub(super) fn add(&mut self, stream: u32, took: Time) {
        let (reads, sum, max) = self.0.entry(stream).or_default();
        *reads += 1;
        *sum += took.0;
        *max = (*max).max(took.0);
    }
}

impl<S: Iterator<Item = Access>> World<S> {
    /// Returns the counters.
    pub fn tally(&self) -> Tally {
        let depth = self.config.private.len();
        let private = self.clients.len() * depth;
        let mut reads = Latencies::default();
        self.clients.iter().for_each(|client| reads.merge(&client.reads));
        let of_level = |level: usize| -> Vec<usize> {
            if level < depth { (level..private).step_by(depth).collect() } else { vec![private + level - depth] }
        };
        let levels = (0..depth + self.config.shared.len()).map(|level| {
            let nodes = of_level(level);
            let mut stats = Stats::default();
            nodes.iter().for_each(|&node| add(&mut stats, &self.nodes[node].level.stats()));
            LevelTally {
                capacity_blocks: self.nodes[nodes[0]].level.config().capacity_blocks,
                stats,
                streams: nodes.iter().flat_map(|&node| self.nodes[node].level.stream_stats()).collect(),
            }
        });
        let sum = |of: fn(&super::Client<S>) -> u64| self.clients.iter().map(of).sum();
        Tally {
            end: self.end,
            reads,
            clients: self.clients.iter().map(|client| client.reads.clone()).collect(),
            read_blocks: sum(|client| client.read_blocks),
            writes: sum(|client| client.writes),
            written_blocks: sum(|client| client.written_blocks),
            dropped_writes: sum(|client| client.dropped_writes),
            levels: levels.collect(),
            streams: self.streams.0.iter().map(stream).collect(),
            link_replies: self.wire.replies,
            link_blocks: self.wire.blocks,
            storage: self.storage.counts(),
            storage_busy_ns: self.storage.busy_ns(),
        }
    }
}

fn stream((&stream, &(reads, sum, max)): (&u32, &(u64, u64, u64))) -> StreamTally {
    StreamTally { stream, reads, mean_ms: sum as f64 / reads as f64 / 1e6, max_ms: max as f64 / 1e6 }
}

/// Adds the counters of one level to those of others.
pub(crate) fn add(sum: &mut Stats, one: &Stats) {
    macro_rules! add {
        ($($counter:ident)*) => {
            // Destructured by name, so that a new counter cannot be forgotten here.
            let Stats { $($counter),* } = one;
            $(sum.$counter += $counter;)*
        };
    }
    add! {
        requests asked hit late missed silent bypassed written fetches prefetches fetched prefetched
        prefetch_used prefetch_late prefetch_wasted prefetch_dropped passed_through evicted failed
    }
}
