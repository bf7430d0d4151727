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
//! overwritten. So every recorded version is readable.

use super::table::Session;
use crate::Result;
pub use crate::control::answers::MtbfFrom;
use meta::records;
use meta::state::State;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const APPS: &str = "burst.app";
const VERSIONS: &str = "burst.version";
const MARKS: &str = "burst.mark";
const PERIOD: &str = "burst.period";
const SESSIONS: &str = "burst.session";

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

fn version_key(app: u64, number: u64) -> String {
    format!("{app:08x}-{number:012x}")
}

/// Records an application.
pub fn put_app(state: &dyn State, name: &str, app: &App) -> Result<()> {
    records::put(state, APPS, name, app)
}

/// The applications by name.
pub fn apps(state: &dyn State) -> Result<Vec<(String, App)>> {
    records::all(state, APPS)
}

/// Records a version.
pub fn put_version(state: &dyn State, app: u64, version: &Version) -> Result<()> {
    records::put(state, VERSIONS, &version_key(app, version.number), version)
}

/// Removes the record of a version.
pub fn forget_version(state: &dyn State, app: u64, number: u64) -> Result<()> {
    state.record_remove(VERSIONS, &version_key(app, number)).map(|_| ())
}

/// All versions, in the order of their completion.
pub fn versions(state: &dyn State) -> Result<Vec<Version>> {
    let mut versions: Vec<Version> = records::all(state, VERSIONS)?.into_iter().map(|(_, version)| version).collect();
    versions.sort_by_key(|version: &Version| (version.at_ms, version.number));
    Ok(versions)
}

/// Records an announced version.
pub fn put_session(state: &dyn State, session: &Session) -> Result<()> {
    records::put(state, SESSIONS, &session.app, session)
}

/// Removes the record of an announced version.
pub fn forget_session(state: &dyn State, app: &str) -> Result<()> {
    state.record_remove(SESSIONS, app).map(|_| ())
}

/// Announced versions by application.
pub fn sessions(state: &dyn State) -> Result<BTreeMap<String, Session>> {
    Ok(records::all(state, SESSIONS)?.into_iter().collect())
}

/// Records the marks of a job.
pub fn put_marks(state: &dyn State, job: &str, marked: &Marked) -> Result<()> {
    records::put(state, MARKS, job, marked)
}

/// Removes the marks of a job.
pub fn forget_marks(state: &dyn State, job: &str) -> Result<()> {
    state.record_remove(MARKS, job).map(|_| ())
}

/// Marks of all jobs.
pub fn marks(state: &dyn State) -> Result<Vec<(String, Marked)>> {
    records::all(state, MARKS)
}

/// Records the period.
pub fn put_period(state: &dyn State, period: &Period) -> Result<()> {
    records::put(state, PERIOD, "now", period)
}

/// The recorded period.
pub fn period(state: &dyn State) -> Result<Option<Period>> {
    Ok(records::all(state, PERIOD)?.into_iter().map(|(_, period)| period).next())
}
