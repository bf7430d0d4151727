//! Depth-first walk of a directory tree. It keeps one open directory for each level, and no list of names.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::{Errno, Result};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// A walk of the tree below one directory.
pub struct Descent {
    levels: Vec<Level>,
    /// Whether links, pipes, sockets and devices are returned, too.
    others: bool,
}

struct Level {
    fd: Arc<OwnedFd>,
    entries: Dir,
    inode: u64,
    /// Name of the directory in the level above.
    name: CString,
}

/// A file or directory found by the walk. A directory is returned before its content.
pub struct Met {
    /// The directory that contains it.
    pub directory: Arc<OwnedFd>,
    /// Inode number of the parent directory.
    pub above: u64,
    /// Its name in that directory.
    pub name: CString,
    /// The inode number of a directory; `None` for a file.
    pub inode: Option<u64>,
}

impl Level {
    fn open(above: &OwnedFd, name: &CStr) -> Result<Level> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(above, name, flags, Mode::empty())?;
        Ok(Level { entries: Dir::read_from(&fd)?, inode: fstat(&fd)?.st_ino, name: name.to_owned(), fd: Arc::new(fd) })
    }

    fn meets(&self, name: &CStr, inode: Option<u64>) -> Met {
        Met { directory: self.fd.clone(), above: self.inode, name: name.to_owned(), inode }
    }
}

impl Descent {
    /// Starts a walk at the root.
    pub fn new(root: &OwnedFd) -> Result<Descent> {
        Ok(Descent { levels: vec![Level::open(root, c".")?], others: false })
    }

    /// Also returns links, pipes, sockets and devices from now on.
    pub fn and_others(self) -> Descent {
        Descent { others: true, ..self }
    }

    /// Path, below the root, of the directory that contains the entry returned last.
    pub fn above(&self, met: &Met) -> PathBuf {
        // The walk has already entered a directory that it returns.
        let levels = &self.levels[1..self.levels.len() - usize::from(met.inode.is_some())];
        levels.iter().map(|level| OsStr::from_bytes(level.name.to_bytes())).collect()
    }

    /// Path, below the root, of a file in the directory of the entry returned last.
    pub fn path_of(&self, name: &CStr) -> PathBuf {
        let above = self.levels.iter().skip(1).map(|level| &*level.name);
        above.chain([name]).map(|name| OsStr::from_bytes(name.to_bytes())).collect()
    }
}

/// An unreadable entry is an error, and the remaining entries follow. Symbolic links are never followed, and returned
/// only with `others`.
impl Iterator for Descent {
    type Item = Result<Met>;

    fn next(&mut self) -> Option<Result<Met>> {
        loop {
            let level = self.levels.last_mut()?;
            let entry = match level.entries.next() {
                Some(Ok(entry)) => entry,
                Some(Err(error)) => {
                    self.levels.pop();
                    return Some(Err(error));
                }
                None => {
                    self.levels.pop();
                    continue;
                }
            };
            let name = entry.file_name();
            match kind(&level.fd, &entry) {
                _ if name == c"." || name == c".." => {}
                FileType::RegularFile => return Some(Ok(level.meets(name, None))),
                FileType::Directory => match Level::open(&level.fd, name) {
                    Ok(below) => {
                        let met = level.meets(name, Some(below.inode));
                        self.levels.push(below);
                        return Some(Ok(met));
                    }
                    Err(Errno::NOENT | Errno::NOTDIR) => {} // removed meanwhile
                    Err(error) => return Some(Err(error)),
                },
                _ if self.others => return Some(Ok(level.meets(name, None))),
                _ => {}
            }
        }
    }
}

/// Type of an entry, even if the file system's directories do not report types.
fn kind(directory: &OwnedFd, entry: &DirEntry) -> FileType {
    match entry.file_type() {
        FileType::Unknown => statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
        known => known,
    }
}
