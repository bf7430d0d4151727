//! Space of the volume: that of the usable targets, with the inodes of the namespace.

use super::Server;
use super::answer::Answer;
use fuser::ReplyStatfs;
use rustix::fs::StatVfs;
use rustix::io::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Unit of `statfs`.
const BLOCK_BYTES: u64 = 4096;
/// Age above which figures are measured again first.
const AGE_MAX: Duration = Duration::from_secs(1);
/// Timeout of a target's measurement; after it the old figures count. A guess: `df` should not hang with a target.
const WAIT_MAX: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(2);

impl Server {
    /// Answers at once if the figures are new, else on the slow pool after a measurement.
    pub fn statfs(self: &Arc<Self>, uid: u32, answer: Answer<ReplyStatfs>) {
        if !self.parts.targets.measure_older(AGE_MAX) {
            return answer.give(self.space());
        }
        let server = self.clone();
        self.hand_over(uid, answer, move |answer| {
            let begun = Instant::now();
            while server.parts.targets.has_older(AGE_MAX) && begun.elapsed() < WAIT_MAX {
                std::thread::sleep(PAUSE);
            }
            answer.give(server.space());
        });
    }

    /// Current figures, without a measurement.
    pub fn space(&self) -> Result<StatVfs> {
        let space = self.parts.targets.space();
        let free = space.free_bytes / BLOCK_BYTES;
        let names = self.parts.namespace.space()?;
        Ok(StatVfs {
            f_blocks: space.total_bytes / BLOCK_BYTES,
            f_bfree: free,
            f_bavail: free,
            f_bsize: BLOCK_BYTES,
            f_frsize: BLOCK_BYTES,
            ..names
        })
    }
}
