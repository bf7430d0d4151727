//! Changes of owner, mode and times of any node, through an open stub or by name.

use super::Namespace;
use super::credentials::Caller;
use super::node::NodeId;
use object::host::{descriptor_path, fstat};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, chmodat, chownat,
    fgetxattr, fremovexattr, getxattr, removexattr, utimensat,
};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Attribute with the capabilities that a program gives to its processes.
const CAPABILITIES: &str = "security.capability";
/// Bits of the mode of a program.
const EXECUTE: u32 = 0o111;

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// Current time, by the namespace's clock.
    Now,
    /// Seconds and nanoseconds since 1970.
    At(i64, u32),
}

/// A node held for changes, by a descriptor that is checked to be its own.
#[derive(Debug)]
pub struct Held<'a> {
    fd: Holder<'a>,
}

#[derive(Debug)]
enum Holder<'a> {
    Stub(BorrowedFd<'a>),
    Pinned(OwnedFd),
}

impl Held<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        match &self.fd {
            Holder::Stub(fd) => *fd,
            Holder::Pinned(fd) => fd.as_fd(),
        }
    }

    /// Returns the current attributes.
    pub fn stat(&self) -> Result<Stat> {
        fstat(self.fd())
    }

    /// Sets the mode's permission bits, with setuid, setgid and sticky.
    pub fn set_mode(&self, mode: u32) -> Result<()> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        match &self.fd {
            Holder::Stub(fd) => rustix::fs::fchmod(fd, mode),
            Holder::Pinned(fd) => chmodat(CWD, descriptor_path(fd), mode, AtFlags::empty()),
        }
    }

    /// As `set_mode`, for a user. A file that becomes a program loses its capabilities: a write removes only those of
    /// programs.
    pub fn set_mode_for(&self, caller: Caller, mode: u32) -> Result<()> {
        if mode & EXECUTE != 0 && !caller.is_root() && self.stat()?.st_mode & EXECUTE == 0 {
            self.drop_capabilities()?;
        }
        self.set_mode(mode)
    }

    /// Sets owner and group; the namespace's file system removes setuid and setgid bits where it has to.
    pub fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        chownat(self.fd(), "", uid, gid, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Sets the times given.
    pub fn set_times(&self, accessed: Option<SetTime>, modified: Option<SetTime>) -> Result<()> {
        let times = Timestamps { last_access: timespec(accessed), last_modification: timespec(modified) };
        match &self.fd {
            Holder::Stub(fd) => rustix::fs::futimens(fd, &times),
            Holder::Pinned(fd) => utimensat(fd, "", &times, AtFlags::EMPTY_PATH),
        }
    }

    /// Removes capabilities, setuid and setgid, as an unprivileged write does. Setgid without execute permission for
    /// the group is removed only if the caller is not of the group.
    pub fn drop_privileges(&self, caller: Caller) -> Result<()> {
        let stat = self.stat()?;
        let mode = stat.st_mode;
        if FileType::from_raw_mode(mode) == FileType::RegularFile && mode & EXECUTE != 0 {
            self.drop_capabilities()?;
        }
        if mode & 0o6000 == 0 || caller.is_root() || FileType::from_raw_mode(mode) == FileType::Directory {
            return Ok(());
        }
        let mut kept = mode & !0o4000;
        if mode & 0o2000 != 0 && (mode & 0o010 != 0 || !caller.is_of_group(stat.st_gid)) {
            kept &= !0o2000;
        }
        if kept == mode { Ok(()) } else { self.set_mode(kept) }
    }

    /// Removes the capabilities of a program. The kernel does this for writes through its page cache, and leaves direct
    /// ones to the daemon. The bytes lie in objects, so the file system of the stub notices no write.
    fn drop_capabilities(&self) -> Result<()> {
        let mut room = [0u8; 64];
        let found = match &self.fd {
            Holder::Stub(fd) => fgetxattr(fd, CAPABILITIES, &mut room),
            Holder::Pinned(fd) => getxattr(descriptor_path(fd), CAPABILITIES, &mut room),
        };
        if !matches!(found, Ok(_) | Err(Errno::RANGE)) {
            return Ok(());
        }
        let removed = match &self.fd {
            Holder::Stub(fd) => fremovexattr(fd, CAPABILITIES),
            Holder::Pinned(fd) => removexattr(descriptor_path(fd), CAPABILITIES),
        };
        // Another write may have removed them.
        if removed == Err(Errno::NODATA) { Ok(()) } else { removed }
    }

    /// Removes setgid if the caller is not of the group, as setting an access control list does.
    pub fn drop_setgid(&self, caller: Caller) -> Result<()> {
        let stat = self.stat()?;
        if stat.st_mode & 0o2000 == 0 || caller.is_of_group(stat.st_gid) {
            return Ok(());
        }
        self.set_mode(stat.st_mode & !0o2000)
    }
}

fn timespec(time: Option<SetTime>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(SetTime::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(SetTime::At(tv_sec, ns)) => Timespec { tv_sec, tv_nsec: ns.into() },
    }
}

impl Namespace {
    /// Holds a node for changes: through its open stub, if any, which is the only way to a file without a name.
    pub fn hold<'a>(&self, id: NodeId, stub: Option<BorrowedFd<'a>>) -> Result<Held<'a>> {
        let fd = match stub {
            Some(fd) => Holder::Stub(fd),
            None => Holder::Pinned(self.pinned(id)?),
        };
        Ok(Held { fd })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{XattrFlags, setxattr};
    use std::ffi::OsStr;

    /// [S-143]
    #[test]
    fn a_write_takes_the_capabilities_of_a_program() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("program");
        std::fs::write(&path, "program").expect("write");
        // Version 2, effective: the right to bind to low ports.
        let mut capabilities = [0u8; 20];
        (capabilities[0], capabilities[3], capabilities[5]) = (1, 2, 4);
        let namespace = Namespace::new(std::fs::File::open(dir.path()).expect("a directory").into()).expect("a tree");
        let id = namespace.lookup(crate::namespace::ROOT, OsStr::new("program")).expect("a file").0.id;
        let caller = Caller { uid: 12345, gid: 12345, umask: 0, thread: 0 };
        let stub = std::fs::File::open(&path).expect("a file");
        for stub in [None, Some(stub.as_fd())] {
            if setxattr(&path, CAPABILITIES, &capabilities, XattrFlags::empty()).is_err() {
                return eprintln!("skipped: needs root and a file system with capabilities");
            }
            let held = namespace.hold(id, stub).expect("a file");
            held.set_mode(0o644).expect("no program");
            held.drop_privileges(caller).expect("they may stay");
            held.set_mode_for(caller, 0o755).expect("they go");
            assert_eq!(getxattr(&path, CAPABILITIES, &mut [0u8; 64]), Err(Errno::NODATA));
            setxattr(&path, CAPABILITIES, &capabilities, XattrFlags::empty()).expect("as before");
            held.drop_privileges(caller).expect("they go");
            assert_eq!(getxattr(&path, CAPABILITIES, &mut [0u8; 64]), Err(Errno::NODATA));
        }
    }
}
