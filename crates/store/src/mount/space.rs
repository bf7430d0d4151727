//! How much space there is: what the usable targets have, with the inodes of the namespace.

use super::Server;
use super::convert::errno;
use fuser::ReplyStatfs;

/// What `statfs` counts in.
const BLOCK_BYTES: u64 = 4096;

impl Server {
    pub fn space(&self, reply: ReplyStatfs) {
        let names = match self.parts.namespace.space() {
            Ok(names) => names,
            Err(error) => return reply.error(errno(error)),
        };
        let space = self.parts.targets.space();
        let (total, free) = (space.total_bytes / BLOCK_BYTES, space.free_bytes / BLOCK_BYTES);
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
