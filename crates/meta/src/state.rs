//! Persistent state of a volume besides its files: epochs, targets, the mover's journal, garbage, staging progress,
//! jobs.
//!
//! [`State`] is what callers use; [`SqliteState`] keeps it in one file on this machine, [`RedisState`] in a server. Every call that
//! returned is durable. The suite in `conformance.rs` holds for every implementation.

#[cfg(test)]
mod conformance;
pub mod dump;
pub mod redis;
mod sqlite;

pub use self::redis::RedisState;
#[cfg(test)]
use conformance::conformance;
pub use sqlite::SqliteState;

use crate::Result;
use object::counters::Timed;
use object::target::State as TargetState;
use policy::holders::table::{Answer, Caller, Request, Run};
use policy::{FileId, ObjectId, TargetId};

/// Kind of the records of durable object names (`durable_names`). They hold for one machine and one time.
pub const NAMES: &str = "names";

/// Kind of the records by which nodes exchange their jobs. Their keys begin with the name of the node and a blank.
pub const KNOWN_JOBS: &str = "jobs.known";

/// Kind of the one record that holds the space promised to jobs by each node.
pub const PROMISED: &str = "jobs.promised";

/// State store's record of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRecord {
    /// Its number; never given to another target.
    pub id: TargetId,
    /// Name in `volume.toml`.
    pub name: String,
    /// `Ok`, `Failed` or `Draining`; suspicion is not remembered.
    pub state: TargetState,
    /// Whether the operator failed it, so that only the operator restores it.
    pub by_operator: bool,
    /// Time of an operator's last order for the target, as passed to [`State::order_target`]; 0 in a store of one
    /// daemon.
    pub ordered_ms: u64,
}

impl TargetRecord {
    /// Record of a new target.
    pub fn new(id: TargetId, name: &str) -> TargetRecord {
        TargetRecord { id, name: name.to_owned(), state: TargetState::Ok, by_operator: false, ordered_ms: 0 }
    }
}

/// A target's state in the store after an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// State after the order.
    pub state: TargetState,
    /// Time of the last order.
    pub last_ms: u64,
}

/// One layout change of the mover that may be half done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// File whose layout changes.
    pub file: FileId,
    /// Path of the stub in the namespace's tree when the change began. A rename may have changed it since.
    pub path: std::path::PathBuf,
    /// The stub's inode number, which a rename does not change.
    pub inode: u64,
    /// Objects that the change creates.
    pub objects: Vec<(TargetId, ObjectId)>,
}

/// Word for a target's state in the store.
pub fn state_name(state: TargetState) -> &'static str {
    match state {
        TargetState::Ok | TargetState::Suspect | TargetState::ReadOnly => "ok",
        TargetState::Failed => "failed",
        TargetState::Draining => "draining",
    }
}

/// Returns the state that an operator ordered, from its name in the store.
pub fn state_of(name: &str) -> Option<TargetState> {
    match name {
        "ok" => Some(TargetState::Ok),
        "failed" => Some(TargetState::Failed),
        "draining" => Some(TargetState::Draining),
        _ => None,
    }
}

/// Event for a listening node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// The listener is connected: all later messages arrive; earlier ones may have been missed.
    Listening,
    /// Message to this node, or to all.
    Message(&'a str),
}

/// The state store of a volume. All calls block; all are durable when they return.
pub trait State: Send + Sync {
    /// Returns a number greater than any before and than `above`, for the upper half of ids.
    fn new_epoch(&self, above: u32) -> Result<u32>;

    /// The last epoch returned; 0 before the first.
    fn epoch(&self) -> Result<u32>;

    /// A number that no target ever had.
    fn new_target_number(&self) -> Result<TargetId>;
    /// Records a target as ok, under a number that was drawn or found on it. Does nothing if the target is known.
    fn remember_target(&self, id: TargetId, name: &str) -> Result<()>;
    /// All targets that were added and not forgotten, by number.
    fn targets(&self) -> Result<Vec<TargetRecord>>;
    /// Returns the records of these targets, by number; unknown ones are left out.
    fn targets_of(&self, ids: &[TargetId]) -> Result<Vec<TargetRecord>> {
        Ok(self.targets()?.into_iter().filter(|record| ids.contains(&record.id)).collect())
    }
    /// Identifier that changes whenever a target is added, changed or forgotten; `None` in a store of one daemon.
    fn targets_change(&self) -> Result<Option<String>> {
        Ok(None)
    }
    /// Remembers the state of a target.
    fn set_target_state(&self, id: TargetId, state: TargetState, by_operator: bool) -> Result<()>;
    /// Records an operator's order of that time, unless an order of that time or later is recorded. Returns the
    /// recorded state, or `None` for an unknown target.
    fn order_target(&self, id: TargetId, state: TargetState, given_ms: u64) -> Result<Option<Remembered>> {
        // Only one daemon gives orders, so none comes late.
        self.set_target_state(id, state, state == TargetState::Failed)?;
        Ok(Some(Remembered { state, last_ms: given_ms }))
    }
    /// Forgets a target and its garbage. Its number is not used again.
    fn forget_target(&self, id: TargetId) -> Result<()>;

