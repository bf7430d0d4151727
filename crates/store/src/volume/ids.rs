//! Numbers for objects and files that were never given before: the epoch above, a counter below.

use super::namespace;
use crate::state::State;
use crate::{Error, Result};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Gives numbers. A new epoch is durable before its first number is given, so no restart gives one again. It stands in
/// the state store and in the namespace, so that a state store that is lost, or older than it should be, repeats none.
pub struct Ids {
    state: Arc<dyn State>,
    namespace: PathBuf,
    next: Mutex<(u32, u32)>,
}

impl Ids {
    /// Starts a new epoch.
    pub fn new(state: Arc<dyn State>, namespace: &Path) -> Result<Ids> {
        let epoch = new_epoch(&*state, namespace)?;
        Ok(Ids { state, namespace: namespace.to_path_buf(), next: Mutex::new((epoch, 0)) })
    }

    /// The next number.
    pub fn next(&self) -> Result<u64> {
        let mut next = self.next.lock();
        let (epoch, count) = *next;
        if count == u32::MAX {
            *next = (new_epoch(&*self.state, &self.namespace)?, 1);
            return Ok(u64::from(next.0) << 32);
        }
        next.1 += 1;
        Ok(u64::from(epoch) << 32 | u64::from(count))
    }
}

fn new_epoch(state: &dyn State, namespace: &Path) -> Result<u32> {
    let failed = |error: std::io::Error| Error::State(format!("the epoch in {}: {error}", namespace.display()));
    let epoch = state.new_epoch(namespace::read_epoch(namespace).map_err(failed)?)?;
    namespace::write_epoch(namespace, epoch).map_err(failed)?;
    Ok(epoch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::SqliteState;

    #[test]
    fn numbers_go_on_where_a_counter_ends_and_after_a_restart() {
        let state: Arc<dyn State> = Arc::new(SqliteState::in_memory().unwrap());
        let dir = tempfile::tempdir().unwrap();
        let ids = Ids::new(state.clone(), dir.path()).unwrap();
        assert_eq!((ids.next().unwrap(), ids.next().unwrap()), (1 << 32, (1 << 32) + 1));
        ids.next.lock().1 = u32::MAX - 1;
        assert_eq!(ids.next().unwrap(), (1 << 32) + u64::from(u32::MAX) - 1);
        assert_eq!((ids.next().unwrap(), ids.next().unwrap()), (2 << 32, (2 << 32) + 1));
        assert_eq!(Ids::new(state, dir.path()).unwrap().next().unwrap(), 3 << 32);
        let lost: Arc<dyn State> = Arc::new(SqliteState::in_memory().unwrap());
        assert_eq!(Ids::new(lost, dir.path()).unwrap().next().unwrap(), 4 << 32, "another store repeats none");
    }
}
