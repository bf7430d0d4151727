//! Attributes that a staged file takes from its directory and its user, as with `creat`: group, mode under the umask or
//! the directory's default ACL, and the directory's layout request.
//!
//! The file system itself decides: a nameless file created in the directory shows the attributes of new files.

use meta::namespace::attributes::REQUEST;
use meta::namespace::request::parse_request;
use meta::stub::names::value;
use object::host::fstat;
use policy::layout::Placement;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{self, Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::io::{Errno, Result};

const ACCESS_ACL: &str = "system.posix_acl_access";
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// Mode that programs pass when they create a file.
const MODE: u32 = 0o666;

/// The layout request of an open directory, as text.
pub(super) fn request_of(directory: BorrowedFd<'_>) -> Option<String> {
    String::from_utf8(attribute(directory, REQUEST)?).ok()
}

/// Placement of files in a directory; `base` if its layout request is missing or invalid.
pub(super) fn placement_in(directory: BorrowedFd<'_>, base: &Placement, tiers: &[String]) -> Placement {
    let Some(text) = request_of(directory) else { return base.clone() };
    parse_request(&text, base, tiers).unwrap_or_else(|error| {
        tracing::warn!(%error, "a directory's layout request is ignored");
        base.clone()
    })
}

/// Attributes of a new file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewFile {
    gid: u32,
    mode: u32,
    acl: Option<Vec<u8>>,
}

impl NewFile {
    /// Probes the directory, on a thread with the user's credentials and umask.
    pub fn ask(directory: BorrowedFd<'_>, mask: u32, gid: u32) -> Result<NewFile> {
        // A default ACL replaces the umask. Kernels before 6.0 ignored the umask for nameless files on some file
        // systems.
        let mask = if attribute(directory, DEFAULT_ACL).is_some() { 0 } else { mask };
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match fs::openat(directory, ".", flags, Mode::from_raw_mode(MODE)) {
            Ok(probe) => {
                let stat = fstat(&probe)?;
                let acl = attribute(probe.as_fd(), ACCESS_ACL);
                Ok(NewFile { gid: stat.st_gid, mode: stat.st_mode & 0o777 & !mask, acl })
            }
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let parent = fstat(directory)?;
                let gid = if parent.st_mode & 0o2000 != 0 { parent.st_gid } else { gid };
                Ok(NewFile { gid, mode: MODE & !mask, acl: None })
            }
            Err(e) => Err(e),
        }
    }

    /// Gives an open file these attributes and the user as owner.
    pub fn give(&self, stub: BorrowedFd<'_>, uid: u32) -> Result<()> {
        let stat = fstat(stub)?;
        if (stat.st_uid, stat.st_gid) != (uid, self.gid) {
            fs::fchown(stub, Some(Uid::from_raw(uid)), Some(Gid::from_raw(self.gid)))?;
        }
        fs::fchmod(stub, Mode::from_raw_mode(self.mode))?;
        match &self.acl {
            Some(acl) => fs::fsetxattr(stub, ACCESS_ACL, acl, XattrFlags::empty()),
            None => Ok(()),
        }
    }
}

fn attribute(fd: BorrowedFd<'_>, name: &str) -> Option<Vec<u8>> {
    value(|value| fs::fgetxattr(fd, name, value)).ok()
}
