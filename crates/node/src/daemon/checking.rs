//! Calls by which nodes check the volume together.

use crate::calls::{Calls, To};
use crate::control::Problem;
use engine::recovery::{Answered, Checker, Notice, Peers, TaskRequest, Together};
use meta::messages::Talk;
use std::sync::Arc;
use std::time::Duration;

/// Name of the calls for a task of a check.
const TASK: &str = "check.task";
/// Name of the notices about a check.
const NOTICE: &str = "check.notice";

impl Peers for Calls {
    fn talk(&self) -> &dyn Talk {
        Calls::talk(self)
    }

    fn ask(&self, name: String, task: &TaskRequest, silent: Duration, done: Answered) -> u64 {
        Calls::ask(self, &To::Node(name), TASK, task, silent, move |answer| done(answer.ok()))
    }

    fn forget(&self, number: u64) {
        Calls::forget(self, number);
    }

    fn notify(&self, name: String, notice: &Notice) {
        Calls::notify(self, &To::Node(name), NOTICE, notice);
    }
}

/// Runs checks by all nodes, and takes part in those of other nodes. `silent`: timeout of silent nodes.
pub(super) fn together(checker: &Checker, calls: &Arc<Calls>, silent: Duration) -> Arc<Together> {
    let together = Together::new(checker.clone(), calls.clone(), silent);
    let (tasks, notices) = (Arc::downgrade(&together), Arc::downgrade(&together));
    calls.register(TASK, move |_, task: TaskRequest, _| {
        let answer = tasks.upgrade().and_then(|together| together.serve(&task));
        answer.ok_or_else(|| Problem::busy("this node does not take part in the check"))
    });
    calls.register_queue(NOTICE, move |notice: Notice, _| {
        if let Some(together) = notices.upgrade() {
            together.handle(&notice);
        }
    });
    together
}

#[cfg(test)]
mod tests;
