//! Few threads at a time take requests from the kernel.
//!
//! The kernel gives a request to the thread that has waited longest for one. With many waiting each request meets a cold thread: one whose
//! stack and buffer are in no cache any more, on a processor that has to be woken. So only as many wait as there are processors, and the
//! others are parked until those that took a request are about to wait for something.
//!
//! ```text
//!   waits for a request -> took() -> answers -------------------> waits again, if too few others do
//!                             `-- about_to_wait() -> answers         else parked <- unparked when nobody waits for requests
//!                                  unparks another, if nobody is left who waits for requests
//! ```
//! The threads belong to the FUSE library, which starts them all waiting for requests; of those that never took one nothing is known, and
//! they are not counted. When the mount goes, the first thread that ends lets all the others go to their end.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// A request that waits without having said so is not to stop the mount for longer.
pub(crate) const WATCH: Duration = Duration::from_secs(1);

/// The threads of one mount.
#[derive(Debug)]
pub(crate) struct ReaderPool {
    state: Mutex<State>,
    unparked: Condvar,
    /// So many wait for requests, if there are as many.
    keen: usize,
    watch: Duration,
}

#[derive(Debug, Default)]
struct State {
    /// Threads that wait for a request, of those that took one before.
    waiting: usize,
    parked: usize,
    /// Parked ones that were told to go on, and count as waiting already.
    called: usize,
    /// Whether one of the parked looks now and then whether it is needed.
    watched: bool,
    ended: bool,
}

/// What a thread that takes requests remembers. Dropped at its end.
struct Mine {
    readers: Arc<ReaderPool>,
    /// Whether its request may wait, which was seen to.
    said: bool,
}

impl Drop for Mine {
    fn drop(&mut self) {
        self.readers.end();
    }
}

thread_local! {
    static MINE: RefCell<Option<Mine>> = const { RefCell::new(None) };
}

/// A request was taken; its end is when this is dropped, and then this thread may be parked.
#[must_use]
pub(crate) struct Took<'a>(&'a ReaderPool);

impl Drop for Took<'_> {
    fn drop(&mut self) {
        self.0.answered();
    }
}

/// This thread is about to wait for something else than a request. Others do not matter.
pub(crate) fn about_to_wait() {
    MINE.with_borrow_mut(|mine| {
        if let Some(mine) = mine
            && !std::mem::replace(&mut mine.said, true)
        {
            mine.readers.replace();
        }
    });
}

impl ReaderPool {
    /// Keeps `keen` threads waiting for requests; looks every `watch` whether all of them wait for something else.
    pub fn new(keen: usize, watch: Duration) -> Arc<ReaderPool> {
        Arc::new(ReaderPool { state: Mutex::default(), unparked: Condvar::new(), keen: keen.max(1), watch })
    }

    /// This thread took a request, and does not expect to wait.
    pub fn took(self: &Arc<ReaderPool>) -> Took<'_> {
        MINE.with_borrow_mut(|mine| match mine {
            Some(mine) => {
                mine.said = false;
                self.state.lock().waiting -= 1;
            }
            None => *mine = Some(Mine { readers: self.clone(), said: false }),
        });
        Took(self)
    }

    /// This thread took a request that may wait.
    pub fn took_long(self: &Arc<ReaderPool>) -> Took<'_> {
        let took = self.took();
        about_to_wait();
        took
    }

    /// Sees to it that somebody waits for requests while this thread does not.
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
            state.called -= 1; // it counts as waiting since it was called
        } else {
            state.waiting += 1;
        }
    }

    /// Waits to be called; of all parked threads one for `watch` at most, and this says whether that is over.
    fn wait(&self, state: &mut MutexGuard<'_, State>) -> bool {
        if std::mem::replace(&mut state.watched, true) {
            self.unparked.wait(state);
            return false;
        }
        let late = self.unparked.wait_for(state, self.watch).timed_out();
        state.watched = false;
        if state.called > 0 || late && state.waiting == 0 {
            self.unparked.notify_one(); // another one watches
        }
        late
    }

    /// The mount is gone.
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
    /// Requests that wait, threads that wait for them, and whether all is over.
    type Queue = (Mutex<(VecDeque<Request>, VecDeque<ThreadId>, bool)>, Condvar);

    /// A kernel with a queue of requests and the threads that take them, the one that has waited longest first.
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

        /// Asks and waits for the answer: which thread it was.
        fn answer(&self) -> ThreadId {
            let (told, answer) = channel();
            self.ask(move || told.send(std::thread::current().id()).unwrap());
            answer.recv().unwrap()
        }

        /// Asks something that waits until its sender is dropped; returns when it waits.
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
