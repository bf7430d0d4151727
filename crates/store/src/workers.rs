//! The threads of one part of the daemon: named, counted, and waited for at the end, with a bound.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit for the threads of one part at the end. A guess: longer than a target's deadline, and no longer than the
/// limit for the whole daemon.
const END_SPAN: Duration = Duration::from_secs(30);

/// The threads of one part.
pub(crate) struct Workers(Arc<Shared>);

struct Shared {
    /// Name of the part, for the log.
    of: &'static str,
    running: Mutex<Vec<String>>,
    changed: Condvar,
}

impl Workers {
    /// Returns an empty set of threads.
    pub fn of(of: &'static str) -> Workers {
        Workers(Arc::new(Shared { of, running: Mutex::default(), changed: Condvar::new() }))
    }

    /// Starts a thread. A failure to start is logged; returns whether it started.
    pub fn start(&self, name: &str, work: impl FnOnce() + Send + 'static) -> bool {
        self.0.running.lock().push(name.to_owned());
        let running = Running { shared: self.0.clone(), name: name.to_owned() };
        let body = move || {
            let _running = running;
            work();
        };
        // If the thread does not start, `body` is dropped, and with it its name.
        let started = std::thread::Builder::new().name(name.into()).spawn(body);
        if let Err(error) = &started {
            tracing::error!("no thread {name} for {}, which stands still: {error}", self.0.of);
        }
        started.is_ok()
    }

    /// Number of running threads.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.0.running.lock().len()
    }

    /// Waits for the threads to end; the caller has asked them to. Hung threads are left behind.
    pub fn stop(&self) {
        let until = Instant::now() + END_SPAN;
        let mut running = self.0.running.lock();
        while !running.is_empty() {
            if self.0.changed.wait_until(&mut running, until).timed_out() {
                tracing::warn!("threads of {} do not end and are left behind: {}", self.0.of, running.join(", "));
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
        let mut running = self.shared.running.lock();
        if let Some(at) = running.iter().position(|name| *name == self.name) {
            running.swap_remove(at);
        }
        drop(running);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn the_end_waits_for_all() {
        let workers = Arc::new(Workers::of("a test"));
        let ended = Arc::new(AtomicUsize::new(0));
        let (end, told) = std::sync::mpsc::channel::<()>();
        let told = Arc::new(Mutex::new(told));
        for _ in 0..3 {
            let (told, ended) = (told.clone(), ended.clone());
            workers.start("waits", move || {
                assert!(told.lock().recv().is_err());
                ended.fetch_add(1, Ordering::SeqCst);
            });
        }
        workers.start("panics", || panic!("as it must"));
        drop(end);
        workers.stop();
        assert_eq!(ended.load(Ordering::SeqCst), 3);
    }
}
