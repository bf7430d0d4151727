//! Crash points of a move, for tests.

use crate::Result;
use std::sync::Arc;

/// A step of a move that was just completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The stub has the mark of use.
    Marked,
    /// A part of the objects to be created is in the journal.
    Journalled,
    /// All objects exist.
    Created,
    /// A chunk was copied.
    ChunkCopied,
    /// Everything was copied once.
    Copied,
    /// Writers are locked out, and their last writes are copied.
    CaughtUp,
    /// The new objects are durable.
    Synced,
    /// The record names the new objects, or they are registered as a slow copy.
    Replaced,
    /// The stub is durable, or the record of the copy.
    Durable,
    /// The journal is finished, and the old objects are garbage.
    Finished,
    /// The old objects are removed.
    Removed,
}

/// Called after every step; an error stands for the death of the daemon.
pub type CrashHook = Arc<dyn Fn(Step) -> Result<()> + Send + Sync>;
