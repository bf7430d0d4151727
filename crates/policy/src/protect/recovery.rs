//! The coordinator of on-the-fly recovery: lost objects are fetched from their source while readers wait.
//!
//! ```text
//!              ChooseSpare          Publish              Fetch ... Fetch             Finish
//!  (nothing) -------------> Choosing -----> Publishing ----------> Patching ----------------> Closing --> (nothing)
//!     ^  first ReadBlocked     |  SpareReady  |   Published           |  all rows          Closed
//!     |  or RepairWanted       |              |                       |  some row failed
//!     |                        v              v                       v
//!     +---- Closed ---------- Broken: refuses at once for a while, then retries on request
//! ```
//!
//! One recovery per key serves all waiters. A *row* is one stripe of the lost object, counted from 0: row `r` lies at
//! object offset `r * stripe_size`. Rows with waiters are fetched first, in the order of the requests. Rows ahead of
//! the readers of all keys follow (`ahead`, ours); then the rest, ascending. The volume of both is limited so that
//! requested rows come soon (`pace`, ours). Without waiters, as offline, rows ascend from the first. A waiter is woken
//! as soon as its rows are patched.
//!
//! A row is requested from one source at a time. A transient failure is retried a few times with growing delays; then,
//! and at once for any other failure, the next source is used. A source that changed or refuses permanently is not used
//! again for this key. A row that no source can deliver is failed. After a few such rows without a good one the rest is
//! given up, so that a dead source costs only a few rows' retries.
//!
//! Duties of the driver: it answers every action, so that every waiter is woken in the end. `ChooseSpare` is answered
//! with `SpareReady` or `SpareFailed`, `Publish` with `Published` or `PublishFailed`, each `Fetch` with `Patched` or
//! `FetchFailed`. Before it reports a blocked read, it checks that the lost object is still in the layout. It fetches,
//! verifies and writes; no data pass through this machine.
//!
//! Source: the reference, section 6.6.

mod ahead;
mod entry;
mod machine;
mod pace;

pub use machine::Recovery;

use crate::ids::{FileId, ObjectId};
use crate::time::Time;
use std::ops::Range;

/// Identity of a recovery: an object that a file lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The file that lost an object.
    pub file: FileId,
    /// The lost object, not its spare.
    pub lost: ObjectId,
}

/// A waiting caller; a number of the driver's choosing, in use for one wait at a time.
pub type Waiter = u64;

/// Limits of [`Recovery`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Rows of one key under way at once (waiting retries count). At least 1.
    pub rows_per_key_max: usize,
    /// Fetches under way at once, over all keys. At least 1.
    pub fetches_max: usize,
    /// Part of both limits that is reserved for rows with waiters.
    pub reserved_for_asked: usize,
    /// Limit on fetches ahead while readers wait: no more than arrives within this time, so that a requested row
    /// arrives about as soon.
    pub row_within: Time,
    /// Retries of a transient failure at the same source.
    pub retries: u32,
    /// Wait before the first retry; doubles each time.
    pub retry_first: Time,
    /// The longest wait before a retry.
    pub retry_max: Time,
    /// Number of failed rows since the last good one at which the rest is given up. At least 1.
    pub failed_rows_max: u32,
    /// Time for which a broken recovery refuses at once instead of retrying.
    pub broken_for: Time,
}

impl Default for Config {
    /// Guesses: eight ranges in flight fill a gigabit line at 100 ms; an unreachable source is given up after seconds.
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

/// Events of [`Recovery`]: blocked reads, repair requests, and results of its actions.
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
    /// An object should be recovered without a waiting caller.
    RepairWanted(Key),
    /// A spare object was created.
    SpareReady {
        /// The lost object.
        key: Key,
        /// The spare that replaces it.
        new_object: ObjectId,
        /// Number of its rows, at the file's size.
        rows: u64,
        /// Number of the file's sources; at least 1, else `SpareFailed`.
        sources: u32,
    },
    /// No target for a spare is available, or no source.
    SpareFailed(Key),
    /// The layout now names the new object as `Partial`.
    Published(Key),
    /// The layout could not be written.
    PublishFailed(Key),
    /// A row was fetched, verified and written to the new object; or its bytes were written there in another way.
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
        /// The row that the source did not deliver.
        row: u64,
        /// Kind of the failure, which decides on a retry.
        kind: FetchError,
    },
    /// The layout records the end of the recovery, or the driver gave it up; the key may be forgotten.
    Closed(Key),
    /// The recovery became pointless: the file was removed or its layout changed otherwise.
    Abandoned(Key),
    /// A caller waits no longer.
    Cancel(Waiter),
    /// Time passed; sent at `Recovery::next_deadline`.
    Tick,
}

/// Reason for a failed fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchError {
    /// The fetch may succeed on a retry.
    Passing,
    /// This source will not work for this file.
    Permanent,
    /// The source differs from the staged version.
    Changed,
    /// The bytes of this row do not match their checksum.
    BadChecksum,
}

/// Actions that the driver carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Choose a target and create an object.
    ChooseSpare(Key),
    /// Put the new object into the layout as `Partial`.
    Publish {
        /// The lost object.
        key: Key,
        /// The spare that replaces it.
        new_object: ObjectId,
    },
    /// Remove an unused spare that no layout names.
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
        /// Index of the source among the file's sources.
        source_index: u32,
        /// Whether a reader waits for the row, is near it, or neither.
        reason: FetchReason,
    },
    /// Wake a waiting caller.
    Wake {
        /// The reader that was blocked.
        waiter: Waiter,
        /// Result for its rows.
        outcome: Outcome,
    },
    /// Ends the work on this key. When complete: mark the object `Complete` in the layout, then send `Closed`. After a
    /// failure `Closed` may be delayed to keep the patched rows readable.
    Finish {
        /// The lost object.
        key: Key,
        /// Whether every row was patched.
        result: Finished,
    },
    /// The recovery is over and no answer is outstanding: state that belongs to the key can be dropped.
    Forgotten(Key),
}

/// Reason for fetching a row now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchReason {
    /// A caller waits for it.
    Asked,
    /// The row is ahead of a reader.
    Ahead,
    /// It is next in ascending order.
    InOrder,
    /// Retry at the same source, with its number.
    Retry(u32),
    /// The previous source did not deliver the row.
    NextSource,
}

/// Result for a waiting caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All requested rows are patched.
    Ok,
    /// The recovery was abandoned: the caller must read the layout again.
    LookAgain,
    /// Some requested row is unavailable.
    Failed(Why),
}

/// How a recovery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Every row is patched.
    Complete,
    /// Some rows could not be fetched.
    Failed {
        /// Reason for the first failed row.
        why: Why,
        /// Number of failed rows, if the recovery reached rows at all.
        rows_failed: u64,
    },
}

/// Reason why a row is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No target for a spare is available, or no source.
    NoSpare,
    /// The layout could not be written.
    NotPublished,
    /// Every source failed; the error of the last one.
    Sources(FetchError),
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Recoveries that were begun.
    pub started: u64,
    /// Recoveries with every row patched and durable.
    pub completed: u64,
    /// Recoveries that did not complete.
    pub failed: u64,
    /// Requested fetches, retries included.
    pub fetches: u64,
    /// Rows that were patched.
    pub rows_patched: u64,
    /// Rows that no source could deliver.
    pub rows_failed: u64,
    /// Blocked reads reported.
    pub waits: u64,
    /// Number of current keys.
    pub keys: u64,
    /// Number of current waiters.
    pub waiting: u64,
    /// Fetches under way now.
    pub in_flight: u64,
}

#[cfg(test)]
mod tests;
