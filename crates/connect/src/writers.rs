//! Threads that wrote through an open file: their close must wait for the server, even when no server answers.
//!
//! A program that starts another one closes its `O_CLOEXEC` files there, and the kernel reports each as any other
//! close. If such a close waited for bytes that the server cannot take, the new program would hang in the middle of its
//! start. Programs that read its memory or command line, such as `ps`, would then hang as well. So while no connection
//! is usable, a close by a process that did not write does not wait. A process that wrote still has the file, and its
//! own close waits.

use parking_lot::Mutex;
use std::path::Path;

/// Maximum of threads that are recorded separately.
const THREADS_MAX: usize = 64;
/// A thread that the kernel did not name.
const UNKNOWN: u32 = 0;

/// Threads that wrote.
#[derive(Debug, Default)]
pub(crate) struct Writers(Mutex<Vec<u32>>);

impl Writers {
    /// Records a thread that wrote.
    pub fn add(&self, thread: u32) {
        let mut threads = self.0.lock();
        if !threads.contains(&thread) {
            let known = if threads.len() < THREADS_MAX { thread } else { UNKNOWN };
            threads.push(known);
            threads.truncate(THREADS_MAX + 1);
        }
    }

    /// Returns whether certainly no thread of the process of `thread` wrote.
    pub fn exclude(&self, thread: u32) -> bool {
        let threads = self.0.lock();
        thread != UNKNOWN && threads.iter().all(|writer| *writer != UNKNOWN && of_another_process(thread, *writer))
    }
}

/// Returns whether both threads live and belong to different processes.
fn of_another_process(thread: u32, writer: u32) -> bool {
    let of = |path: String| Path::new(&path).exists();
    of(format!("/proc/{writer}/stat"))
        && of(format!("/proc/{thread}/stat"))
        && !of(format!("/proc/{thread}/task/{writer}/stat"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread() -> u32 {
        rustix::thread::gettid().as_raw_nonzero().get() as u32
    }

    #[test]
    fn another_process_did_not_write_and_a_thread_of_the_same_may_have() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let writers = Writers::default();
        writers.add(std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                writers.add(thread());
                assert!(!writers.exclude(std::process::id()), "a thread of this process wrote");
                assert!(writers.exclude(child.id()));
                thread()
            });
            other.join().unwrap()
        }));
        writers.add(thread());
        assert!(!writers.exclude(thread()));
        writers.add(UNKNOWN);
        assert!(!writers.exclude(child.id()), "nobody knows who wrote");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_writer_that_is_gone_may_have_been_anybodys() {
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let writers = Writers::default();
        writers.add(gone.id());
        assert!(!writers.exclude(thread()));
        assert!(!writers.exclude(UNKNOWN));
    }

    #[test]
    fn many_threads_are_not_told_apart() {
        let writers = Writers::default();
        (1_000_000_000..1_000_000_200).for_each(|thread| writers.add(thread));
        assert_eq!(writers.0.lock().len(), THREADS_MAX + 1);
        assert!(!writers.exclude(thread()));
    }
}
