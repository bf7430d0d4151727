//! Actions on behalf of a caller: with its file mode creation mask, and for root's daemon with its user and group.
//!
//! The kernel has checked the permissions of a request before it reaches us, so capabilities stay as they are. Only the
//! identity of new inodes must be the caller's. Creating as the caller, rather than changing the owner afterwards,
//! leaves setgid directories, default ACLs and quotas to the file system that implements them. Mask and identity belong
//! to a thread; each thread that creates prepares itself once.
//!
//! The change of the user empties the effective capabilities, and they are set again. A securebit that kept them would
//! be simpler, but every thread and child process of this thread would inherit it and keep root's capabilities.

use rustix::fs::Mode;
use rustix::io::{Errno, Result};
use rustix::process::{geteuid, umask};
use rustix::thread::{
    CapabilitySets, Gid, Uid, UnshareFlags, capabilities, set_capabilities, set_thread_res_gid, set_thread_res_uid,
};
use std::cell::Cell;

/// Caller of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Owner of new inodes.
    pub uid: u32,
    /// Group of new inodes.
    pub gid: u32,
    /// File mode creation mask; applied by the namespace's file system, which skips it where a default ACL rules.
    pub umask: u32,
    /// Thread of the caller; 0 if unknown.
    pub thread: u32,
}

impl Caller {
    /// The daemon itself, with nothing masked.
    pub fn daemon() -> Caller {
        Caller { uid: geteuid().as_raw(), gid: rustix::process::getegid().as_raw(), umask: 0, thread: 0 }
    }

    /// Whether the caller is root, which may keep setuid bits while writing, and set trusted attributes and any layout.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether the caller may leave setgid on files of a group: its members and root may.
    pub fn is_of_group(&self, gid: u32) -> bool {
        self.is_root() || self.gid == gid || supplementary(self.thread).contains(&gid)
    }
}

/// Supplementary groups of a thread; empty if it has ended.
fn supplementary(thread: u32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    groups.split_whitespace().filter_map(|gid| gid.parse().ok()).collect()
}

#[derive(Clone, Copy)]
struct Thread {
    /// Root's capabilities, which stay across the change of identity; none for other daemons.
    capabilities: Option<CapabilitySets>,
    umask: u32,
}

thread_local! {
    static THREAD: Cell<Option<Thread>> = const { Cell::new(None) };
}

/// Unshares the mask of this thread.
fn prepare() -> Result<Thread> {
    if let Some(thread) = THREAD.get() {
        return Ok(thread);
    }
    // SAFETY: only the mask, root and working directory are unshared, no descriptor table; nothing here uses the latter
    // two.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS)? };
    let capabilities = geteuid().is_root().then(|| capabilities(None)).transpose()?;
    umask(Mode::empty());
    let thread = Thread { capabilities, umask: 0 };
    THREAD.set(Some(thread));
    Ok(thread)
}

/// Restores the daemon's identity at the end of the scope.
struct Switched;

impl Drop for Switched {
    fn drop(&mut self) {
        let uid = set_thread_res_uid(None, Uid::ROOT, None);
        let gid = set_thread_res_gid(None, Gid::ROOT, None);
        if uid.is_err() || gid.is_err() {
            // A thread with another user's identity would create files of the next caller as this one's.
            tracing::error!("a thread cannot take its own identity again; stopping before it acts as a user");
            std::process::abort();
        }
    }
}

/// Runs `act` with the caller's mask and, when the daemon is root and the caller is not, as the caller.
pub fn as_caller<T>(caller: Caller, act: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut thread = prepare()?;
    if thread.umask != caller.umask {
        umask(Mode::from_raw_mode(caller.umask & 0o777));
        thread.umask = caller.umask;
        THREAD.set(Some(thread));
    }
    let Some(capabilities) = thread.capabilities.filter(|_| caller.uid != 0 || caller.gid != 0) else { return act() };
    if caller.uid == u32::MAX || caller.gid == u32::MAX {
        return Err(Errno::OVERFLOW);
    }
    let switched = Switched;
    set_thread_res_gid(None, Gid::from_raw(caller.gid), None)?;
    set_thread_res_uid(None, Uid::from_raw(caller.uid), None)?;
    set_capabilities(None, capabilities)?;
    let done = act();
    drop(switched);
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, OFlags, fstat, openat};

    /// [S-004]
    #[test]
    fn files_belong_to_the_caller_and_obey_her_mask() {
        let dir = tempfile::tempdir().unwrap();
        let me = Caller::daemon();
        let caller = if me.is_root() {
            Caller { uid: 12345, gid: 23456, umask: 0o027, thread: 0 }
        } else {
            Caller { umask: 0o027, ..me }
        };
        for round in 0..2 {
            let path = dir.path().join(format!("f{round}"));
            let fd = as_caller(caller, || {
                openat(CWD, &path, OFlags::CREATE | OFlags::EXCL | OFlags::RDWR, Mode::from_raw_mode(0o666))
            })
            .unwrap();
            let stat = fstat(&fd).unwrap();
            assert_eq!((stat.st_uid, stat.st_gid, stat.st_mode & 0o7777), (caller.uid, caller.gid, 0o640));
        }
        assert_eq!(geteuid().as_raw(), me.uid, "the thread is itself again");
    }
}
