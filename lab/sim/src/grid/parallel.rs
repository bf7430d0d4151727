//! Independent worlds in parallel; results do not depend on the number of threads.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

thread_local! {
    /// Whether this thread is one of several that simulate.
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` on this thread alone: [`side_by_side`] inside it starts no threads.
pub fn alone<R>(work: impl FnOnce() -> R) -> R {
    let before = ALONE.replace(true);
    let result = work();
    ALONE.set(before);
    result
}

/// Runs each job; results are in the order of the jobs. `threads` defaults to the number of cores.
pub fn side_by_side<T: Sync, R: Send>(jobs: &[T], threads: Option<usize>, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    if ALONE.get() {
        return jobs.iter().map(work).collect();
    }
    let cores = || thread::available_parallelism().map_or(1, Into::into);
    let mut done: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
    as_they_end(jobs, threads.unwrap_or_else(cores), || true, work, |at, result| done[at] = Some(result));
    done.into_iter().flatten().collect()
}

/// Runs each job, and passes each result with the number of its job to `take` as soon as it is complete. Begins no
/// further job once `go_on` returns false.
pub(super) fn as_they_end<T: Sync, R: Send>(
    jobs: &[T],
    threads: usize,
    go_on: impl Fn() -> bool + Sync,
    work: impl Fn(&T) -> R + Sync,
    mut take: impl FnMut(usize, R),
) {
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            let (send, next, go_on, work) = (send.clone(), &next, &go_on, &work);
            scope.spawn(move || {
                while go_on() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at) else { break };
                    if send.send((at, work(job))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        receive.into_iter().for_each(|(at, result)| take(at, result));
    });
}
