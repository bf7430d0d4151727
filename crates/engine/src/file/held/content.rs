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
        if let Some(hold) = self.caching_hold().filter(|_| self.size() <= FILE_MAX) {
            let changes = self.stub_unsynced.changes();
            let is_kept = |content: &&Content| (content.hold, content.changes) == (hold, changes);
            if let Some(content) = self.held.content.lock().as_ref().filter(is_kept) {
                fill(buf, &content.bytes, offset);
                return Ok(());
            }
            if let Some(bytes) = self.read_content(hold)? {
                fill(buf, &bytes, offset);
                return Ok(());
            }
        }
        let read = self.stub.read_at(offset, buf)?;
        buf[read..].fill(0);
        Ok(())
    }

    /// Size of a stub, with the content if it is small.
    pub(super) fn size_with_content(&self, hold: (Node, u64)) -> Result<u64> {
        self.read_content(hold)?.map_or_else(|| self.stub.size(), |bytes| Ok(bytes.len() as u64))
    }

    /// Reads the content of a stub and keeps it; `None` if it is large.
    fn read_content(&self, hold: (Node, u64)) -> Result<Option<Vec<u8>>> {
        // A change is counted when it is over.
        let changes = self.stub_unsynced.changes();
        let mut bytes = vec![0; FILE_MAX as usize + 1];
        let read = self.stub.read_first(&mut bytes)?;
        if read > FILE_MAX as usize {
            return Ok(None);
        }
        bytes.truncate(read);
        bytes.shrink_to_fit();
        let held = self.pool.contents.take(0, read as u64).ok();
        let kept = held.map(|held| Content { hold, changes, bytes: bytes.clone(), _held: held });
        *self.held.content.lock() = kept.filter(|_| self.stub_unsynced.changes() == changes);
        Ok(Some(bytes))
    }
}
