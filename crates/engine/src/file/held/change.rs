//! Changes of the layout under a claim, and exclusive access under an exclusive hold.
//!
//! ```text
//!   exclusive() ── Want(Change) ──> claim, recall, drain ──> Step::Change ── the caller: new layout
//!      publish() ── Done(true) ──> Step::Publish: create the record, once ──> the caller: outcome
//!      drop() without a publication ── Done(false) ──> the generation is published unchanged
//! ```
//! The claim ends with the publication. So the caller publishes once, as its last step.

use super::steps::Publication;
use super::{Holds, Right, WAIT_MAX};
use crate::file::nodes::{Exclusive, Outcome, holds_lease};
use crate::file::{File, View};
use crate::{Error, Result};
use meta::stub::Record;
use parking_lot::MutexGuard;
use policy::cluster::share::Created;
use policy::cluster::{Node, Standing};
use policy::holders::node::{Event, Use};
use policy::layout::Layout;
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// Progress of this node's change of the file.
#[derive(Default)]
pub(super) struct Change {
    pub stage: Stage,
    /// Whether the claim stays when the caller's exclusive access ends.
    pub kept: bool,
    /// Right under which the file is copied.
    pub copied: Option<Copied>,
    /// Record that is being created.
    pub publishing: Option<(Publication, Record)>,
    /// Layout to be published.
    pub next: Option<Layout>,
    /// Generation that was settled under the present claim.
    pub settled: Option<u64>,
    /// Result of the publication; `None` inside: another node may have removed the record.
    pub outcome: Option<Option<Created>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Idle,
    /// A caller waits for the claim.
    Wanted,
    /// The caller may change the layout to this generation.
    Granted(Node, u64),
    /// The record is being created.
    Publishing,
}

/// Right under which a copy of the file is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    UnderHold(Right),
    /// Node and generation of a claim.
    UnderClaim((Node, u64)),
}

impl Change {
    /// Node and generation of a claim that is kept.
    pub fn kept_claim(&self) -> Option<(Node, u64)> {
        match self.stage {
            Stage::Granted(node, generation) if self.kept => Some((node, generation)),
            _ => None,
        }
    }
}

/// Turn of a caller to change the layout; at its end an unused claim ends.
pub(in crate::file) struct Turn<'a> {
    file: &'a File,
    pub node: Node,
    _one: MutexGuard<'a, ()>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.file.end_unkept_claim();
    }
}

fn busy() -> Error {
    Error::Busy("another change of the file is under way".into())
}

