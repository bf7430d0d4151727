//! Threads: the one place that starts them. Only the libraries for FUSE and for sources start threads of their own.
//!
//! | what | when |
//! |---|---|
//! | [`apart`], [`within`] | one piece of work beside the caller, with or without a time limit |
//! | [`side_by_side`] | the same work several times, and the caller waits for all |
//! | [`Pool`] | work that comes now and then or at a time: its threads start with it and end when idle |
//! | [`Periodic`] | work of a pool that recurs: at its own deadlines and when woken, one run at a time |
//! | [`Workers`] | loops that run until the end of the daemon |

mod periodic;

use parking_lot::{Condvar, Mutex, MutexGuard};
pub use periodic::Periodic;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Time limit for the threads of one part at the end. A guess: longer than a target's deadline, and no longer than the
/// limit for the whole daemon.
pub const END_SPAN: Duration = Duration::from_secs(30);

/// Time after which an idle thread of a pool ends. A guess: threads are cheap to start, not free to keep.
const IDLE_SPAN: Duration = Duration::from_secs(10);
/// The same beside a thread that watches for the time of work. A guess: requests in a row come sooner.
const BESIDE_SPAN: Duration = Duration::from_millis(100);

/// Starts a thread. A failure to start and a panic are logged.
pub(crate) fn start(name: &str, stack_bytes: Option<usize>, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    let thread = stack_bytes.into_iter().fold(thread, std::thread::Builder::stack_size);
    let started = thread.spawn(move || survive(body));
    started.map(drop).inspect_err(|error| tracing::error!("no thread {name} can be started: {error}"))
}

fn survive(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        tracing::error!("bug: a thread {} panicked", std::thread::current().name().unwrap_or_default());
    }
}

/// Runs `work` on a thread of its own; the receiver gets its result. A failure to start is logged.
///
/// # Errors
/// The system starts no more threads.
pub fn apart<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<Receiver<T>> {
    let (answer, answered) = channel();
    // The caller may have dropped the receiver.
    start(name, None, move || drop(answer.send(work())))?;
    Ok(answered)
}

/// Results of all `works`, each on a thread of its own. `None` for works that exceed `limit`; their threads are left
/// behind.
pub fn within<T: Send + 'static, W: FnOnce() -> T + Send + 'static>(
    limit: Duration,
    name: &str,
    works: impl IntoIterator<Item = W>,
) -> Vec<Option<T>> {
    let begun: Vec<_> = works.into_iter().map(|work| apart(name, work)).collect();
    let until = Instant::now() + limit;
    let left = || until.saturating_duration_since(Instant::now());
    begun.into_iter().map(|begun| begun.ok()?.recv_timeout(left()).ok()).collect()
}

/// Runs `work` `count` times at the same time, with the numbers from 0, and waits for all results.
pub fn side_by_side<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..count).map(|number| scope.spawn(move || work(number))).collect();
        let first = (count > 0).then(|| work(0));
        let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        first.into_iter().chain(others).collect()
    })
}

/// Threads that start with the work and end when idle for a while. Their number is bounded; the queue is not. While work
/// waits for its time, one thread more than that watches for it, so that other work never delays it.
#[derive(Clone)]
pub struct Pool(Arc<Crew>);

struct Crew {
    name: &'static str,
    idle_span: Duration,
    stack_bytes: Option<usize>,
    state: Mutex<State>,
    /// Signalled when work was added or the pool ends.
    came: Condvar,
    /// Signalled when the thread that watches for the time of work has to look again.
    earlier: Condvar,
    /// Signalled when a thread ended.
    went: Condvar,
}

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    /// Work that is not due yet, the first due first.
    timed: VecDeque<(Instant, Work)>,
    threads_max: usize,
    threads: usize,
    idle: usize,
    /// Whether one of the idle threads watches for the time of the first work that has one.
    watched: bool,
    /// Threads with work of the queue, and those with work that had a time.
    busy: usize,
    timely: usize,
    ended: bool,
}

impl State {
    fn at_work(&mut self, had_time: bool) -> &mut usize {
        if had_time { &mut self.timely } else { &mut self.busy }
    }
}

impl Pool {
    /// Returns a pool without threads.
    pub fn new(name: &'static str, threads_max: usize) -> Pool {
        Pool::with(name, threads_max, IDLE_SPAN, None)
    }

    /// Returns a pool with another idle time and stack size than the default.
    pub fn with(name: &'static str, threads_max: usize, idle_span: Duration, stack_bytes: Option<usize>) -> Pool {
        let state = State { threads_max, ..State::default() };
        let (came, earlier, went) = (Condvar::new(), Condvar::new(), Condvar::new());
        Pool(Arc::new(Crew { name, idle_span, stack_bytes, state: Mutex::new(state), came, earlier, went }))
    }

