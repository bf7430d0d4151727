//! Removal of one file that was scanned a while ago.
//!
//! The file first gets a name that no process uses. Then it is checked once more, and gets its name back if it was
//! used in between: so no write is lost with it. All names are looked up in one open directory, reached without
//! symbolic links. So a link in the place of a directory cannot redirect a rename or a removal.

use super::FILE_IN_USE;
use super::look::{ScannedFile, open, read_ns};
use crate::control::Caller;
use crate::daemon::Core;
use crate::daemon::resolve::open_below;
use engine::stage::offloaded;
use object::host::fstat;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, openat, renameat, renameat_with, statat, unlinkat};
use rustix::io::{Errno, Result};
use std::ffi::CString;
use std::path::Path;
use std::time::Duration;

/// Timeout of a request to another node; a node that does not answer may have the file open.
const ASKED_MAX: Duration = Duration::from_secs(3);

/// Opens the root of the mount: files are removed through the mount, so that every step of a removal is done.
pub(super) fn mounted(mount_point: &Path) -> Result<OwnedFd> {
    openat(CWD, mount_point, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// A directory below a root.
fn directory(root: impl AsFd, path: &Path) -> Result<OwnedFd> {
    open_below(root, path, OFlags::PATH | OFlags::DIRECTORY)
}

impl Core {
    /// Removes a file if it has not changed since the scan. Returns whether it is gone.
    pub(super) fn remove_unused(&self, mounted: &OwnedFd, seen: &ScannedFile) -> bool {
        let left = |why: &dyn std::fmt::Display| {
            tracing::info!("{:?} is not purged: {why}", seen.file.path);
            false
        };
        let path = Path::new(&seen.file.path);
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let there = match directory(mounted, above) {
            Ok(there) => there,
            Err(error) => return left(&error),
        };
        let name = CString::new(name.as_encoded_bytes()).unwrap_or_default();
        let aside = CString::new(format!(".entrepot-purged-{}", seen.inode)).unwrap_or_default();
        if let Err(error) = set_aside(&there, &name, &aside) {
            return left(&error);
        }
        let stub = directory(self.volume.tree(), above).and_then(|above| open(above, &aside, OFlags::RDWR));
        let same = stub.is_ok_and(|stub| self.is_unused(seen, stub)) && self.is_used_nowhere_else(seen);
        if same && unlinkat(&there, &aside, AtFlags::empty()).is_ok() {
            return true;
        }
        if let Err(error) = put_back(&there, &aside, &name) {
            tracing::error!(
                "{:?} is now called {aside:?}: it was in use again, and its name was taken: {error}",
                seen.file.path
            );
        }
        left(&"it is used, or has changed")
    }

    /// Whether the name still leads to the scanned file, and the file is not in use on this node.
    fn is_unused(&self, seen: &ScannedFile, stub: OwnedFd) -> bool {
        let same = fstat(&stub).is_ok_and(|stat| stat.st_ino == seen.inode && read_ns(&stat) == seen.read_ns);
        let stub = std::sync::Arc::new(stub);
        let file = self.files.get_or_share(stub.clone());
        same && !self.stager.offloaded().is_being_sent(seen.inode)
            && file.is_ok_and(|file| {
                let unchanged = offloaded::version(&file, &stub).is_ok_and(|version| version == seen.version);
                file.id() == seen.id && !file.is_open() && unchanged
            })
    }

    /// Whether all other nodes report that they do not use the file. No node can open it during the request, since its
    /// name is unknown.
    fn is_used_nowhere_else(&self, seen: &ScannedFile) -> bool {
        let Some(calls) = &self.calls else { return true };
        let others = calls.others();
        let names: Option<Vec<String>> = others.iter().map(|other| other.own.clone()).collect();
        let Some(names) = names else { return false };
        let said = calls.call_each(names, FILE_IN_USE, &Caller::daemon(), &seen.inode, ASKED_MAX, &|_| true);
        let is_open = said.iter().find(|(_, answer)| *answer != Ok(false));
        if let Some((_, answer)) = is_open {
            let why = answer.as_ref().err().map_or("another node uses it".into(), |problem| problem.cause.clone());
            tracing::info!("{:?} is not purged: {why}", seen.file.path);
        }
        is_open.is_none()
    }
}

/// Gives a file a name that no process uses. On a file system without `RENAME_NOREPLACE` (GlusterFS), the new name is
/// checked first. A file with that name was left by an earlier purge of the same file.
fn set_aside(directory: &OwnedFd, name: &CString, aside: &CString) -> Result<()> {
    match renameat_with(directory, name, directory, aside, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS)
            if matches!(statat(directory, aside, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT)) =>
        {
            renameat(directory, name, directory, aside)
        }
        renamed => renamed,
    }
}

/// Restores the name of a file, unless another file has it.
fn put_back(directory: &OwnedFd, aside: &CString, name: &CString) -> Result<()> {
    match renameat_with(directory, aside, directory, name, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(directory, aside, directory, name, AtFlags::empty())?;
            unlinkat(directory, aside, AtFlags::empty())
        }
        renamed => renamed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_in_the_place_of_a_directory_leads_nowhere() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("v/mine/a")).expect("directories");
        std::fs::create_dir_all(at("others/a")).expect("directories");
        let mounted = mounted(&at("v")).expect("root");
        assert!(directory(&mounted, Path::new("mine/a")).is_ok() && directory(&mounted, Path::new("")).is_ok());
        std::fs::rename(at("v/mine"), at("v/old")).expect("rename");
        symlink(at("others"), at("v/mine")).expect("link");
        assert_eq!(directory(&mounted, Path::new("mine/a")).err(), Some(Errno::LOOP));
        symlink("old", at("v/inside")).expect("link");
        assert_eq!(directory(&mounted, Path::new("inside/a")).err(), Some(Errno::LOOP));
    }

    #[test]
    fn a_name_that_was_given_again_is_not_taken_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let fd = mounted(dir.path()).expect("open");
        let write = |name: &str| std::fs::write(dir.path().join(name), name).expect("write");
        write("a");
        set_aside(&fd, &c"a".into(), &c"b".into()).expect("aside");
        write("a");
        assert_eq!(put_back(&fd, &c"b".into(), &c"a".into()), Err(Errno::EXIST));
        assert_eq!(set_aside(&fd, &c"a".into(), &c"b".into()), Err(Errno::EXIST));
        assert_eq!(std::fs::read_to_string(dir.path().join("a")).expect("read"), "a");
    }
}
