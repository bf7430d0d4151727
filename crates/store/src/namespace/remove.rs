//! Names that go away, and what of the file behind them has to go with the last one.

use super::Namespace;
use super::node::NodeId;
use crate::host::descriptor_path;
use crate::stub::real::{is_laid_out, number_at};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, chmodat, openat, statat, unlinkat};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;

/// What was removed.
#[derive(Debug)]
pub struct Removed {
    /// The node.
    pub id: NodeId,
    /// Its attributes before.
    pub stat: Stat,
    /// Whether that was its last name.
    pub last: bool,
    /// The open stub of a regular file with objects whose last name this may have been: they go when nobody has it open.
    pub stub: Option<OwnedFd>,
}

impl Namespace {
    /// Removes a name that is not a directory's.
    pub fn unlink(&self, parent: NodeId, name: &OsStr) -> Result<Removed> {
        self.unlink_after(parent, name, |_| {})
    }

    /// The same. `before` is called while the name is still there, with what is about to be removed.
    pub fn unlink_after(&self, parent: NodeId, name: &OsStr, before: impl FnOnce(&mut Removed)) -> Result<Removed> {
        let directory = self.directory(parent)?;
        let mut removed = match self.just_named(parent, name) {
            Some((file, stat)) => self.about_to_remove_seen(&file, &directory, name, stat),
            None => {
                let stat = statat(&*directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                self.about_to_remove(&directory, name, stat)
            }
        };
        before(&mut removed);
        let _changing = self.changing();
        unlinkat(&*directory, name, AtFlags::empty())?;
        Ok(self.now_removed(removed, parent, name))
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, parent: NodeId, name: &OsStr) -> Result<Removed> {
        let directory = self.directory(parent)?;
        let stat = statat(&*directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let removed = self.about_to_remove(&directory, name, stat);
        unlinkat(&*directory, name, AtFlags::REMOVEDIR)?;
        if let Some(places) = &self.places {
            places.directory_is_gone(stat.st_ino);
        }
        Ok(self.now_removed(removed, parent, name))
    }

    /// Learns what can only be learned while the name is there.
    pub(super) fn about_to_remove(&self, directory: &OwnedFd, name: &OsStr, stat: Stat) -> Removed {
        let id = self.id_of(stat.st_ino);
        let kind = FileType::from_raw_mode(stat.st_mode);
        let last = kind == FileType::Directory || stat.st_nlink <= 1;
        let mut stub = None;
        if kind == FileType::Directory {
            // Somebody may stand in it: opened now, since it cannot be opened by name any more.
            if self.node(id).is_ok() {
                let _ = self.directory(id);
            }
        } else if kind == FileType::RegularFile && stat.st_nlink <= 2 {
            // A file in use may have one link more, its mark in `open/`. An empty file may have objects too: space reserved
            // beyond its end, or what is left of one that was emptied.
            stub = stub_with_objects(directory, name, &stat, self.quotas.is_on());
        }
        Removed { id, stat, last, stub }
    }

    /// The same of a regular file that was looked up just now.
    fn about_to_remove_seen(&self, file: &OwnedFd, directory: &OwnedFd, name: &OsStr, stat: Stat) -> Removed {
        let open = || openat(CWD, descriptor_path(file), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok();
        let counts = self.quotas.is_on();
        let stub = match stat.st_nlink <= 2 && (counts || is_laid_out(file).unwrap_or(true)) {
            true => open().or_else(|| stub_with_objects(directory, name, &stat, counts)),
            false => None,
        };
        Removed { id: self.id_of(stat.st_ino), stat, last: stat.st_nlink <= 1, stub }
    }

    pub(super) fn now_removed(&self, removed: Removed, parent: NodeId, name: &OsStr) -> Removed {
        self.nodes.remove_name(removed.id, parent, name);
        removed
    }
}

/// Opens the stub if it has a layout, which costs a file without objects one look at an attribute; with `any` in any case.
fn stub_with_objects(directory: &OwnedFd, name: &OsStr, stat: &Stat, any: bool) -> Option<OwnedFd> {
    if !any && let Ok(None) = number_at(directory, name) {
        return None;
    }
    let open = |access| openat(directory, name, access | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let opened = open(OFlags::RDWR).or_else(|_| open(OFlags::RDONLY)).or_else(|error| {
        // Its mode keeps even its owner out.
        chmodat(directory, name, Mode::RUSR | Mode::WUSR, AtFlags::empty()).map_err(|_| error)?;
        let opened = open(OFlags::RDWR);
        chmodat(directory, name, Mode::from_raw_mode(stat.st_mode & 0o7777), AtFlags::empty())?;
        opened
    });
    match opened {
        Ok(stub) => Some(stub),
        // Somebody was quicker, and removed it or put something else in its place.
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => None,
        Err(error) => {
            tracing::warn!(?name, %error, "a file being removed cannot be opened; `entrepot check` will find its objects");
            None
        }
    }
}
