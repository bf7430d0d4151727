//! A look at what may hang: one at a time, on a thread of its own, and everybody who asks meanwhile gets what it finds.
//!
//! A look that takes too long is not given up, since nothing can end it; until it ends, no further one is begun. So however
//! many ask, a thing that hangs holds one thread.

use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// What is looked at, and what was found last.
pub struct Look<T> {
    /// What was found is shown for so long: however many ask, looks are bounded.
    fresh: Duration,
    /// Who asks waits no longer.
    patience: Duration,
    state: Mutex<State<T>>,
}

struct State<T> {
    kept: Option<Kept<T>>,
    under_way: Option<(String, JoinHandle<T>)>,
}

struct Kept<T> {
    at: Instant,
    what: String,
    /// `None`: it does not answer.
    found: Option<T>,
}

impl<T: Clone + Send + 'static> Look<T> {
    /// What was found is good for that long, and so long is it waited for.
    pub fn new(fresh: Duration, patience: Duration) -> Look<T> {
        Look { fresh, patience, state: Mutex::new(State { kept: None, under_way: None }) }
    }

    /// What `look` at `what` finds, or found just now; `None` if it does not answer.
    pub async fn at(&self, what: &str, look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let mut state = self.state.lock().await;
        if let Some(kept) = state.kept.as_ref().filter(|kept| kept.at.elapsed() < self.fresh)
            && (kept.what == what || kept.found.is_none())
        {
            return kept.found.clone();
        }
        let until = tokio::time::Instant::now() + self.patience;
        let mut found = None;
        // One at something else, which took too long, comes first.
        if let Some((other, handle)) = state.under_way.as_mut() {
            let is_same = other == what;
            if let Ok(ended) = tokio::time::timeout_at(until, handle).await {
                state.under_way = None;
                found = ended.ok().filter(|_| is_same);
            }
        }
        if state.under_way.is_none() && found.is_none() {
            // It stays in the state while it is waited for: who asked may go away meanwhile.
            let (_, handle) = state.under_way.insert((what.to_owned(), tokio::task::spawn_blocking(look)));
            if let Ok(ended) = tokio::time::timeout_at(until, handle).await {
                state.under_way = None;
                found = ended.ok();
            }
        }
        state.kept = Some(Kept { at: Instant::now(), what: what.to_owned(), found: found.clone() });
        found
    }
}
