//! How much space there is: what the usable targets have, with the inodes of the namespace.

use super::Server;
use rustix::fs::StatVfs;
use rustix::io::Result;

/// What `statfs` counts in.
const BLOCK_BYTES: u64 = 4096;

impl Server {
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
