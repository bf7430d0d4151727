//! Several nodes, one file: who writes it, and who changes how it lies. `policy::cluster::share` decides; here is what is done to the stub.
//!
//! ```text
//!  a writer    writer.ME on the stub, look: does nobody change it? ── writes ... the lease holds? ── acknowledged
//!                                             └── somebody does: writer.ME away, wait
//!  a changer   change.G+1 on the stub, look: who writes? ── rings them, waits until none is left ── changes ── layout.G+1
//!  when rung   writers under way here end ── writer.ME away
//! ```
//! With one node nothing of this happens.
//!
//! Bytes in a stub are written without a word to others. Who wrote looks at the stub once more before it acknowledges: whoever
//! moves them out has said so before it copied.

mod exclusive;
mod growth;
mod publish;
mod writing;

pub(super) use exclusive::Exclusive;
pub(super) use growth::Growth;
pub(crate) use growth::SAID_EVERY;

use super::{File, View};
use crate::stub::marks::Look;
use crate::{Error, Result};
use policy::cluster::share::{self, Claim, Written};
use policy::cluster::{Node, Standing};
use policy::layout::{Layout, ObjectState, Position};
use policy::{FileId, Time};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long somebody waits for other nodes before the call fails. A node that is gone is found out in less than ten seconds.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How long a reader waits for what another node recovers.
const RECOVERY_WAIT_MAX: Duration = Duration::from_secs(600);
/// From one look to the next: first, and at most.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// After this long the node whose claim is in the way is asked for it.
const LONG: Duration = Duration::from_secs(1);
/// One that reads looks at the stub again after so long.
const LOOKED_MAX: Time = Time::from_millis(1000);
/// How long a node that is asked for a file waits for what is under way there before it hears the next.
const LET_GO_MAX: Duration = Duration::from_secs(1);

/// The other nodes of a volume.
pub trait Cluster: Send + Sync {
    /// The number of this node, under a lease that holds; waits a while for one.
    fn me(&self) -> Result<Node>;
    /// How this node stands with its lease under a number.
    fn standing(&self, node: Node) -> Standing;
    /// Whether a node is over for ever, as far as is known.
    fn is_over(&self, node: Node) -> bool;
    /// The upper half of the numbers of this node's objects.
    fn epoch(&self) -> u32;
    /// The node that makes objects of that epoch, if one does.
    fn node_of(&self, epoch: u32) -> Option<Node>;
    /// Whether objects of that epoch may be another node's, which may just be making them.
    fn may_be_used_by_another(&self, epoch: u32) -> bool;
    /// Whether this node changes by itself how files lie: one does.
    fn leads(&self) -> bool;
    /// Whether a lock of the shared file system that a node has keeps the others out. Nobody else there: yes.
    fn locks_reach(&self) -> bool;
    /// Asks nodes to let go of a file. May get lost.
    fn ring(&self, nodes: &BTreeSet<Node>, file: FileId);
    /// Tells the node that leads what happens here. May get lost.
    fn report(&self, text: &str);
    /// What others told this node since the last time, as the one that leads.
    fn reports(&self) -> Vec<String>;
}

/// What this node said on the stub.
#[derive(Default)]
pub(super) struct Said {
    /// The node as which it writes the file, 0 if as none, and the number of that entry.
    writer: AtomicU32,
    entry: AtomicU64,
    /// The generation that it claims; 0 if none.
    claim: AtomicU64,
    /// That claim stays between changes, so that other nodes keep out.
    holds: AtomicBool,
    /// The node as which it copies the file.
    copies: AtomicU32,
    /// The generation that its view is of.
    generation: AtomicU64,
    /// The stub says that the file is so long, or longer.
    size: AtomicU64,
    /// Sizes were set by bytes in the stub, which take space.
    grew: AtomicBool,
    /// When the stub was looked at last, as the pool's clock has it.
    looked: AtomicU64,
}

impl Said {
    /// Nothing, of a file opened at that generation, whose stub was looked at then.
    pub fn at(generation: u64, now: Time) -> Said {
        Said { generation: AtomicU64::new(generation), looked: AtomicU64::new(now.0), ..Said::default() }
    }

    fn as_writer(&self) -> Option<Node> {
        Some(Node(self.writer.load(Ordering::Acquire))).filter(|node| node.0 != 0)
    }
}

/// Looks again after a while, some time.
struct Patience {
    since: Instant,
    until: Instant,
    pause: Duration,
}

impl Patience {
    fn new() -> Patience {
        Patience::of(WAIT_MAX)
    }

    fn of(span: Duration) -> Patience {
        let since = Instant::now();
        Patience { since, until: since + span, pause: PAUSE }
    }

    fn is_long(&self) -> bool {
        self.since.elapsed() >= LONG
    }

