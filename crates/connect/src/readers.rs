//! Limits the number of threads that wait for requests of the kernel.
//!
//! The kernel gives a request to the thread that has waited longest. With many waiting threads each request meets a
//! cold one, whose stack and buffer are in no cache, on a processor that must be woken. So only as many threads wait
//! as there are processors. The others are parked until a thread that took a request is about to block.
//!
//! ```text
//!   waits for a request -> took() -> answers -------------------> waits again, if too few others do
//!                             `-- about_to_wait() -> answers         else parked <- unparked when no thread waits
//!                                  unparks another, if no other thread waits
//! ```
//! The threads belong to the FUSE library, which starts them all waiting for requests; a thread is counted from its
//! first request on. When the mount ends, the first thread that ends releases all the others.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// Interval of checks for a free thread. A mount whose threads all block unannounced stops for at most this time.
pub(crate) const WATCH: Duration = Duration::from_secs(1);

/// The threads of one mount.
#[derive(Debug)]
pub(crate) struct ReaderPool {
    state: Mutex<State>,
    unparked: Condvar,
    /// Number of threads that are kept waiting for requests, if that many exist.
    keen: usize,
    watch: Duration,
}

#[derive(Debug, Default)]
struct State {
    /// Threads that wait for a request, of those that took one before.
    waiting: usize,
    parked: usize,
    /// Parked threads that were woken, and count as waiting already.
    called: usize,
    /// Whether one parked thread checks periodically whether it is needed.
    watched: bool,
    ended: bool,
}

/// Per-thread state of a thread that takes requests. Its drop marks the end of the thread.
struct Mine {
    readers: Arc<ReaderPool>,
    /// Whether the current request was announced as blocking.
    is_announced: bool,
}

impl Drop for Mine {
    fn drop(&mut self) {
        self.readers.end();
    }
}

thread_local! {
    static MINE: RefCell<Option<Mine>> = const { RefCell::new(None) };
}

/// Guard of a request; after its drop this thread may be parked.
#[must_use]
pub(crate) struct Took<'a>(&'a ReaderPool);

impl Drop for Took<'_> {
    fn drop(&mut self) {
        self.0.answered();
    }
}

/// Announces that this thread is about to block. No effect on threads outside a pool.
pub(crate) fn about_to_wait() {
    MINE.with_borrow_mut(|mine| {
        if let Some(mine) = mine
            && !std::mem::replace(&mut mine.is_announced, true)
        {
            mine.readers.replace();
        }
    });
}

impl ReaderPool {
    /// Creates a pool that keeps `keen` threads waiting, and checks every `watch` whether all of them are blocked.
    pub fn new(keen: usize, watch: Duration) -> Arc<ReaderPool> {
        Arc::new(ReaderPool { state: Mutex::default(), unparked: Condvar::new(), keen: keen.max(1), watch })
    }

