//! Files shared by several nodes: writers, and changes of layout. `policy::cluster::share` decides; this module acts on
//! the stub.
//!
//! ```text
//!  writer      writer.ME on the stub, look: no claim? ── writes ... the lease holds? ── acknowledged
//!                                             └── a claim: remove writer.ME, wait
//!  changer     change.G+1 on the stub, look: writers? ── rings them, waits until none is left ── changes ── layout.G+1
//!  when rung   running writes here end ── remove writer.ME
//! ```
//! With one node none of this is needed.
//!
//! Bytes in a stub are written without registration. The writer looks at the stub again before it acknowledges: a node
//! that moves the bytes out publishes its claim before it copies.

mod exclusive;
mod growth;
mod publish;
mod writing;

pub(super) use exclusive::Exclusive;
pub(super) use growth::Growth;
pub use growth::SAID_EVERY;
pub(super) use publish::Outcome;

use super::{File, View};
use crate::{Error, Result};
use meta::stub::marks::Look;
use policy::cluster::share::{self, Claim, Written};
use policy::cluster::{Node, Standing};
use policy::layout::{Layout, ObjectState, Position};
use policy::{FileId, Time};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest wait for other nodes before a call fails. A dead node is detected in less than ten seconds.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Longest wait of a reader for a recovery by another node.
const RECOVERY_WAIT_MAX: Duration = Duration::from_secs(600);
/// First pause between two looks at a stub; it doubles up to `PAUSE_MAX`.
pub(super) const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// Delay after which the release of a conflicting claim is requested from its node.
const LONG: Duration = Duration::from_secs(1);
/// Age of a look after which a reader looks at the stub again.
const LOOKED_MAX: Time = Time::from_millis(1000);
/// Longest wait of a node for its own operations on a requested file; then it handles the next request.
const LET_GO_MAX: Duration = Duration::from_secs(1);

/// The other nodes of a volume.
pub trait Cluster: Send + Sync {
    /// Number of this node under a valid lease; waits a while for one.
    fn me(&self) -> Result<Node>;
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
    /// Requests a file from other nodes. The message may get lost.
    fn ring(&self, nodes: &BTreeSet<Node>, file: FileId);
}

/// State that this node published on the stub.
#[derive(Default)]
pub(super) struct PublishedMarks {
    /// Number under which this node is registered as a writer (0: none), and the number of that registration.
    writer: AtomicU32,
    entry: AtomicU64,
    /// Claimed generation; 0: none.
    claim: AtomicU64,
    /// Whether the claim is kept between changes, to exclude other nodes.
    holds: AtomicBool,
    /// Node number under which the node copies the file; 0: no copy.
    copies: AtomicU32,
    /// Generation of the current view.
    generation: AtomicU64,
    /// Lower bound of the size in the stub.
    size: AtomicU64,
    /// Sizes were raised by writing bytes in the stub, which take space.
    grew: AtomicBool,
    /// Time of the last look at the stub, on the pool's clock.
    looked: AtomicU64,
}

impl PublishedMarks {
    /// State of a file that was opened at `generation` and looked at `now`: no registration, no claim.
    pub fn at(generation: u64, now: Time) -> PublishedMarks {
        PublishedMarks {
            generation: AtomicU64::new(generation),
            looked: AtomicU64::new(now.0),
            ..PublishedMarks::default()
        }
    }

    fn as_writer(&self) -> Option<Node> {
        Some(Node(self.writer.load(Ordering::Acquire))).filter(|node| node.0 != 0)
    }
}

/// Backoff between looks at a stub, with a timeout.
pub(super) struct Backoff {
    since: Instant,
    until: Instant,
    pause: Duration,
}

impl Backoff {
    pub fn new() -> Backoff {
        Backoff::of(WAIT_MAX)
    }

    fn of(span: Duration) -> Backoff {
        let since = Instant::now();
        Backoff { since, until: since + span, pause: PAUSE }
    }

