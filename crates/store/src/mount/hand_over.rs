//! Passing a request on to the slow pool, with its reply.

use super::Server;
use super::convert::errno;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::sync::Arc;

impl Server {
    /// Runs a user's `work` on the slow pool with the reply; refuses the request when there is no place for it.
    pub fn hand_over<R: Send + 'static>(
        self: &Arc<Self>,
        uid: u32,
        reply: R,
        refuse: impl FnOnce(R, fuser::Errno) + Send + 'static,
        work: impl FnOnce(R) + Send + 'static,
    ) {
        let slot = Arc::new(Mutex::new(Some(reply)));
        let taken = slot.clone();
        let pushed = self.slow.push(
            uid,
            Box::new(move || {
                let reply = taken.lock().take();
                if let Some(reply) = reply {
                    work(reply);
                }
            }),
        );
        if pushed.is_err() {
            let reply = slot.lock().take();
            if let Some(reply) = reply {
                tracing::debug!(uid, "too many requests wait for targets; one is refused");
                refuse(reply, errno(Errno::BUSY));
            }
        }
    }
}
