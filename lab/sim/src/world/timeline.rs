//! Samples over time of each stream's read-ahead: the plot of inventories.

use super::{Access, Event, World};
use crate::event::Rank;
use policy::time::Time;

/// A sample of one stream at one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Time of the sample.
    pub at: Time,
    /// Number of the level: 1 is that of the application.
    pub level: u32,
    /// Client of the level; 0 for shared levels.
    pub client: u32,
    /// Number of the stream.
    pub stream: u32,
    /// Blocks prefetched and not requested yet.
    pub inventory: u64,
    /// Trigger distance in blocks.
    pub trigger_distance: f64,
    /// Rate in blocks per second.
    pub rate: f64,
}

impl<S: Iterator<Item = Access>> World<S> {
    pub(super) fn sample(&mut self, now: Time) {
        let depth = self.config.private.len();
        let private = self.clients.len() * depth;
        for (at, node) in self.nodes.iter().enumerate() {
            let (level, client) = if at < private { (at % depth, at / depth) } else { (depth + at - private, 0) };
            for stream in node.level.stream_stats() {
                self.samples.push(Sample {
                    at: now,
                    level: level as u32 + 1,
                    client: client as u32,
                    stream: stream.stream,
                    inventory: stream.inventory,
                    trigger_distance: stream.trigger_distance,
                    rate: stream.rate,
                });
            }
        }
        // Sampling ends with the world: it does not keep the world running.
        let Some(every) = self.config.sample_every else { return };
        if !self.events.is_empty() || self.ready.is_some() {
            self.events.push(now + every, Rank::Timer, Event::Sample);
        }
    }
}