    /// Remembers (or replaces) the change under way on a file.
    fn journal_put(&self, entry: &JournalEntry) -> Result<()>;
    /// Ends a change: removes its entry and records its garbage, in one step.
    fn journal_finish(&self, file: FileId, garbage: &[(TargetId, ObjectId)]) -> Result<()>;
    /// All changes under way, by file.
    fn journal(&self) -> Result<Vec<JournalEntry>>;

    /// Records objects to be removed, in addition to the recorded ones.
    fn garbage_add(&self, objects: &[(TargetId, ObjectId)]) -> Result<()>;
    /// Removes objects from the garbage, once they are removed.
    fn garbage_removed(&self, objects: &[(TargetId, ObjectId)]) -> Result<()>;
    /// Up to `count_max` objects to be removed from a target, ascending.
    fn garbage_of(&self, target: TargetId, count_max: usize) -> Result<Vec<ObjectId>>;
    /// Returns the number of objects to be removed.
    fn garbage_count(&self) -> Result<u64>;

    /// Remembers (or replaces) the progress of a staging.
    fn staging_put(&self, key: &str, progress: &[u8]) -> Result<()>;
    /// The progress of a staging.
    fn staging_get(&self, key: &str) -> Result<Option<Vec<u8>>>;
    /// Forgets a staging.
    fn staging_remove(&self, key: &str) -> Result<()>;
    /// All stagings, by key.
    fn stagings(&self) -> Result<Vec<(String, Vec<u8>)>>;

    /// Remembers (or replaces) a record of some kind, such as a job.
    fn record_put(&self, kind: &str, key: &str, value: &[u8]) -> Result<()>;
    /// Returns one record.
    fn record_get(&self, kind: &str, key: &str) -> Result<Option<Vec<u8>>>;
    /// Forgets a record, and returns whether it existed.
    fn record_remove(&self, kind: &str, key: &str) -> Result<bool>;
    /// Replaces the record `before` (`None`: no record) in one step. Returns false if another value is there by now.
    /// After an error the record may have been replaced.
    fn record_swap(&self, kind: &str, key: &str, before: Option<&[u8]>, value: &[u8]) -> Result<bool>;
    /// All records of a kind, by key.
    fn records(&self, kind: &str) -> Result<Vec<(String, Vec<u8>)>>;
    /// Consistent copy of all rows.
    fn dump(&self) -> Result<Vec<dump::Row>>;
    /// Replaces all rows by these, in one step.
    fn load(&self, rows: &[dump::Row]) -> Result<()>;
    /// Closes the store: its data then lie in one file, if the store has one, and another daemon may open it. Later
    /// calls fail.
    fn finish(&self) -> Result<()> {
        Ok(())
    }
    /// Sends a message to all listeners. It may get lost; a store of one daemon does nothing.
    fn ring(&self, _text: &str) -> Result<()> {
        Ok(())
    }
    /// Sends a message to the node of that name, if it listens. It may get lost.
    fn tell(&self, _node: &str, _text: &str) -> Result<()> {
        Ok(())
    }
    /// Passes messages to the callback while `_goes_on` returns true.
    fn listen(&self, _goes_on: &dyn Fn() -> bool, _hear: &mut dyn FnMut(Told<'_>)) -> Result<()> {
        Ok(())
    }
    /// Kinds of records that belong to one daemon alone.
    fn record_kinds(&self) -> Result<Vec<String>>;
    /// Takes over the state of the node of that name: moves under way, stagings, records. The node will not
    /// read it again and no longer has it. `None` in a store of one daemon.
    fn left_by(&self, _own: &str) -> Result<Option<std::sync::Arc<dyn State>>> {
        Ok(None)
    }
    /// Serves a request to the table of holders, on the store's clock. The table of a store of one daemon is in memory.
    fn hold(&self, caller: Caller, request: &Request) -> Result<Answer>;
    /// Life of the store with its data. Its later requests to the table of holders fail once a connection to another
    /// server, or to a restarted one, replaces the present one.
    fn run(&self) -> Result<Run> {
        Ok(Run(1))
    }
    /// Identifier of the running server. It changes with another server or a restart, after which the last message may
    /// be forgotten. `None` if that cannot happen or the server does not report it.
    fn life(&self) -> Result<Option<String>> {
        Ok(None)
    }
    /// Makes this record the mark of this state: from now on, a server without it, or with another value, counts as away.
    fn pin(&self, _kind: &str, _key: &str) -> Result<()> {
        Ok(())
    }
    /// Durations of the store's operations, if it counts them.
    fn timed(&self) -> Option<&Timed> {
        None
    }
    /// The next number of a sequence of that name, starting with 1.
    fn next_number(&self, sequence: &str) -> Result<u64>;
}
