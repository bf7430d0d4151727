//! Query that may hang: one at a time, on a thread of its own, shared by all clients of the same period.
//!
//! A query that takes too long cannot be cancelled; until it ends, no further one begins. So a hanging query holds one
//! thread, for any number of clients.

use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// A query and its last result.
pub struct CachedQuery<T> {
    /// Time that a result is reused, which bounds the number of queries.
    fresh: Duration,
    /// Maximum wait of a client.
    timeout: Duration,
    state: Mutex<State<T>>,
}

struct State<T> {
    kept: Option<CachedResult<T>>,
    under_way: Option<(String, JoinHandle<T>)>,
}

struct CachedResult<T> {
    at: Instant,
    what: String,
    /// `None`: the query did not end in time.
    found: Option<T>,
}

impl<T: Clone + Send + 'static> CachedQuery<T> {
    /// Creates a query whose results are reused for `fresh`; clients wait for at most `timeout`.
    pub fn new(fresh: Duration, timeout: Duration) -> CachedQuery<T> {
        CachedQuery { fresh, timeout, state: Mutex::new(State { kept: None, under_way: None }) }
    }

    /// Returns the result of `look` at `what`, or a fresh earlier one; `None` if there is no result in time.
    pub async fn at(&self, what: &str, look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let mut state = self.state.lock().await;
        if let Some(kept) = state.kept.as_ref().filter(|kept| kept.at.elapsed() < self.fresh)
            && (kept.what == what || kept.found.is_none())
        {
            return kept.found.clone();
        }
        let until = tokio::time::Instant::now() + self.timeout;
        let mut found = None;
        // A query of something else that took too long must end first.
        if let Some((other, handle)) = state.under_way.as_mut() {
            let is_same = other == what;
            if let Ok(ended) = tokio::time::timeout_at(until, handle).await {
                state.under_way = None;
                found = ended.ok().filter(|_| is_same);
            }
        }
        if state.under_way.is_none() && found.is_none() {
            // The handle stays in the state during the wait, since the client may disconnect.
            let (_, handle) = state.under_way.insert((what.to_owned(), tokio::task::spawn_blocking(look)));
            if let Ok(ended) = tokio::time::timeout_at(until, handle).await {
                state.under_way = None;
                found = ended.ok();
            }
        }
        state.kept = Some(CachedResult { at: Instant::now(), what: what.to_owned(), found: found.clone() });
        found
    }
}
