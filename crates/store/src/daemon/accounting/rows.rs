//! What is remembered of a day, and how it lies in the state store.
//!
//! ```text
//! kind                  key                 value
//! accounting            DAY                 nothing: that there are rows of that day
//! accounting.DAY        users NODE          what each user did on that day, as that node counted it
//! accounting.DAY        job NODE JOB        the same of a job
//! ```
//! A day is a number, days since 1970 in UTC, of eight digits. Each node replaces rows of its own alone, so a row that is written twice
//! counts once; who reads adds them up.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kind of the records that say of which days there are rows; the others begin with it.
pub(super) const KIND: &str = "accounting";

/// The key of a day, which ends the name of the kind of its rows.
pub(super) fn day_key(day: u64) -> String {
    format!("{day:08}")
}

/// The kind of a day's rows.
pub(super) fn kind_of(day: &str) -> String {
    format!("{KIND}.{day}")
}

/// The key of a node's row of its users.
pub(super) fn users_key(node: &str) -> String {
    format!("users {node}")
}

/// The key of a node's row of a job.
pub(super) fn job_key(node: &str, job: &str) -> String {
    format!("job {node} {job}")
}

/// The job of a row, if it is one's.
pub(super) fn job_of(key: &str) -> Option<&str> {
    key.strip_prefix("job ")?.split_once(' ').map(|(_, job)| job)
}

/// What one user did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Used {
    /// Operations of the mount.
    pub operations: u64,
    /// Bytes of files read through it.
    pub read_bytes: u64,
    /// Bytes of files written through it.
    pub written_bytes: u64,
    /// Bytes staged in.
    pub staged_in_bytes: u64,
    /// Bytes staged out.
    pub staged_out_bytes: u64,
    /// Jobs that came to their end.
    pub jobs: u64,
}

impl Used {
    pub(super) fn add(&mut self, other: &Used) {
        self.operations += other.operations;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.staged_in_bytes += other.staged_in_bytes;
        self.staged_out_bytes += other.staged_out_bytes;
        self.jobs += other.jobs;
    }
}

/// What the users did on one day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct UsersRow {
    /// Each by number.
    pub users: BTreeMap<u32, Used>,
    /// Those together who could not be told apart.
    pub others: Used,
    /// Jobs that got no row of their own.
    pub jobs_left_out: u64,
}

/// What is known of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobFacts {
    /// Its name.
    pub name: String,
    /// Its owner's name.
    pub user: String,
    /// Where it stands.
    pub state: String,
    /// When it was submitted, in milliseconds since 1970.
    pub submitted_ms: u64,
    /// When its script started.
    pub started_ms: Option<u64>,
    /// When it came to its end.
    pub ended_ms: Option<u64>,
    /// How long its script ran, in milliseconds.
    pub run_ms: u64,
    /// Bytes fetched again from the sources of its files, which were lost.
    pub recovered_bytes: u64,
}

/// What one job did on one day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct JobRow {
    /// Its owner.
    pub uid: u32,
    /// Bytes staged in by its commands.
    pub staged_in_bytes: u64,
    /// Bytes staged out.
    pub staged_out_bytes: u64,
    /// As it was on that day, where its own node said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<JobFacts>,
}
