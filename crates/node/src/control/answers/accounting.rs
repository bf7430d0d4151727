//! Answer of `accounting.show`.

use serde::{Deserialize, Serialize};

/// Accounts of users or of jobs. Days are days since 1970, in UTC.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Accounting {
    pub since_day: u64,
    pub until_day: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<Vec<UserAccount>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<JobAccount>>,
    /// Number of jobs without a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
    /// Reason why the last counts are missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Sums of one user.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UserAccount {
    /// User id; `None`: all users without a row of their own.
    pub uid: Option<u32>,
    /// Name of the user, added by the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(flatten)]
    pub used: Used,
}

/// Sums of one job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobAccount {
    pub job: JobNumber,
    /// `entrepot` or `slurm`.
    pub of: String,
    pub uid: u32,
    #[serde(flatten)]
    pub facts: JobFacts,
    pub staged_in_bytes: u64,
    pub staged_out_bytes: u64,
}

/// State and times of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobFacts {
    /// Name of the job.
    pub name: String,
    /// User name of the owner.
    pub user: String,
    /// State of the job.
    pub state: String,
    /// Time of submission, in milliseconds since 1970.
    pub submitted_ms: Option<u64>,
    /// Start of the script, in milliseconds since 1970.
    pub started_ms: Option<u64>,
    /// End of the job, in milliseconds since 1970.
    pub ended_ms: Option<u64>,
    /// Run time of the script, in milliseconds.
    pub run_ms: u64,
    /// Bytes recovered from the sources of its files.
    pub recovered_bytes: u64,
}

/// Number of a job, or its name where it has no number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum JobNumber {
    Number(u64),
    Name(String),
}

impl Default for JobNumber {
    fn default() -> JobNumber {
        JobNumber::Number(0)
    }
}

/// Counters of one user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Used {
    /// Operations on the mount.
    pub operations: u64,
    /// Bytes of files read through the mount.
    pub read_bytes: u64,
    /// Bytes of files written through the mount.
    pub written_bytes: u64,
    /// Bytes staged in.
    pub staged_in_bytes: u64,
    /// Bytes staged out.
    pub staged_out_bytes: u64,
    /// Jobs that ended.
    pub jobs: u64,
}
