//! Exclusive access to a file, on this node and all others: by a claim on the next generation of its layout.

use super::{Backoff, changes, may_be_said};
use crate::Result;
use crate::file::held::{Right, Turn};
use crate::file::nodes::Cluster;
use crate::file::{File, View};
use meta::stub::marks::Look;
use parking_lot::RwLockWriteGuard;
use policy::cluster::Node;
use policy::cluster::share::{self, Begin, Claim, Step};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Exclusive access: until the drop no other caller on any node writes the file or changes its layout.
pub struct Exclusive<'a> {
    file: &'a File,
    io: Option<RwLockWriteGuard<'a, ()>>,
    as_node: Option<Node>,
    /// Hold that excludes other nodes.
    right: Option<Right>,
    _turn: Option<Turn<'a>>,
}

impl<'a> Exclusive<'a> {
    /// Access under a claim of the table of holders.
    pub(in crate::file) fn under_claim(file: &'a File, io: RwLockWriteGuard<'a, ()>, turn: Turn<'a>) -> Exclusive<'a> {
        Exclusive { file, io: Some(io), as_node: Some(turn.node), right: None, _turn: Some(turn) }
    }

    /// Access under an exclusive hold.
    pub(in crate::file) fn under_hold(file: &'a File, io: RwLockWriteGuard<'a, ()>, right: Right) -> Exclusive<'a> {
        Exclusive { file, io: Some(io), as_node: Some(right.node), right: Some(right), _turn: None }
    }

    fn under_mark(file: &'a File, io: RwLockWriteGuard<'a, ()>, as_node: Option<Node>) -> Exclusive<'a> {
        Exclusive { file, io: Some(io), as_node, right: None, _turn: None }
    }

    /// Whether the claim held until now, so that the result may be acknowledged.
    pub(in crate::file) fn holds(&self) -> Result<bool> {
        if let (Some(holds), Some(right)) = (self.file.holds(), &self.right) {
            return self.file.is_acknowledged(holds, right);
        }
        let (Some(cluster), Some(node)) = (self.file.cluster(), self.as_node) else { return Ok(true) };
        may_be_said(cluster, node)
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        if self.file.holds().is_none() && !self.file.said.holds.load(Ordering::Acquire) {
            self.file.give_claim_up();
        }
        drop(self.io.take());
    }
}

