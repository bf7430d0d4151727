//! A layout comes before all nodes: as a generation that is made once.

use super::{Cluster, Patience, may_be_said};
use crate::file::{File, Pool};
use crate::{Error, Result};
use policy::ObjectId;
use policy::cluster::share::{self, Claim, Created, Published};
use policy::cluster::{Node, Standing};
use policy::layout::Layout;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What became of a layout that was to be published.
enum Outcome {
    Happened,
    /// Nor will it.
    Not(Error),
    /// Nobody knows.
    Unknown(Error),
}

/// Whether a stub is no more, by what its file system says.
fn is_gone(error: &Error) -> bool {
    matches!(error.errno(), Errno::STALE | Errno::NOENT)
}

impl File {
    /// Puts a layout into the stub as the next generation. The caller holds `record`.
    pub(in crate::file) fn publish(&self, new: &mut Layout) -> Result<()> {
        let Some(cluster) = self.cluster() else { return self.stub.set_layout(new) };
        let me = cluster.me()?;
        let alone = self.said.claim.load(Ordering::Acquire);
        let generation = self.said.generation.load(Ordering::Acquire) + 1;
        // An object of an earlier number of this node may be taken for garbage by others.
        let view = self.view();
        let epoch = cluster.epoch();
        let is_old = |id: ObjectId| id.epoch() != epoch && view.all().all(|slot| slot.id != id);
        if new.objects().any(|(_, object)| is_old(object.id)) {
            return Err(Error::Elsewhere("this node lost its lease while it made objects".into()));
        }
        if alone == 0 {
            let claim = Claim { node: me, generation, drains: false };
            let look = self.stub.look()?;
            if look.marks.generation + 1 != generation || !self.stub.claim(claim)? {
                return Err(Error::Busy("another node changes how the file lies".into()));
            }
        }
        // Of a node that was over before its claim was there, others may have taken the new objects for nobody's.
        if !may_be_said(cluster, me).unwrap_or(false) {
            if alone == 0 {
                let ended = self.end(me, Claim { node: me, generation, drains: false });
                tracing::debug!(?ended, "a claim of a node that has lost its lease");
            }
            return Err(Error::Elsewhere("this node lost its lease while it changed how the file lies".into()));
        }
        new.generation = generation;
        // Who keeps others out, does so beyond this change.
        let keeps = alone != 0
            && self.said.holds.load(Ordering::Acquire)
            && self.stub.claim(Claim { node: me, generation: generation + 1, drains: true })?;
        let answer = self.stub.publish(me, generation, Some(new));
        let outcome = self.outcome(cluster, me, new, answer);
        if let Outcome::Unknown(error) = outcome {
            let is_new = |id: &ObjectId| view.all().all(|slot| slot.id != *id);
            let new: Vec<_> = new.objects().map(|(_, object)| object.id).filter(is_new).collect();
            let names: Vec<_> = new.iter().map(ToString::to_string).collect();
            tracing::warn!(
                "nobody knows whether a layout names {}, which stays for ten minutes: {error}",
                names.join(", ")
            );
            new.into_iter().for_each(|id| self.pool.making.doubt(id));
            return Err(error);
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

    /// What became of a layout that was to be published.
    fn outcome(&self, cluster: &Arc<dyn Cluster>, me: Node, new: &Layout, answer: Result<bool>) -> Outcome {
        let elsewhere = |why: &str| Error::Elsewhere(why.into());
        let (created, error) = match answer {
            Ok(true) => (Some(Created::Yes), None),
            Ok(false) => (self.created(new), None),
            // It may have been done all the same, or be done yet, unless the generation is made as the layout was.
            Err(error) => match self.end(me, Claim { node: me, generation: new.generation, drains: true }) {
                // Without a lease it may have been made, and have gone, before that.
                Ok(true) if cluster.standing(me) == Standing::Held => return Outcome::Not(error),
                // The file is gone, and with it all that names its objects.
                Err(gone) if is_gone(&error) && is_gone(&gone) => return Outcome::Not(error),
                Ok(true) => (None, Some(error)),
                _ => (self.created(new), Some(error)),
            },
        };
        let Some(created) = created else {
            return Outcome::Unknown(error.unwrap_or_else(|| elsewhere("another node changed how the file lies")));
        };
        let mut patience = Patience::new();
        loop {
            match share::published(created, cluster.standing(me)) {
                Published::Happened => return Outcome::Happened,
                Published::Not => return Outcome::Not(elsewhere("another node took this one for dead")),
                Published::Unknown => {
                    return Outcome::Unknown(elsewhere("this node lost its lease while it changed how the file lies"));
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

    /// Whose the generation of a layout is that is there; `None` if nobody can say any more.
    fn created(&self, new: &Layout) -> Option<Created> {
        let (generation, layout) = self.stub.newest().ok()?;
        (generation == new.generation).then(|| Created::Exists { mine: layout.as_ref() == Some(new) })
    }

    /// Whether objects that were made for a layout may be removed when it was not taken: not by one that was taken for dead meanwhile.
    pub(crate) fn may_discard(pool: &Pool, object: ObjectId) -> bool {
        pool.cluster.get().is_none_or(|cluster| cluster.me().is_ok() && cluster.epoch() == object.epoch())
    }
}
