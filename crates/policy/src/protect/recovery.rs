//! The coordinator of on-the-fly recovery: lost objects come back from their source while readers wait.
//!
//! ```text
//!              ChooseSpare          Publish              Fetch ... Fetch             Finish
//!  (nothing) -------------> Choosing -----> Publishing ----------> Patching ----------------> Closing --> (nothing)
//!     ^  first ReadBlocked     |  SpareReady  |   Published           |  all rows          Closed
//!     |  or RepairWanted       |              |                       |  some row failed
//!     |                        v              v                       v
//!     +---- Closed ---------- Broken: refuses at once for a while, then tries again when asked
//! ```
//!
//! One recovery per key, however many wait. A *row* is one stripe of the lost object, counted from 0: row `r` lies at
//! object offset `r * stripe_size`. Rows that somebody waits for are fetched first, in the order they were asked for;
//! then what lies ahead of the readers (`ahead`, ours), of all keys; then the rest, ascending; as much of both as
//! lets the rows that are asked for come soon (`pace`, ours). With nobody waiting, as offline, that is ascending from
//! the first. A waiter is woken as soon as the rows it named are patched.
//!
//! A row is asked from one source at a time. A passing failure is tried again a few times, later each time; then, and
//! at once for any other failure, the next source is asked. A source that changed or refuses for good is not asked
//! again for this key. A row that no source can give is failed; after a few such rows without one good the rest is
//! given up too, so that a dead source costs no more than a few rows' worth of retries.
//!
//! Duties of the driver: it answers every action (`ChooseSpare` with `SpareReady` or `SpareFailed`, `Publish` with
//! `Published` or `PublishFailed`, each `Fetch` with `Patched` or `FetchFailed`), whatever happens; so every waiter is
//! woken in the end. Before it reports a blocked read it looks whether the lost object
//! still stands in the layout. It fetches, verifies and writes; this machine sees no byte.
//!
//! Source: the reference, section 6.6.

mod ahead;
mod entry;
mod machine;
mod pace;
mod rows;

pub use machine::Recovery;

use crate::ids::{FileId, ObjectId};
use crate::time::Time;
use std::ops::Range;

/// What is being recovered: an object that a file lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The file that lost an object.
    pub file: FileId,
    /// The lost object, not the one that takes its place.
    pub lost: ObjectId,
}

/// A caller that waits; a number of the driver's choosing, in use for one wait at a time.
pub type Waiter = u64;

/// Limits of [`Recovery`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Rows of one key under way at once (those that wait to be tried again count). At least 1.
    pub rows_per_key_max: usize,
    /// Fetches under way at once, over all keys. At least 1.
    pub fetches_max: usize,
    /// Of both limits, so many are kept free for rows that a caller waits for.
    pub reserved_for_asked: usize,
    /// While readers wait, no more is fetched ahead than comes within this time, so that what they ask for comes about
    /// as soon.
    pub row_within: Time,
    /// So often a passing failure is tried again at the same source.
    pub retries: u32,
    /// Wait before the first retry; doubles each time.
    pub retry_first: Time,
    /// The longest wait before a retry.
    pub retry_max: Time,
    /// So many rows failed since the last good one give up the rest. At least 1.
    pub failed_rows_max: u32,
    /// For so long after it broke, a recovery refuses at once instead of trying again.
    pub broken_for: Time,
}

impl Default for Config {
    /// Guesses: eight ranges in flight fill a gigabit line at 100 ms; a source that is down is given up after seconds.
    fn default() -> Config {
        Config {
            rows_per_key_max: 8,
            fetches_max: 32,
            reserved_for_asked: 2,
            row_within: Time::from_millis(500),
            retries: 3,
            retry_first: Time::from_millis(200),
            retry_max: Time::from_secs(5),
            failed_rows_max: 4,
            broken_for: Time::from_secs(10),
        }
    }
}

