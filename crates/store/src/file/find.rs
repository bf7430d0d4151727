//! From the number of a file to the file: in use, where it is noted to be, or wherever a walk through the tree finds it.

use super::{File, FileTable, Pool};
use crate::Result;
use crate::places::Places;
use policy::FileId;
use rustix::fd::AsFd;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use rustix::path::Arg;
use std::path::PathBuf;
use std::sync::Arc;

/// How often a place that changes while it is looked at is looked up again.
const TRIES: usize = 4;

impl File {
    /// It got its number just now.
    pub(super) fn has_number(self: &Arc<Self>, id: FileId) {
        self.pool.numbered.add(self);
        if let Some(places) = self.pool.places.get()
            && let Some(stub) = self.stub.path()
        {
            places.learn(id, &stub);
        }
    }
}

impl Pool {
    /// The path of a file below the tree, as far as that is noted.
    pub fn path_of(&self, id: FileId) -> Option<PathBuf> {
        self.places.get()?.path_of(id)
    }

    /// What a file is called in messages: its path below the tree, or its number where that is not noted.
    pub fn name_of(&self, id: FileId) -> String {
        self.path_of(id).map_or_else(|| format!("file {id}"), |path| path.display().to_string())
    }
}

impl FileTable {
    /// The file of that number, if it is in use.
    pub fn in_use(&self, id: FileId) -> Option<Arc<File>> {
        self.pool().numbered.get(id)
    }

    /// The file of that number, where it is noted to be. `None` says nothing: see [`FileTable::find`].
    pub fn noted(&self, id: FileId) -> Option<Arc<File>> {
        self.in_use(id).or_else(|| self.at_noted_place(self.pool().places.get()?, id).ok())
    }

    /// The file of that number; `None` if there is none in the tree. What is noted wrong is searched for in the whole tree, and so is,
    /// once in the life of a daemon, what is not noted.
    pub fn find(&self, id: FileId) -> Option<Arc<File>> {
        if let Some(file) = self.in_use(id) {
            return Some(file);
        }
        let places = self.pool().places.get()?;
        let walks = places.walks();
        match self.at_noted_place(places, id) {
            Ok(file) => return Some(file),
            // Other nodes make files, too.
            Err(None) if places.is_whole() && self.pool().cluster.get().is_none() => return None,
            Err(_) => {}
        }
        places.walk(walks);
        self.at_noted_place(places, id).inspect_err(|_| places.file_is_gone(id)).ok()
    }

    /// The file, or the place where it is not.
    fn at_noted_place(&self, places: &Places, id: FileId) -> Result<Arc<File>, Option<PathBuf>> {
        let mut wrong = None;
        for _ in 0..TRIES {
            let path = places.path_of(id).ok_or(None)?;
            if wrong.as_ref() == Some(&path) {
                break;
            }
            if let Ok(Some(file)) = self.open_at(places.tree(), &*path)
                && file.id() == Some(id)
            {
                return Ok(file);
            }
            wrong = Some(path);
        }
        Err(wrong)
    }

    /// The file behind a path below a directory of the namespace; `None` if it is gone or no regular file.
    pub(crate) fn open_at(&self, directory: impl AsFd, path: impl Arg + Copy) -> Result<Option<Arc<File>>> {
        let open = |mode: OFlags| {
            let flags = mode | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            openat2(&directory, path, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
        };
        let fd = match open(OFlags::RDWR) {
            Err(Errno::ACCESS | Errno::PERM | Errno::TXTBSY) => open(OFlags::RDONLY),
            done => done,
        };
        let is_regular = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
        match fd {
            Ok(fd) if is_regular(fstat(&fd)?.st_mode) => self.get_or_open(fd).map(Some),
            Ok(_) | Err(Errno::NOENT | Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::NOTDIR) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}
