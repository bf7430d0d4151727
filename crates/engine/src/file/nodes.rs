//! Other nodes of the volume: their leases, and waits for them. With one node none of this is needed.

mod exclusive;
mod publish;

pub(super) use exclusive::Exclusive;
pub(super) use publish::Outcome;

use super::{File, Holds};
use crate::{Error, Result};
use policy::cluster::share::{self, Written};
use policy::cluster::{Node, Standing};
use policy::holders::node::Use;
use policy::layout::{ObjectState, Position};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for a lease before a call fails. A dead node is detected in less than ten seconds.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Longest wait of a reader for a recovery by another node.
const RECOVERY_WAIT_MAX: Duration = Duration::from_secs(600);
/// First pause of a wait; it doubles up to `PAUSE_MAX`.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// The other nodes of a volume.
pub trait Cluster: Send + Sync {
    /// Number of this node under a valid lease; waits a while for one.
    fn me(&self) -> Result<Node>;
    /// Whether this node has a valid lease now.
    fn has_lease(&self) -> bool;
    /// State of this node's lease under a number.
    fn standing(&self, node: Node) -> Standing;
    /// Whether a node's lease is known to have ended for good.
    fn is_over(&self, node: Node) -> bool;
    /// Upper half of the numbers of this node's objects.
    fn epoch(&self) -> u32;
    /// The node that creates objects of that epoch, if there is one.
    fn node_of(&self, epoch: u32) -> Option<Node>;
    /// Whether objects of that epoch may belong to another node, which may be creating them now.
    fn may_be_used_by_another(&self, epoch: u32) -> bool;
    /// Whether this node runs background changes of layouts, as one node does.
    fn leads(&self) -> bool;
    /// Whether file locks of this node exclude other nodes through the shared file system; true if there is no other
    /// node.
    fn locks_reach(&self) -> bool;
}

/// Backoff of a wait, with a timeout.
pub(super) struct Backoff {
    until: Instant,
    pause: Duration,
}

impl Backoff {
    pub fn new() -> Backoff {
        Backoff::of(WAIT_MAX)
    }

    fn of(span: Duration) -> Backoff {
        Backoff { until: Instant::now() + span, pause: PAUSE }
    }

    pub fn wait(&mut self, why: impl FnOnce() -> String) -> Result<()> {
        if Instant::now() >= self.until {
            return Err(Error::Elsewhere(why()));
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }
}

/// Whether a node's lease holds after an operation; waits while it may still be renewed.
pub(super) fn holds_lease(cluster: &Arc<dyn Cluster>, node: Node) -> Result<bool> {
    is_acknowledged(|| share::written(cluster.standing(node), false))
}

/// Whether a result may be acknowledged; waits while the lease may still be renewed.
pub(super) fn is_acknowledged(written: impl Fn() -> Written) -> Result<bool> {
    let mut backoff = Backoff::new();
    loop {
        match written() {
            Written::Acknowledge => return Ok(true),
            Written::Again => return Ok(false),
            Written::Wait => backoff.wait(|| "the namespace does not answer, so this node has no lease".into())?,
        }
    }
}

impl File {
    pub(super) fn cluster(&self) -> Option<&Arc<dyn Cluster>> {
        self.pool.cluster.get()
    }

    /// Holds of this node, where several share the volume.
    pub(super) fn holds(&self) -> Option<&Arc<Holds>> {
        self.pool.holds.get()
    }

    /// Whether other nodes may use the file.
    pub fn is_shared(&self) -> bool {
        self.holds().is_some()
    }

    /// Updates the view, since other nodes may have changed the file. Returns whether the layout changed.
    pub fn refresh(self: &Arc<Self>) -> Result<bool> {
        self.refresh_for(Use::Read)
    }

    /// As `refresh`, with the right to a use that follows.
    pub fn refresh_for(self: &Arc<Self>, usage: Use) -> Result<bool> {
        let Some(holds) = self.holds() else { return Ok(false) };
        let view = self.view();
        self.refresh_held(holds, usage)?;
        Ok(!self.same_view(&view))
    }

    /// Waits while another node recovers an object. Returns whether it did; the caller then uses the new layout.
    pub(crate) fn is_recovered_elsewhere(self: &Arc<Self>, at: Position) -> Result<bool> {
        let Some(cluster) = self.cluster() else { return Ok(false) };
        let standing = || self.layout().and_then(|layout| layout.object(at).copied());
        let Some(first) = standing().filter(|object| object.state == ObjectState::Partial) else { return Ok(false) };
        let mut backoff = Backoff::of(RECOVERY_WAIT_MAX);
        while standing() == Some(first) {
            // An object of a node whose lease ended is recovered here, in an object of this node.
            let me = cluster.me()?;
            let Some(node) = cluster.node_of(first.id.epoch()).filter(|node| *node != me) else { return Ok(false) };
            backoff.wait(|| format!("{node} recovers a part of the file and does not finish"))?;
            self.refresh()?;
        }
        Ok(true)
    }
}
