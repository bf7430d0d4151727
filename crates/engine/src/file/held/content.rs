//! Content of a small file that this node read under a hold that caches. Later reads under the hold take it from memory.

use super::File;
use crate::Result;
use object::admission::Held;
use policy::cluster::Node;

/// Largest content that is kept. A guess.
const FILE_MAX: u64 = 16 << 10;

/// Content of a stub.
pub(super) struct Content {
    /// Node and number of the hold under which it was read.
    hold: (Node, u64),
    /// Changes of the stub by this node before.
    changes: u64,
    bytes: Vec<u8>,
    _held: Held,
}

/// Fills a buffer with the bytes from an offset on, and with zeros beyond their end.
fn fill(buf: &mut [u8], bytes: &[u8], offset: u64) {
    let from = bytes.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
    let len = buf.len().min(bytes.len() - from);
    buf[..len].copy_from_slice(&bytes[from..from + len]);
    buf[len..].fill(0);
}

impl File {
    /// Reads from a stub that has the content of the file. Bytes beyond its end are zeros.
    pub(in crate::file) fn read_stub(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let size = self.size();
        let Some(hold) = self.caching_hold().filter(|_| size <= FILE_MAX) else {
            let read = self.stub.read_at(offset, buf)?;
            buf[read..].fill(0);
            return Ok(());
        };
        let mut kept = self.held.content.lock();
        // A change is counted when it is over.
        let changes = self.stub_unsynced.changes();
        if let Some(content) = kept.as_ref().filter(|content| (content.hold, content.changes) == (hold, changes)) {
            fill(buf, &content.bytes, offset);
            return Ok(());
        }
        let mut bytes = vec![0; size as usize];
        let read = self.stub.read_at(0, &mut bytes)?;
        bytes.truncate(read);
        fill(buf, &bytes, offset);
        *kept = match self.pool.contents.take(0, size) {
            Ok(held) if self.stub_unsynced.changes() == changes => Some(Content { hold, changes, bytes, _held: held }),
            _ => None,
        };
        Ok(())
    }
}
