//! Looks through a volume for what is lost, half done or left over, and sets it right when told to.

mod below;
mod closed;
mod deep;
mod letter;
mod look;
mod lost;
mod orphans;
mod repair;
mod right;
mod scrub;
mod session;
#[cfg(test)]
mod tests;
mod together;

pub use letter::WORD;
pub use lost::{Lost, Starts};
pub use scrub::Scrubbed;
pub use together::Together;

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

/// What to look at and what to do about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CheckOptions {
    /// Whether to set right what is wrong.
    #[serde(default)]
    pub repair: bool,
    /// Whether to read every byte: staged files are compared with their checksums, mirrors with each other.
    #[serde(default)]
    pub deep: bool,
    /// Whether objects go, too, that are younger than the backup of the namespace or the state that was put back, and that no file names.
    #[serde(default)]
    pub drop_unknown: bool,
    /// Whether nothing but orphans is looked for.
    #[serde(default)]
    pub only_left: bool,
    /// Files and directories relative to the mount's root; with no path here and below: everything. Orphans are only
    /// looked for in everything.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Paths whose files a job is about to read: those are repaired first.
    #[serde(default)]
    pub before_job: Vec<String>,
}

impl CheckOptions {
    /// Whether the claims that nodes that are over left on files are ended.
    fn fences(&self) -> bool {
        self.repair || self.only_left
    }
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Report {
    /// Targets that did not answer or are failed, by name.
    pub targets_away: Vec<String>,
    /// Targets that other nodes reach: what lies on them was not looked at.
    #[serde(default)]
    pub targets_elsewhere: Vec<String>,
    /// Files looked at.
    pub files: u64,
    /// Objects looked at.
    pub objects: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Why nothing may be removed: what of the volume could not be seen.
    #[serde(default)]
    pub unseen: Vec<String>,
    /// Bytes read and compared.
    #[serde(default)]
    pub compared_bytes: u64,
    /// Bytes fetched or copied to set things right.
    pub repaired_bytes: u64,
    /// Seconds it took.
    pub took_s: f64,
    /// The nodes that had the volume; empty where there is one.
    #[serde(default)]
    pub nodes: Vec<Part>,
}

/// A node's part in a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Part {
    /// Its number.
    pub node: u32,
    /// Its host.
    pub host: String,
    /// Files that it looked at.
    pub files: u64,
    /// What it found.
    pub findings: u64,
    /// Whether it answered to the end; else what it found is not known, and other nodes looked at its files.
    pub answered: bool,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Finding {
    /// The file, relative to the mount's root; empty for an orphan.
    pub path: String,
    /// The stub's inode in the namespace, for a file that has no path here.
    #[serde(default)]
    pub inode: u64,
    /// What it is.
    pub kind: FindingKind,
    /// Object number in hexadecimal digits, where one is meant.
    #[serde(default)]
    pub object: String,
    /// Target, by name, where one is meant.
    #[serde(default)]
    pub target: String,
    /// The bytes of the file that it is about, from the first to the last, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Range<u64>>,
    /// Bytes of the file that cannot be read because of it.
    #[serde(default)]
    pub missing_bytes: u64,
    /// The host that found it, where several looked.
    #[serde(default)]
    pub found_by: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// An object on a target that is away.
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
    /// An object of which the device cannot give some bytes back.
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

/// What became of a finding.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing was tried; it can be repaired from a source or a mirror.
    Repairable,
    /// Nothing was tried; there is neither mirror nor source.
    Lost,
    /// Set right.
    Repaired,
    /// Tried, and failed: why.
    Failed(String),
}

/// Checks a volume.
#[derive(Clone)]
pub struct Checker {
    /// The volume.
    pub volume: Arc<Volume>,
    /// Its files.
    pub files: Arc<FileTable>,
    /// What brings objects back.
    pub repair: Arc<Repair>,
    /// What copies from other mirrors and removes orphans.
    pub mover: Arc<Mover>,
    /// Which files waiting jobs read: those are repaired first.
    pub starts: Arc<Starts>,
    /// On whose behalf; `None`: the operator's.
    pub behalf: Option<Behalf>,
}

/// A user who has something checked: sees only what is in reach with the user's own rights.
#[derive(Clone)]
pub struct Behalf {
    /// The user.
    pub who: Identity,
    /// Whether all that the user may read is set right, as reading it would; else only what is the user's own.
    pub repairs_readable: bool,
}

impl Checker {
    /// The same on behalf of a user.
    pub fn on_behalf_of(&self, behalf: Behalf) -> Checker {
        Checker { behalf: Some(behalf), ..self.clone() }
    }

