//! Access of tests to the queues.

use super::{Job, Jobs};

impl Jobs {
    /// Takes the queued jobs that `which` selects.
    pub fn take_if(&self, mut which: impl FnMut(&Job) -> bool) -> Vec<Job> {
        let mut taken = Vec::new();
        for waiting in &self.lanes {
            let mut queue = waiting.queue.lock();
            let (now, later): (Vec<_>, Vec<_>) = queue.jobs.drain(..).partition(&mut which);
            queue.jobs.extend(later);
            taken.extend(now);
        }
        taken
    }
}
