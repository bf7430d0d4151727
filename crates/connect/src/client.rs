//! Client library of the file system: a second path for bytes, beside the mount of a connection.
//!
//! A mount moves bytes through the kernel and the process that serves it; a library sends them from this process.
//! Names, attributes, appends and syncs use the mount, which each connection has anyway. Both reach the same server
//! without caches of their own, so they may be mixed.
//!
//! The library is asynchronous: an operation is begun with a completion callback. So an answer goes from the
//! library's thread straight to the kernel, as in a mount of the library's own.

use crate::aligned::Aligned;
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

/// Connection of a client library.
pub trait Client: fmt::Debug + Send + Sync {
    /// Opens a file that is already open on the mount.
    fn open(&self, mounted: BorrowedFd<'_>, flags: OFlags) -> Result<Arc<dyn ClientFile>>;
    /// Sends a request to the server: fails, or hangs, if the connection is broken.
    fn probe(&self) -> Result<()>;
    /// Ends all operations under way with an error.
    fn take_out(&self);
}

/// Completion callback of a read. Called once, on a thread that must not block.
pub type ReadDone = Box<dyn FnOnce(Result<Aligned>) + Send>;
/// Completion callback of a write, with the number of bytes written; called as [`ReadDone`].
pub type WriteDone = Box<dyn FnOnce(Result<usize>) + Send>;

/// File that is open over a client library.
pub trait ClientFile: fmt::Debug + Send + Sync {
    /// Begins a read at `offset`; returns fewer bytes only at the end of the file.
    fn begin_read(&self, length: usize, offset: u64, done: ReadDone);
    /// Begins a write at `offset`. The bytes are not needed any more when this returns.
    fn begin_write(&self, data: &[u8], offset: u64, done: WriteDone);

    /// Reads at `offset` and waits.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let bytes = wait(|done| self.begin_read(buffer.len(), offset, Box::new(done)))?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    /// Writes at `offset` and waits.
    fn write_at(&self, data: &[u8], offset: u64) -> Result<usize> {
        wait(|done| self.begin_write(data, offset, Box::new(done)))
    }
}

/// Begins an operation and waits for its completion.
fn wait<T: Send + 'static>(begin: impl FnOnce(Box<dyn FnOnce(Result<T>) + Send>)) -> Result<T> {
    let (sender, ended) = sync_channel(1);
    begin(Box::new(move |result| drop(sender.send(result))));
    ended.recv().unwrap_or(Err(Errno::IO))
}