    /// Looks, and repairs if told to. Can be stopped and run again at any time.
    pub fn check(&self, options: &CheckOptions, report: stage::Report, stop: &Stop) -> Result<Report> {
        let began = Instant::now();
        let mut found = self.look(options, report, stop)?;
        if options.repair && !stop.is_set() {
            self.repair(&mut found, options, report, stop);
            self.sweep(&mut found, options);
        }
        found.report.took_s = began.elapsed().as_secs_f64();
        Ok(found.report)
    }
}

impl Report {
    /// Whether everything is in order or was set right, as far as all nodes say.
    pub fn is_healthy(&self) -> bool {
        self.findings.iter().all(|f| f.outcome == Outcome::Repaired) && self.nodes.iter().all(|node| node.answered)
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text =
            format!("{} files with {} objects looked at in {:.1} s\n", self.files, self.objects, self.took_s);
        for target in &self.targets_away {
            text += &format!("target {target} does not answer or is failed\n");
        }
        for target in &self.targets_elsewhere {
            text += &format!("target {target} is not reached from here: what lies there was not looked at\n");
        }
        for f in &self.findings {
            let what = match f.kind {
                FindingKind::TargetAway => format!("object {} is on target {}, which is away", f.object, f.target),
                FindingKind::ObjectMissing => format!("object {} is gone from target {}", f.object, f.target),
                FindingKind::Partial => {
                    format!("the recovery of object {} on target {} is not complete", f.object, f.target)
                }
                FindingKind::MirrorStale => "a mirror missed a write".to_string(),
                FindingKind::ObjectShort => {
                    format!("object {} on target {} has lost its end", f.object, f.target)
                }
                FindingKind::Damaged => {
                    format!("object {} on target {} holds other bytes than its checksums say", f.object, f.target)
                }
                FindingKind::Unreadable => {
                    format!("object {} on target {} cannot be read in part", f.object, f.target)
                }
                FindingKind::MirrorsDiffer => {
                    format!("mirrors differ, first in object {} on target {}", f.object, f.target)
                }
                FindingKind::NamedTwice => format!(
                    "object {} on target {} belongs to another file, too (that of inode {})",
                    f.object, f.target, f.inode
                ),
                FindingKind::Orphan => format!("object {} on target {} belongs to no file", f.object, f.target),
                FindingKind::SumsMissing => "the checksums of the staged file are gone".to_string(),
                FindingKind::BadLayout => "its layout is gone or cannot be read".to_string(),
            };
            let outcome = match &f.outcome {
                Outcome::Repairable => "can be repaired with --repair".to_string(),
                Outcome::Lost => format!("{} bytes are lost: neither mirror nor source has them", f.missing_bytes),
                Outcome::Repaired => "repaired".to_string(),
                Outcome::Failed(why) => format!("not repaired: {why}"),
            };
            let path = if f.path.is_empty() { String::new() } else { format!("{}: ", f.path) };
            let range = f.range.as_ref().map_or(String::new(), |range| format!(" (bytes {range:?} of the file)"));
            text += &format!("{path}{what}{range}; {outcome}\n");
        }
        for Part { node, host, .. } in self.nodes.iter().filter(|node| !node.answered) {
            text += &format!("node {node} on {host} did not answer: what it alone knows is not known\n");
        }
        for why in &self.unseen {
            text += &format!("nothing is removed, since not everything was seen: {why}\n");
        }
        let open = self.findings.iter().filter(|f| f.outcome != Outcome::Repaired).count();
        text += &match (self.findings.len(), open) {
            (0, _) if !self.is_healthy() => "not everything is known\n".to_string(),
            (0, _) => "everything is in order\n".to_string(),
            (all, 0) => format!("{all} things were set right, {} bytes fetched or copied\n", self.repaired_bytes),
            (_, open) => format!("{open} things are not in order\n"),
        };
        text
    }
}