    /// Changes the maximum of threads for later work.
    pub fn limit(&self, threads_max: usize) {
        self.0.state.lock().threads_max = threads_max;
    }

    /// Queues `work` for the pool's threads.
    ///
    /// # Errors
    /// The pool has ended, or it has no thread and the system starts none.
    pub fn push(&self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut state = self.0.open()?;
        state.queue.push_back(Box::new(work));
        self.0.staff(&mut state).inspect_err(|_| drop(state.queue.pop_back()))
    }

    /// As `push`, for the only queued work of a pool, which empties a queue of its own: several calls before it begins
    /// count as one.
    ///
    /// # Errors
    /// As for `push`.
    pub fn wake(&self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        if self.0.open()?.queue.is_empty() { self.push(work) } else { Ok(()) }
    }

    /// As `push`, for work that begins at `due`. Only other work with a time delays it. It is dropped at the end.
    ///
    /// # Errors
    /// As for `push`.
    pub fn at(&self, due: Instant, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut state = self.0.open()?;
        let at = state.timed.partition_point(|(other, _)| *other <= due);
        state.timed.insert(at, (due, Box::new(work)));
        if at > 0 {
            return Ok(()); // a thread waits already
        }
        if state.watched {
            self.0.earlier.notify_one();
            return Ok(());
        }
        self.0.staff(&mut state).inspect_err(|_| drop(state.timed.pop_front()))
    }

    /// Number of living threads.
    pub fn threads(&self) -> usize {
        self.0.state.lock().threads
    }

    /// Refuses more work and waits until the rest is done, for at most `timeout`. Returns whether all is done.
    pub fn stop(&self, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        let mut state = self.0.state.lock();
        state.ended = true;
        let dropped = std::mem::take(&mut state.timed);
        MutexGuard::unlocked(&mut state, || drop(dropped));
        self.0.came.notify_all();
        self.0.earlier.notify_one();
        self.0.went.wait_while_until(&mut state, |state| state.threads > 0, until);
        state.threads == 0
    }
}

impl Crew {
    fn open(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state.lock();
        if state.ended { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(state) }
    }

