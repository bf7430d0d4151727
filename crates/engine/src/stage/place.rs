//! Paths in the mount: checked name by name and resolved beneath its root, with the permissions of the requesting user.

use super::inherit::{self, NewFile};
use super::{Result, StageError};
use crate::rights::with_rights_of;
use crate::source::Identity;
use meta::namespace::attributes::REQUEST;
use object::host;
use object::host::{descriptor_path, remembered};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, Access, AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, XattrFlags};
use rustix::io::Errno;
use std::sync::Arc;

/// Maximum length of a name in Linux file systems.
const NAME_BYTES_MAX: usize = 255;

/// Splits a path relative to the mount's root into names. A leading `/` also means the mount's root.
///
/// # Errors
/// A name is `..`, too long, or contains a control character.
pub(crate) fn names(path: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
        if name == ".." {
            return Err(StageError::path(path, "`..` is not allowed; write the path from the mount's root"));
        }
        if name.chars().any(char::is_control) {
            return Err(StageError::path(&path.escape_debug().to_string(), "it has a control character in it"));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(StageError::path(path, "a name in it is longer than 255 bytes"));
        }
        names.push(name.to_string());
    }
    Ok(names)
}

/// Opens `names` below the mount's root, as the user. Symbolic links are followed if they stay beneath it.
pub(crate) fn open_at(tree: BorrowedFd<'_>, names: &[String], flags: OFlags, who: &Identity) -> Result<OwnedFd> {
    let path = if names.is_empty() { ".".to_string() } else { names.join("/") };
    let tree = tree.try_clone_to_owned().map_err(|_| Errno::MFILE)?;
    let shown = path.clone();
    let opened = with_rights_of(who, move || {
        // The open must not block on a terminal or a fifo; `O_PATH` excludes these flags.
        let calm = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NOCTTY | OFlags::NONBLOCK };
        let flags = flags | OFlags::CLOEXEC | calm;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        fs::openat2(&tree, &path, flags, Mode::empty(), beneath)
    });
    let opened = opened.map_err(|e| StageError::path(&shown, e))?;
    opened.map_err(|e| match e {
        Errno::XDEV => StageError::path(&shown, "a symbolic link in it leads out of the mount"),
        e => StageError::refused(&shown, e),
    })
}

/// A parent directory and the name of a file in it.
pub(super) struct Place {
    parent: Arc<OwnedFd>,
    pub name: String,
    /// The path for messages.
    pub shown: String,
}

impl Place {
    /// Finds the place; in an existing directory the file gets `last_name`. The user must be able to write there.
    pub fn find(tree: BorrowedFd<'_>, path: &str, last_name: Option<&str>, who: &Identity) -> Result<Place> {
        let mut names = names(path)?;
        let directory = OFlags::PATH | OFlags::DIRECTORY;
        let into = last_name.filter(|_| open_at(tree, &names, directory, who).is_ok());
        names.extend(into.map(str::to_string));
        let Some(name) = names.pop() else { return Err(StageError::path(path, "name a file in the mount")) };
        let parent = open_at(tree, &names, OFlags::RDONLY | OFlags::DIRECTORY, who)?;
        names.push(name.clone());
        let place = Place { parent: Arc::new(parent), name, shown: names.join("/") };
        let parent = place.parent.clone();
        let allowed =
            place.act(who, move |_| fs::accessat(&*parent, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS));
        allowed.map(|()| place)
    }

    /// Attributes of the file with this name, if there is one.
    pub fn stat(&self) -> Result<Option<Stat>> {
        match fs::statat(&*self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(StageError::refused(&self.shown, e)),
        }
    }

    /// Links an open file under the name, as the user, in one step. With `replace` an existing file is replaced.
    pub fn put(&self, file: BorrowedFd<'_>, replace: bool, who: &Identity) -> Result<()> {
        let from = descriptor_path(file);
        // Another node may put another file into this directory at the same time: the inode's number is this file's alone.
        let inode = remembered(file)?.st_ino;
        let (parent, temporary) = (self.parent.clone(), format!(".entrepot-{inode:x}"));
        self.act(who, move |name| {
            match fs::linkat(CWD, &from, &*parent, &name, AtFlags::SYMLINK_FOLLOW) {
                Err(Errno::EXIST) if replace => {}
                other => return other,
            }
            fs::linkat(CWD, &from, &*parent, &temporary, AtFlags::SYMLINK_FOLLOW)?;
            fs::renameat(&*parent, &temporary, &*parent, &name).inspect_err(|_| {
                let _ = fs::unlinkat(&*parent, &temporary, AtFlags::empty());
            })
        })?;
        Ok(host::sync_directory(&*self.parent)?)
    }

    /// Creates a directory, as the user, unless it exists. Returns whether it was created.
    pub fn make_directory(&self, who: &Identity) -> Result<bool> {
        let (parent, request) = (self.parent.clone(), inherit::request_of(self.parent()));
        self.act(who, move |name| match fs::mkdirat(&*parent, &name, Mode::from_raw_mode(0o777)) {
            Ok(()) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                if let Some(text) = request
                    && let Err(error) = fs::openat(&*parent, &name, flags, Mode::empty())
                        .and_then(|made| fs::fsetxattr(&made, REQUEST, text.as_bytes(), XattrFlags::empty()))
                {
                    tracing::warn!(name, %error, "a new directory does not inherit its parent's layout request");
                }
                Ok(true)
            }
            Err(Errno::EXIST) => {
                let stat = fs::statat(&*parent, &name, AtFlags::SYMLINK_NOFOLLOW)?;
                let kind = fs::FileType::from_raw_mode(stat.st_mode);
                if kind == fs::FileType::Directory { Ok(false) } else { Err(Errno::NOTDIR) }
            }
            Err(e) => Err(e),
        })
    }

    /// Creates a symbolic link, as the user.
    pub fn make_symlink(&self, to: &str, who: &Identity) -> Result<()> {
        let (parent, to) = (self.parent.clone(), to.to_string());
        self.act(who, move |name| fs::symlinkat(&to, &*parent, &name))
    }

    /// Attributes of a new file that the user would create here.
    pub fn new_file(&self, who: &Identity) -> Result<NewFile> {
        let (parent, mask, gid) = (self.parent.clone(), who.mask(), who.gid);
        self.act(who, move |_| NewFile::ask(parent.as_fd(), mask, gid))
    }

    fn act<T: Send + 'static>(
        &self,
        who: &Identity,
        work: impl FnOnce(String) -> rustix::io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let name = self.name.clone();
        let done = with_rights_of(who, move || work(name)).map_err(|e| StageError::path(&self.shown, e))?;
        done.map_err(|e| match e {
            Errno::EXIST => StageError::path(&self.shown, "it is there already; use --force to replace it"),
            e => StageError::refused(&self.shown, e),
        })
    }

    /// The parent directory.
    pub fn parent(&self) -> BorrowedFd<'_> {
        self.parent.as_fd()
    }
}
