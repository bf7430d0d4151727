//! Mounts by root: a direct request to the kernel, so that tables of mounts show the type `fuse.entrepot`.
//!
//! Without `fusermount3`, `fuser` requests plain `fuse`, which `df`, `findmnt` and `updatedb` cannot tell from other
//! mounts.

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open, stat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use std::ffi::CString;
use std::io;
use std::path::Path;

/// Mounts at `path`, with `kind` and `name` as type and source in tables of mounts. Returns the device to serve it
/// from; `None` if this process may not mount by itself.
pub fn attach(path: &Path, kind: &str, name: &str, allow_other: bool) -> io::Result<Option<OwnedFd>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let device = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut data = format!(
        "fd={},rootmode={:o},user_id={uid},group_id={gid},default_permissions",
        device.as_raw_fd(),
        stat(path)?.st_mode,
    );
    if allow_other {
        data.push_str(",allow_other");
    }
    // Devices and set-user-id programs work as on a local file system of root. An operator may remount with fewer
    // rights.
    match mount(name, path, kind, MountFlags::empty(), &*CString::new(data)?) {
        Ok(()) => Ok(Some(device)),
        Err(Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
