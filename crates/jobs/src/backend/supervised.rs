//! Running parts: one thread waits for the ends of all of them, while there are any.

use crate::exec::outside::Supervisor;
use object::workers::Pool;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Pause after a failed wait, for lack of memory.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Supervised {
    parts: Mutex<Parts>,
    /// Readable after a change of `parts`.
    changed: OwnedFd,
    threads: Pool,
}

#[derive(Default)]
struct Parts {
    /// Running parts, and the functions to call at their ends.
    running: Vec<(Supervisor, Box<dyn FnOnce() + Send>)>,
    is_watched: bool,
    is_closed: bool,
}

impl Supervised {
    pub fn new(threads: Pool) -> std::io::Result<Arc<Supervised>> {
        let changed = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Supervised { parts: Mutex::default(), changed, threads }))
    }

    /// Calls `ended` at the end of the supervisor, unless the daemon ends first.
    pub fn add(self: &Arc<Self>, supervisor: Supervisor, ended: impl FnOnce() + Send + 'static) {
        let mut parts = self.parts.lock();
        parts.running.push((supervisor, Box::new(ended)));
        let own = self.clone();
        // If no thread starts, the failure is logged, and the thread of the next part watches this one as well.
        parts.is_watched = parts.is_watched || self.threads.push(move || own.watch()).is_ok();
        self.ring();
    }

    /// Ends the watch. Running parts go on under their supervisors.
    pub fn close(&self) {
        self.parts.lock().is_closed = true;
        self.ring();
    }

    fn ring(&self) {
        // The counter cannot overflow before the next read.
        let _ = rustix::io::write(&self.changed, &1u64.to_ne_bytes());
    }

    fn watch(&self) {
        loop {
            let processes: Vec<Arc<OwnedFd>> = {
                let mut parts = self.parts.lock();
                if parts.is_closed || parts.running.is_empty() {
                    parts.is_watched = false;
                    return;
                }
                parts.running.iter().map(|(supervisor, _)| supervisor.process.clone()).collect()
            };
            let mut fds = vec![PollFd::new(&self.changed, PollFlags::IN)];
            fds.extend(processes.iter().map(|process| PollFd::new(&**process, PollFlags::IN)));
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => std::thread::sleep(PAUSE),
            }
            let _ = rustix::io::read(&self.changed, &mut [0; 8]);
            let ended = processes.iter().zip(&fds[1..]).filter(|(_, fd)| !fd.revents().is_empty());
            ended.for_each(|(process, _)| self.ended(process));
        }
    }

    fn ended(&self, process: &Arc<OwnedFd>) {
        let mut parts = self.parts.lock();
        let Some(at) = parts.running.iter().position(|(running, _)| Arc::ptr_eq(&running.process, process)) else {
            return;
        };
        let (supervisor, ended) = parts.running.swap_remove(at);
        drop(parts);
        if let Some(mut child) = supervisor.child {
            let _ = child.wait();
        }
        // This thread belongs to the pool, so the pool has a thread.
        drop(self.threads.push(ended));
    }
}
