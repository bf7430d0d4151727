//! The last events of repair: bounded, for `status` and the summary of a job.

use super::tally::Tally;
use crate::events::{Event, Events, Kind};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

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

    /// Records an event of a file.
    pub fn record(&self, path: String, text: String) {
        self.events.record(Event { path: Some(path), by: Some("recovery".into()), ..Event::new(Kind::Recovery, text) });
    }

    /// Adds the tally of a recovery that begins.
    pub fn count(&self, tally: Arc<Tally>) {
        let mut tallies = self.tallies.lock();
        if tallies.len() == ENTRIES_MAX {
            tallies.pop_front();
        }
        tallies.push_back(tally);
    }

    /// Tallies of the last recoveries, oldest first.
    pub fn tallies(&self) -> Vec<Arc<Tally>> {
        self.tallies.lock().iter().cloned().collect()
    }
}
