//! The data of a job: what comes, what was found and mended, what protects it.

use policy::schedule::just_in_time::Load;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What one stage-in command brings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Sources, the first preferred.
    pub uris: Vec<String>,
    /// Where it goes, below the mount.
    pub path: PathBuf,
    /// Whether the source is a directory.
    pub recursive: bool,
    /// Bytes per second, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Whether another program brings it, of which the volume knows nothing.
    #[serde(default)]
    pub foreign: bool,
}

/// What all stage-in commands of a job bring.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incoming {
    /// Bytes, without those that are there already.
    pub bytes: u64,
    /// The same for each command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<u64>,
    /// Protocol and host that most of them come from: what has a rate.
    pub source: String,
    /// Those of them that are held to a rate: bytes by the rate.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limited: BTreeMap<u64, u64>,
    /// What holds them: `--limit`, `[stage] limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
}

impl Incoming {
    /// The same for the machine that reckons with it.
    pub fn load(&self) -> Load {
        Load { bytes: self.bytes, limited: self.limited.clone() }
    }
}

/// How the data of a job stand, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Bytes to bring.
    pub bytes: u64,
    /// From where.
    pub source: String,
    /// Bytes per second that are reckoned with.
    pub rate: u64,
    /// What holds it to that rate, where it is not its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
    /// How they stand, and why.
    pub standing: String,
}

/// What the check before dispatch found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Files looked at.
    pub n_files: u64,
    /// Files that had lost bytes and have them again.
    pub n_repaired: u64,
    /// Bytes fetched from sources for that.
    pub fetched_bytes: u64,
}

/// A recovery that touched a file of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryEvent {
    /// When it began, in milliseconds since 1970.
    pub at_ms: u64,
    /// The file.
    pub path: PathBuf,
    /// What happened, in a sentence.
    pub what: String,
    /// Stripes recovered.
    pub n_stripes: u64,
    /// Bytes fetched.
    pub fetched_bytes: u64,
    /// The longest that a reader waited, in milliseconds.
    pub reader_wait_ms_max: u64,
}

/// What protects an input file of a job against the loss of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protected {
    /// The file.
    pub path: PathBuf,
    /// Copies in sync now.
    pub mirrors: usize,
    /// Whether lost stripes can be fetched again from where it came.
    pub has_source: bool,
    /// What replication does for it; nothing where no policy is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
}

/// What stands for an input file of a job, besides its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// How far its copy is.
    pub copy: String,
    /// Why this job has one, or has none.
    pub why: String,
    /// Whether the job was dispatched before the copy was complete.
    pub at_risk: bool,
}
