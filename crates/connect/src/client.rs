//! A way for bytes that is not a connection's mount: the file system's own client library, where there is one.
//!
//! A mount moves bytes through the kernel and through the process that serves it; a library has them in this process and sends them. Names,
//! attributes, appends and syncs go over the mount all the same, which each connection has anyway. Both ways reach the same server without
//! caches of their own, so they may be mixed.

use rustix::fs::OFlags;
use rustix::io::Result;
use std::fmt;
use std::os::fd::BorrowedFd;

/// A connection of the library's own.
pub trait Client: fmt::Debug + Send + Sync {
    /// Opens the file that is open on the mount.
    fn open(&self, mounted: BorrowedFd<'_>, flags: OFlags) -> Result<Box<dyn ClientFile>>;
    /// Asks the server something: fails, or hangs, if the connection is broken.
    fn probe(&self) -> Result<()>;
    /// What hangs on it comes back with an error.
    fn take_out(&self);
}

/// A file that is open over it.
pub trait ClientFile: fmt::Debug + Send + Sync {
    /// Reads at a place; less than asked for at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize>;
    /// Writes at a place.
    fn write_at(&self, data: &[u8], offset: u64) -> Result<usize>;
}
