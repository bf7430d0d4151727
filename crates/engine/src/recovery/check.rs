//! Scans a volume for lost, half-done or left-over data, and repairs it on request.

mod below;
mod closed;
mod deep;
mod left;
mod look;
mod lost;
mod orphans;
mod repair;
mod request;
mod right;
mod scrub;
mod session;
#[cfg(test)]
mod tests;
mod together;
#[cfg(any(test, feature = "doubles"))]
pub mod world;

pub use left::Left;
pub use lost::{Lost, Starts};
pub use request::{Notice, TaskRequest};
pub use scrub::{Scrubbed, ScrubbedFile};
pub use together::{Answered, Peers, Together};

use super::Repair;
use crate::Result;
use crate::file::FileTable;
use crate::mover::Mover;
use crate::source::Identity;
use crate::stage::{self, Stop};
use crate::volume::Volume;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Scope of a check, and what it repairs.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CheckOptions {
    /// Whether to repair findings.
    #[serde(default)]
    pub repair: bool,
    /// Whether to read every byte: staged files are compared with their checksums, mirrors with each other.
    #[serde(default)]
    pub deep: bool,
    /// Whether to remove unnamed objects even if they are newer than the restored backup of the namespace or the
    /// state.
    #[serde(default)]
    pub drop_unknown: bool,
    /// Whether to search only for orphans.
    #[serde(default)]
    pub only_left: bool,
    /// Files and directories relative to the mount's root; with no path here and below: everything. Orphans are
    /// searched only in a check of everything.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Paths of files that a job is about to read: they are repaired first.
    #[serde(default)]
    pub before_job: Vec<String>,
}

impl CheckOptions {
    /// Whether the check ends the claims that nodes that are over left on files.
    fn fences(&self) -> bool {
        self.repair || self.only_left
    }
}

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Report {
    /// Targets that did not answer or are failed, by name.
    pub targets_away: Vec<String>,
    /// Targets that only other nodes reach: their objects were not checked.
    #[serde(default)]
    pub targets_elsewhere: Vec<String>,
    /// Number of files checked.
    pub files: u64,
    /// Number of objects checked.
    pub objects: u64,
    /// Problems that the check found.
    pub findings: Vec<Finding>,
    /// Parts of the volume that were not seen. If there are any, nothing may be removed.
    #[serde(default)]
    pub unseen: Vec<String>,
    /// Whether files among them were not scanned: there may be more findings.
    #[serde(default)]
    pub unscanned: bool,
    /// Bytes read and compared.
    #[serde(default)]
    pub compared_bytes: u64,
    /// Bytes fetched or copied for repairs.
    pub repaired_bytes: u64,
    /// Duration in seconds.
    pub took_s: f64,
    /// Nodes of the volume; empty if there is only one.
    #[serde(default)]
    pub nodes: Vec<Part>,
}

/// A node's part in a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Part {
    /// Number of the node.
    pub node: u32,
    /// Host name of the node.
    pub host: String,
    /// Files that the node checked.
    pub files: u64,
    /// Number of findings of the node.
    pub findings: u64,
    /// Whether the node answered to the end; if not, its findings are unknown, and other nodes checked its files.
    pub answered: bool,
}

/// One problem of a file or an object.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Finding {
    /// The file, relative to the mount's root; empty for an orphan.
    pub path: String,
    /// Inode of the stub in the namespace, for a file that has no path here.
    #[serde(default)]
    pub inode: u64,
    /// Kind of the problem.
    pub kind: FindingKind,
    /// Object number in hexadecimal digits, where the finding is about an object.
    #[serde(default)]
    pub object: String,
    /// Name of the target, where the finding is about one.
    #[serde(default)]
    pub target: String,
    /// Affected bytes of the file, from the first to the last, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Range<u64>>,
    /// Bytes of the file that cannot be read because of the finding.
    #[serde(default)]
    pub missing_bytes: u64,
    /// Host that reported the finding, in a check by several nodes.
    #[serde(default)]
    pub found_by: String,
    /// Outcome of the repair.
    pub outcome: Outcome,
}

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// An object on a target that is away, or one that the shared file system may hide.
    TargetAway,
    /// An object that its target does not have.
    ObjectMissing,
    /// An object whose recovery is not complete.
    Partial,
    /// A mirror that missed a write.
    MirrorStale,
    /// An object that has fewer bytes than were staged into it.
    ObjectShort,
    /// An object with other bytes than were staged into it.
    Damaged,
    /// An object with bytes that the device cannot read.
    Unreadable,
    /// Mirrors in sync that hold different bytes.
    MirrorsDiffer,
    /// Another file names the same object.
    NamedTwice,
    /// An object that no file names.
    Orphan,
    /// The checksums of a staged file are gone.
    SumsMissing,
    /// A layout that cannot be read.
    BadLayout,
}

/// State of a finding after the check.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// No repair was tried; a source or a mirror is available.
    Repairable,
    /// No repair was tried; there is neither mirror nor source.
    Lost,
    /// The object's target is away, with no mirror or source: the bytes can be read when the target is back.
    Away,
    /// The repair succeeded.
    Repaired,
    /// A repair failed; with the reason.
    Failed(String),
}

/// Checks a volume.
#[derive(Clone)]
pub struct Checker {
    /// The volume to check.
    pub volume: Arc<Volume>,
    /// Files of the volume.
    pub files: Arc<FileTable>,
    /// Recovery of objects from their sources.
    pub repair: Arc<Repair>,
    /// Copies from other mirrors, and removal of orphans.
    pub mover: Arc<Mover>,
    /// Files that waiting jobs read: they are repaired first.
    pub starts: Arc<Starts>,
    /// User that the check acts for; `None`: the operator.
    pub behalf: Option<Behalf>,
}

/// A user who requested a check: it covers only files that the user's own permissions reach.
#[derive(Clone)]
pub struct Behalf {
    /// Identity of the user.
    pub who: Identity,
    /// Whether to repair all files that the user may read, as reading them would; otherwise only files of the user.
    pub repairs_readable: bool,
}

impl Checker {
    /// The same checker on behalf of a user.
    pub fn on_behalf_of(&self, behalf: Behalf) -> Checker {
        Checker { behalf: Some(behalf), ..self.clone() }
    }

    /// Scans, and repairs if requested. Can be stopped and run again at any time.
    pub fn check(&self, options: &CheckOptions, report: stage::Report, stop: &Stop) -> Result<Report> {
        let began = Instant::now();
        let mut found = self.look(options, report, stop)?;
        if options.repair && !stop.is_set() {
            self.repair(&mut found, options, report, stop);
            self.confirm(&mut found, options, stop)?;
            self.sweep(&mut found, options);
        }
        found.report.took_s = began.elapsed().as_secs_f64();
        Ok(found.report)
    }
}

impl Report {
    /// Whether all files were scanned, every finding was repaired, and every node answered.
    pub fn is_healthy(&self) -> bool {
        let repaired = self.findings.iter().all(|f| f.outcome == Outcome::Repaired);
        repaired && !self.unscanned && self.nodes.iter().all(|node| node.answered)
    }
}
