//! The last things that repair did: bounded, for `status` and the summary of a job.

use parking_lot::Mutex;
use std::collections::VecDeque;
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

/// The log.
#[derive(Default)]
pub(super) struct Log(Mutex<VecDeque<RepairEvent>>);

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
        self.0.lock().iter().cloned().collect()
    }

    fn push(&self, text: String) {
        let at_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        let mut entries = self.0.lock();
        if entries.len() == ENTRIES_MAX {
            entries.pop_front();
        }
        entries.push_back(RepairEvent { at_ns, text });
    }
}
