//! Requests between the nodes of a scan, and their answers.

use super::{CheckOptions, Report};
use policy::cluster::look::Task;
use serde::{Deserialize, Serialize};

/// Requests a task of a scan. `Begin` opens the scan's session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskRequest {
    /// Random name of the scan.
    pub(super) scan: String,
    /// Number of the requested node.
    pub(super) node: u32,
    #[serde(with = "TaskDef")]
    pub(super) task: Task,
    pub(super) options: CheckOptions,
}

/// Reports that a scan goes on, though the node has done its task, or that it is over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Notice {
    /// Random name of the scan.
    pub(super) scan: String,
    pub(super) goes_on: bool,
}

/// Serialized form of a task.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Task")]
enum TaskDef {
    Begin,
    Walk { part: u32, of: u32 },
    CatchUp,
    Account,
    Compare,
    Repair,
}

/// Answer of a node; the task determines which fields are set.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Something changed since the last task.
    #[serde(default)]
    pub changed: bool,
    /// Answer to `Begin`.
    pub begun: Option<Begun>,
    /// Answer to `Account`.
    pub account: Option<Account>,
    /// Findings so far.
    pub report: Option<Report>,
    /// Error of the task.
    pub failed: Option<String>,
}

/// Objects under creation when a scan begins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Begun {
    /// Upper half of the numbers of the objects that the node creates.
    pub epoch: u32,
    /// Objects that no layout names yet.
    pub making: Vec<u64>,
}

/// Objects that a node accounts for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Account {
    /// Objects that files name, by the inodes of their stubs; 0 for files without a name.
    pub named: Vec<(u64, Vec<u64>)>,
    /// Objects of moves under way and of slow copies, with their targets.
    pub under_way: Vec<(u16, u64)>,
    /// A slow copy returned into a layout since the scan began.
    pub returned: bool,
}

impl Answer {
    /// Merges two answers; the later one wins.
    pub fn then(self, now: Answer) -> Answer {
        Answer {
            changed: now.changed,
            begun: now.begun.or(self.begun),
            account: now.account.or(self.account),
            report: now.report.or(self.report),
            failed: self.failed.or(now.failed),
        }
    }

    /// Encodes the answer as one text, which takes far less memory than a tree of values.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts")
    }

    /// Decodes an answer.
    pub fn of(text: &str) -> Answer {
        serde_json::from_str(text).unwrap_or_else(|error| Answer {
            failed: Some(format!("its answer is not valid: {error}")),
            ..Answer::default()
        })
    }
}