/// Events of [`Recovery`]: blocked reads, wishes for repair, and what became of its actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A read needs rows of a lost object, or of one that is being recovered.
    ReadBlocked {
        /// The lost object that the read needs.
        key: Key,
        /// The reader that is woken when its rows are patched.
        waiter: Waiter,
        /// The rows it needs.
        rows: Range<u64>,
    },
    /// The object should be recovered though no caller waits.
    RepairWanted {
        /// The lost object.
        key: Key,
    },
    /// An object to take its place was created.
    SpareReady {
        /// The lost object.
        key: Key,
        /// The one to take its place.
        new_object: ObjectId,
        /// How many rows it has, at the file's size.
        rows: u64,
        /// How many sources the file has; at least 1, else `SpareFailed`.
        sources: u32,
    },
    /// There is no target for a spare, or no source.
    SpareFailed {
        /// The lost object.
        key: Key,
    },
    /// The layout now names the new object as `Partial`.
    Published {
        /// The lost object.
        key: Key,
    },
    /// The layout could not be written.
    PublishFailed {
        /// The lost object.
        key: Key,
    },
    /// A row is fetched, verified and written to the new object; or its bytes came to be there in another way.
    Patched {
        /// The lost object.
        key: Key,
        /// The row that is whole now.
        row: u64,
    },
    /// A row could not be fetched or written.
    FetchFailed {
        /// The lost object.
        key: Key,
        /// The row that the source did not give.
        row: u64,
        /// Whether to ask this source again.
        kind: FetchError,
    },
    /// The layout says that the recovery is over, or the driver gave it up; the key may be forgotten.
    Closed {
        /// The lost object.
        key: Key,
    },
    /// The recovery became pointless: the file was removed or its layout changed otherwise.
    Abandoned {
        /// The lost object.
        key: Key,
    },
    /// A caller waits no longer.
    Cancel {
        /// The waiter that gave up.
        waiter: Waiter,
    },
    /// Time passed; to be sent at `Recovery::next_deadline`.
    Tick,
}

/// Why a fetch gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchError {
    /// May work when tried again.
    Passing,
    /// This source will not work for this file.
    Permanent,
    /// The source is not what was staged in.
    Changed,
    /// The bytes of this row do not match their checksum.
    BadChecksum,
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Choose a target and create an object.
    ChooseSpare {
        /// The lost object.
        key: Key,
    },
    /// Put the new object into the layout as `Partial`.
    Publish {
        /// The lost object.
        key: Key,
        /// The one to take its place.
        new_object: ObjectId,
    },
    /// Remove a spare that came to nothing: it stands in no layout.
    Discard {
        /// The lost object.
        key: Key,
        /// The spare, which no layout names.
        new_object: ObjectId,
    },
    /// Fetch a row, verify it, write it to the new object. A row beyond the end of a file that shrank is `Patched`.
    Fetch {
        /// The lost object.
        key: Key,
        /// The stripe to fetch, counted from 0.
        row: u64,
        /// Which of the file's sources to ask.
        source_index: u32,
        /// Whether a reader waits for it, comes near it, or none does.
        reason: FetchReason,
    },
    /// Let somebody go on.
    Wake {
        /// The reader that was blocked.
        waiter: Waiter,
        /// Whether its rows are there.
        outcome: Outcome,
    },
    /// No more work for this key. When complete: mark the object `Complete` in the layout. Then send `Closed`; after a
    /// failure it may be kept back to keep the patched rows readable.
    Finish {
        /// The lost object.
        key: Key,
        /// Whether every row was patched.
        result: Finished,
    },
    /// It is over and nothing is owed any more: what goes with the key can go, too.
    Forgotten {
        /// The lost object.
        key: Key,
    },
}

/// Why a row is fetched now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchReason {
    /// A caller waits for it.
    Asked,
    /// It lies ahead of a reader.
    Ahead,
    /// It is the next in order.
    InOrder,
    /// It failed and is tried again, for the so-manieth time at this source.
    Retry(u32),
    /// The source asked before did not give the row.
    NextSource,
}

/// What somebody who waited is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All rows asked for are patched.
    Ok,
    /// The recovery was abandoned: look at the layout again.
    LookAgain,
    /// Some row asked for cannot be had.
    Failed(Why),
}

/// How a recovery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Every row is patched.
    Complete,
    /// Some rows could not be fetched.
    Failed {
        /// Why the first of them is not.
        why: Why,
        /// How many are not, where it came to rows at all.
        rows_failed: u64,
    },
}

/// Why a row cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No target for a spare, or no source.
    NoSpare,
    /// The layout could not be written.
    NotPublished,
    /// Every source failed; this is what the last one said.
    Sources(FetchError),
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Recoveries begun.
    pub started: u64,
    /// Recoveries that patched every row and were said to be durable.
    pub completed: u64,
    /// Recoveries that did not.
    pub failed: u64,
    /// Fetches asked for, retries included.
    pub fetches: u64,
    /// Rows patched.
    pub rows_patched: u64,
    /// Rows that no source could give.
    pub rows_failed: u64,
    /// Blocked reads reported.
    pub waits: u64,
    /// Keys known now.
    pub keys: u64,
    /// Waiters now.
    pub waiting: u64,
    /// Fetches under way now.
    pub in_flight: u64,
}

#[cfg(test)]
mod tests;
