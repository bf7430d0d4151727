//! The data of a job: what is staged, what was checked and repaired, and how it is protected.

use policy::schedule::just_in_time::Load;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Data that one stage-in command fetches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageInput {
    /// Sources, the first preferred.
    pub uris: Vec<String>,
    /// Destination below the mount.
    pub path: PathBuf,
    /// Whether the source is a directory.
    pub recursive: bool,
    /// Maximum of bytes per second.
    pub limit: Option<u64>,
    /// Whether another program fetches it, whose progress the volume cannot observe.
    #[serde(default)]
    pub foreign: bool,
}

/// Data that all stage-in commands of a job fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incoming {
    /// Bytes to fetch, without those that are there already.
    pub bytes: u64,
    /// Bytes of each command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<u64>,
    /// Protocol and host of the source of most bytes: the key of its measured rate.
    pub source: String,
    /// Bytes with a rate limit, by limit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limited: BTreeMap<u64, u64>,
    /// Origin of the rate limit: `--limit` or `[stage] limit`.
    pub limited_by: Option<String>,
}

impl Incoming {
    /// Converts to the input of the just-in-time machine.
    pub fn load(&self) -> Load {
        Load { bytes: self.bytes, limited: self.limited.clone() }
    }
}

/// Progress of a job's stage-in, for users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Bytes to fetch.
    pub bytes: u64,
    /// Protocol and host of the source.
    pub source: String,
    /// Assumed rate, in bytes per second.
    pub rate: u64,
    /// Limit that sets the rate; `None` if it is the rate of the source itself.
    pub limited_by: Option<String>,
    /// Progress of the data, with the reason.
    pub standing: String,
}

/// Result of the check before dispatch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Number of files checked.
    pub n_files: u64,
    /// Files that had lost bytes and were repaired.
    pub n_repaired: u64,
    /// Bytes fetched from sources for the repair.
    pub fetched_bytes: u64,
}

/// A recovery that touched a file of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryEvent {
    /// When it began, in milliseconds since 1970.
    pub at_ms: u64,
    /// Path of the file.
    pub path: PathBuf,
    /// Description of the event, one sentence.
    pub what: String,
    /// Number of stripes recovered.
    pub n_stripes: u64,
    /// Bytes fetched from the source.
    pub fetched_bytes: u64,
    /// Longest wait of a reader, in milliseconds.
    pub reader_wait_ms_max: u64,
}

/// Protection of an input file of a job against the loss of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protected {
    /// Path of the file.
    pub path: PathBuf,
    /// Number of copies in sync.
    pub mirrors: usize,
    /// Whether lost stripes can be fetched again from its source.
    pub has_source: bool,
    /// State of its replication; `None` without a policy.
    pub kept: Option<InputReplica>,
}

/// Replication of an input file of a job, besides its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputReplica {
    /// Progress of its copy.
    pub copy: String,
    /// Reason why this job has a copy, or has none.
    pub why: String,
    /// Whether the job was dispatched before the copy was complete.
    pub at_risk: bool,
}
