//! Numbers for objects and files that were never given before: the epoch above, a counter below.

use super::identity::Epochs;
use super::namespace;
use crate::{Error, Result};
use meta::state::State;
use object::target::{Medium, Targets};
use parking_lot::Mutex;
use policy::ObjectId;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Source of new numbers. A new epoch is durable before its first number is given, so no restart repeats one. The epoch
/// is in the state store, in the namespace and on every target. So numbers continue even if one of them is lost or
/// outdated.
pub struct Ids {
    state: Arc<dyn State>,
    namespace: PathBuf,
    targets: Arc<Targets>,
    next: Mutex<(u32, u32)>,
}

impl Ids {
    /// Starts a new epoch, above all existing ones; also returns the epochs seen before.
    pub(super) fn new(state: Arc<dyn State>, namespace: &Path, targets: Arc<Targets>) -> Result<(Ids, Epochs)> {
        let (epoch, seen) = new_epoch(&*state, namespace, &targets)?;
        let next = Mutex::new((epoch, 0));
        Ok((Ids { state, namespace: namespace.to_path_buf(), targets, next }, seen))
    }

    /// The epoch of the next number.
    pub fn epoch(&self) -> u32 {
        self.next.lock().0
    }

    /// Starts a new epoch, and returns it.
    pub fn new_epoch(&self) -> Result<u32> {
        let mut next = self.next.lock();
        *next = (new_epoch(&*self.state, &self.namespace, &self.targets)?.0, 0);
        Ok(next.0)
    }

    /// The next number.
    pub fn next_id(&self) -> Result<u64> {
        let mut next = self.next.lock();
        let (epoch, count) = *next;
        if count == u32::MAX {
            *next = (new_epoch(&*self.state, &self.namespace, &self.targets)?.0, 1);
            return Ok(u64::from(next.0) << 32);
        }
        next.1 += 1;
        Ok(u64::from(epoch) << 32 | u64::from(count))
    }

    /// Raises the epoch above that of a target that may have been away when the epoch was chosen.
    pub fn heed(&self, target: &object::target::Target) -> Result<()> {
        let read = |medium: &dyn Medium| known_to(medium, false);
        let known = target.run(read).map_err(|error| Error::Target { target: target.id(), error })?;
        let mut next = self.next.lock();
        if known > next.0 {
            tracing::warn!("target {} has a later epoch than this volume: numbers go on above it", target.name());
            *next = (new_epoch(&*self.state, &self.namespace, &self.targets)?.0, 0);
        }
        Ok(())
    }
}

/// Returns a target's last epoch, 0 if none. `look`: whether to derive it from the target's objects if it is not
/// recorded.
fn known_to(medium: &dyn Medium, look: bool) -> Result<u32, rustix::io::Errno> {
    match medium.epoch()? {
        Some(epoch) => Ok(epoch),
        None if look => Ok(medium.list()?.into_iter().map(ObjectId::epoch).max().unwrap_or(0)),
        None => Ok(0),
    }
}

fn new_epoch(state: &dyn State, namespace: &Path, targets: &Targets) -> Result<(u32, Epochs)> {
    let failed = |error: std::io::Error| Error::State(format!("the epoch in {}: {error}", namespace.display()));
    let mut seen =
        Epochs { state: state.epoch()?, namespace: namespace::read_epoch(namespace).map_err(failed)?, targets: 0 };
    // State and namespace that agree are no backups. Only then may a target without a recorded epoch be skipped.
    let look = seen.state != seen.namespace || seen.state == 0;
    let all = targets.all();
    let asked: Vec<_> = all.iter().map(|t| (t, t.submit(move |medium| known_to(medium, look)))).collect();
    for (target, answer) in asked {
        match answer.wait() {
            Ok(epoch) => seen.targets = seen.targets.max(epoch),
            Err(error) => tracing::debug!("the epoch of target {} cannot be read: {error}", target.name()),
        }
    }
    let epoch = state.new_epoch(seen.namespace.max(seen.targets))?;
    namespace::write_epoch(namespace, epoch).map_err(failed)?;
    let told: Vec<_> = all.iter().map(|t| (t, t.submit(move |medium| medium.set_epoch(epoch)))).collect();
    for (target, answer) in told {
        if let Err(error) = answer.wait() {
            tracing::debug!("the epoch is not written on target {}: {error}", target.name());
        }
    }
    Ok((epoch, seen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::state::SqliteState;

    fn no_targets() -> Arc<Targets> {
        Targets::new(object::target::TargetsOptions::inline())
    }

    #[test]
    fn numbers_go_on_where_a_counter_ends_and_after_a_restart() {
        let state: Arc<dyn State> = Arc::new(SqliteState::in_memory().unwrap());
        let dir = tempfile::tempdir().unwrap();
        let new = |state: &Arc<dyn State>| Ids::new(state.clone(), dir.path(), no_targets()).unwrap().0;
        let ids = new(&state);
        assert_eq!((ids.next_id().unwrap(), ids.next_id().unwrap()), (1 << 32, (1 << 32) + 1));
        ids.next.lock().1 = u32::MAX - 1;
        assert_eq!(ids.next_id().unwrap(), (1 << 32) + u64::from(u32::MAX) - 1);
        assert_eq!((ids.next_id().unwrap(), ids.next_id().unwrap()), (2 << 32, (2 << 32) + 1));
        assert_eq!(new(&state).next_id().unwrap(), 3 << 32);
        let lost: Arc<dyn State> = Arc::new(SqliteState::in_memory().unwrap());
        assert_eq!(new(&lost).next_id().unwrap(), 4 << 32, "another store repeats none");
    }
}
