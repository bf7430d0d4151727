//! Progress of the mover, for `entrepot status`.

use parking_lot::Mutex;
use policy::FileId;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// State of one move.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Bytes are copied while the file is in use.
    Copying,
    /// All steps are done.
    Done,
    /// The file was in use in a way that excludes a move; the move will be retried.
    Busy,
    /// The move failed, with the reason.
    Failed(String),
}

/// Progress of one move.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ProgressEntry {
    /// Serial number, ascending.
    pub id: u64,
    /// Verb of the move: `add mirror`, `drop mirror`, `replace target`, `move segment`, `copy segment`, `resync`.
    pub verb: &'static str,
    /// Number of the file.
    pub file: String,
    /// Bytes copied so far.
    pub done_bytes: u64,
    /// Size of the file in bytes: an upper bound, since holes are not copied.
    pub total_bytes: u64,
    /// State of the move.
    pub phase: Phase,
    /// Mechanism that requested the move. Only the operator sees this and the reason.
    #[serde(skip)]
    pub by: &'static str,
    /// Reason of the move.
    #[serde(skip)]
    pub why: String,
    /// Duration of the move so far.
    #[serde(skip)]
    pub lasted: Duration,
}

/// Maximum of ended moves in the list. A guess.
const ENDED_MAX: usize = 32;

/// The running moves, and the last ones that ended.
#[derive(Default)]
pub struct Progress {
    next: AtomicU64,
    active: Mutex<Vec<Arc<Active>>>,
    ended: Mutex<VecDeque<ProgressEntry>>,
}

/// A running move.
pub(super) struct Active {
    id: u64,
    verb: &'static str,
    file: FileId,
    total_bytes: u64,
    pub done_bytes: AtomicU64,
    cause: (&'static str, String),
    began: Instant,
}

impl Active {
    fn entry(&self, phase: Phase) -> ProgressEntry {
        ProgressEntry {
            id: self.id,
            verb: self.verb,
            file: self.file.to_string(),
            done_bytes: self.done_bytes.load(Ordering::Relaxed),
            total_bytes: self.total_bytes,
            phase,
            by: self.cause.0,
            why: self.cause.1.clone(),
            lasted: self.began.elapsed(),
        }
    }
}

impl Progress {
    /// The running moves, then the ended ones.
    pub fn list(&self) -> Vec<ProgressEntry> {
        let mut all: Vec<_> = self.active.lock().iter().map(|a| a.entry(Phase::Copying)).collect();
        all.extend(self.ended.lock().iter().cloned());
        all
    }

    /// Whether a file is being moved.
    pub fn is_moved(&self, file: FileId) -> bool {
        self.active.lock().iter().any(|active| active.file == file)
    }

    pub(super) fn begin(
        &self,
        (verb, cause): (&'static str, (&'static str, String)),
        file: FileId,
        total_bytes: u64,
    ) -> Arc<Active> {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let (done_bytes, began) = (AtomicU64::new(0), Instant::now());
        let active = Arc::new(Active { id, verb, file, total_bytes, done_bytes, cause, began });
        self.active.lock().push(active.clone());
        active
    }

    pub(super) fn end(&self, active: &Active, phase: Phase) {
        self.active.lock().retain(|a| a.id != active.id);
        let mut ended = self.ended.lock();
        ended.push_front(active.entry(phase));
        ended.truncate(ENDED_MAX);
    }
}
