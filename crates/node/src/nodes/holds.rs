//! Holds of this node: the table is in the state store, members are the leases, and recalls are messages.

use super::{Nodes, now};
use crate::{Error, Result};
use engine::file::{Holds, Pool, Port};
use meta::messages::{Message, Talk};
use parking_lot::Mutex;
use policy::Time;
use policy::cluster::Node;
use policy::holders::node::Config;
use policy::holders::table::{Answer, Caller, Mode, PARTS, Request, Run};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};

/// The holds of a node, and the runs of the store that it has seen.
#[derive(Default)]
pub(super) struct Holding {
    holds: OnceLock<Weak<Holds>>,
    runs: Mutex<Runs>,
}

/// Runs in the order in which they were seen.
#[derive(Default)]
struct Runs {
    last: Option<Run>,
    past: BTreeSet<Run>,
}

impl Runs {
    /// Records a run. Returns false if a later one has replaced it: two servers run at once, or an old one came back.
    fn see(&mut self, run: Run) -> bool {
        if self.past.contains(&run) {
            return false;
        }
        self.past.extend(self.last.replace(run).filter(|last| *last != run));
        true
    }
}

impl Nodes {
    /// Starts the session of this node in the table of holders. No file is open so far.
    pub fn start_holds(self: &Arc<Nodes>, pool: &Pool) -> Result<()> {
        let holds = Holds::start(self.clone(), self.clone(), Config::default())?;
        drop(self.holding.holds.set(Arc::downgrade(&holds)));
        drop(pool.holds.set(holds));
        // The largest size of the shared file system is recorded, for comparison.
        self.shows_all_names()?;
        Ok(())
    }

    pub(super) fn holds(&self) -> Option<Arc<Holds>> {
        self.holding.holds.get()?.upgrade()
    }

    /// Sends the sizes of files that this node extends to their stubs.
    pub fn settle_sizes(&self) {
        self.holds().iter().for_each(|holds| holds.settle_sizes());
    }

    /// Handles a request of another node for a hold.
    pub(super) fn recalled(&self, node: Node, key: u64, number: u64, writes: bool) {
        if let Some(holds) = self.holds().filter(|_| node == self.me_now()) {
            holds.recalled(key, number, if writes { Mode::Write } else { Mode::Open });
        }
    }

    /// Removes from the table what nodes that are over have left.
    pub fn sweep_holders(&self, goes_on: impl Fn() -> bool) -> Result<()> {
        let Some(holds) = self.holds() else { return Ok(()) };
        let mut parts = (0..PARTS).take_while(|_| goes_on());
        parts.try_for_each(|part| holds.request(&Request::Sweep { part }).map(drop))
    }

    /// The run of the store in which each file must be settled at its first use, since the store may have lost holders.
    pub fn suspect_run(&self) -> Option<Run> {
        match self.holds()?.request(&Request::Begin) {
            Ok((run, Answer::Session { opened: true, suspect: true, .. })) => Some(run),
            _ => None,
        }
    }

    /// Records that all files were settled within a run.
    pub fn trust_run(&self, run: Run) -> Result<()> {
        self.holds().map_or(Ok(()), |holds| holds.request_in(run, &Request::Trust))
    }
}

impl Port for Nodes {
    fn now(&self) -> Time {
        now()
    }

    fn ask(&self, caller: Caller, request: &Request) -> Result<Answer> {
        self.state.hold(caller, request)
    }

    fn connect(&self) -> Result<Run> {
        let run = self.state.run()?;
        match self.holding.runs.lock().see(run) {
            true => Ok(run),
            false => Err(Error::State(
                "this server of the state store was replaced by another, and is not used: stop it, or start the volume \
                 again on all nodes with it alone"
                    .into(),
            )),
        }
    }

    fn members(&self) -> Result<BTreeSet<Node>> {
        let listing = self.leases.list()?;
        let all = (1..=listing.last.map_or(0, |last| last.0)).map(Node);
        Ok(all.filter(|node| !listing.over.contains(node)).collect())
    }

    fn was_over(&self, node: Node) -> bool {
        self.membership.lock().is_over(node)
    }

    fn shows_all_names(&self) -> Result<bool> {
        self.volume.upgrade().map_or(Ok(false), |volume| volume.namespace_is_whole())
    }

    fn recall(&self, node: Node, key: u64, number: u64, mode: Mode) {
        let message = Message::Recall { node: node.0, key, number, writes: mode == Mode::Write };
        Talk::send(self, self.leases.info(node).map(|info| info.own).as_deref(), &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_another_has_replaced_is_refused() {
        let mut runs = Runs::default();
        assert!(runs.see(Run(1)) && runs.see(Run(1)) && runs.see(Run(2)));
        assert!(!runs.see(Run(1)), "an old server came back");
        assert!(runs.see(Run(2)) && runs.see(Run(3)) && !runs.see(Run(2)));
    }

    #[test]
    fn a_recall_is_one_message() {
        let message = Message::Recall { node: 3, key: u64::MAX, number: 7, writes: true };
        let text = serde_json::to_string(&message).unwrap();
        assert_eq!(Message::parse(&text), Some(message));
    }
}
