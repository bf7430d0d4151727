//! Depth-first walk of a directory tree: the one walker of the namespace. It keeps one open directory for each level,
//! and no list of names, except in order: then it has the names of each open directory.
//!
//! The iterator enters directories by itself. [`Descent::entry`] leaves that to its caller, who may open a directory
//! with the rights of a user, look at it first, or pass it over.

use object::host::remembered;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags, openat, statat};
use rustix::io::{Errno, Result, fcntl_dupfd_cloexec};
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// A walk of the tree below one directory.
pub struct Descent {
    levels: Vec<Level>,
    /// Whether links, pipes, sockets and devices are returned, too.
    others: bool,
    in_order: bool,
}

/// Name in a directory, and its type.
pub type Entry = (CString, FileType);

struct Level {
    fd: Arc<OwnedFd>,
    entries: Box<dyn Iterator<Item = Result<Entry>> + Send>,
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
    fn of(fd: OwnedFd, name: &CStr, in_order: bool) -> Result<Level> {
        let (inode, fd) = (remembered(&fd)?.st_ino, Arc::new(fd));
        let directory = fd.clone();
        let entries = Dir::new(fcntl_dupfd_cloexec(&fd, 0)?)?.map(move |entry| {
            let entry = entry?;
            Ok((entry.file_name().to_owned(), kind(&directory, &entry)))
        });
        let entries = entries.filter(|entry| !matches!(entry, Ok((name, _)) if [c".", c".."].contains(&&**name)));
        let entries: Box<dyn Iterator<Item = Result<Entry>> + Send> = match in_order {
            false => Box::new(entries),
            true => {
                let mut all = entries.collect::<Result<Vec<Entry>>>()?;
                all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
                Box::new(all.into_iter().map(Ok))
            }
        };
        Ok(Level { entries, inode, name: name.to_owned(), fd })
    }

    fn open(above: &OwnedFd, name: &CStr, in_order: bool) -> Result<Level> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Level::of(openat(above, name, flags, Mode::empty())?, name, in_order)
    }

    fn meets(&self, name: &CStr, inode: Option<u64>) -> Met {
        Met { directory: self.fd.clone(), above: self.inode, name: name.to_owned(), inode }
    }
}

impl Descent {
    /// Starts a walk at the root.
    pub fn new(root: &OwnedFd) -> Result<Descent> {
        Ok(Descent { levels: vec![Level::open(root, c".", false)?], others: false, in_order: false })
    }

    /// Starts a walk at an open directory, perhaps in the order of the names.
    pub fn at(root: OwnedFd, in_order: bool) -> Result<Descent> {
        Ok(Descent { levels: vec![Level::of(root, c".", in_order)?], others: false, in_order })
    }

    /// Returns the next name, of any type. A directory is not entered.
    pub fn entry(&mut self) -> Option<Result<Entry>> {
        loop {
            let level = self.levels.last_mut()?;
            match level.entries.next() {
                Some(Ok(entry)) => return Some(Ok(entry)),
                Some(Err(error)) => {
                    level.entries = Box::new(std::iter::empty());
                    return Some(Err(error));
                }
                None => drop(self.levels.pop()),
            }
        }
    }

    /// Enters the directory of that name, which [`Descent::entry`] returned last: its names come next.
    pub fn enter(&mut self, name: &CStr, directory: OwnedFd) -> Result<()> {
        self.levels.push(Level::of(directory, name, self.in_order)?);
        Ok(())
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

    /// Path, below the root, of the directory of the entry or error returned last.
    pub fn directory(&self) -> PathBuf {
        self.levels.iter().skip(1).map(|level| OsStr::from_bytes(level.name.to_bytes())).collect()
    }

    /// Path, below the root, of a name in the directory of the entry returned last; `None` if it is no UTF-8.
    pub fn names_of(&self, name: &CStr) -> Option<Vec<String>> {
        self.path_of(name).iter().map(|name| name.to_str().map(str::to_owned)).collect()
    }

    /// Path, below the root, of a file in the directory of the entry returned last.
    pub fn path_of(&self, name: &CStr) -> PathBuf {
        self.directory().join(OsStr::from_bytes(name.to_bytes()))
    }
}

/// An unreadable entry is an error, and the remaining entries follow. Symbolic links are never followed, and returned
/// only with `others`.
impl Iterator for Descent {
    type Item = Result<Met>;

    fn next(&mut self) -> Option<Result<Met>> {
        loop {
            let (name, kind) = match self.entry()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            let level = self.levels.last()?;
            match kind {
                FileType::Directory => match Level::open(&level.fd, &name, self.in_order) {
                    Ok(below) => {
                        let met = level.meets(&name, Some(below.inode));
                        self.levels.push(below);
                        return Some(Ok(met));
                    }
                    Err(Errno::NOENT | Errno::NOTDIR) => {} // removed meanwhile
                    Err(error) => return Some(Err(error)),
                },
                FileType::RegularFile => return Some(Ok(level.meets(&name, None))),
                _ if self.others => return Some(Ok(level.meets(&name, None))),
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
