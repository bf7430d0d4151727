//! A file that is open over one connection: on its mount and, once bytes move, over its library, if it has one.

use crate::client::{Client, ClientFile};
use rustix::fs::OFlags;
use rustix::io::{Errno, Result, pread, pwrite, retry_on_intr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

/// File open on one connection.
#[derive(Debug)]
pub struct Opened {
    fd: OwnedFd,
    flags: OFlags,
    client: Option<Arc<dyn Client>>,
    file: OnceLock<Option<Arc<dyn ClientFile>>>,
}

impl Opened {
    /// Wraps a descriptor on the mount; `client` opens the file at the first transfer of bytes.
    pub fn new(fd: OwnedFd, flags: OFlags, client: Option<Arc<dyn Client>>) -> Opened {
        Opened { fd, flags, client, file: OnceLock::new() }
    }

    /// Returns the descriptor on the mount.
    pub fn mounted(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the file as open over the library; `None` if its bytes go over the mount.
    fn file(&self) -> Option<&dyn ClientFile> {
        let client = self.client.as_ref()?;
        let open = || {
            let opened = client.open(self.fd.as_fd(), self.flags);
            opened.inspect_err(|error| tracing::debug!(%error, "a file goes over the mount")).ok()
        };
        self.file.get_or_init(open).as_deref()
    }

    /// Returns the file as open over the library, if bytes have moved over it.
    pub fn over_library(&self) -> Option<Arc<dyn ClientFile>> {
        self.file.get()?.clone()
    }

    /// Reads until the buffer is full or the file ends.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let file = self.file();
        let mut got = 0;
        while got < buffer.len() {
            let (rest, at) = (&mut buffer[got..], offset + got as u64);
            let n = match file {
                Some(file) => file.read_at(rest, at)?,
                None => retry_on_intr(|| pread(&self.fd, &mut *rest, at))?,
            };
            if n == 0 {
                break;
            }
            got += n;
        }
        Ok(got)
    }

    /// Writes all bytes at `offset`.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<usize> {
        self.put(self.file(), offset, data)
    }

    /// Appends all bytes to a file that is open for appending, over the mount.
    pub fn append(&self, data: &[u8]) -> Result<usize> {
        self.put(None, 0, data)
    }

    fn put(&self, file: Option<&dyn ClientFile>, offset: u64, data: &[u8]) -> Result<usize> {
        let mut put = 0;
        while put < data.len() {
            let (rest, at) = (&data[put..], offset + put as u64);
            let n = match file {
                Some(file) => file.write_at(rest, at)?,
                None => retry_on_intr(|| pwrite(&self.fd, rest, at))?,
            };
            if n == 0 {
                return Err(Errno::IO);
            }
            put += n;
        }
        Ok(put)
    }
}
