//! Look-up of a file by its number: among the files in use, at its recorded place, or by a walk through the tree.

use super::{File, FileTable, Pool};
use crate::Result;
use meta::places::Places;
use meta::stub::Stub;
use meta::stub::real::{FdStub, layout_at, number_at};
use object::host::remembered;
use policy::FileId;
use policy::layout::Layout;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{self, Errno};
use rustix::path::Arg;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of attempts while the place of a file changes.
const TRIES: usize = 4;

impl File {
    /// Registers the number that the file just got.
    pub(super) fn has_number(self: &Arc<Self>, id: FileId) {
        self.pool.numbered.add(self);
        self.note_place(id);
    }

    /// Records the present place of the file. Returns whether it is in the tree.
    pub fn note_place(&self, id: FileId) -> bool {
        let places = self.pool.places.get().zip(self.stub.path());
        places.is_some_and(|(places, stub)| places.learn(id, &stub))
    }
}

impl Pool {
    /// Path of a file below the tree, if it is recorded.
    pub fn path_of(&self, id: FileId) -> Option<PathBuf> {
        self.places.get()?.path_of(id)
    }

    /// Name of a file in messages: its path below the tree, or its number if no path is recorded.
    pub fn name_of(&self, id: FileId) -> String {
        self.path_of(id).map_or_else(|| format!("file {id}"), |path| path.display().to_string())
    }
}

impl FileTable {
    /// The file of that number, if it is in use.
    pub fn in_use(&self, id: FileId) -> Option<Arc<File>> {
        self.pool().numbered.get(id).filter(|file| !file.rests())
    }

    /// The file of that number, in use or at its recorded place. `None` is not final: see [`FileTable::find`].
    pub fn noted(&self, id: FileId) -> Option<Arc<File>> {
        self.in_use(id).or_else(|| self.at_place(id))
    }

    /// The file of that number at its recorded place.
    pub fn at_place(&self, id: FileId) -> Option<Arc<File>> {
        let places = self.pool().places.get()?;
        recorded(places, id, |path| self.open_if(places, id, path)).ok()
    }

    /// The file of that number; `None` if it is not in the tree. A wrong record causes a walk through the tree; a
    /// missing one does so once in the life of a daemon.
    pub fn find(&self, id: FileId) -> Option<Arc<File>> {
        self.in_use(id).or_else(|| self.search(id, |places, path| self.open_if(places, id, path)))
    }

    /// Path of the file of that number below the tree; `None` if it is not in the tree. Unlike the kernel's path of an
    /// open file, it is right after another node renamed a directory above. Searches as [`FileTable::find`] does.
    pub fn locate(&self, id: FileId) -> Option<PathBuf> {
        self.search(id, |places, path| {
            matches!(number_at(places.tree(), path.as_os_str()), Ok(Some(number)) if number == id)
                .then(|| path.to_owned())
        })
    }

    fn search<T>(&self, id: FileId, at: impl Fn(&Places, &Path) -> Option<T>) -> Option<T> {
        let places = self.pool().places.get()?;
        let walks = places.walks();
        match recorded(places, id, |path| at(places, path)) {
            Ok(found) => return Some(found),
            // Other nodes create files, too, so the record may lack some.
            Err(None) if places.is_whole() && self.pool().cluster.get().is_none() => return None,
            Err(_) => {}
        }
        places.walk(walks);
        recorded(places, id, |path| at(places, path)).inspect_err(|_| places.file_is_gone(id)).ok()
    }

    fn open_if(&self, places: &Places, id: FileId, path: &Path) -> Option<Arc<File>> {
        self.open_at(places.tree(), path).ok().flatten().filter(|file| file.id() == Some(id))
    }

    /// The file behind a path below a directory of the namespace; `None` if it is gone or no regular file.
    pub fn open_at(&self, directory: impl AsFd, path: impl Arg + Copy) -> Result<Option<Arc<File>>> {
        let fd = match open(&directory, path, OFlags::RDWR) {
            Err(Errno::ACCESS | Errno::PERM | Errno::TXTBSY) => open(&directory, path, OFlags::RDONLY),
            done => done,
        };
        regular(fd)?.map(|fd| self.get_or_open(fd)).transpose()
    }

    /// The layout of a file of that name, without the cost of opening the file. The outer `None` is that of `open_at`;
    /// the inner one is a file that lies in its stub.
    pub fn layout_at(&self, directory: impl AsFd, name: &CStr) -> Result<Option<Option<Layout>>> {
        let shared = self.pool().cluster.get().is_some();
        if !shared && let Some(layout) = layout_at(&directory, OsStr::from_bytes(name.to_bytes())) {
            return Ok(Some(layout));
        }
        let Some(fd) = regular(open(&directory, name, OFlags::RDONLY))? else { return Ok(None) };
        Ok(Some(FdStub::sharing(Arc::new(fd), self.namespace(), shared).layout()?))
    }
}

/// Applies `at` to the recorded path. The error is that path if `at` finds nothing there; `None` if no path is
/// recorded.
fn recorded<T>(places: &Places, id: FileId, at: impl Fn(&Path) -> Option<T>) -> Result<T, Option<PathBuf>> {
    let mut wrong = None;
    for _ in 0..TRIES {
        let path = places.path_of(id).ok_or(None)?;
        if wrong.as_ref() == Some(&path) {
            break;
        }
        if let Some(found) = at(&path) {
            return Ok(found);
        }
        wrong = Some(path);
    }
    Err(wrong)
}

fn open(directory: impl AsFd, path: impl Arg, mode: OFlags) -> io::Result<OwnedFd> {
    let flags = mode | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    openat2(directory, path, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
}

fn regular(fd: io::Result<OwnedFd>) -> Result<Option<OwnedFd>> {
    match fd {
        Ok(fd) if FileType::from_raw_mode(remembered(&fd)?.st_mode) == FileType::RegularFile => Ok(Some(fd)),
        Ok(_) | Err(Errno::NOENT | Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::NOTDIR) => Ok(None),
        Err(e) => Err(e.into()),
    }
}
