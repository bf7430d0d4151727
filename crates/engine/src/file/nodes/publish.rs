//! Publication of a layout to all nodes: as a generation that is created exactly once.

use super::{Backoff, Cluster, may_be_said};
use crate::file::{File, Pool};
use crate::{Error, Result};
use policy::ObjectId;
use policy::cluster::share::{self, Claim, Created, Published};
use policy::cluster::{Node, Standing};
use policy::layout::Layout;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Outcome of the publication of a layout.
pub(in crate::file) enum Outcome {
    /// The layout is published.
    Happened,
    /// The layout was not published, and never will be.
    Not(Error),
    /// The outcome cannot be determined.
    Unknown(Error),
}

/// Whether the error shows that the stub no longer exists.
fn is_gone(error: &Error) -> bool {
    matches!(error.errno(), Errno::STALE | Errno::NOENT)
}

impl File {
    /// Publishes a layout in the stub as the next generation. The caller holds `record`.
    pub(in crate::file) fn publish(&self, new: &mut Layout) -> Result<()> {
        let Some(cluster) = self.cluster() else { return self.stub.set_layout(new) };
        let me = cluster.me()?;
        let alone = self.said.claim.load(Ordering::Acquire);
        let generation = self.said.generation.load(Ordering::Acquire) + 1;
        // Other nodes may remove objects with an earlier epoch of this node as garbage.
        let view = self.view();
        let epoch = cluster.epoch();
        let is_old = |id: ObjectId| id.epoch() != epoch && view.all().all(|slot| slot.id != id);
        if new.objects().any(|(_, object)| is_old(object.id)) {
            return Err(Error::Elsewhere("this node lost its lease while it made objects".into()));
        }
        if let Some(holds) = self.holds() {
            return match self.publish_held(holds, new)? {
                Outcome::Happened => Ok(()),
                Outcome::Not(error) => Err(error),
                Outcome::Unknown(error) => Err(self.doubt_objects(new, error)),
            };
        }
        if alone == 0 {
            let claim = Claim { node: me, generation, drains: false };
            let look = self.stub.look()?;
            if look.marks.generation + 1 != generation || !self.stub.claim(claim)? {
                return Err(Error::Busy("another node changes the layout of the file".into()));
            }
        }
        // If the lease ended before the claim existed, other nodes may have treated the new objects as orphans.
        if !may_be_said(cluster, me).unwrap_or(false) {
            if alone == 0 {
                let ended = self.end(me, Claim { node: me, generation, drains: false });
                tracing::debug!(?ended, "a claim of a node that has lost its lease");
            }
            return Err(Error::Elsewhere("this node lost its lease while it changed the layout of the file".into()));
        }
        new.generation = generation;
        // A held claim extends beyond this change.
        let keeps = alone != 0
            && self.said.holds.load(Ordering::Acquire)
            && self.stub.claim(Claim { node: me, generation: generation + 1, drains: true })?;
        let answer = self.stub.publish(me, generation, Some(new));
        let outcome = self.outcome(cluster, me, new, answer);
        if let Outcome::Unknown(error) = outcome {
            return Err(self.doubt_objects(new, error));
        }
        self.said.generation.store(generation, Ordering::Release);
        if alone != 0 {
            self.said.claim.store(if keeps { generation + 1 } else { 0 }, Ordering::Release);
        }
        if let Outcome::Not(error) = outcome {
            return Err(error);
        }
        match self.stub.look() {
            Ok(look) => self.tidy(&look),
            Err(error) => tracing::debug!("older layouts stay on a stub for now: {error}"),
        }
        Ok(())
    }

    /// Keeps the new objects of a layout that may be published.
    fn doubt_objects(&self, new: &Layout, error: Error) -> Error {
        let view = self.view();
        let is_new = |id: &ObjectId| view.all().all(|slot| slot.id != *id);
        let new: Vec<_> = new.objects().map(|(_, object)| object.id).filter(is_new).collect();
        let names: Vec<_> = new.iter().map(ToString::to_string).collect();
        tracing::warn!("a layout may name {}, which stays for ten minutes: {error}", names.join(", "));
        new.into_iter().for_each(|id| self.pool.making.doubt(id));
        error
    }

    /// Determines whether a layout was published.
    fn outcome(&self, cluster: &Arc<dyn Cluster>, me: Node, new: &Layout, answer: Result<bool>) -> Outcome {
        let elsewhere = |why: &str| Error::Elsewhere(why.into());
        let (created, error) = match answer {
            Ok(true) => (Some(Created::Yes), None),
            Ok(false) => (self.created(new), None),
            // The request may have taken effect, or may do so later, unless this generation gets published with the old
            // layout.
            Err(error) => match self.end(me, Claim { node: me, generation: new.generation, drains: true }) {
                // Without a lease the layout may have been published, and removed again, before that.
                Ok(true) if cluster.standing(me) == Standing::Held => return Outcome::Not(error),
                // The file is gone, together with every record that names its objects.
                Err(gone) if is_gone(&error) && is_gone(&gone) => return Outcome::Not(error),
                Ok(true) => (None, Some(error)),
                _ => (self.created(new), Some(error)),
            },
        };
        let Some(created) = created else {
            return Outcome::Unknown(error.unwrap_or_else(|| elsewhere("another node changed the layout of the file")));
        };
        self.outcome_of(Some(cluster), me, created)
    }

    /// Outcome of a creation, by a look at the lease; waits while the lease may still be renewed.
    pub(in crate::file) fn outcome_of(
        &self,
        cluster: Option<&Arc<dyn Cluster>>,
        me: Node,
        created: Created,
    ) -> Outcome {
        let elsewhere = |why: &str| Error::Elsewhere(why.into());
        let standing = || cluster.map_or(Standing::Held, |cluster| cluster.standing(me));
        let mut patience = Backoff::new();
        loop {
            match share::published(created, standing()) {
                Published::Happened => return Outcome::Happened,
                Published::Not => return Outcome::Not(elsewhere("another node expelled this node")),
                Published::Unknown => {
                    return Outcome::Unknown(elsewhere(
                        "this node lost its lease while it changed the layout of the file",
                    ));
                }
                Published::Wait => {
                    let why = || "the namespace does not answer, so this node has no lease".into();
                    if let Err(error) = patience.wait(why) {
                        return Outcome::Unknown(error);
                    }
                }
            }
        }
    }

    /// Creator of the existing generation; `None` if it cannot be determined any more.
    fn created(&self, new: &Layout) -> Option<Created> {
        let (generation, layout) = self.stub.newest().ok()?;
        (generation == new.generation).then(|| Created::Exists { mine: layout.as_ref() == Some(new) })
    }

    /// Whether objects of an unpublished layout may be removed: only under the lease they were created under.
    pub(crate) fn may_discard(pool: &Pool, object: ObjectId) -> bool {
        pool.cluster.get().is_none_or(|cluster| cluster.me().is_ok() && cluster.epoch() == object.epoch())
    }
}
