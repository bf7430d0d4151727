//! Removal of names, and of the file behind the last one.

use super::Namespace;
use super::node::NodeId;
use crate::stub::real::{is_laid_out, number_at};
use object::host::{descriptor_path, fstat, remembered};
use parking_lot::RwLockReadGuard;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, chmodat, openat, statat, unlinkat};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;

/// A removed name.
#[derive(Debug)]
pub struct Removed {
    /// Node of the removed name.
    pub id: NodeId,
    /// Attributes of the inode before the removal.
    pub stat: Stat,
    /// Whether it was the last name.
    pub last: bool,
    /// Open stub of a regular file with objects that may have lost its last name. The objects are removed when the file
    /// is not open any more.
    pub stub: Option<OwnedFd>,
    /// Set if the name led to another file, or to none, when the stub was opened.
    pub is_outdated: bool,
}

/// Limit of examinations of a file to be removed, while other nodes put others in its place. A guess.
pub(super) const TRIES: usize = 4;

impl Namespace {
    /// Removes a name of any inode but a directory.
    pub fn unlink(&self, parent: NodeId, name: &OsStr) -> Result<Removed> {
        self.unlink_after(parent, name, |_| true)
    }

    /// As [`Namespace::unlink`]. `before` is called while the name still exists, with the file about to be removed. If
    /// it returns `false`, the file was removed, and the next file under the name is examined.
    pub fn unlink_after(
        &self,
        parent: NodeId,
        name: &OsStr,
        mut before: impl FnMut(&mut Removed) -> bool,
    ) -> Result<Removed> {
        let directory = self.directory(parent)?;
        let mut tries = 1..TRIES;
        let removed = loop {
            let mut removed = match self.just_named(parent, name) {
                Some((file, stat)) => self.about_to_remove_seen(&file, &directory, name, stat),
                None => {
                    let stat = statat(&*directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    self.about_to_remove(&directory, name, stat, self.quotas.is_on())
                }
            };
            if (!removed.is_outdated && before(&mut removed)) || tries.next().is_none() {
                break removed;
            }
        };
        let _changing = self.changing();
        let _removing = self.removing();
        unlinkat(&*directory, name, AtFlags::empty())?;
        self.is_absent(parent, name);
        Ok(self.now_removed(removed, parent, name))
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, parent: NodeId, name: &OsStr) -> Result<Removed> {
        let directory = self.directory(parent)?;
        let stat = statat(&*directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let removed = self.about_to_remove(&directory, name, stat, self.quotas.is_on());
        let _removing = self.removing();
        unlinkat(&*directory, name, AtFlags::REMOVEDIR)?;
        self.is_absent(parent, name);
        if let Some(places) = &self.places {
            places.directory_is_gone(stat.st_ino);
        }
        Ok(self.now_removed(removed, parent, name))
    }

    /// Reads all data that are readable only while the name exists. With `any`, opens a file without objects too.
    pub(super) fn about_to_remove(&self, directory: &OwnedFd, name: &OsStr, stat: Stat, any: bool) -> Removed {
        let id = self.id_of(stat.st_ino);
        let kind = FileType::from_raw_mode(stat.st_mode);
        let last = kind == FileType::Directory || stat.st_nlink <= 1;
        let (mut stub, mut is_outdated) = (None, false);
        if kind == FileType::Directory {
            // A process may have the directory as working directory. Without a name it cannot be opened later, so it is
            // opened now.
            if self.node(id).is_ok() {
                let _ = self.directory(id);
            }
        } else if kind == FileType::RegularFile && stat.st_nlink <= 2 {
            // A file in use may have one link more, its mark in `open/`. An empty file may have objects too: space
            // reserved beyond its end, or the rest of one that was emptied.
            match stub_with_objects(directory, name, &stat, any) {
                Ok(found) => stub = found,
                Err(Outdated) => is_outdated = true,
            }
        }
        Removed { id, stat, last, stub, is_outdated }
    }

    /// As `about_to_remove`, for a regular file that was looked up just now.
    fn about_to_remove_seen(&self, file: &OwnedFd, directory: &OwnedFd, name: &OsStr, stat: Stat) -> Removed {
        let open = || openat(CWD, descriptor_path(file), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok();
        let counts = self.quotas.is_on();
        let stub = match stat.st_nlink <= 2 && (counts || is_laid_out(file).unwrap_or(true)) {
            true => open().map_or_else(|| stub_with_objects(directory, name, &stat, counts), |stub| Ok(Some(stub))),
            false => Ok(None),
        };
        let (is_outdated, stub) = (stub.is_err(), stub.unwrap_or_default());
        Removed { id: self.id_of(stat.st_ino), stat, last: stat.st_nlink <= 1, stub, is_outdated }
    }

    /// Guard of a removal until its node has no name, where another inode may get its number.
    fn removing(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.is_local.then(|| self.renames.read())
    }

    pub(super) fn now_removed(&self, removed: Removed, parent: NodeId, name: &OsStr) -> Removed {
        self.nodes.remove_name(removed.id, parent, name);
        removed
    }
}

/// The name now leads to another file, or to none.
#[derive(Debug)]
struct Outdated;

/// Opens the stub if it has a layout; a file without objects only costs one read of an attribute. With `any` opens it
/// always.
fn stub_with_objects(
    directory: &OwnedFd,
    name: &OsStr,
    stat: &Stat,
    any: bool,
) -> std::result::Result<Option<OwnedFd>, Outdated> {
    if !any && let Ok(None) = number_at(directory, name) {
        return Ok(None);
    }
    let open = |access| openat(directory, name, access | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let opened = open(OFlags::RDWR).or_else(|_| open(OFlags::RDONLY)).or_else(|error| match error {
        Errno::ACCESS => open_forbidden(directory, name, stat),
        error => Err(error),
    });
    match opened {
        Ok(stub) => match remembered(&stub) {
            Ok(now) if (now.st_dev, now.st_ino) != (stat.st_dev, stat.st_ino) => Err(Outdated),
            _ => Ok(Some(stub)),
        },
        // Another thread or node removed the file first, or replaced it.
        Err(Errno::NOENT | Errno::STALE | Errno::LOOP | Errno::NXIO) => Err(Outdated),
        Err(error) => {
            tracing::warn!(?name, %error, "a file being removed cannot be opened; `entrepot check` will find its objects");
            Ok(None)
        }
    }
}

/// Opens a file whose mode forbids access even to its owner. The mode is changed through a descriptor: another node may
/// rename a symbolic link over the name, and the daemon must not follow it.
fn open_forbidden(directory: &OwnedFd, name: &OsStr, stat: &Stat) -> Result<OwnedFd> {
    let file = openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let now = fstat(&file)?;
    let is_same = (now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino);
    if !is_same || FileType::from_raw_mode(now.st_mode) != FileType::RegularFile {
        return Err(Errno::STALE);
    }
    let path = descriptor_path(&file);
    let set_mode = |mode| chmodat(CWD, path.as_str(), mode, AtFlags::empty());
    set_mode(Mode::RUSR | Mode::WUSR).map_err(|_| Errno::ACCESS)?;
    let opened = openat(CWD, path.as_str(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    set_mode(Mode::from_raw_mode(now.st_mode & 0o7777))?;
    opened
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::{Caller, ROOT};
    use rustix::fs::RenameFlags;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::Path;

    fn tree(files: &[&str]) -> (tempfile::TempDir, Namespace) {
        let dir = tempfile::tempdir().expect("a directory");
        files.iter().for_each(|file| std::fs::write(dir.path().join(file), file).expect("write"));
        let root = std::fs::File::open(dir.path()).expect("a directory");
        let namespace = Namespace::new(root.into()).expect("a tree").shared();
        (dir, namespace)
    }

    fn inode(path: &Path) -> u64 {
        path.metadata().expect("a file").ino()
    }

    /// The kernel may open a file by its number just after a rename replaced it. [S-428]
    #[test]
    fn a_file_that_was_replaced_is_stale_so_that_the_kernel_looks_its_name_up_again() {
        let (dir, namespace) = tree(&["name", "new"]);
        let namespace = Namespace { replaced: None, ..namespace };
        let (new, name) = (OsStr::new("new"), OsStr::new("name"));
        let (node, _) = namespace.lookup(ROOT, name).expect("a file");
        assert!(namespace.open_stub(node.id).is_ok());
        let renamed = namespace.rename_after((ROOT, new), (ROOT, name), RenameFlags::empty(), |_| true);
        assert!(renamed.is_ok_and(|replaced| replaced.is_some_and(|replaced| replaced.id == node.id)));
        assert_eq!(namespace.open_stub(node.id).err(), Some(Errno::STALE));
        assert_eq!(namespace.lookup(ROOT, name).expect("a file").0.id, inode(&dir.path().join("name")));
    }

    /// Attributes of a removed file may be requested while its last name is gone already. [S-428]
    #[test]
    fn a_new_inode_does_not_get_the_number_of_a_removed_one_that_the_kernel_still_refers_to() {
        let (dir, namespace) = tree(&[]);
        let caller = Caller::daemon();
        let name = OsStr::new("name");
        let make = || namespace.create(caller, ROOT, name, 0o600).expect("a file").0.id;
        let removed = make();
        namespace.unlink(ROOT, name).expect("it is removed");
        let new = make();
        assert_ne!(new, removed);
        assert_eq!(inode(&dir.path().join("name")), new);
        namespace.unlink(ROOT, name).expect("it is removed");
        let directory = namespace.make_directory(caller, ROOT, name, 0o700).expect("a directory").0.id;
        assert!(![new, removed].contains(&directory));
    }

    /// Another node replaces the file that this node is about to replace or remove. [S-412]
    #[test]
    fn a_file_that_another_node_put_in_the_way_is_the_one_that_is_replaced() {
        let (dir, namespace) = tree(&["old", "theirs", "mine"]);
        let at = |name: &str| dir.path().join(name);
        let (old, theirs) = (inode(&at("old")), inode(&at("theirs")));
        let mut met = Vec::new();
        let before = |removed: &mut Removed| {
            met.push(removed.id);
            if removed.id == old {
                std::fs::rename(at("theirs"), at("old")).expect("rename");
            }
            removed.id != old
        };
        let (from, to) = ((ROOT, OsStr::new("mine")), (ROOT, OsStr::new("old")));
        let replaced = namespace.rename_after(from, to, RenameFlags::empty(), before).expect("it is renamed");
        assert_eq!(replaced.map(|removed| removed.id), Some(theirs));
        assert_eq!(met, [old, theirs]);

        // A removed file is absent.
        let name = OsStr::new("old");
        let gone = |_: &mut Removed| {
            std::fs::remove_file(at("old")).expect("unlink");
            false
        };
        assert_eq!(namespace.unlink_after(ROOT, name, gone).err(), Some(Errno::NOENT));
    }

    #[test]
    fn a_link_in_place_of_a_file_to_be_removed_does_not_lead_to_a_change_of_modes() {
        let (dir, _) = tree(&["file", "other"]);
        let at = |name: &str| dir.path().join(name);
        let directory = OwnedFd::from(std::fs::File::open(dir.path()).expect("a directory"));
        let set = |name: &str, mode| {
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).expect("chmod");
        };
        let mode = |name: &str| at(name).metadata().expect("a file").mode() & 0o7777;
        let name = OsStr::new("file");
        set("file", 0o4000);
        set("other", 0o640);
        let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).expect("a file");
        assert!(open_forbidden(&directory, name, &stat).is_ok());
        assert_eq!(mode("file"), 0o4000);

        std::fs::rename(at("file"), at("elsewhere")).expect("rename");
        symlink("other", at("file")).expect("a link");
        assert!(matches!(stub_with_objects(&directory, name, &stat, true), Err(Outdated)));
        assert_eq!(open_forbidden(&directory, name, &stat).err(), Some(Errno::STALE));
        assert_eq!(mode("other"), 0o640);
    }
}
