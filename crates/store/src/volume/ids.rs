//! Numbers for objects and files that were never given before: the epoch above, a counter below.

use crate::Result;
use crate::state::State;
use parking_lot::Mutex;
use std::sync::Arc;

/// Gives numbers. A new epoch is durable before its first number is given, so no restart gives one again.
pub struct Ids {
    state: Arc<dyn State>,
    next: Mutex<(u32, u32)>,
}

impl Ids {
    /// Starts a new epoch.
    pub fn new(state: Arc<dyn State>) -> Result<Ids> {
        let epoch = state.new_epoch()?;
        Ok(Ids { state, next: Mutex::new((epoch, 0)) })
    }

    /// The next number.
    pub fn next(&self) -> Result<u64> {
        let mut next = self.next.lock();
        let (epoch, count) = *next;
        if count == u32::MAX {
            *next = (self.state.new_epoch()?, 1);
            return Ok(u64::from(next.0) << 32);
        }
        next.1 += 1;
        Ok(u64::from(epoch) << 32 | u64::from(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::SqliteState;

    #[test]
    fn numbers_go_on_where_a_counter_ends_and_after_a_restart() {
        let state: Arc<dyn State> = Arc::new(SqliteState::in_memory().unwrap());
        let ids = Ids::new(state.clone()).unwrap();
        assert_eq!((ids.next().unwrap(), ids.next().unwrap()), (1 << 32, (1 << 32) + 1));
        ids.next.lock().1 = u32::MAX - 1;
        assert_eq!(ids.next().unwrap(), (1 << 32) + u64::from(u32::MAX) - 1);
        assert_eq!((ids.next().unwrap(), ids.next().unwrap()), (2 << 32, (2 << 32) + 1));
        assert_eq!(Ids::new(state).unwrap().next().unwrap(), 3 << 32);
    }
}
