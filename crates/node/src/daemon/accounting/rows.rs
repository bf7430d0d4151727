//! Rows of a day, and their form in the state store.
//!
//! ```text
//! kind                  key                 value
//! accounting            DAY                 nothing: marks a day with rows
//! accounting.DAY        users NODE          counters of each user on that day, counted by that node
//! accounting.DAY        job NODE JOB        counters of a job on that day
//! ```
//! A day is a number, days since 1970 in UTC, of eight digits. Each node replaces only its own rows, so a row that is
//! written twice counts once. Readers sum the rows.

pub use crate::control::answers::{JobFacts, Used};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Kind of the records that list the days with rows; the other kinds begin with it.
pub(super) const KIND: &str = "accounting";

/// Key of a day, and suffix of the kind of its rows.
pub(super) fn day_key(day: u64) -> String {
    format!("{day:08}")
}

/// Kind of a day's rows.
pub(super) fn kind_of(day: &str) -> String {
    format!("{KIND}.{day}")
}

/// Key of a node's row of its users.
pub(super) fn users_key(node: &str) -> String {
    format!("users {node}")
}

/// Key of a node's row of a job.
pub(super) fn job_key(node: &str, job: &str) -> String {
    format!("job {node} {job}")
}

/// Job of a row; `None` if the row is of users.
pub(super) fn job_of(key: &str) -> Option<&str> {
    key.strip_prefix("job ")?.split_once(' ').map(|(_, job)| job)
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

/// Counters of all users on one day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct UsersRow {
    /// Counters by user id.
    pub users: BTreeMap<u32, Used>,
    /// Sum of the users without counters of their own.
    pub others: Used,
    /// Number of jobs without a row of their own.
    pub jobs_left_out: u64,
}

/// Counters of one job on one day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct JobRow {
    /// User id of the owner.
    pub uid: u32,
    /// Bytes staged in by its commands.
    pub staged_in_bytes: u64,
    /// Bytes staged out.
    pub staged_out_bytes: u64,
    /// Facts of that day, where the job's own node reported them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<JobFacts>,
}
