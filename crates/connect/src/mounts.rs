//! A connection's mount as the rest sees it: an open directory.

use crate::client::Client;
use parking_lot::RwLock;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, fstatfs, openat, statat};
use rustix::io::{Errno, Result, fcntl_dupfd_cloexec};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Makes and removes the mounts of connections. Calls for one connection come one after the other.
pub trait Mounts: Send + Sync {
    /// Mounts connection `number` and opens its root.
    fn mount(&self, number: u16) -> io::Result<OwnedFd>;
    /// Takes the mount away, by force: whatever hangs on it comes back with an error.
    fn take_out(&self, number: u16);
    /// Another way for the bytes of connection `number`, if there is one: a library's connection to the same server.
    fn client(&self, _number: u16) -> io::Result<Arc<dyn Client>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this type of file system has no client library that is known"))
    }
    /// Where connection `number` leads, for people.
    fn source(&self, number: u16) -> String;
}

/// The root directory of one mount of one connection.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    /// Which connection.
    pub number: u16,
    /// Grows with each mount of it.
    pub generation: u64,
    /// Whether a process serves it.
    fuse: bool,
    /// Whether files are opened past the page cache, which would be one per connection.
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

    /// Bytes may go over this library's connection from now on.
    pub fn set_client(&self, client: Arc<dyn Client>) {
        *self.client.write() = Some(client);
    }

    /// Bytes go over the mount from now on.
    pub fn clear_client(&self) {
        *self.client.write() = None;
    }

    /// The library's connection, if it has one.
    pub fn client(&self) -> Option<Arc<dyn Client>> {
        self.client.read().clone()
    }

    /// The directory.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The directory, for somebody who keeps it.
    pub fn own(&self) -> Result<OwnedFd> {
        fcntl_dupfd_cloexec(&self.fd, 0)
    }

    /// Opens a file below it, past the page cache where each connection would have one of its own.
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

    /// Asks the server something: fails, or hangs, if the connection is broken.
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

    /// Whether the process that served a FUSE mount is gone: then the kernel refuses a call that such processes do not know
    /// with `NOTCONN`, where a living one says that it does not know it.
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
