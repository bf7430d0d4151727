//! Whether an object is open anywhere but in one descriptor of the daemon, as the kernel's write leases show it.
//!
//! A mapping of a file that is passed through keeps the object open, but not the file. So the file's last close doesn't
//! show whether the object is still mapped.

use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;

/// Number of the command that chooses the signal of a broken lease; `fcntl.h` of Linux.
const F_SETSIG: libc::c_int = 10;

/// Takes a write lease, which the kernel grants only to the sole descriptor of a file, and returns it at once.
///
/// # Errors
/// The file system has no leases.
pub(super) fn is_open_elsewhere(fd: BorrowedFd<'_>) -> io::Result<bool> {
    // A process that opens the object at this moment breaks the lease. The default signal would end the daemon.
    control(fd, F_SETSIG, libc::SIGURG)?;
    match control(fd, libc::F_SETLEASE, libc::F_WRLCK) {
        Ok(()) => control(fd, libc::F_SETLEASE, libc::F_UNLCK).map(|()| false),
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(true),
        Err(error) => Err(error),
    }
}

fn control(fd: BorrowedFd<'_>, command: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: these commands take an integer and touch no memory of the process.
    match unsafe { libc::fcntl(fd.as_raw_fd(), command, value) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use std::fs::File;

    #[test]
    fn a_second_open_shows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let elsewhere = || is_open_elsewhere(file.as_fd()).unwrap();
        assert!(!elsewhere());
        for write in [false, true] {
            let second = File::options().read(true).write(write).open(&path).unwrap();
            assert!(elsewhere());
            drop(second);
            assert!(!elsewhere());
        }
    }
}
