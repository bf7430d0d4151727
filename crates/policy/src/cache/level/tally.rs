//! Statistics per stream, by the stream's number, for a bounded number of streams.

use crate::block::recent::Recent;
use crate::cache::stats::StreamStats;

/// Counts of all remembered streams.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    streams: Recent,
    counts: Vec<StreamStats>,
}

impl Tally {
    pub(super) fn new(streams_max: u32) -> Tally {
        Tally { streams: Recent::new(streams_max), counts: Vec::new() }
    }

    /// Returns the counts of a stream that reads.
    pub(super) fn enter(&mut self, stream: u32) -> &mut StreamStats {
        let entered = self.streams.enter(u64::from(stream));
        if entered.at >= self.counts.len() {
            self.counts.resize(entered.at + 1, StreamStats::default());
        }
        let counts = &mut self.counts[entered.at];
        if entered.fresh {
            *counts = StreamStats { stream, ..StreamStats::default() };
        }
        counts
    }

    /// Returns the counts of a block's stream, if still remembered.
    pub(super) fn find(&mut self, stream: u32) -> Option<&mut StreamStats> {
        self.streams.find(u64::from(stream)).map(|at| &mut self.counts[at])
    }

    /// Returns all counts, ascending.
    pub(super) fn all(&self) -> Vec<StreamStats> {
        let mut all: Vec<StreamStats> = self.streams.iter().map(|(_, at)| self.counts[at]).collect();
        all.sort_by_key(|stats| stats.stream);
        all
    }
}
