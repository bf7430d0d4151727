//! Doing one thing on behalf of a caller: with its file mode creation mask, and as root with its user and group.
//!
//! The kernel has checked the permissions of a request before it reaches us, so capabilities stay as they are; what
//! must be the caller's is the identity that new inodes get. Creating as the caller, rather than changing the owner
//! afterwards, leaves setgid directories, default ACLs and quotas to the file system that knows about them. Mask and
//! identity belong to a thread; each thread that creates prepares itself once.

use rustix::fs::Mode;
use rustix::io::{Errno, Result};
use rustix::process::{geteuid, umask};
use rustix::thread::{
    CapabilitiesSecureBits, Gid, Uid, UnshareFlags, set_capabilities_secure_bits, set_thread_res_gid,
    set_thread_res_uid,
};
use std::cell::Cell;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// File mode creation mask; applied by the namespace's file system, which skips it where a default ACL rules.
    pub umask: u32,
    /// The thread of the user; 0 if it is not known.
    pub thread: u32,
}

impl Caller {
    /// The daemon itself, with nothing masked.
    pub fn daemon() -> Caller {
        Caller { uid: geteuid().as_raw(), gid: rustix::process::getegid().as_raw(), umask: 0, thread: 0 }
    }

    /// Root may do what others may not: keep setuid bits while writing, trusted attributes, every layout.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether the caller may leave setgid on files of a group: its members and root may.
    pub fn is_of_group(&self, gid: u32) -> bool {
        self.is_root() || self.gid == gid || supplementary(self.thread).contains(&gid)
    }
}

/// The further groups of a thread; none if it is gone.
fn supplementary(thread: u32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    groups.split_whitespace().filter_map(|gid| gid.parse().ok()).collect()
}

#[derive(Clone, Copy)]
struct Thread {
    root: bool,
    umask: u32,
}

thread_local! {
    static THREAD: Cell<Option<Thread>> = const { Cell::new(None) };
}

/// Gives this thread a mask of its own and, for root, an identity that can change without losing capabilities.
fn prepare() -> Result<Thread> {
    if let Some(thread) = THREAD.get() {
        return Ok(thread);
    }
    // SAFETY: only the mask, root and working directory are unshared, no descriptor table; nothing here uses the latter
    // two.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS)? };
    let root = geteuid().is_root();
    if root {
        set_capabilities_secure_bits(CapabilitiesSecureBits::NO_SETUID_FIXUP)?;
    }
    umask(Mode::empty());
    let thread = Thread { root, umask: 0 };
    THREAD.set(Some(thread));
    Ok(thread)
}

/// Takes the daemon's identity again when it goes out of scope.
struct Switched;

impl Drop for Switched {
    fn drop(&mut self) {
        let uid = set_thread_res_uid(None, Uid::ROOT, None);
        let gid = set_thread_res_gid(None, Gid::ROOT, None);
        if uid.is_err() || gid.is_err() {
            // Going on as somebody else would give this caller's files to the next one.
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
    if !thread.root || (caller.uid == 0 && caller.gid == 0) {
        return act();
    }
    if caller.uid == u32::MAX || caller.gid == u32::MAX {
        return Err(Errno::OVERFLOW);
    }
    let switched = Switched;
    set_thread_res_gid(None, Gid::from_raw(caller.gid), None)?;
    set_thread_res_uid(None, Uid::from_raw(caller.uid), None)?;
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
