//! What nodes write each other for a look through the volume: questions, and pages of answers. Any may get lost.

use super::{CheckOptions, Report};
use policy::cluster::look::Task;
use serde::{Deserialize, Serialize};

/// Letters of a look begin with this.
pub const WORD: &str = "look ";

/// Characters of a page. Far below what a Redis server keeps for one that listens (8 MB for a minute).
const PAGE_MAX: usize = 256 << 10;

/// A letter, of one look.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Letter {
    /// Of which look, by a random name.
    pub look: String,
    /// The node that it is about: the one that is asked, or the one that answers.
    pub node: u32,
    pub says: Says,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Says {
    /// Do a task, once, and tell whoever listens under that name.
    Ask { tell: String, number: u32, task: Words, page: u32, options: CheckOptions },
    /// It is being done.
    Works,
    /// A page of the answer, as text.
    Page { number: u32, page: u32, is_last: bool, changed: bool, text: String },
    /// The look goes on, though this node has done what it was asked.
    Stay,
    /// It is over.
    End,
}

/// A task as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Words {
    Begin,
    Walk { part: u32, of: u32 },
    CatchUp,
    Account,
    Compare,
    Repair,
}

/// What a node answers; which of it depends on the task.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Something was not as before.
    #[serde(default)]
    pub changed: bool,
    /// To `Begin`.
    #[serde(default)]
    pub begun: Option<Begun>,
    /// To `Account`.
    #[serde(default)]
    pub account: Option<Account>,
    /// What it found so far.
    #[serde(default)]
    pub report: Option<Report>,
    /// Why it could not do it.
    #[serde(default)]
    pub failed: Option<String>,
}

/// What a node is making when a look begins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Begun {
    /// The upper half of the numbers of the objects that it makes.
    pub epoch: u32,
    /// Objects that no layout names yet.
    pub making: Vec<u64>,
}

/// What of the objects a node knows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Account {
    /// Those that files name, by the inodes of their stubs; 0 for files without name.
    pub named: Vec<(u64, Vec<u64>)>,
    /// Those of moves under way and slow copies, with their targets.
    pub under_way: Vec<(u16, u64)>,
    /// A slow copy went back into a layout since the look began.
    pub returned: bool,
}

impl Answer {
    /// The same, with what is said now in the place of what was said before.
    pub fn then(self, now: Answer) -> Answer {
        Answer {
            changed: now.changed,
            begun: now.begun.or(self.begun),
            account: now.account.or(self.account),
            report: now.report.or(self.report),
            failed: self.failed.or(now.failed),
        }
    }

    /// As pages: one at least.
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

    /// Out of all its pages.
    pub fn of(text: &str) -> Answer {
        serde_json::from_str(text).unwrap_or_else(|error| Answer {
            failed: Some(format!("its answer makes no sense: {error}")),
            ..Answer::default()
        })
    }
}

impl From<Task> for Words {
    fn from(task: Task) -> Words {
        match task {
            Task::Begin => Words::Begin,
            Task::Walk { part, of } => Words::Walk { part, of },
            Task::CatchUp => Words::CatchUp,
            Task::Account => Words::Account,
            Task::Compare => Words::Compare,
            Task::Repair => Words::Repair,
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
