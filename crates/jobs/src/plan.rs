//! What would be submitted: the dependent parts of a job, made from its script.

use crate::directives::Complaint;
use crate::request::{Overrides, PartKind, Script};
use serde::{Deserialize, Serialize};

/// A source that a staging command names, and the file or directory that it fetches it to, both as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Where the data come from, as a URI.
    pub uri: String,
    /// Where they go; may be relative to the job's directory, may be a directory.
    pub path: String,
}

/// Recognises the sources in the words of an ordinary command (`scp`, `curl`, ...). Implemented by the crate `source`.
pub type Recognise<'a> = &'a (dyn Fn(&[String]) -> Vec<Found> + Send + Sync);

/// A job as it would be submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the job.
    pub name: String,
    /// Its parts in order; those without commands are left out, compute is always there.
    pub parts: Vec<Part>,
    /// The compute script: the script with each directive line replaced by an empty comment, so that line numbers stay.
    pub compute_script: Script,
    /// What is ignored or may surprise.
    pub warnings: Vec<Complaint>,
}

/// A part of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Which part.
    pub kind: PartKind,
    /// Its queue.
    pub queue: Queue,
    /// The part that must have succeeded before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<PartKind>,
    /// Cores that it occupies.
    pub cores: u32,
    /// Longest run in seconds.
    pub walltime_s: u64,
    /// How often each command is tried again after a failure.
    pub retries: u32,
    /// What it runs, in order.
    pub commands: Vec<Command>,
    /// Scheduler parameters from its directives, as words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Vec<String>>,
}

/// The two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// Compute parts.
    Batch,
    /// Staging parts: they occupy no cores.
    Dataxfer,
}

/// One command of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Line of the script where it stands; 0 for the compute script itself.
    pub line: u32,
    /// Its words, passed as they are: no shell sees them.
    pub argv: Vec<String>,
    /// Sources recognised in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Found>,
}

/// What the planner knows of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Cores of the machine; a job that asks for more is refused.
    pub cores: u32,
    /// Longest run of a part that names none, in seconds.
    pub walltime_default_s: u64,
}

/// Plans a script. `file_name` names the job where nothing else does. All complaints come at once.
pub fn plan(
    script: &[u8],
    file_name: &str,
    overrides: &Overrides,
    limits: Limits,
    recognise: Recognise<'_>,
) -> Result<Plan, Vec<Complaint>> {
    let _ = (script, file_name, overrides, limits, recognise);
    todo!()
}

/// The plan as a person reads it.
pub fn render(plan: &Plan) -> String {
    let _ = plan;
    todo!()
}
