//! Passing a request on to the slow pool, with its answer.

use super::Server;
use super::answer::{Answer, Reply};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::sync::Arc;

impl Server {
    /// Runs a user's `work` on the slow pool with the answer. Refuses the request if the pool is full.
    pub fn hand_over<R: Reply>(
        self: &Arc<Self>,
        uid: u32,
        answer: Answer<R>,
        work: impl FnOnce(Answer<R>) + Send + 'static,
    ) {
        let slot = Arc::new(Mutex::new(Some(answer)));
        let taken = slot.clone();
        let pushed = self.slow.push(
            uid,
            Box::new(move || {
                let answer = taken.lock().take();
                if let Some(answer) = answer {
                    work(answer);
                }
            }),
        );
        if pushed.is_err() {
            let answer = slot.lock().take();
            if let Some(answer) = answer {
                tracing::debug!(uid, "too many requests wait for targets; one is refused");
                answer.give(Err(Errno::BUSY));
            }
        }
    }
}
