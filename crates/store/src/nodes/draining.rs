//! A node that is to be shut down: who asks it to drain, and what it says of that.
//!
//! Whether a number drains is in its lease file, so a node that begins or ceases to drain gives its number up and joins again. What keeps
//! it from being shut down is in the store of the state, under its number: what an earlier one said counts no more.

use super::{Info, Nodes, Shown};
use crate::Result;
use crate::error::Error;
use parking_lot::Mutex;
use policy::cluster::Node;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The kind of what nodes say of themselves: it is of this time, and in no backup.
const RECORDS: &str = "state";
/// What is told to all when one is asked.
const WORD: &str = "node";
/// How often one that does not hear is asked again.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// How long a node has to begin: what it moves comes to an end first.
const ASK_WAIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Whether this node is to drain.
#[derive(Default)]
pub(super) struct Wish(Mutex<bool>);

/// What a node that drains says.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Draining {
    /// The number that says it.
    node: u32,
    /// What would be cut off if it were shut down now; `None` before it looked.
    #[serde(default)]
    pub kept_by: Option<Vec<String>>,
}

impl Draining {
    /// It may be shut down.
    pub fn is_over(&self) -> bool {
        self.kept_by.as_ref().is_some_and(Vec::is_empty)
    }
}

fn key(own: &str) -> String {
    format!("draining.{own}")
}

impl Nodes {
    /// Whether this node is to be shut down.
    pub fn drains(&self) -> bool {
        *self.wish.0.lock()
    }

    /// From now on it drains, or does not: nothing new begins at once. What its lease says follows by [`Nodes::say_draining`].
    pub fn set_drains(&self, drains: bool) {
        *self.wish.0.lock() = drains;
    }

    /// Whether its lease file says what is wished.
    pub fn says_draining(&self) -> bool {
        // Of a new number nothing is known before it was looked at.
        self.leases.info(self.me_now()).is_none_or(|info| info.drains == self.drains())
    }

    /// Gives its number up, to join again under one whose file says what is wished.
    pub fn say_draining(&self) {
        self.gives_up.store(self.me_now().0, Ordering::Release);
    }

    /// Says what keeps this node, for all to see.
    pub fn say_kept_by(&self, kept_by: Vec<String>) -> Result<()> {
        let said = Draining { node: self.me_now().0, kept_by: Some(kept_by) };
        let bytes = serde_json::to_vec(&said).map_err(|error| Error::State(error.to_string()))?;
        self.state.record_put(RECORDS, &key(&self.info.own), &bytes)
    }

    pub(super) fn draining_of(&self, node: Node, info: &Info) -> Draining {
        let said = self.state.record_get(RECORDS, &key(&info.own)).ok().flatten();
        let said = said.and_then(|bytes| serde_json::from_slice::<Draining>(&bytes).ok());
        said.filter(|said| said.node == node.0).unwrap_or_default()
    }

    /// Whether a text asks for that; follows it if it is this node that is asked.
    pub(super) fn is_asked_to_drain(&self, text: &str) -> bool {
        let Some(asked) = text.strip_prefix(WORD).and_then(|rest| rest.strip_prefix(' ')) else { return false };
        if let Some((verb, own)) = asked.split_once(' ')
            && own == self.info.own
        {
            self.set_drains(verb == "drain");
        }
        true
    }

    /// Has a node begin to drain, or cease to; waits until its lease file says so.
    pub fn order_draining(&self, node: &Shown, drains: bool) -> Result<()> {
        let Some(own) = node.info.as_ref().map(|info| info.own.clone()) else {
            return Err(Error::Elsewhere(format!("what {} says of itself cannot be read", node.node)));
        };
        let (until, mut ask_at) = (Instant::now() + ASK_WAIT, Instant::now());
        loop {
            if node.is_self {
                self.set_drains(drains);
            } else if Instant::now() >= ask_at {
                ask_at += ASK_EVERY;
                self.state.ring(&format!("{WORD} {} {own}", if drains { "drain" } else { "restore" }))?;
            }
            let now = self.shown().into_iter().find(|shown| shown.info.as_ref().is_some_and(|info| info.own == own));
            if now.is_some_and(|now| now.draining.is_some() == drains) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(Error::Elsewhere(format!("{} does not do what it is asked", node.node)));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The nodes that are over and said who they were.
    pub fn over(&self) -> Result<Vec<(Node, Info)>> {
        Ok(self.leases.of_over()?)
    }

    /// The nodes that are there, as their lease files say now, and who they are as far as that can be read.
    pub fn alive(&self) -> Result<Vec<(Node, Option<Info>)>> {
        let listing = self.leases.list()?;
        Ok(listing.leases.iter().map(|seen| (seen.node, self.leases.info(seen.node))).collect())
    }

    /// Nobody asks any more what a node said that is over.
    pub fn forget_draining(&self, own: &str) -> Result<()> {
        self.state.record_remove(RECORDS, &key(own)).map(drop)
    }
}
