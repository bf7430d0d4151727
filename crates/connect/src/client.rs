//! A way for bytes that is not a connection's mount: the file system's own client library, where there is one.
//!
//! A mount moves bytes through the kernel and through the process that serves it; a library has them in this process and sends them. Names,
//! attributes, appends and syncs go over the mount all the same, which each connection has anyway. Both ways reach the same server without
//! caches of their own, so they may be mixed.
//!
//! Nobody waits for the library: an operation is begun, and what is to happen when it has ended goes with it. So an answer goes from the
//! library's thread straight to the kernel, as it does in a mount of the library's own.

use crate::aligned::Aligned;
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

/// A connection of the library's own.
pub trait Client: fmt::Debug + Send + Sync {
    /// Opens the file that is open on the mount.
    fn open(&self, mounted: BorrowedFd<'_>, flags: OFlags) -> Result<Arc<dyn ClientFile>>;
    /// Asks the server something: fails, or hangs, if the connection is broken.
    fn probe(&self) -> Result<()>;
    /// What is under way ends with an error.
    fn take_out(&self);
}

/// What happens when a read has ended. Called once, by a thread that must not be kept waiting.
pub type ReadDone = Box<dyn FnOnce(Result<Aligned>) + Send>;
/// What happens when a write has ended, with the bytes written; called as [`ReadDone`].
pub type WriteDone = Box<dyn FnOnce(Result<usize>) + Send>;

/// A file that is open over it.
pub trait ClientFile: fmt::Debug + Send + Sync {
    /// Begins to read at a place; less than asked for at the end of the file.
    fn begin_read(&self, length: usize, offset: u64, done: ReadDone);
    /// Begins to write at a place. The bytes are not needed any more when this returns.
    fn begin_write(&self, data: &[u8], offset: u64, done: WriteDone);

    /// Reads at a place and waits for it.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let bytes = wait(|tell| self.begin_read(buffer.len(), offset, Box::new(tell)))?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    /// Writes at a place and waits for it.
    fn write_at(&self, data: &[u8], offset: u64) -> Result<usize> {
        wait(|tell| self.begin_write(data, offset, Box::new(tell)))
    }
}

/// Begins something and waits for its end.
fn wait<T: Send + 'static>(begin: impl FnOnce(Box<dyn FnOnce(Result<T>) + Send>)) -> Result<T> {
    let (told, ended) = sync_channel(1);
    begin(Box::new(move |result| drop(told.send(result))));
    ended.recv().unwrap_or(Err(Errno::IO))
}
