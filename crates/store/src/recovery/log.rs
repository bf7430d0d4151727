//! The last things that repair did: bounded, for `status` and the summary of a job.

use super::tally::Tally;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Entries that are kept.
const ENTRIES_MAX: usize = 256;

/// Something that repair did.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RepairEvent {
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    /// What happened, for people.
    pub text: String,
}

#[derive(Default)]
pub(super) struct Log {
    events: Mutex<VecDeque<RepairEvent>>,
    tallies: Mutex<VecDeque<Arc<Tally>>>,
}

impl Log {
    /// Something worth knowing.
    pub fn note(&self, text: String) {
        tracing::info!("{text}");
        self.push(text);
    }

    /// Something that went wrong.
    pub fn warn(&self, text: String) {
        tracing::warn!("{text}");
        self.push(text);
    }

    /// All entries, oldest first.
    pub fn all(&self) -> Vec<RepairEvent> {
        self.events.lock().iter().cloned().collect()
    }

    fn push(&self, text: String) {
        push(&self.events, RepairEvent { at_ns: now_ns(), text });
    }

    /// A recovery begins; its account is kept.
    pub fn count(&self, tally: Arc<Tally>) {
        push(&self.tallies, tally);
    }

    /// The accounts of the last recoveries, oldest first.
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
