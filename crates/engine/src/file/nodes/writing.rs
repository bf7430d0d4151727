//! Writes to a file that other nodes write, too: under a writer mark on its stub, which is removed when another node
//! requests the file.

use super::{Backoff, Cluster, LET_GO_MAX, may_be_said};
use crate::Result;
use crate::file::held::Right;
use crate::file::{File, View};
use meta::stub::marks::Look;
use policy::cluster::share::{self, Claim, Enter, Mark};
use policy::cluster::{Node, Standing};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl File {
    /// Whether this node may write the file up to `end` by the view, and by which right.
    pub(in crate::file) fn may_write(&self, view: &View, end: u64) -> Option<Option<Right>> {
        match self.holds() {
            Some(holds) => self.right_now(holds, self.usage_up_to(end)).map(Some),
            None => self.is_writer(view).then_some(None),
        }
    }

    /// Whether this node may write the objects of the view by its registration.
    fn is_writer(&self, view: &View) -> bool {
        let Some(cluster) = self.cluster() else { return true };
        let writer = self.said.writer.load(Ordering::Acquire);
        view.layout.is_none() || (writer != 0 && cluster.standing(Node(writer)) == Standing::Held)
    }

    /// Sets the writer mark of this node, after waiting for changes of other nodes. The caller holds no lock.
    pub(in crate::file) fn begin_writing(self: &Arc<Self>, end: u64) -> Result<()> {
        if let Some(holds) = self.holds() {
            return self.begin_writing_held(holds, end);
        }
        let Some(cluster) = self.cluster() else { return Ok(()) };
        if self.is_writer(&self.view()) {
            return Ok(());
        }
        let mut patience = Backoff::new();
        loop {
            match self.enter(cluster)? {
                None => return Ok(()),
                Some(claim) => self.wait_out(cluster, claim, &mut patience)?,
            }
        }
    }

    /// Waits for the end of a claim without a writer mark, for which the claiming node would wait in turn.
    fn wait_out(&self, cluster: &Arc<dyn Cluster>, claim: Claim, patience: &mut Backoff) -> Result<()> {
        loop {
            self.wait_for(cluster, claim, patience)?;
            if !share::stands(&claim, &self.stub.look()?.marks, |node| cluster.is_over(node)) {
                return Ok(());
            }
        }
    }

    /// Tries to set the writer mark without waiting; returns the claim that conflicts.
    fn enter(&self, cluster: &Arc<dyn Cluster>) -> Result<Option<Claim>> {
        let me = cluster.me()?;
        let _io = self.io.write();
        if self.is_writer(&self.view()) {
            return Ok(None);
        }
        self.stop_writing()?;
        let entry = self.said.entry.fetch_add(1, Ordering::AcqRel) + 1;
        self.stub.set_mark(Mark::Writer { node: me, entry })?;
        self.said.writer.store(me.0, Ordering::Release);
        loop {
            let look = self.stub.look_surely()?;
            let loaded = Some(self.said.generation.load(Ordering::Acquire));
            match share::enter(loaded, &look.marks, |node| cluster.is_over(node)) {
                Enter::Load(_) => self.take_over(&look)?,
                Enter::End(claim) => {
                    self.stop_writing()?;
                    self.end(me, claim)?;
                    return Ok(Some(claim));
                }
                Enter::Wait(claim) if self.held(me, &look).is_none() => {
                    return self.stop_writing().map(|()| Some(claim));
                }
                // Copies by other nodes are invalidated: those nodes must notice the writes here.
                Enter::Go | Enter::Wait(_) => {
                    self.spoil(&look, me)?;
                    return self.take_over(&look).map(|()| None);
                }
            }
        }
    }

    /// Whether a write under a view may be acknowledged; otherwise it must be repeated.
    pub(in crate::file) fn may_acknowledge(self: &Arc<Self>, view: &View, right: &Option<Right>) -> Result<bool> {
        if let (Some(holds), Some(right)) = (self.holds(), right) {
            return self.is_acknowledged(holds, right);
        }
        let Some(cluster) = self.cluster() else { return Ok(true) };
        if view.layout.is_some() {
            // `io`, held shared, protects the writer mark.
            return may_be_said(cluster, Node(self.said.writer.load(Ordering::Acquire)));
        }
        let look = self.stub.look_surely()?;
        let unchanged = look.marks.generation == self.said.generation.load(Ordering::Acquire);
        Ok(unchanged && look.marks.claim.is_none())
    }

    /// Waits for the end of another node's change that interrupted a write. The caller holds no lock.
    pub(in crate::file) fn catch_up(self: &Arc<Self>) -> Result<()> {
        let Some(cluster) = self.cluster().filter(|_| self.holds().is_none()) else { return Ok(()) };
        let mut patience = Backoff::new();
        loop {
            let me = cluster.me()?;
            let look = self.stub.look()?;
            match look.marks.claim {
                None => return self.refresh().map(drop),
                // This node's own claim ends by itself.
                Some(claim) if claim.node != me && cluster.is_over(claim.node) => drop(self.end(me, claim)?),
                Some(claim) => self.wait_for(cluster, claim, &mut patience)?,
            }
        }
    }

    /// Ends running writes and removes the writer mark, because another node requested the file or it is closed.
    pub(crate) fn end_writing(&self) -> Result<()> {
        let _io = self.io.write();
        self.stop_writing()
    }

    /// As `end_writing`; the caller holds `io` exclusively.
    pub(super) fn stop_writing(&self) -> Result<()> {
        let Some(node) = self.said.as_writer() else { return Ok(()) };
        let stays = self.leave_growth();
        self.said.writer.store(0, Ordering::Release);
        if self.said.grew.swap(false, Ordering::AcqRel) {
            self.stub.free();
        }
        if stays? {
            return Ok(());
        }
        self.stub.remove(Mark::Writer { node, entry: self.said.entry.load(Ordering::Acquire) })
    }

    /// Removes marks of earlier openings on this node; the caller holds `io` exclusively.
    fn take_back(&self, node: Node, look: &Look) -> Result<()> {
        let own =
            |mark: &&Mark| matches!(mark, Mark::Writer { node: of, .. } | Mark::Grows { node: of, .. } if *of == node);
        let left: Vec<Mark> = look.listed.iter().filter(own).copied().collect();
        if left.iter().any(|mark| matches!(mark, Mark::Grows { .. })) {
            self.take_over(look)?;
            if self.cluster().is_none_or(|cluster| cluster.standing(node) != Standing::Held) {
                return Ok(()); // the size still comes from the objects
            }
            self.say(self.size())?;
        }
        // Remove `grows` marks before `writer` marks.
        left.into_iter().rev().try_for_each(|mark| self.stub.remove(mark))
    }

    /// Releases the file for another node. Running writes end first; then marks of earlier openings and leftover claims
    /// are removed. The request is repeated while the file is busy.
    pub fn let_go(&self, node: Node) -> Result<()> {
        let Some(_io) = self.io.try_write_for(LET_GO_MAX) else { return Ok(()) };
        self.stop_writing()?;
        let look = self.stub.look()?;
        self.take_back(node, &look)?;
        let holds = self.said.holds.load(Ordering::Acquire);
        match look.marks.claim.filter(|claim| claim.node == node && !holds) {
            Some(claim) => self.end(node, claim).map(drop),
            None => Ok(()),
        }
    }
}
