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
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    let mut done: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
    thread::scope(|scope| {
        for _ in 0..threads.unwrap_or_else(cores).clamp(1, jobs.len().max(1)) {
            let (send, next, work) = (send.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at) else { break };
                    if send.send((at, work(job))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        receive.into_iter().for_each(|(at, result)| done[at] = Some(result));
    });
    done.into_iter().flatten().collect()
}