    fn wait(&mut self, why: impl FnOnce() -> String) -> Result<()> {
        if Instant::now() >= self.until {
            return Err(Error::Elsewhere(why()));
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }
}

fn changes(claim: Claim) -> String {
    format!("{} changes how the file lies and does not come to an end", claim.node)
}

/// Whether a write under a lease may be acknowledged; waits for one that may be renewed yet.
fn may_be_said(cluster: &Arc<dyn Cluster>, node: Node) -> Result<bool> {
    let mut patience = Patience::new();
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
    pub(crate) fn is_shared(&self) -> bool {
        self.cluster().is_some()
    }

    /// Others that copy the file copy something old.
    fn spoil(&self, look: &Look, me: Node) -> Result<()> {
        look.copies.iter().filter(|node| **node != me).try_for_each(|node| self.stub.set_copy(*node, false).map(drop))
    }

    /// Ends a claim that nobody will end: whatever is still done to this generation comes too late from now on.
    /// Whether this node made that generation.
    fn end(&self, me: Node, claim: Claim) -> Result<bool> {
        let (generation, layout) = self.stub.newest()?;
        let layout = layout.map(|layout| Layout { generation: claim.generation, ..layout });
        let made = generation + 1 == claim.generation && self.stub.publish(me, claim.generation, layout.as_ref())?;
        self.tidy(&self.stub.look()?);
        Ok(made)
    }

    /// Removes what is over.
    fn tidy(&self, look: &Look) {
        let Some(cluster) = self.cluster() else { return };
        for mark in share::litter(&look.listed, |node| cluster.is_over(node)) {
            if let Err(error) = self.stub.remove(mark) {
                tracing::debug!("{mark} stays on a stub for now: {error}");
            }
        }
    }

    /// Brings what is known of the file up to date with a look at its stub.
    fn take_over(&self, look: &Look) -> Result<()> {
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
            // Found by it when another node asks for the file: else the whole tree is searched.
            if let (None, Some(id), Some(this)) = (old.layout.as_ref(), self.id(), self.this.upgrade()) {
                this.has_number(id);
            }
        }
        let source = if look.has_source { self.stub.source()? } else { None };
        self.source.take_over(source.as_deref());
        // Only who takes them away, alone, knows that there are none.
        if look.has_sums {
            self.has_sums.store(true, Ordering::Release);
        }
        self.take_size_over(look, None)
    }

    /// Looks at the stub: other nodes may have changed the file. Whether it lies in another way now.
    pub(crate) fn refresh(self: &Arc<Self>) -> Result<bool> {
        if !self.is_shared() {
            return Ok(false);
        }
        let view = self.view();
        self.look_again()?;
        Ok(!self.same_view(&view))
    }

    pub(super) fn look_again(&self) -> Result<()> {
        self.take_over(&self.stub.look()?)
    }

    /// Whether the file may lie elsewhere by now: what it lay in can still be read by who has it open.
    pub(super) fn was_looked_at_long_ago(&self) -> bool {
        let looked = Time(self.said.looked.load(Ordering::Relaxed));
        self.is_shared() && (self.pool.clock)().since(looked) >= LOOKED_MAX
    }

    /// At an open: what other nodes wrote before is seen from now on. `looked` says that the stub was looked at since the open began.
    pub(crate) fn forget_what_others_changed(self: &Arc<Self>, looked: bool) -> Result<()> {
        if self.is_shared() {
            if !looked {
                self.refresh()?;
            }
            self.forget_all();
        }
        Ok(())
    }

    /// Whether another node made the object at a position anew: then this waited for it, and the layout is to be looked at again.
    pub(crate) fn is_recovered_elsewhere(self: &Arc<Self>, at: Position) -> Result<bool> {
        let Some(cluster) = self.cluster() else { return Ok(false) };
        let standing = || self.layout().and_then(|layout| layout.object(at).copied());
        let Some(first) = standing().filter(|object| object.state == ObjectState::Partial) else { return Ok(false) };
        let mut patience = Patience::of(RECOVERY_WAIT_MAX);
        while standing() == Some(first) {
            // One of a node that is over is made anew here, in an object of this node's.
            let me = cluster.me()?;
            let Some(node) = cluster.node_of(first.id.epoch()).filter(|node| *node != me) else { return Ok(false) };
            patience.wait(|| format!("{node} recovers a part of the file and does not come to an end"))?;
            self.refresh()?;
        }
        Ok(true)
    }

    /// Copies of what the file holds now are good until somebody else writes it. The caller has it alone.
    pub(super) fn begin_copy(&self) -> Result<()> {
        let Some(cluster) = self.cluster() else { return Ok(()) };
        let me = cluster.me()?;
        self.stub.set_copy(me, true)?;
        self.said.copies.store(me.0, Ordering::Release);
        Ok(())
    }

    /// Whether nobody else wrote the file since. The caller has it alone.
    pub(super) fn is_copy_good(&self) -> Result<bool> {
        let copies = self.said.copies.load(Ordering::Acquire);
        Ok(!self.is_shared() || (copies != 0 && self.stub.look()?.copies.contains(&Node(copies))))
    }

    /// The copy is used, or given up.
    pub(super) fn end_copy(&self) {
        let copies = self.said.copies.swap(0, Ordering::AcqRel);
        if copies != 0
            && let Err(error) = self.stub.set_copy(Node(copies), false)
        {
            tracing::debug!("a file goes on saying that this node copies it: {error}");
        }
    }

    /// Whether an object that a reader did not find may lie elsewhere by now.
    pub(super) fn may_have_moved(self: &Arc<Self>, error: &Error) -> bool {
        let gone = |errno| matches!(errno, Errno::NOENT | Errno::STALE | Errno::IO | Errno::BADF);
        let Error::Target { error: crate::target::TargetError::Io(errno), .. } = error else { return false };
        self.is_shared() && gone(*errno) && self.refresh().unwrap_or(false)
    }
}

#[cfg(test)]
pub(in crate::file) mod tests;
