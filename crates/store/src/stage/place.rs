//! Paths in the mount: checked word by word, resolved beneath its root, with the rights of the user who asks.

use super::StageError;
use super::inherit::{self, NewFile, masked};
use crate::host::descriptor_path;
use crate::namespace::attributes::REQUEST;
use crate::source::Identity;
use crate::source::rights::with_rights_of;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, Access, AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, XattrFlags};
use rustix::io::Errno;
use std::sync::Arc;

/// The longest name that file systems take.
const NAME_BYTES_MAX: usize = 255;

/// The names of a path relative to the mount's root. `/` at the front is the mount's root too.
///
/// # Errors
/// A name that climbs, is empty, too long or holds a control character: nobody means those.
pub(crate) fn names(path: &str) -> Result<Vec<String>, StageError> {
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

/// Opens what is at `names` below the mount's root, as the user. Links are followed as long as they stay beneath.
pub(crate) fn open_at(
    tree: BorrowedFd<'_>,
    names: &[String],
    flags: OFlags,
    who: &Identity,
) -> Result<OwnedFd, StageError> {
    let path = if names.is_empty() { ".".to_string() } else { names.join("/") };
    let tree = tree.try_clone_to_owned().map_err(|_| Errno::MFILE)?;
    let shown = path.clone();
    let opened = with_rights_of(who, move || {
        // Neither a terminal nor a fifo may hold us up; a bare path takes no such flag.
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

/// A directory and a name in it that a file is to have.
pub(super) struct Place {
    parent: Arc<OwnedFd>,
    pub name: String,
    /// For messages.
    pub shown: String,
}

impl Place {
    /// Finds the place: a directory that exists takes `last_name`. The user must be able to write there.
    pub fn find(
        tree: BorrowedFd<'_>,
        path: &str,
        last_name: Option<&str>,
        who: &Identity,
    ) -> Result<Place, StageError> {
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

    /// What has the name now; `None` if nothing has.
    pub fn stat(&self) -> Result<Option<Stat>, StageError> {
        match fs::statat(&*self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(StageError::refused(&self.shown, e)),
        }
    }

    /// Gives an open file the name, as the user, in one step. Replaces a file that has it if told to.
    pub fn put(&self, file: BorrowedFd<'_>, replace: bool, who: &Identity) -> Result<(), StageError> {
        let from = descriptor_path(file);
        let (parent, temporary) = (self.parent.clone(), format!(".entrepot-{:x}", file.as_raw_fd()));
        self.act(who, move |name| {
            match fs::linkat(CWD, &from, &*parent, &name, AtFlags::SYMLINK_FOLLOW) {
                Err(Errno::EXIST) if replace => {}
                other => return other,
            }
            let _ = fs::unlinkat(&*parent, &temporary, AtFlags::empty()); // left by a crash at the next line
            fs::linkat(CWD, &from, &*parent, &temporary, AtFlags::SYMLINK_FOLLOW)?;
            fs::renameat(&*parent, &temporary, &*parent, &name).inspect_err(|_| {
                let _ = fs::unlinkat(&*parent, &temporary, AtFlags::empty());
            })
        })?;
        Ok(fs::fsync(&*self.parent)?)
    }

    /// Makes a directory, as the user. One that is there already is taken as it is; whether it was made.
    pub fn make_directory(&self, who: &Identity) -> Result<bool, StageError> {
        let (parent, request, mask) = (self.parent.clone(), inherit::request_of(self.parent()), who.mask());
        self.act(who, move |name| match masked(mask, || fs::mkdirat(&*parent, &name, Mode::from_raw_mode(0o777)))? {
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

    /// Makes a symbolic link, as the user.
    pub fn make_symlink(&self, to: &str, who: &Identity) -> Result<(), StageError> {
        let (parent, to) = (self.parent.clone(), to.to_string());
        self.act(who, move |name| fs::symlinkat(&to, &*parent, &name))
    }

    /// What a file that the user made here would be.
    pub fn new_file(&self, who: &Identity) -> Result<NewFile, StageError> {
        let (parent, mask, gid) = (self.parent.clone(), who.mask(), who.gid);
        self.act(who, move |_| masked(mask, || NewFile::ask(parent.as_fd(), mask, gid))?)
    }

    fn act<T: Send + 'static>(
        &self,
        who: &Identity,
        work: impl FnOnce(String) -> rustix::io::Result<T> + Send + 'static,
    ) -> Result<T, StageError> {
        let name = self.name.clone();
        let done = with_rights_of(who, move || work(name)).map_err(|e| StageError::path(&self.shown, e))?;
        done.map_err(|e| match e {
            Errno::EXIST => StageError::path(&self.shown, "it is there already; use --force to replace it"),
            e => StageError::refused(&self.shown, e),
        })
    }

    /// The directory.
    pub fn parent(&self) -> BorrowedFd<'_> {
        self.parent.as_fd()
    }
}