impl File {
    /// Exclusive access to change the layout; `None` if `needed` is false for the view by then.
    pub(in crate::file) fn change_if(
        &self,
        holds: &Holds,
        needed: impl Fn(&View) -> bool,
    ) -> Result<Option<Exclusive<'_>>> {
        let one = self.held.turn.try_lock_for(WAIT_MAX).ok_or_else(busy)?;
        let (node, generation) = self.claim_next(holds)?;
        let turn = Turn { file: self, node, _one: one };
        let io = self.io.write();
        let whole = self.held.state.lock().searched;
        self.load_generation(node, generation - 1, whole, None)?;
        Ok(Some(Exclusive::under_claim(self, io, turn)).filter(|_| needed(&self.view())))
    }

    /// Waits for the claim on the next generation. A failed wait leaves no claim.
    fn claim_next(&self, holds: &Holds) -> Result<(Node, u64)> {
        self.await_claim(holds).inspect_err(|_| self.end_unkept_claim())
    }

    fn await_claim(&self, holds: &Holds) -> Result<(Node, u64)> {
        let (until, unsettled) = (Instant::now() + WAIT_MAX, self.held.unsettled());
        loop {
            let node = holds.node()?;
            let woken = {
                let mut state = self.held.state.lock();
                match state.change.stage {
                    Stage::Granted(of, generation) if of == node => return Ok((of, generation)),
                    _ => state.change.stage = Stage::Wanted,
                }
                state.woken
            };
            self.held.check(unsettled)?;
            holds.feed(node, Event::Want(self.key(), Use::Change));
            let step = Instant::now() + Duration::from_secs(1);
            if !self.held.wait(woken, step.min(until)) && Instant::now() >= until {
                let mut state = self.held.state.lock();
                if state.change.stage == Stage::Wanted {
                    state.change.stage = Stage::Idle;
                    return Err(Error::Elsewhere("other nodes use the file and do not release it".into()));
                }
            }
        }
    }

    fn end_unkept_claim(&self) {
        if !self.held.state.lock().change.kept {
            self.end_claim();
        }
    }

    /// Ends a claim, or the wait for one, without a change.
    fn end_claim(&self) {
        let stage = std::mem::take(&mut self.held.state.lock().change.stage);
        if let (Stage::Granted(node, _), Some(holds)) = (stage, self.holds()) {
            holds.feed(node, Event::Done(self.key(), false));
        }
    }

    /// Exclusive access without a change of the layout: an exclusive hold, or a claim where a mirror may become stale.
    pub(in crate::file) fn alone(&self) -> Result<Exclusive<'_>> {
        let Some(holds) = self.holds() else { return self.exclusive() };
        loop {
            self.right(holds, Use::Alone)?;
            if !self.has_one_mirror() || self.is_hurt() {
                return self.exclusive();
            }
            let io = self.io.write();
            if let Some(right) = self.right_now(holds, Use::Alone) {
                return Ok(Exclusive::under_hold(self, io, right));
            }
        }
    }

    /// Keeps a claim, which excludes other nodes, until [`File::end_kept_claim`] or a publication.
    pub(crate) fn keep_claim(&self) -> Result<()> {
        let alone = self.exclusive()?;
        self.held.state.lock().change.kept = self.is_shared();
        drop(alone);
        Ok(())
    }

    pub(crate) fn end_kept_claim(&self) {
        if std::mem::take(&mut self.held.state.lock().change.kept) {
            self.end_claim();
        }
    }

    /// Begins a copy under a hold, or under a kept claim: the content changes only through this node while it is valid.
    pub(in crate::file) fn begin_copy(&self) -> Result<()> {
        let Some(holds) = self.holds() else { return Ok(()) };
        let kept = self.held.state.lock().change.kept_claim();
        let copied = match kept {
            Some(claim) => Copied::UnderClaim(claim),
            // Readers of other nodes may stay beside a hold for reading.
            None => match self.right(holds, Use::Read)? {
                right if right.permit.mode.caches() => Copied::UnderHold(right),
                _ => Copied::UnderHold(self.right(holds, Use::Alone)?),
            },
        };
        self.held.state.lock().change.copied = Some(copied);
        Ok(())
    }

    /// Whether no other node changed the file since `begin_copy`.
    pub(in crate::file) fn is_copy_good(&self) -> Result<bool> {
        let Some(holds) = self.holds() else { return Ok(true) };
        let (copied, kept) = {
            let state = self.held.state.lock();
            (state.change.copied, state.change.kept_claim())
        };
        match copied {
            None => Ok(false),
            Some(Copied::UnderClaim(claim)) => Ok(kept == Some(claim)),
            Some(Copied::UnderHold(right)) => self.is_acknowledged(holds, &right),
        }
    }

    /// Whether the layout may be changed: the caller has `io` and the claim.
    pub(in crate::file) fn may_publish(&self) -> bool {
        self.io.is_locked_exclusive() && matches!(self.held.state.lock().change.stage, Stage::Granted(..))
    }

    /// Publishes a layout under the claim of the caller. It holds `record` and `io`.
    pub(in crate::file) fn publish_held(&self, holds: &Holds, new: &mut Layout) -> Result<Outcome> {
        let node = {
            let mut state = self.held.state.lock();
            let Stage::Granted(node, generation) = state.change.stage else { return Err(busy()) };
            new.generation = generation;
            (state.change.stage, state.change.kept) = (Stage::Publishing, false);
            (state.change.next, state.change.outcome) = (Some(new.clone()), None);
            // A step of an earlier number that ends late has no outcome for this change.
            state.change.publishing = None;
            node
        };
        // If the lease ended before, other nodes may have treated the new objects as orphans.
        let held = self.pool.cluster.get().map_or(Ok(true), |cluster| holds_lease(cluster, node));
        if !held.unwrap_or(false) {
            self.held.state.lock().change.stage = Stage::Idle;
            holds.feed(node, Event::Done(self.key(), false));
            return Err(Error::Elsewhere("this node lost its lease while it changed the layout of the file".into()));
        }
        holds.feed(node, Event::Done(self.key(), true));
        let created = self.await_publication(holds, node);
        let mut state = self.held.state.lock();
        state.change.stage = Stage::Idle;
        let Some(created) = created else {
            let why = "this node lost its lease while it changed the layout of the file, or another node changed it";
            return Ok(Outcome::Unknown(Error::Elsewhere(why.into())));
        };
        // Every record that names the new objects is gone with the inode.
        if state.removed && created != Created::Yes {
            return Ok(Outcome::Not(Errno::STALE.into()));
        }
        let stamp = state.looked.as_ref().filter(|(of, _)| *of == new.generation).map(|(_, record)| record.stamp);
        drop(state);
        let outcome = self.outcome_of(self.pool.cluster.get(), node, created);
        // Otherwise the view stays that of the generation before.
        if let (Outcome::Happened, Some(stamp)) = (&outcome, stamp) {
            let mut state = self.held.state.lock();
            state.loaded = Some((new.generation, stamp));
            state.basis.iter_mut().for_each(|basis| basis.generation = new.generation);
        }
        Ok(outcome)
    }

    fn await_publication(&self, holds: &Holds, node: Node) -> Option<Created> {
        loop {
            let woken = {
                let state = self.held.state.lock();
                if let Some(created) = state.change.outcome {
                    return created;
                }
                state.woken
            };
            if !self.held.wait(woken, Instant::now() + Duration::from_millis(100)) && !holds.is_under(node) {
                return None;
            }
            if self.pool.cluster.get().is_some_and(|cluster| cluster.standing(node) == Standing::Lost) {
                return None;
            }
        }
    }
}
