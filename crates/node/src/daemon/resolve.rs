//! Resolves a client's path with the client's permissions.

use super::Core;
use crate::control::{Caller, Problem, Result};
use engine::file::File;
use engine::rights::with_rights_of;
use engine::source::Identity;
use object::admission::Held;
use object::host::{descriptor_path, fstat};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, open, openat2};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Purpose of the access to a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Show the layout: the caller must be able to reach the file.
    See,
    /// Change the layout: the caller must own the file.
    Change,
}

/// Identity of a caller.
pub fn identity(caller: &Caller) -> Identity {
    Identity { uid: caller.uid, gid: caller.gid, ..Identity::default() }
}

impl Core {
    /// The file at `path` (relative to the mount's root), if the caller has the permission. Symbolic links are
    /// followed inside the volume.
    pub fn file_of(&self, caller: &Caller, path: &str, purpose: Purpose) -> Result<(Arc<File>, Stat)> {
        let (fd, stat) = self.reach(caller, path)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Problem::wrong(format!("{path} is no regular file")).try_this("name a file"));
        }
        if purpose == Purpose::Change && caller.uid != stat.st_uid && !caller.is_operator() {
            return Err(Problem::denied(format!("{path} belongs to user {}, you are {}", stat.st_uid, caller.uid))
                .try_this("ask its owner"));
        }
        // The daemon itself opens a file that the caller may reach: the bytes do not go to the caller.
        let again = descriptor_path(&fd);
        let reopen = |mode| open(&again, mode | OFlags::CLOEXEC, Mode::empty());
        let stub = match reopen(OFlags::RDWR) {
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY) => reopen(OFlags::RDONLY),
            done => done,
        };
        let stub = stub.map_err(|e| Problem::failed(format!("{path}: {e}")))?;
        Ok((self.files.get_or_open(stub)?, stat))
    }

    /// Refuses a path that the caller may not reach, a directory or a file.
    pub fn may_see(&self, caller: &Caller, path: &str) -> Result<()> {
        self.reach(caller, path).map(|_| ())
    }

    /// Admits a scan of many names or rows until the result is dropped, so that one user cannot occupy the stores.
    /// Operators are not limited.
    pub fn look_for(&self, caller: &Caller) -> Result<Option<Held>> {
        if caller.is_operator() {
            return Ok(None);
        }
        self.checks.take(caller.uid, 1).map(Some).map_err(|_| {
            Problem::busy("the limit of checks and searches under way, or that of one user, is reached")
                .try_this("wait for one to end, and try again")
        })
    }

    /// Returns the paths that the caller may reach, checked in one go.
    pub fn reachable(&self, caller: &Caller, paths: BTreeSet<String>) -> BTreeSet<String> {
        let Ok(tree) = self.volume.tree().try_clone_to_owned() else { return BTreeSet::new() };
        let look = move || paths.into_iter().filter(|path| reached(&tree, path).is_ok()).collect();
        with_rights_of(&identity(caller), look).unwrap_or_default()
    }

    /// Opens a path with the permissions of the caller.
    fn reach(&self, caller: &Caller, path: &str) -> Result<(OwnedFd, Stat)> {
        let failed = |e: &dyn std::fmt::Display| Problem::failed(format!("{path}: {e}"));
        let tree = self.volume.tree().try_clone_to_owned().map_err(|e| failed(&e))?;
        let relative = if path.is_empty() { ".".to_string() } else { path.to_string() };
        let look = move || reached(&tree, &relative);
        let reached = with_rights_of(&identity(caller), look).map_err(|e| failed(&e))?;
        reached.map_err(|e: Errno| match e {
            Errno::NOENT | Errno::NOTDIR => Problem::not_found(format!("{path}: {e}")).try_this("check the path"),
            Errno::ACCESS => {
                Problem::denied(format!("{path}: {e}")).try_this("check the permissions of its directories")
            }
            _ => failed(&e),
        })
    }
}

/// Opens a path of the tree with the permissions of this thread.
fn reached(tree: &OwnedFd, path: &str) -> rustix::io::Result<(OwnedFd, Stat)> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    let fd = openat2(tree, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?;
    let stat = fstat(&fd)?;
    Ok((fd, stat))
}

/// Opens a path below `root`, or `root` if it is empty, and follows no symbolic link.
pub fn open_below(root: impl AsFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Path whose reachability proves that a user may look up names beside `path`, not only that its directory exists.
pub fn inside_of(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((directory, _)) => format!("{directory}/."),
        None => ".".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beside_a_path_are_looked_up_in_its_directory() {
        assert_eq!([inside_of("f"), inside_of("a/b/f")], [".", "a/b/."]);
    }
}
