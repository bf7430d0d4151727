//! The mount point: cleared of what a killed daemon left, and the kernel's connection behind it.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, statat};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Unmounts what a daemon that is gone left at `mountpoint` ("Transport endpoint is not connected"). Whether there was something.
pub fn clear_stale(mountpoint: &Path) -> io::Result<bool> {
    match statat(CWD, mountpoint, AtFlags::empty()) {
        Err(Errno::NOTCONN | Errno::CONNABORTED) => {}
        Err(error) => return Err(error.into()),
        Ok(_) => return Ok(false),
    }
    tracing::warn!(mountpoint = %mountpoint.display(), "the daemon that served this mount point is gone; unmounting what it left");
    detach(mountpoint)?;
    Ok(true)
}

/// Unmounts, unless somebody uses it: then `EBUSY`. What is not mounted (any more) is fine.
pub fn unmount_unused(mountpoint: &Path) -> io::Result<()> {
    match unmount(mountpoint, UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(Errno::PERM) => {
            let status = Command::new("fusermount3").args(["-u", "--"]).arg(mountpoint).status()?;
            if status.success() { Ok(()) } else { Err(Errno::BUSY.into()) }
        }
        Err(error) => Err(error.into()),
    }
}

/// Unmounts now for everybody who comes, and for those inside when they leave.
pub fn detach(mountpoint: &Path) -> io::Result<()> {
    match unmount(mountpoint, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => return Ok(()),
        // Not mounted (any more) is what was wanted.
        Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
        Err(Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let status =
        Command::new("fusermount3").args(["-u", "-z", "-q", "--"]).arg(mountpoint).stdin(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("fusermount3 ended with {status}"))) }
}

/// The kernel's number of the FUSE connection mounted at `mountpoint`, found without asking the mount anything.
pub fn connection(mountpoint: &Path) -> Option<u32> {
    let table = fs::read("/proc/self/mountinfo").ok()?;
    let wanted = mountpoint.as_os_str().as_bytes();
    let of_line = |line: &[u8]| {
        let mut fields = line.split(|b| *b == b' ');
        let device = fields.nth(2)?;
        let at = unescape(fields.nth(1)?);
        let minor = std::str::from_utf8(device).ok()?.split_once(':')?.1;
        (at == wanted).then(|| minor.parse().ok())?
    };
    // The last one is on top.
    table.split(|b| *b == b'\n').filter_map(of_line).next_back()
}

/// Says that nothing serves a mount any more; for good.
pub struct Ended(OwnedFd);

impl Ended {
    /// It is served.
    pub fn new() -> io::Result<Ended> {
        Ok(Ended(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Nothing serves it.
    pub fn ring(&self) {
        // Fails only when it was rung before, many times.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// The table of mounts, to wait for changes of.
pub struct Table(Option<fs::File>);

/// How often it is looked at where the kernel does not tell.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

impl Table {
    /// Changes count from now on.
    pub fn open() -> Table {
        Table(fs::File::open("/proc/self/mountinfo").ok())
    }

    /// Sleeps until something was mounted or unmounted, or nothing serves the mount any more: then `true`.
    pub fn wait(&self, ended: &Ended) -> bool {
        let mut fds = vec![PollFd::new(&ended.0, PollFlags::IN)];
        fds.extend(self.0.iter().map(|table| PollFd::new(table, PollFlags::PRI)));
        let limit = self.0.is_none().then_some(&LOOK);
        if poll(&mut fds, limit).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(100)); // interrupted, or no memory
        }
        !fds[0].revents().is_empty()
    }
}

/// Mount points in this thread's namespace whose file system's type begins with `kind`, inner ones last.
pub fn of_kind(kind: &str) -> Vec<PathBuf> {
    let of_line = |line: &[u8]| {
        let mut fields = line.split(|b| *b == b' ');
        let at = fields.nth(4)?;
        fields.find(|field| *field == b"-")?; // what was in between is optional
        let matches = fields.next()?.starts_with(kind.as_bytes());
        matches.then(|| PathBuf::from(OsString::from_vec(unescape(at))))
    };
    let table = fs::read("/proc/thread-self/mountinfo").unwrap_or_default();
    table.split(|b| *b == b'\n').filter_map(of_line).collect()
}

/// Where the kernel shows a connection.
pub fn control(connection: u32) -> PathBuf {
    PathBuf::from(format!("/sys/fs/fuse/connections/{connection}"))
}

/// Lets the kernel read ahead as far as one of our requests is long; its own default is an eighth of that. Only root may;
/// without it sequential reads through the page cache are slower, and nothing else.
pub fn widen_read_ahead(connection: u32, kib: u32) {
    let knob = format!("/sys/class/bdi/0:{connection}/read_ahead_kb");
    if let Err(error) = fs::write(&knob, kib.to_string()) {
        tracing::debug!(%error, knob, "read-ahead stays at the kernel's default");
    }
}

/// Spaces and the like stand as `\040` in the table of mounts.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let code = if *first == b'\\' { tail.get(..3) } else { None };
        let code = code.and_then(|c| u8::from_str_radix(std::str::from_utf8(c).ok()?, 8).ok());
        match code {
            Some(byte) => {
                plain.push(byte);
                rest = &tail[3..];
            }
            None => {
                plain.push(*first);
                rest = tail;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_the_mount_table_are_unescaped() {
        assert_eq!(unescape(br"/mnt/a\040b\134c"), b"/mnt/a b\\c");
        assert_eq!(unescape(br"/mnt/\9"), br"/mnt/\9");
    }

    #[test]
    fn who_waits_for_the_table_of_mounts_hears_of_the_end() {
        let (table, ended) = (Table::open(), Ended::new().unwrap());
        ended.ring();
        while !table.wait(&ended) {}
        assert!(table.wait(&ended), "it stays so");
    }

    #[test]
    fn what_is_not_stale_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!clear_stale(dir.path()).unwrap());
        assert!(clear_stale(&dir.path().join("missing")).is_err());
    }
}
