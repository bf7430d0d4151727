//! The level: takes requests apart, lets coordinator, prefetcher and replacement decide, and says what to fetch.

use super::config::{ConfigError, LevelConfig};
use super::event::{Action, Event, Outcome, Request};
use super::stats::{Stats, StreamStats};
use crate::time::Time;
use std::fmt;

/// One cache level.
#[derive(Debug)]
pub struct Level {
    config: LevelConfig,
}

impl Level {
    /// An empty level.
    pub fn new(config: LevelConfig) -> Result<Level, ConfigError> {
        Ok(Level { config })
    }

    /// Takes an event in. Actions it caused are polled until there is none before the next event goes in.
    pub fn handle(&mut self, _now: Time, _event: Event) {
        todo!()
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Action> {
        todo!()
    }

    /// A request whose fetches, if any, are done at once: a level without a device below. Causes no actions but, with
    /// `announce`, `Hit` and `Evict`.
    pub fn replay(&mut self, _now: Time, _request: &Request) -> Outcome {
        todo!()
    }

    /// What it counted.
    pub fn stats(&self) -> Stats {
        todo!()
    }

    /// What it counted per stream, ascending; empty unless configured with `per_stream`.
    pub fn stream_stats(&self) -> Vec<StreamStats> {
        todo!()
    }

    /// Its configuration.
    pub fn config(&self) -> &LevelConfig {
        &self.config
    }

    /// Blocks resident or on the way: never more than the capacity.
    pub fn inventory(&self) -> u32 {
        todo!()
    }

    /// Whether the invariants hold; takes time linear in the capacity.
    pub fn check(&self) -> Result<(), Violation> {
        todo!()
    }
}

/// An invariant that does not hold: a bug of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a cache level broke its invariant: {}", self.0)
    }
}

impl std::error::Error for Violation {}
