//! The mount of a connection as other modules see it: an open directory.

use crate::client::Client;
use parking_lot::RwLock;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, fstatfs, openat, statat};
use rustix::io::{Errno, Result, fcntl_dupfd_cloexec};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Makes and removes the mounts of connections. Calls for one connection are serialised.
pub trait Mounts: Send + Sync {
    /// Mounts connection `number` and opens its root.
    fn mount(&self, number: u16) -> io::Result<OwnedFd>;
    /// Unmounts by force: operations that hang on the mount return with an error.
    fn take_out(&self, number: u16);
    /// Makes the library's connection to the server of connection `number`, if there is a library.
    fn client(&self, _number: u16) -> io::Result<Arc<dyn Client>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this type of file system has no supported client library"))
    }
    /// Server of connection `number`, for messages.
    fn source(&self, number: u16) -> String;
}

/// The root directory of one mount of one connection.
#[derive(Debug)]
pub struct Root {
    /// The root directory.
    pub fd: OwnedFd,
    /// Number of the connection.
    pub number: u16,
    /// Generation of the mount; grows with each remount.
    pub generation: u64,
    /// Whether it is a FUSE mount.
    fuse: bool,
    /// Whether files are opened with `O_DIRECT`, since the page cache would be one per connection.
    direct: bool,
    client: RwLock<Option<Arc<dyn Client>>>,
}

const FUSE: u64 = 0x6573_5546;
const NFS: u64 = 0x6969;
const CIFS: u64 = 0xff53_4d42;
const SMB2: u64 = 0xfe53_4d42;

impl Root {
    /// Wraps an open root directory.
    pub fn new(fd: OwnedFd, number: u16, generation: u64) -> Result<Root> {
        let kind = fstatfs(&fd)?.f_type as u64 & 0xffff_ffff;
        let direct = [FUSE, NFS, CIFS, SMB2].contains(&kind);
        Ok(Root { fd, number, generation, fuse: kind == FUSE, direct, client: RwLock::default() })
    }

    /// Sends bytes over this library's connection from now on.
    pub fn set_client(&self, client: Arc<dyn Client>) {
        *self.client.write() = Some(client);
    }

    /// Sends bytes over the mount from now on.
    pub fn clear_client(&self) {
        *self.client.write() = None;
    }

    /// Returns the library's connection, if there is one.
    pub fn client(&self) -> Option<Arc<dyn Client>> {
        self.client.read().clone()
    }

    /// Returns a duplicate of the directory's descriptor.
    pub fn own(&self) -> Result<OwnedFd> {
        fcntl_dupfd_cloexec(&self.fd, 0)
    }

    /// Opens a file below the root, with `O_DIRECT` where each connection has a page cache of its own.
    pub fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        if self.direct {
            match openat(&self.fd, path, flags | OFlags::DIRECT, Mode::empty()) {
                Err(Errno::INVAL) => {}
                other => return other,
            }
        }
        openat(&self.fd, path, flags, Mode::empty())
    }

    /// Sends a request to the server: fails, or hangs, if the connection is broken.
    pub fn probe(&self) -> Result<()> {
        fstatfs(&self.fd)?;
        fstat(&self.fd)?;
        if let Some(client) = self.client() {
            client.probe()?;
        }
        match statat(&self.fd, ".entrepot-no-such-file", AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) | Err(Errno::NOENT | Errno::ACCESS) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the process that served a FUSE mount is gone. For this ioctl the kernel then returns
    /// `NOTCONN`; a living FUSE process returns that it does not support the call.
    pub fn process_is_gone(&self) -> bool {
        if !self.fuse {
            return false;
        }
        let mut flags: libc::c_long = 0;
        // SAFETY: the descriptor is ours and open; the call writes one long, which lives until it returns.
        let done = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::FS_IOC_GETFLAGS, &mut flags) };
        let error = io::Error::last_os_error().raw_os_error();
        done < 0 && [libc::ENOTCONN, libc::ECONNABORTED].iter().any(|gone| error == Some(*gone))
    }
}
