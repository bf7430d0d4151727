//! Reasons for changes of a layout: a bounded list of the last ones, kept in the layout record itself.

use crate::ids::TargetId;
use crate::time::Time;

/// Reason for a change of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The file outgrew its stub, or was written beyond what its segments covered.
    Grown,
    /// Staged in with a known size.
    StagedIn,
    /// Set by the user on an empty file or inherited from the directory.
    Requested,
    /// A mirror was added (on request, or to protect a job's input).
    MirrorAdded,
    /// A mirror was dropped.
    MirrorDropped,
    /// A mirror missed a write, because this target failed.
    MirrorStale(TargetId),
    /// A mirror was brought up to date.
    Resynced,
    /// An object was recovered from its source, because this target failed.
    RecoveryStarted(TargetId),
    /// The recovery of an object is complete.
    Recovered,
    /// An object was copied from another mirror, because this target failed.
    FailedOver(TargetId),
    /// An object was moved off this target, which is being drained.
    Drained(TargetId),
    /// A segment was moved on request.
    Moved,
    /// A mirror was striped differently, because of its load.
    Restriped,
    /// The user placed it piece by piece beside other files.
    Merged,
    /// The file got objects of its own again.
    Split,
}

/// The last changes of a layout, oldest first, at most [`History::ENTRIES_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History(Vec<(Time, Reason)>);

impl History {
    /// Most changes that are kept.
    pub const ENTRIES_MAX: usize = 8;

    /// Adds a change and drops the oldest if there are too many. `at` is nanoseconds since 1970.
    pub fn push(&mut self, at: Time, reason: Reason) {
        if self.0.len() == Self::ENTRIES_MAX {
            self.0.remove(0);
        }
        self.0.push((at, reason));
    }

    /// Returns the changes, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &(Time, Reason)> + ExactSizeIterator {
        self.0.iter()
    }
}
