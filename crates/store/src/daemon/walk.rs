//! All files of the namespace, one after the other.

use super::crash::is_regular;
use crate::file::{File, FileTable};
use crate::mover::Walk;
use crate::volume::Volume;
use crate::{Error, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// Opens the file behind a name in a directory of the namespace; `None` if it is gone or no regular file.
pub(super) fn open_file(files: &FileTable, dir: impl AsFd, name: &CStr) -> Result<Option<Arc<File>>> {
    let open = |mode: OFlags| {
        let flags = mode | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        openat2(&dir, name, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
    };
    let fd = match open(OFlags::RDWR) {
        Err(Errno::ACCESS | Errno::PERM | Errno::TXTBSY) => open(OFlags::RDONLY),
        done => done,
    };
    match fd {
        Ok(fd) if is_regular(&fd)? => files.get_or_open(fd).map(Some),
        Ok(_) | Err(Errno::NOENT | Errno::LOOP | Errno::ISDIR | Errno::NXIO) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// All files below `tree` and in `staging`, as they are met. Holds one open directory and the names in it at a time.
pub(super) fn walk<'a>(volume: &'a Volume, files: &'a FileTable) -> Result<Walk<'a>> {
    let roots = [volume.tree().try_clone_to_owned(), volume.staging().try_clone_to_owned()];
    let mut walker = Walker { files, directories: Vec::new(), names: VecDeque::new(), here: None };
    for root in roots {
        let root = root.map_err(|_| Error::Namespace(Errno::MFILE))?;
        walker.directories.push((Arc::new(root), c".".into()));
    }
    Ok(Box::new(walker))
}

struct Walker<'a> {
    files: &'a FileTable,
    /// Directories still to be read: where they are, and their names there.
    directories: Vec<(Arc<OwnedFd>, CString)>,
    /// Files still to be given, all in `here`.
    names: VecDeque<CString>,
    here: Option<Arc<OwnedFd>>,
}

impl Iterator for Walker<'_> {
    type Item = Result<Arc<File>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            while let Some(name) = self.names.pop_front() {
                let here = self.here.as_ref()?;
                match open_file(self.files, here, &name) {
                    Ok(Some(file)) => return Some(Ok(file)),
                    Ok(None) => {}
                    Err(e) => return Some(Err(e)),
                }
            }
            let (parent, name) = self.directories.pop()?;
            if let Err(e) = self.read(&parent, &name) {
                return Some(Err(e));
            }
        }
    }
}

impl Walker<'_> {
    fn read(&mut self, parent: &OwnedFd, name: &CStr) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let dir = match openat2(parent, name, flags, Mode::empty(), resolve) {
            Ok(dir) => Arc::new(dir),
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()), // removed meanwhile
            Err(e) => return Err(e.into()),
        };
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            match entry.file_type() {
                FileType::Directory => self.directories.push((dir.clone(), name.to_owned())),
                FileType::RegularFile | FileType::Unknown => self.names.push_back(name.to_owned()),
                _ => {}
            }
        }
        self.here = Some(dir);
        Ok(())
    }
}