impl File {
    /// Gets exclusive access on all nodes; layout and size are up to date then.
    pub fn exclusive(&self) -> Result<Exclusive<'_>> {
        loop {
            if let Some(exclusive) = self.exclusive_if(|_| true)? {
                return Ok(exclusive);
            }
        }
    }

    /// As `exclusive`, or `None` if `needed` is false for the view by then: another node or thread has made the change.
    /// So several nodes that want the same change need exclusive access only once.
    pub(in crate::file) fn exclusive_if(&self, needed: impl Fn(&View) -> bool) -> Result<Option<Exclusive<'_>>> {
        let Some(cluster) = self.cluster() else {
            let exclusive = Exclusive::under_mark(self, self.io.write(), None);
            return Ok(Some(exclusive).filter(|_| needed(&self.view())));
        };
        if let Some(holds) = self.holds() {
            return self.change_if(holds, needed);
        }
        let mut patience = Backoff::new();
        loop {
            let me = cluster.me()?;
            let io = self.io.write();
            let look = self.stub.look()?;
            if let Some(alone) = self.held(me, &look) {
                self.take_over(&look)?;
                return Ok(Some(Exclusive::under_mark(self, io, Some(alone))));
            }
            if look.marks.generation != self.said.generation.load(Ordering::Acquire) {
                self.take_over(&look)?;
                if !needed(&self.view()) {
                    return Ok(None);
                }
            }
            match share::begin(me, true, &look.marks, |node| cluster.is_over(node)) {
                Begin::Claim(claim) => {
                    if !self.stub.claim(claim)? {
                        continue;
                    }
                    self.said.claim.store(claim.generation, Ordering::Release);
                    let exclusive = Exclusive::under_mark(self, io, Some(me));
                    if self.drained(cluster, &claim, &mut patience)? {
                        return Ok(Some(exclusive));
                    }
                }
                Begin::End(claim) => drop(self.end(me, claim)?),
                Begin::Wait(claim) => {
                    self.stop_writing()?;
                    drop(io);
                    self.wait_for(cluster, claim, &mut patience)?;
                }
            }
        }
    }

    /// This node, if it holds a claim already. The caller holds `io` exclusively.
    pub(super) fn held(&self, me: Node, look: &Look) -> Option<Node> {
        if !self.said.holds.load(Ordering::Acquire) {
            return None;
        }
        let claimed = self.said.claim.load(Ordering::Acquire);
        let stands = look.marks.claim.is_some_and(|claim| claim.node == me && claim.generation == claimed);
        if !stands {
            self.said.holds.store(false, Ordering::Release);
            self.said.claim.store(0, Ordering::Release);
        }
        stands.then_some(me)
    }

    /// Keeps an exclusive claim, which excludes writes and changes of layout by other nodes, until
    /// [`File::let_others_in`].
    pub(crate) fn keep_others_out(&self) -> Result<()> {
        if self.holds().is_some() {
            return self.keep_claim();
        }
        let alone = self.exclusive()?;
        self.said.holds.store(self.is_shared(), Ordering::Release);
        drop(alone);
        Ok(())
    }

    /// Releases the claim of [`File::keep_others_out`].
    pub(crate) fn let_others_in(&self) {
        self.end_kept_claim();
        if self.is_shared() {
            let _io = self.io.write();
            if self.said.holds.swap(false, Ordering::AcqRel) {
                self.give_claim_up();
            }
        }
    }

    /// Ends a claim by publishing its generation with the layout unchanged. So no name of a claim is used twice, and a
    /// late removal of a claim cannot hit another one.
    fn give_claim_up(&self) {
        let generation = self.said.claim.swap(0, Ordering::AcqRel);
        let Some(cluster) = self.cluster().filter(|_| generation > 0) else { return };
        let given_up = cluster.me().and_then(|node| self.end(node, Claim { node, generation, drains: true }));
        match given_up {
            // No other node published this generation, so the layout is that of the view.
            Ok(true) => self.said.generation.store(generation, Ordering::Release),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!("a claim on a file stays until this node changes it again, or is over: {error}");
            }
        }
    }

    /// Waits a little for the end of a claim. After a long wait, requests its release from its node: the claim may be a
    /// leftover.
    pub(super) fn wait_for(&self, cluster: &Arc<dyn Cluster>, claim: Claim, patience: &mut Backoff) -> Result<()> {
        if let Some(id) = self.id().filter(|_| patience.is_long()) {
            cluster.ring(&BTreeSet::from([claim.node]), id);
        }
        patience.wait(|| changes(claim))
    }

    /// Waits until no other node writes the file. Returns false if another node was faster.
    fn drained(&self, cluster: &Arc<dyn Cluster>, claim: &Claim, patience: &mut Backoff) -> Result<bool> {
        loop {
            let look = self.stub.look_surely()?;
            match share::step(claim, &look.marks, |node| cluster.is_over(node)) {
                Step::Retry => return Ok(false),
                Step::Go => {
                    self.spoil(&look, claim.node)?;
                    self.take_over(&look)?;
                    return self.settle_growth(cluster, &look);
                }
                Step::Drain(nodes) => {
                    self.take_over(&look)?; // another node may have numbered the file
                    if let Some(id) = self.id() {
                        cluster.ring(&nodes, id);
                    }
                    let shown = nodes.first().copied().unwrap_or(claim.node);
                    patience.wait(|| format!("{shown} writes the file and does not release it"))?;
                }
            }
        }
    }
}