    /// Begins a request that is not expected to block.
    pub fn took(self: &Arc<ReaderPool>) -> Took<'_> {
        MINE.with_borrow_mut(|mine| match mine {
            Some(mine) => {
                mine.is_announced = false;
                self.state.lock().waiting -= 1;
            }
            None => *mine = Some(Mine { readers: self.clone(), is_announced: false }),
        });
        Took(self)
    }

    /// Begins a request that may block.
    pub fn took_long(self: &Arc<ReaderPool>) -> Took<'_> {
        let took = self.took();
        about_to_wait();
        took
    }

    /// Wakes a parked thread if no thread waits for requests.
    fn replace(&self) {
        let mut state = self.state.lock();
        if state.waiting == 0 && state.parked > state.called {
            state.called += 1;
            state.waiting += 1;
            self.unparked.notify_one();
        }
    }

    fn answered(&self) {
        let mut state = self.state.lock();
        if state.ended || state.waiting < self.keen {
            state.waiting += 1;
            return;
        }
        state.parked += 1;
        while !(state.called > 0 || state.ended || self.wait(&mut state) && state.waiting == 0) {}
        state.parked -= 1;
        if state.called > 0 {
            state.called -= 1; // counted as waiting since it was woken
        } else {
            state.waiting += 1;
        }
    }

    /// Waits to be woken. One parked thread waits for at most `watch`; returns whether that time has passed.
    fn wait(&self, state: &mut MutexGuard<'_, State>) -> bool {
        if std::mem::replace(&mut state.watched, true) {
            self.unparked.wait(state);
            return false;
        }
        let late = self.unparked.wait_for(state, self.watch).timed_out();
        state.watched = false;
        if state.called > 0 || late && state.waiting == 0 {
            self.unparked.notify_one(); // another thread takes over the watch
        }
        late
    }

    /// Releases all threads: the mount is gone.
    fn end(&self) {
        self.state.lock().ended = true;
        self.unparked.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashSet, VecDeque};
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{JoinHandle, ThreadId, spawn};
    use std::time::Instant;

    type Request = Box<dyn FnOnce() + Send>;
    /// Waiting requests, threads that wait for them, and whether the queue has ended.
    type Queue = (Mutex<(VecDeque<Request>, VecDeque<ThreadId>, bool)>, Condvar);

    /// A model of the kernel: a queue of requests, taken by the thread that has waited longest.
    struct Mount {
        readers: Arc<ReaderPool>,
        queue: Arc<Queue>,
        threads: Vec<JoinHandle<()>>,
    }

    impl Mount {
        fn new(threads: usize, keen: usize, watch: Duration) -> Mount {
            let (readers, queue) = (ReaderPool::new(keen, watch), Arc::new((Mutex::default(), Condvar::new())));
            let serve = |_| {
                let (readers, queue) = (readers.clone(), queue.clone());
                spawn(move || {
                    while let Some(request) = take(&queue) {
                        let _took = readers.took();
                        request();
                    }
                })
            };
            let threads = (0..threads).map(serve).collect();
            Mount { readers, queue, threads }
        }

        fn ask(&self, request: impl FnOnce() + Send + 'static) {
            self.queue.0.lock().0.push_back(Box::new(request));
            self.queue.1.notify_all();
        }

        /// Sends a request and returns the thread that answered it.
        fn answer(&self) -> ThreadId {
            let (sender, answer) = channel();
            self.ask(move || sender.send(std::thread::current().id()).unwrap());
            answer.recv().unwrap()
        }

        /// Sends a request that blocks until its sender is dropped; returns once it blocks.
        fn waits(&self, says_so: bool) -> Sender<()> {
            let ((open, gate), (begun, begins)) = (channel::<()>(), channel());
            self.ask(move || {
                if says_so {
                    about_to_wait();
                }
                begun.send(()).unwrap();
                let _ = gate.recv();
            });
            begins.recv().unwrap();
            open
        }

        fn parked(&self) -> usize {
            self.readers.state.lock().parked
        }
    }

    fn take(queue: &Queue) -> Option<Request> {
        let mut state = queue.0.lock();
        let me = std::thread::current().id();
        state.1.push_back(me);
        loop {
            if state.2 {
                return None;
            }
            if state.1.front() == Some(&me) && !state.0.is_empty() {
                state.1.pop_front();
                queue.1.notify_all();
                return state.0.pop_front();
            }
            queue.1.wait(&mut state);
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            self.queue.0.lock().2 = true;
            self.queue.1.notify_all();
            self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        }
    }

    #[test]
    fn a_few_threads_take_all_requests_and_the_others_come_when_these_wait() {
        let mount = Mount::new(8, 2, Duration::from_secs(60));
        let until_parked = |wanted| {
            let until = Instant::now() + Duration::from_secs(60);
            while mount.parked() != wanted {
                assert!(Instant::now() < until, "{} are parked", mount.parked());
                mount.answer();
            }
        };
        until_parked(6);
        let warm: HashSet<_> = (0..50).map(|_| mount.answer()).collect();
        assert!(warm.len() <= 2, "{} threads", warm.len());
        let gates: Vec<_> = (0..7).map(|_| mount.waits(true)).collect();
        mount.answer();
        drop(gates);
        until_parked(6);
    }

    #[test]
    fn those_that_wait_without_a_word_are_replaced_all_the_same() {
        let mount = Mount::new(6, 1, Duration::from_millis(5));
        (0..12).map(|_| mount.answer()).for_each(|_| {});
        let gates = [mount.waits(false), mount.waits(false), mount.waits(false)];
        mount.answer();
        drop(gates);
    }

    #[test]
    fn the_end_of_one_is_the_end_of_all() {
        for requests in [0, 1, 3, 50] {
            let mount = Mount::new(4, 1, Duration::from_secs(60));
            (0..requests).map(|_| mount.answer()).for_each(|_| {});
        }
    }

    #[test]
    fn a_thread_of_nobodys_waits_as_it_likes() {
        about_to_wait();
    }
}