    fn is_long(&self) -> bool {
        self.since.elapsed() >= LONG
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

fn changes(claim: Claim) -> String {
    format!("{} changes the layout of the file and does not finish", claim.node)
}

/// Whether a write may be acknowledged under the lease; waits while the lease may still be renewed.
pub(super) fn may_be_said(cluster: &Arc<dyn Cluster>, node: Node) -> Result<bool> {
    let mut patience = Backoff::new();
    loop {
        match share::written(cluster.standing(node), false) {
            Written::Acknowledge => return Ok(true),
            Written::Again => return Ok(false),
            Written::Wait => patience.wait(|| "the namespace does not answer, so this node has no lease".into())?,
        }
    }
}

impl File {
    pub(super) fn cluster(&self) -> Option<&Arc<dyn Cluster>> {
        self.pool.cluster.get()
    }

    /// Whether other nodes may use the file.
    pub fn is_shared(&self) -> bool {
        self.cluster().is_some()
    }

    /// Invalidates copies that other nodes are making.
    fn spoil(&self, look: &Look, me: Node) -> Result<()> {
        look.copies.iter().filter(|node| **node != me).try_for_each(|node| self.stub.set_copy(*node, false).map(drop))
    }

    /// Ends a claim by publishing its generation with the old layout; later changes to that generation fail.
    /// Returns whether this node published it.
    fn end(&self, me: Node, claim: Claim) -> Result<bool> {
        let (generation, layout) = self.stub.newest()?;
        let layout = layout.map(|layout| Layout { generation: claim.generation, ..layout });
        let made = generation + 1 == claim.generation && self.stub.publish(me, claim.generation, layout.as_ref())?;
        self.tidy(&self.stub.look()?);
        Ok(made)
    }

    /// Removes layouts and claims of old generations, and writer marks of nodes whose lease ended.
    fn tidy(&self, look: &Look) {
        let Some(cluster) = self.cluster() else { return };
        for mark in share::litter(&look.listed, |node| cluster.is_over(node)) {
            if let Err(error) = self.stub.remove(mark) {
                tracing::debug!("{mark} stays on a stub for now: {error}");
            }
        }
    }

    /// Applies a look at the stub to the file's state.
    pub(super) fn take_over(&self, look: &Look) -> Result<()> {
        let _record = self.record.lock();
        self.said.looked.store((self.pool.clock)().0, Ordering::Relaxed);
        if look.marks.generation != self.said.generation.load(Ordering::Acquire) {
            let (generation, layout) = self.stub.newest()?;
            if let Some(layout) = &layout {
                layout.check()?;
                self.pool.making.settled(layout.objects().map(|(_, object)| object.id));
            }
            let old = self.view();
            *self.view.write() = Arc::new(View::new(layout, Some(&old)));
            self.said.generation.store(generation, Ordering::Release);
            self.forget_all();
            self.tell_objects();
            // Register the number, so that a request from another node finds the file without a search of the tree.
            if let (None, Some(id), Some(this)) = (old.layout.as_ref(), self.id(), self.this.upgrade()) {
                this.has_number(id);
            }
        }
        let source = if look.has_source { self.stub.source()? } else { None };
        self.source.take_over(source.as_deref());
        // Only the node that removes checksums, under an exclusive claim, may clear `has_sums`.
        if look.has_sums {
            self.has_sums.store(true, Ordering::Release);
        }
        self.take_size_over(look, None)
    }

    /// Looks at the stub, since other nodes may have changed the file. Returns whether the layout changed.
    pub fn refresh(self: &Arc<Self>) -> Result<bool> {
        if !self.is_shared() {
            return Ok(false);
        }
        let view = self.view();
        match self.holds() {
            Some(holds) => self.refresh_held(holds)?,
            None => self.look_again()?,
        }
        Ok(!self.same_view(&view))
    }

    /// As `refresh`, for a reader. A file that another node removed keeps its last state.
    pub(super) fn refresh_unless_gone(self: &Arc<Self>) -> Result<()> {
        match self.refresh() {
            Err(error) if error.is_gone() => Ok(()),
            done => done.map(drop),
        }
    }

    pub(super) fn look_again(&self) -> Result<()> {
        self.take_over(&self.stub.look()?)
    }

    /// Whether the layout may be outdated. Old objects stay readable for their open handles, so their reads don't fail.
    pub(super) fn was_looked_at_long_ago(&self) -> bool {
        let looked = Time(self.said.looked.load(Ordering::Relaxed));
        self.is_shared() && self.holds().is_none() && (self.pool.clock)().since(looked) >= LOOKED_MAX
    }

    /// Makes earlier writes of other nodes visible at an open. `looked`: whether the open has looked at the stub.
    pub fn forget_what_others_changed(self: &Arc<Self>, looked: bool) -> Result<()> {
        if self.is_shared() {
            if !looked {
                self.refresh()?;
            }
            if self.holds().is_none() {
                self.forget_all();
            }
        }
        Ok(())
    }

    /// Waits while another node recovers an object. Returns whether it did; the caller then uses the new layout.
    pub(crate) fn is_recovered_elsewhere(self: &Arc<Self>, at: Position) -> Result<bool> {
        let Some(cluster) = self.cluster() else { return Ok(false) };
        let standing = || self.layout().and_then(|layout| layout.object(at).copied());
        let Some(first) = standing().filter(|object| object.state == ObjectState::Partial) else { return Ok(false) };
        let mut patience = Backoff::of(RECOVERY_WAIT_MAX);
        while standing() == Some(first) {
            // An object of a node whose lease ended is recovered here, in an object of this node.
            let me = cluster.me()?;
            let Some(node) = cluster.node_of(first.id.epoch()).filter(|node| *node != me) else { return Ok(false) };
            patience.wait(|| format!("{node} recovers a part of the file and does not finish"))?;
            self.refresh()?;
        }
        Ok(true)
    }

    /// Sets the mark that another node's write removes: the copy is valid while it is there. The caller has an
    /// exclusive claim.
    pub(super) fn begin_copy(&self) -> Result<()> {
        if let Some(holds) = self.holds() {
            return self.begin_copy_held(holds);
        }
        let Some(cluster) = self.cluster() else { return Ok(()) };
        let me = cluster.me()?;
        self.stub.set_copy(me, true)?;
        self.said.copies.store(me.0, Ordering::Release);
        Ok(())
    }

    /// Whether no other node wrote the file since `begin_copy`. The caller has an exclusive claim.
    pub(super) fn is_copy_good(&self) -> Result<bool> {
        if let Some(holds) = self.holds() {
            return self.is_copy_good_held(holds);
        }
        let copies = self.said.copies.load(Ordering::Acquire);
        Ok(!self.is_shared() || (copies != 0 && self.stub.look()?.copies.contains(&Node(copies))))
    }

    /// Removes the mark after the copy was used or abandoned.
    pub(super) fn end_copy(&self) {
        let copies = self.said.copies.swap(0, Ordering::AcqRel);
        if copies != 0
            && let Err(error) = self.stub.set_copy(Node(copies), false)
        {
            tracing::debug!("the copy mark of this node stays on a file: {error}");
        }
    }

    /// Whether an object that a reader did not find may lie elsewhere by now.
    pub(super) fn may_have_moved(self: &Arc<Self>, error: &Error) -> bool {
        let gone = |errno| matches!(errno, Errno::NOENT | Errno::STALE | Errno::IO | Errno::BADF);
        let Error::Target { error: object::target::TargetError::Io(errno), .. } = error else { return false };
        self.is_shared() && gone(*errno) && self.refresh().unwrap_or(false)
    }
}

#[cfg(test)]
pub(in crate::file) mod tests;
