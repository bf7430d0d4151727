//! Letters between the nodes of a scan: requests, and pages of answers. Any letter may get lost.

use super::{CheckOptions, Report};
use policy::cluster::look::Task;
use serde::{Deserialize, Serialize};

/// Characters of a page. Far below the output buffer of a Redis subscriber (8 MB for a minute).
const PAGE_MAX: usize = 256 << 10;

/// A letter, of one scan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Letter {
    /// Random name of the scan.
    pub look: String,
    /// Number of the node that receives the request, or that answers.
    pub node: u32,
    pub says: Says,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Says {
    /// Requests a task, once; the answer goes to the listener `tell`.
    Ask { tell: String, number: u32, task: WireTask, page: u32, options: CheckOptions },
    /// The task is running.
    Works,
    /// A page of the answer, as text.
    Page { number: u32, page: u32, is_last: bool, changed: bool, text: String },
    /// The scan goes on, though this node has done its task.
    Stay,
    /// The scan is over.
    End,
}

/// A task in its serialized form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum WireTask {
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
    #[serde(default)]
    pub begun: Option<Begun>,
    /// Answer to `Account`.
    #[serde(default)]
    pub account: Option<Account>,
    /// Findings so far.
    #[serde(default)]
    pub report: Option<Report>,
    /// Error of the task.
    #[serde(default)]
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

    /// Splits the answer into pages, at least one.
    pub fn pages(&self) -> Vec<String> {
        let text = serde_json::to_string(self).expect("numbers and texts");
        let mut pages = Vec::new();
        let mut rest = &*text;
        while rest.len() > PAGE_MAX {
            let end = (0..=PAGE_MAX).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or(0);
            let (page, after) = rest.split_at(end);
            pages.push(page.to_owned());
            rest = after;
        }
        pages.push(rest.to_owned());
        pages
    }

    /// Parses the text of all pages.
    pub fn of(text: &str) -> Answer {
        serde_json::from_str(text).unwrap_or_else(|error| Answer {
            failed: Some(format!("its answer makes no sense: {error}")),
            ..Answer::default()
        })
    }
}

impl From<Task> for WireTask {
    fn from(task: Task) -> WireTask {
        match task {
            Task::Begin => WireTask::Begin,
            Task::Walk { part, of } => WireTask::Walk { part, of },
            Task::CatchUp => WireTask::CatchUp,
            Task::Account => WireTask::Account,
            Task::Compare => WireTask::Compare,
            Task::Repair => WireTask::Repair,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_many_pages_comes_together_again() {
        let named: Vec<(u64, Vec<u64>)> = (0..30_000).map(|n| (n << 40, vec![n, n + 1])).collect();
        let failed = Some("ü".repeat(PAGE_MAX));
        let account = Some(Account { named: named.clone(), ..Account::default() });
        let answer = Answer { account, failed: failed.clone(), ..Answer::default() };
        let pages = answer.pages();
        assert!(pages.len() > 3 && pages.iter().all(|page| page.len() <= PAGE_MAX));
        let again = Answer::of(&pages.concat());
        assert!(again.account.is_some_and(|account| account.named == named) && again.failed == failed);
        assert!(Answer::of(&pages[1]).failed.is_some(), "a piece is no answer");
    }
}
