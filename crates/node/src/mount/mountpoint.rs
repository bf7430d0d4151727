//! The mount point: removal of a killed daemon's mount, and the kernel's connection behind a mount.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, statat};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Unmounts the rest of a killed daemon's mount at `mountpoint` ("Transport endpoint is not connected"). Returns
/// whether there was one.
pub fn clear_stale(mountpoint: &Path) -> io::Result<bool> {
    match statat(CWD, mountpoint, AtFlags::empty()) {
        Err(Errno::NOTCONN | Errno::CONNABORTED) => {}
        Err(error) => return Err(error.into()),
        Ok(_) => return Ok(false),
    }
    tracing::warn!(mountpoint = %mountpoint.display(), "the daemon that served this mount point is gone; unmounting \
        the mount that it left");
    detach(mountpoint)?;
    Ok(true)
}

/// Unmounts, or fails with `EBUSY` if the mount is in use. Succeeds if nothing is mounted.
pub fn unmount_unused(mountpoint: &Path) -> io::Result<()> {
    match unmount(mountpoint, UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(Errno::PERM) => helper(&["-u", "--"], mountpoint),
        Err(error) => Err(error.into()),
    }
}

/// Unmounts at once for new users, and for present ones when they close their files.
pub fn detach(mountpoint: &Path) -> io::Result<()> {
    match unmount(mountpoint, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => return Ok(()),
        // Nothing is mounted, which is the wanted result.
        Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
        Err(Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    helper(&["-u", "-z", "--"], mountpoint)
}

/// Runs the program that unmounts for ordinary users.
fn helper(options: &[&str], mountpoint: &Path) -> io::Result<()> {
    let mut command = Command::new("fusermount3");
    let output = command.args(options).arg(mountpoint).env("LC_ALL", "C").stdin(Stdio::null()).output();
    outcome(&output.map_err(|error| io::Error::new(error.kind(), format!("fusermount3: {error}")))?)
}

/// Result of `fusermount3`: `EBUSY` if it reports that the mount is in use, otherwise its own words.
fn outcome(output: &Output) -> io::Result<()> {
    let words = String::from_utf8_lossy(&output.stderr);
    match words.trim() {
        _ if output.status.success() => Ok(()),
        words if words.ends_with("Device or resource busy") => Err(Errno::BUSY.into()),
        "" => Err(io::Error::other(format!("fusermount3 ended with {}", output.status))),
        words => Err(io::Error::other(words.replace('\n', "; "))),
    }
}

/// The kernel's number of the FUSE connection mounted at `mountpoint`, found without a request to the mount.
pub fn connection(mountpoint: &Path) -> Option<u32> {
    // The last mount is on top.
    let mounted = object::mounts::all().into_iter().rfind(|mounted| mounted.at == mountpoint)?;
    mounted.device.split_once(':')?.1.parse().ok()
}

/// Signal that a mount has lost its server, or is to end. Never reset.
pub struct Ended(OwnedFd);

impl Ended {
    /// Creates the signal, not set.
    pub fn new() -> io::Result<Ended> {
        Ok(Ended(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Sets the signal.
    pub fn ring(&self) {
        // This fails only if the signal was set many times before.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// Table of mounts, as a source of change events.
pub struct Table(Option<fs::File>);

/// Interval of checks where the kernel does not signal changes.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

impl Table {
    /// Starts to watch for changes.
    pub fn open() -> Table {
        Table(fs::File::open("/proc/self/mountinfo").ok())
    }

    /// Sleeps until a mount or unmount (`false`) or until one of the signals is set (`true`).
    pub fn wait(&self, ended: &[&Ended]) -> bool {
        let mut fds: Vec<_> = ended.iter().map(|ended| PollFd::new(&ended.0, PollFlags::IN)).collect();
        fds.extend(self.0.iter().map(|table| PollFd::new(table, PollFlags::PRI)));
        let limit = self.0.is_none().then_some(&LOOK);
        if poll(&mut fds, limit).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(100)); // interrupted, or no memory
        }
        fds[..ended.len()].iter().any(|fd| !fd.revents().is_empty())
    }
}

/// Mount points in this thread's namespace whose file system's type begins with `kind`, inner ones last.
pub fn of_kind(kind: &str) -> Vec<PathBuf> {
    let mounts = object::mounts::all().into_iter().filter(|mounted| mounted.kind.starts_with(kind));
    mounts.map(|mounted| mounted.at).collect()
}

/// Control directory of a connection.
pub fn control(connection: u32) -> PathBuf {
    PathBuf::from(format!("/sys/fs/fuse/connections/{connection}"))
}

/// Raises the kernel's read-ahead to the size of our largest request, eight times its default. Only root may. Without
/// it, sequential reads through the page cache are slower, with no other effect.
pub fn widen_read_ahead(connection: u32, kib: u32) {
    let knob = format!("/sys/class/bdi/0:{connection}/read_ahead_kb");
    if let Err(error) = fs::write(&knob, kib.to_string()) {
        tracing::debug!(%error, knob, "read-ahead stays at the kernel's default");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_the_table_of_mounts_hears_of_the_end() {
        let (table, ended) = (Table::open(), Ended::new().unwrap());
        ended.ring();
        while !table.wait(&[&ended]) {}
        assert!(table.wait(&[&ended]), "it stays so");
    }

    #[test]
    fn only_a_mount_in_use_is_busy() {
        let ended = |code: i32, words: &str| {
            let status = std::os::unix::process::ExitStatusExt::from_raw(code << 8);
            outcome(&Output { status, stdout: Vec::new(), stderr: words.into() })
        };
        assert!(ended(0, "").is_ok());
        let busy = ended(1, "fusermount3: failed to unmount /mnt: Device or resource busy\n").unwrap_err();
        assert_eq!(busy.raw_os_error(), Some(Errno::BUSY.raw_os_error()));
        let other = ended(1, "fusermount3: failed to open /etc/mtab: No such file or directory\n").unwrap_err();
        assert_eq!(other.to_string(), "fusermount3: failed to open /etc/mtab: No such file or directory");
        assert!(ended(2, "").unwrap_err().to_string().contains("fusermount3 ended with exit status: 2"));
    }

    #[test]
    fn what_is_not_stale_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!clear_stale(dir.path()).unwrap());
        assert!(clear_stale(&dir.path().join("missing")).is_err());
    }
}
