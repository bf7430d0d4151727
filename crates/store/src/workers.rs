//! The threads of one part of the daemon: named, counted, and waited for at the end, with a bound.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The end waits so long for the threads of one part. A guess: longer than a target's deadline, and no longer than the end
/// of the daemon has for all.
const END_SPAN: Duration = Duration::from_secs(30);

/// The threads of one part.
pub(crate) struct Workers(Arc<Shared>);

struct Shared {
    /// Of what, for the log.
    of: &'static str,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    running: Vec<String>,
    ends: bool,
}

impl Workers {
    /// None yet.
    pub fn of(of: &'static str) -> Workers {
        Workers(Arc::new(Shared { of, state: Mutex::default(), changed: Condvar::new() }))
    }

    /// Starts a thread. Where there is none to be had, the log says so.
    pub fn start(&self, name: &str, work: impl FnOnce() + Send + 'static) {
        self.0.state.lock().running.push(name.to_owned());
        let running = Running { shared: self.0.clone(), name: name.to_owned() };
        let body = move || {
            let _running = running;
            work();
        };
        // What is not started is dropped, and with it its name.
        let started = std::thread::Builder::new().name(name.into()).spawn(body);
        if let Err(error) = started {
            tracing::error!("no thread {name} for {}, which stands still: {error}", self.0.of);
        }
    }

    /// Rests so long, or less if the end comes. Whether it goes on.
    pub fn rest(&self, span: Duration) -> bool {
        let until = Instant::now() + span;
        let mut state = self.0.state.lock();
        while !state.ends && !self.0.changed.wait_until(&mut state, until).timed_out() {}
        !state.ends
    }

    /// Ends their rests and waits for them to end; whoever calls has told them. What hangs is left behind.
    pub fn stop(&self) {
        let until = Instant::now() + END_SPAN;
        let mut state = self.0.state.lock();
        state.ends = true;
        self.0.changed.notify_all();
        while !state.running.is_empty() {
            if self.0.changed.wait_until(&mut state, until).timed_out() {
                tracing::warn!("threads of {} do not end and are left behind: {}", self.0.of, state.running.join(", "));
                return;
            }
        }
    }
}

/// A thread, from its start to its end.
struct Running {
    shared: Arc<Shared>,
    name: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("bug: the thread {} of {} panicked", self.name, self.shared.of);
        }
        let mut state = self.shared.state.lock();
        if let Some(at) = state.running.iter().position(|name| *name == self.name) {
            state.running.swap_remove(at);
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn the_end_wakes_who_rests_and_waits_for_all() {
        let workers = Arc::new(Workers::of("a test"));
        let ended = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let (resting, ended) = (workers.clone(), ended.clone());
            workers.start("rests", move || {
                assert!(!resting.rest(Duration::from_secs(3600)));
                ended.fetch_add(1, Ordering::SeqCst);
            });
        }
        workers.start("panics", || panic!("as it must"));
        workers.stop();
        assert_eq!(ended.load(Ordering::SeqCst), 3);
        assert!(!workers.rest(Duration::from_secs(3600)), "nothing rests after the end");
    }
}
