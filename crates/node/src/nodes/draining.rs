//! Draining of a node that is to be shut down: orders to drain, and the state of the drain.
//!
//! The lease file records whether a number drains, so a node that begins or ceases to drain gives its number up and
//! joins again. The reasons against a shutdown are in the state store, under its number: a record of an earlier number
//! is void.

use super::{Info, Nodes, RECORDS, Shown};
use crate::Result;
use meta::messages::Message;
use meta::records;
use object::error::Error;
use policy::cluster::Node;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Interval of retries until the node responds.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// Timeout for a node to begin: its running moves end first.
const ASK_WAIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Record of a draining node.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Draining {
    /// Number of the node when it wrote the record.
    node: u32,
    /// Work that a shutdown now would cut off; `None` before the first check.
    pub kept_by: Option<Vec<String>>,
}

impl Draining {
    /// Whether the node may be shut down.
    pub fn is_over(&self) -> bool {
        self.kept_by.as_ref().is_some_and(Vec::is_empty)
    }
}

fn key(own: &str) -> String {
    format!("draining.{own}")
}

impl Nodes {
    /// Whether this node drains.
    pub fn drains(&self) -> bool {
        self.is_to_drain.load(Ordering::Acquire)
    }

    /// Starts or stops to drain. A draining node begins no new work from now on. The lease file follows by
    /// [`Nodes::say_draining`].
    pub fn set_drains(&self, drains: bool) {
        self.is_to_drain.store(drains, Ordering::Release);
    }

    /// Whether the lease file agrees with the order.
    pub fn says_draining(&self) -> bool {
        // The lease's text of a new number is unknown until it was read.
        self.leases.info(self.me_now()).is_none_or(|info| info.drains == self.drains())
    }

    /// Gives the number up, to join again under one whose lease file agrees with the order.
    pub fn say_draining(&self) {
        self.gives_up.store(self.me_now().0, Ordering::Release);
    }

    /// Records the work that prevents a shutdown of this node, for all nodes.
    pub fn say_kept_by(&self, kept_by: Vec<String>) -> Result<()> {
        let said = Draining { node: self.me_now().0, kept_by: Some(kept_by) };
        records::put(&*self.state, RECORDS, &key(&self.info.own), &said)
    }

    pub(super) fn draining_of(&self, node: Node, info: &Info) -> Draining {
        let said: Option<Draining> = records::get(&*self.state, RECORDS, &key(&info.own)).ok().flatten();
        said.filter(|said| said.node == node.0).unwrap_or_default()
    }

    /// Orders a node to begin or cease to drain. Waits until its lease file agrees.
    pub fn order_draining(&self, node: &Shown, drains: bool) -> Result<()> {
        let Some(own) = node.info.as_ref().map(|info| info.own.clone()) else {
            return Err(Error::Elsewhere(format!("the record of {} cannot be read", node.node)));
        };
        let (until, mut ask_at) = (Instant::now() + ASK_WAIT, Instant::now());
        loop {
            if node.is_self {
                self.set_drains(drains);
            } else if Instant::now() >= ask_at {
                ask_at += ASK_EVERY;
                Message::Drain { own: own.clone(), drains }.send(&*self.state, None)?;
            }
            let now = self.shown().into_iter().find(|shown| shown.info.as_ref().is_some_and(|info| info.own == own));
            if now.is_some_and(|now| now.draining.is_some() == drains) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(Error::Elsewhere(format!("{} does not carry out the request", node.node)));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Nodes that are over and have a readable record.
    pub fn over(&self) -> Result<Vec<(Node, Info)>> {
        Ok(self.leases.of_over()?)
    }

    /// Live nodes by their lease files, with their records where readable.
    pub fn alive(&self) -> Result<Vec<(Node, Option<Info>)>> {
        let listing = self.leases.list()?;
        Ok(listing.leases.iter().map(|seen| (seen.node, self.leases.info(seen.node))).collect())
    }

    /// Removes the record of a node that is over.
    pub fn forget_draining(&self, own: &str) -> Result<()> {
        self.state.record_remove(RECORDS, &key(own)).map(drop)
    }
}
