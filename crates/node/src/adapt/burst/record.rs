//! Records of checkpoints in the state store: the tables of Sung's Table 5.1.
//!
//! ```text
//! burst.app      UID/NAME        number, MTBF and its origin, restarts, bytes and cost of the last one
//!                                (V-order, app+restart)
//! burst.version  NUMBER-VERSION  files with their numbers, bytes, place
//!                                (app+device, location, app+BB, Clean)
//! burst.mark     JOB             patterns of files that a job's script marks as checkpoints
//! burst.session  UID/NAME        the announced version, where several nodes have the volume
//! burst.period   now             bytes written and expected in the period (DWSF, DWPP)
//! ```
//! E-order follows from the versions; R-order is what lies on the capacity tier and, as its layouts show, lacks its
//! replica. A version is recorded only when it is complete and durable, and its record is removed before it is
//! overwritten. So every recorded version is readable unless a user removed a file of it. Such a version keeps its
//! record, with all parts, until all its files are gone.

use super::table::Session;
use crate::Result;
use crate::adapt::records::Kind;
pub use crate::control::answers::MtbfFrom;
use meta::state::State;
use policy::burst::buffer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The applications by name.
pub const APPS: Kind<App> = Kind::new("burst.app");
/// The complete versions by [`version_key`].
pub const VERSIONS: Kind<Version> = Kind::new("burst.version");
/// Marks of the jobs by job.
pub const MARKS: Kind<Marked> = Kind::new("burst.mark");
/// The announced versions by application.
pub const SESSIONS: Kind<Session> = Kind::new("burst.session");
const PERIODS: Kind<Period> = Kind::new("burst.period");
const PERIOD: &str = "now";

/// Record of an application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct App {
    /// Number of the application.
    pub number: u64,
    /// Seconds between two failures.
    pub mtbf_s: u64,
    /// Origin of `mtbf_s`.
    pub mtbf_from: MtbfFrom,
    /// Number of restarts.
    pub restarts: u64,
    /// Time of its first checkpoint, in milliseconds since 1970.
    pub first_ms: u64,
    /// Time of its last restart, in milliseconds since 1970.
    pub restarted_ms: u64,
    /// Bytes of its last checkpoint.
    pub bytes: u64,
    /// Duration of the last checkpoint's writing, in milliseconds.
    pub cost_ms: u64,
    /// Seconds between two checkpoints, as set by its job; 0: not set.
    #[serde(default)]
    pub interval_s: u64,
}

/// A pattern that a job's script marks as checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Name of the application.
    pub app: String,
    /// Pattern of the files' paths, without `{app}`, relative to the mount's root.
    pub path: String,
    /// Nodes that the application runs on.
    pub nodes: Option<u64>,
    /// Seconds between two of its failures.
    pub mtbf_s: Option<u64>,
    /// Seconds between two of its checkpoints.
    pub interval_s: Option<u64>,
}

/// Marks of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marked {
    /// User that owns the job.
    pub uid: u32,
    /// Lines of the job's script.
    pub marks: Vec<Mark>,
}

/// A file of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Path of the file when it was written.
    pub path: String,
    /// Number of the file; 0 if its bytes are in its stub.
    pub file: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// A complete version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Name of the application.
    pub app: String,
    /// Number of the version.
    pub number: u64,
    /// Label of the version, as chosen by the application.
    pub label: String,
    /// Files of the version.
    pub parts: Vec<Part>,
    /// Time of the completion, in milliseconds since 1970.
    pub at_ms: u64,
    /// The announced path; `None` if there were several, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announced: Option<String>,
}

impl Version {
    /// Size of all files in bytes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }
}

/// The current period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Period {
    /// Bytes written in the period.
    pub dwsf: f64,
    /// Bytes expected in the period.
    pub dwpp: f64,
}

impl Period {
    /// The recorded period.
    pub fn recorded(state: &dyn State) -> Result<Option<Period>> {
        Ok(PERIODS.all::<BTreeMap<_, _>>(state)?.remove(PERIOD))
    }

    /// Records the period.
    pub fn put(&self, state: &dyn State) -> Result<()> {
        PERIODS.put(state, PERIOD, self)
    }

    /// Event for the machine that goes on with the period.
    pub fn resumed(&self) -> buffer::Event {
        buffer::Event::Resumed { dwsf: self.dwsf, dwpp: self.dwpp }
    }
}

/// Key of the record of a version.
pub fn version_key(of: policy::burst::tables::Version) -> String {
    format!("{:08x}-{:012x}", of.app, of.number)
}
