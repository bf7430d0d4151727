//! Removal of one file that was scanned a while ago.
//!
//! If all nodes report that they do not use the file, it gets a name that no process uses. Then it is checked once
//! more, and gets its name back if it was used in between: so no write is lost with it. The name contains the old one,
//! so the next purge restores the names that an interrupted one has left. All names are looked up in one open
//! directory, reached without symbolic links. So a link in the place of a directory cannot redirect a rename or a
//! removal.

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
/// Timeout of the second request, during which users miss the file. A guess: the node has just answered the first one.
const ASKED_AGAIN_MAX: Duration = Duration::from_secs(1);

const USED: &str = "it is used, or has changed";

/// Name of a file between its last check and its removal: this, and its old name.
const ASIDE: &str = ".entrepot-purged-";
/// Longest name in bytes, `NAME_MAX` of Linux.
const NAME_MAX: usize = 255;

/// Opens the root of the mount: files are removed through the mount, so that every step of a removal is done.
pub(super) fn mounted(mount_point: &Path) -> Result<OwnedFd> {
    openat(CWD, mount_point, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// A directory below a root.
fn directory(root: impl AsFd, path: &Path) -> Result<OwnedFd> {
    open_below(root, path, OFlags::PATH | OFlags::DIRECTORY)
}

/// Splits a path into its directory and its name.
fn split(path: &str) -> (&Path, &str) {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    (Path::new(above), name)
}

/// Whether a purge gave a file this name.
pub(super) fn is_aside(path: &str) -> bool {
    split(path).1.strip_prefix(ASIDE).is_some_and(|name| !name.is_empty())
}

/// Restores the names that an interrupted purge changed; returns the number of restored names.
pub(super) fn restore_names(mounted: &OwnedFd, hidden: &[String]) -> usize {
    let restore = |path: &&String| {
        let (above, aside) = split(path);
        let old = aside.strip_prefix(ASIDE).unwrap_or(aside);
        let [name, aside] = [old, aside].map(|name| CString::new(name).unwrap_or_default());
        let restored = directory(mounted, above).and_then(|there| put_back(&there, &aside, &name));
        match restored {
            Ok(()) => tracing::info!("{path:?} is called {name:?} again: a purge of it was interrupted"),
            Err(error) => tracing::warn!("{path:?}, of an interrupted purge, cannot be called {name:?} again: {error}"),
        }
        restored.is_ok()
    };
    hidden.iter().filter(restore).count()
}

impl Core {
    /// Removes a file if it has not changed since the scan. Returns whether it is gone.
    pub(super) fn remove_unused(&self, mounted: &OwnedFd, seen: &ScannedFile) -> bool {
        let left = |why: &dyn std::fmt::Display| {
            tracing::info!("{:?} is not purged: {why}", seen.file.path);
            false
        };
        let (above, name) = split(&seen.file.path);
        if ASIDE.len() + name.len() > NAME_MAX {
            return left(&"its name is too long");
        }
        let there = match directory(mounted, above) {
            Ok(there) => there,
            Err(error) => return left(&error),
        };
        let [name, aside] = [name.to_owned(), format!("{ASIDE}{name}")].map(|n| CString::new(n).unwrap_or_default());
        let is_unused = |name: &CString, timeout| {
            let stub = directory(self.volume.tree(), above).and_then(|above| open(above, name, OFlags::RDWR));
            stub.is_ok_and(|stub| self.is_unused(seen, stub)) && self.is_used_nowhere_else(seen, timeout)
        };
        // Users must not miss a file that is in use.
        if !is_unused(&name, ASKED_MAX) {
            return left(&USED);
        }
        if let Err(error) = set_aside(&there, &name, &aside) {
            return left(&error);
        }
        if is_unused(&aside, ASKED_AGAIN_MAX) && unlinkat(&there, &aside, AtFlags::empty()).is_ok() {
            return true;
        }
        match put_back(&there, &aside, &name) {
            // Another node's purge has restored the name.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => tracing::error!(
                "{:?} is now called {aside:?}: it was in use again, and its name was taken: {error}; the next purge \
                 tries again to restore it",
                seen.file.path
            ),
        }
        left(&USED)
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

    /// Whether all other nodes report that they do not use the file. No node can open one that is set aside during the
    /// request, since its name is unknown.
    fn is_used_nowhere_else(&self, seen: &ScannedFile, timeout: Duration) -> bool {
        let Some(calls) = &self.calls else { return true };
        let others = calls.others();
        let names: Option<Vec<String>> = others.iter().map(|other| other.own.clone()).collect();
        let Some(names) = names else { return false };
        let said = calls.call_each(names, FILE_IN_USE, &Caller::daemon(), &seen.inode, timeout, &|_| true);
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

    #[test]
    fn a_file_of_an_interrupted_purge_gets_its_name_back_unless_that_is_taken() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("a")).expect("directory");
        let hidden = ["a/.entrepot-purged-x", ".entrepot-purged-y"].map(String::from);
        for name in [hidden[0].as_str(), hidden[1].as_str(), "y"] {
            std::fs::write(at(name), name).expect("write");
        }
        assert!(hidden.iter().all(|path| is_aside(path)));
        assert!(![".entrepot-purged-", ".entrepot-purged-d/x", "a/x"].iter().any(|path| is_aside(path)));
        assert_eq!(restore_names(&mounted(dir.path()).expect("open"), &hidden), 1);
        let read = |name: &str| std::fs::read_to_string(at(name)).expect("read");
        assert_eq!([read("a/x"), read("y"), read(&hidden[1])], [hidden[0].as_str(), "y", hidden[1].as_str()]);
    }
}
