//! How much space there is: the sum of what the usable targets have, with the inodes of the namespace.

use super::Server;
use super::convert::errno;
use crate::target::State;
use fuser::ReplyStatfs;

/// What `statfs` counts in.
const BLOCK_BYTES: u64 = 4096;

impl Server {
    pub fn space(&self, reply: ReplyStatfs) {
        let names = match self.parts.namespace.space() {
            Ok(names) => names,
            Err(error) => return reply.error(errno(error)),
        };
        let (mut total, mut free) = (0u64, 0u64);
        for target in self.parts.targets.all() {
            if target.state() != State::Failed {
                let space = target.space();
                total = total.saturating_add(space.total_bytes);
                // A draining target takes nothing new.
                if target.state() != State::Draining {
                    free = free.saturating_add(space.free_bytes);
                }
            }
        }
        let (total, free) = (total / BLOCK_BYTES, free / BLOCK_BYTES);
        reply.statfs(
            total,
            free,
            free,
            names.f_files,
            names.f_ffree,
            BLOCK_BYTES as u32,
            u32::try_from(names.f_namemax).unwrap_or(255),
            BLOCK_BYTES as u32,
        );
    }
}
