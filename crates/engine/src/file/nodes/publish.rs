//! Publication of a layout to all nodes: as a generation that is created exactly once.

use super::{Backoff, Cluster};
use crate::file::{File, Pool};
use crate::{Error, Result};
use policy::ObjectId;
use policy::cluster::share::{self, Created, Published};
use policy::cluster::{Node, Standing};
use policy::layout::Layout;
use std::sync::Arc;

/// Outcome of the publication of a layout.
pub(in crate::file) enum Outcome {
    /// The layout is published.
    Happened,
    /// The layout was not published, and never will be.
    Not(Error),
    /// The outcome cannot be determined.
    Unknown(Error),
}

impl File {
    /// Publishes a layout in the stub as the next generation. The caller holds `record`.
    pub(in crate::file) fn publish(&self, new: &mut Layout) -> Result<()> {
        let (Some(cluster), Some(holds)) = (self.cluster(), self.holds()) else { return self.stub.set_layout(new) };
        // Other nodes may remove objects with an earlier epoch of this node as garbage.
        let view = self.view();
        let epoch = cluster.epoch();
        let is_old = |id: ObjectId| id.epoch() != epoch && view.all().all(|slot| slot.id != id);
        if new.objects().any(|(_, object)| is_old(object.id)) {
            return Err(Error::Elsewhere("this node lost its lease while it made objects".into()));
        }
        match self.publish_held(holds, new)? {
            Outcome::Happened => Ok(()),
            Outcome::Not(error) => Err(error),
            Outcome::Unknown(error) => Err(self.doubt_objects(new, error)),
        }
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

    /// Outcome of a creation, by a look at the lease; waits while the lease may still be renewed.
    pub(in crate::file) fn outcome_of(
        &self,
        cluster: Option<&Arc<dyn Cluster>>,
        me: Node,
        created: Created,
    ) -> Outcome {
        let elsewhere = |why: &str| Error::Elsewhere(why.into());
        let standing = || cluster.map_or(Standing::Held, |cluster| cluster.standing(me));
        let mut backoff = Backoff::new();
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
                    if let Err(error) = backoff.wait(why) {
                        return Outcome::Unknown(error);
                    }
                }
            }
        }
    }

    /// Whether objects of an unpublished layout may be removed: only under the lease they were created under.
    pub(crate) fn may_discard(pool: &Pool, object: ObjectId) -> bool {
        pool.cluster.get().is_none_or(|cluster| cluster.me().is_ok() && cluster.epoch() == object.epoch())
    }
}
