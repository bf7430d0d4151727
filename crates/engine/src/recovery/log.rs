//! The last events of repair: bounded, for `status` and the summary of a job.

use super::tally::Tally;
use crate::events::{Event, Events, Kind};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum of entries.
const ENTRIES_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Log {
    events: Arc<Events>,
    tallies: Mutex<VecDeque<Arc<Tally>>>,
}

impl Log {
    /// A log whose entries are events.
    pub fn new(events: Arc<Events>) -> Log {
        Log { events, tallies: Mutex::default() }
    }

    /// Records a remark about a file.
    pub fn note(&self, path: String, text: String) {
        tracing::info!("{text}");
        self.push(path, text);
    }

    /// Records a failure of a file.
    pub fn warn(&self, path: String, text: String) {
        tracing::warn!("{text}");
        self.push(path, text);
    }

    fn push(&self, path: String, text: String) {
        self.events.record(Event { path: Some(path), by: Some("recovery".into()), ..Event::new(Kind::Recovery, text) });
    }

    /// Adds the tally of a recovery that begins.
    pub fn count(&self, tally: Arc<Tally>) {
        push(&self.tallies, tally);
    }

    /// Tallies of the last recoveries, oldest first.
    pub fn tallies(&self) -> Vec<Arc<Tally>> {
        self.tallies.lock().iter().cloned().collect()
    }
}

fn push<T>(entries: &Mutex<VecDeque<T>>, entry: T) {
    let mut entries = entries.lock();
    if entries.len() == ENTRIES_MAX {
        entries.pop_front();
    }
    entries.push_back(entry);
}

/// Nanoseconds since 1970.
pub(super) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}