    /// Has enough threads for the queued work, and one that waits for work with a time.
    fn staff(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let waits = usize::from(!state.timed.is_empty());
        let threads_max = state.threads_max + waits.max(state.timely.min(1));
        if state.idle >= state.queue.len() + waits || state.threads >= threads_max {
            let is_other_idle = state.idle > usize::from(state.watched);
            if is_other_idle { &self.came } else { &self.earlier }.notify_one();
            return Ok(());
        }
        let crew = self.clone();
        match start(self.name, self.stack_bytes, move || crew.serve()) {
            Ok(()) => state.threads += 1,
            Err(_) if state.threads > 0 => {} // those there do it
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn serve(self: &Arc<Self>) {
        let mut state = self.state.lock();
        loop {
            let now = Instant::now();
            let is_due = state.timed.front().is_some_and(|(due, _)| *due <= now);
            let work = match is_due {
                true => state.timed.pop_front().map(|(_, work)| work),
                false if state.busy < state.threads_max => state.queue.pop_front(),
                false => None,
            };
            if let Some(work) = work {
                if !state.timed.is_empty() {
                    // A failed start has been logged; this thread returns to the work with a time.
                    drop(self.staff(&mut state));
                }
                *state.at_work(is_due) += 1;
                MutexGuard::unlocked(&mut state, || survive(work));
                *state.at_work(is_due) -= 1;
                continue;
            }
            if state.ended {
                break;
            }
            let due = state.timed.front().map(|(due, _)| *due).filter(|_| !state.watched);
            state.watched |= due.is_some();
            state.idle += 1;
            let came = if due.is_some() { &self.earlier } else { &self.came };
            let span = if state.timed.is_empty() { self.idle_span } else { self.idle_span.min(BESIDE_SPAN) };
            let until = due.unwrap_or(now + span);
            let is_over = came.wait_until(&mut state, until).timed_out();
            state.idle -= 1;
            state.watched &= due.is_none();
            let is_needed = !state.queue.is_empty() || !(state.timed.is_empty() || state.watched);
            if is_over && due.is_none() && !is_needed {
                break;
            }
        }
        state.threads -= 1;
        self.went.notify_all();
    }
}

/// The loops of one part of the daemon. Each has a name, and the end waits for each for a bounded time.
pub struct Workers {
    /// Name of the part, for the log.
    of: &'static str,
    /// Names of the threads, and the signals of their ends.
    running: Mutex<Vec<(String, Receiver<()>)>>,
}

impl Workers {
    /// Returns an empty set of threads.
    pub fn of(of: &'static str) -> Workers {
        Workers { of, running: Mutex::default() }
    }

    /// Starts a thread. A failure to start is logged; returns whether it started.
    pub fn start(&self, name: &str, work: impl FnOnce() + Send + 'static) -> bool {
        let mut running = self.running.lock();
        running.retain(|(_, ended)| ended.try_recv() == Err(TryRecvError::Empty));
        let started = apart(name, work);
        let has_started = started.is_ok();
        running.extend(started.map(|ended| (name.to_owned(), ended)));
        has_started
    }

    /// Waits for the threads to end, which the caller has requested. Hung threads are left behind.
    pub fn stop(&self) {
        let until = Instant::now() + END_SPAN;
        let mut running = std::mem::take(&mut *self.running.lock());
        running.retain(|(_, ended)| {
            ended.recv_timeout(until.saturating_duration_since(Instant::now())) == Err(RecvTimeoutError::Timeout)
        });
        if !running.is_empty() {
            let names: Vec<_> = running.into_iter().map(|(name, _)| name).collect();
            tracing::warn!("threads of {} do not end and are left behind: {}", self.of, names.join(", "));
        }
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
        let (end, told) = channel::<()>();
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

    #[test]
    fn threads_of_a_pool_come_with_the_work_up_to_the_limit_and_go_when_idle() {
        let pool = Pool::with("a-test", 2, Duration::from_millis(1), None);
        assert_eq!(pool.threads(), 0);
        let (open, gate) = channel::<()>();
        let (gate, done) = (Arc::new(Mutex::new(gate)), channel());
        for number in 0..5 {
            let (gate, done) = (gate.clone(), done.0.clone());
            let work = move || {
                assert!(gate.lock().recv().is_ok());
                done.send(number).unwrap();
            };
            pool.push(work).unwrap();
        }
        assert_eq!(pool.threads(), 2);
        (0..5).for_each(|_| open.send(()).unwrap());
        let mut all: Vec<_> = done.1.iter().take(5).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4]);
        while pool.threads() > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn work_begins_at_its_time_while_other_work_hangs_and_one_idle_thread_waits_for_it() {
        let pool = Pool::with("a-test", 2, Duration::from_millis(1), None);
        let ((done, order), (open, gate)) = (channel(), channel::<()>());
        let began = Instant::now();
        for ms in [40, 20] {
            let done = done.clone();
            pool.at(began + Duration::from_millis(ms), move || done.send(ms).unwrap()).unwrap();
        }
        pool.push(move || assert!(gate.recv().is_err())).unwrap();
        assert_eq!([order.recv(), order.recv()], [Ok(20), Ok(40)]);
        assert!(began.elapsed() >= Duration::from_millis(40));
        drop(open);
        pool.at(began + Duration::from_secs(3600), || panic!("it is dropped")).unwrap();
        while pool.threads() > 1 {
            std::thread::yield_now();
        }
        assert!(pool.stop(END_SPAN));
    }

    #[test]
    fn idle_threads_stay_beside_the_one_that_watches_the_time() {
        let pool = Pool::new("a-test", 1);
        pool.at(Instant::now() + Duration::from_secs(3600), || ()).unwrap();
        let threads = (0..50).map(|_| {
            let (done, finished) = channel();
            pool.push(move || done.send(std::thread::current().id()).unwrap()).unwrap();
            finished.recv().unwrap()
        });
        assert!(threads.collect::<std::collections::HashSet<_>>().len() <= 2);
        assert!(pool.stop(END_SPAN));
    }

    #[test]
    fn a_pool_ends_with_its_work_done_and_outlives_a_panic() {
        let pool = Pool::new("a-test", 1);
        let (open, gate) = channel::<()>();
        pool.push(|| panic!("as it must")).unwrap();
        pool.push(move || assert!(gate.recv().is_err())).unwrap();
        let (done, finished) = channel();
        for number in 0..3 {
            let done = done.clone();
            pool.wake(move || done.send(number).unwrap()).unwrap();
        }
        assert!(!pool.stop(Duration::ZERO));
        drop((open, done));
        assert!(pool.stop(END_SPAN));
        assert!(finished.iter().count() <= 1, "calls of work that has not begun are one");
        assert!(pool.push(|| ()).is_err());
    }

    #[test]
    fn work_that_is_late_is_left_behind() {
        let (open, gate) = channel::<()>();
        let gate = Arc::new(Mutex::new(Some(gate)));
        let answer = |late: bool| {
            let gate = gate.lock().take().filter(|_| late);
            move || gate.is_some_and(|gate| gate.recv().is_err())
        };
        let works = [answer(true), answer(false)];
        assert_eq!(within(Duration::ZERO, "a-test", works)[0], None);
        drop(open);
        assert_eq!(within(END_SPAN, "a-test", [|| 7]), [Some(7)]);
        assert_eq!(side_by_side(3, |number| number * 2), [0, 2, 4]);
        assert_eq!(side_by_side(0, |number| number), [0; 0]);
    }
}
