//! Place of a file's stub by the file's number: a table of hints beside the state store.
//!
//! ```text
//!   file 2a   ──> (directory 131, "out.dat")
//!   directory 131 ──> (directory 77, "run")          below the tree's root: run7/run/out.dat
//!   directory 77  ──> (root, "run7")
//! ```
//! Directories are known by their inode numbers, so the renaming of one, with its whole subtree, changes one row. Rows
//! are written behind: [`Places::learn`] and renames record changes in memory, and a background task writes many at a
//! time, without a sync.
//!
//! **A hint is never trusted.** A lookup opens the file at the path and reads the number in its layout record. So a
//! table that is older than the namespace, damaged or missing costs only a [walk](Places::walk) through the tree, which
//! updates it. A number without a row belongs to no file once a walk of this daemon has seen the whole tree. Walks of
//! earlier daemons do not count, since the namespace may have been restored from a backup.

mod table;
mod walk;

use crate::Result;
use object::host::remembered;
use parking_lot::Mutex;
use policy::FileId;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, open, statat};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use table::Table;

/// Limit of changes that wait to be written; rows of further ones are missing until the next walk. A guess: 10 MB.
pub const CHANGES_MAX: usize = 1 << 16;
/// Changes that are written at once. A guess.
const BATCH: usize = 1 << 12;
/// Limit of directories whose rows are remembered.
const DIRECTORIES_MAX: usize = 1 << 16;
/// Time for which a looked-up directory is used for further files in it. A guess: a job creates many files in a run.
const LATELY: Duration = Duration::from_secs(1);
/// A longer chain of directories must be a loop.
const DEPTH_MAX: usize = 4096;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The directory's inode number.
    directory: u64,
    name: OsString,
}

/// Changes to be written: a row, or its removal.
#[derive(Debug, Default)]
struct Changes {
    files: HashMap<FileId, Option<Place>>,
    directories: HashMap<u64, Option<Place>>,
}

impl Changes {
    fn len(&self) -> usize {
        self.files.len() + self.directories.len()
    }
}

#[derive(Default)]
struct Inner {
    noted: Changes,
    /// Changes being written, which are not in the table yet.
    writing: Arc<Changes>,
    /// Directories with a row in the table or in the changes.
    known: HashSet<u64>,
    /// Whether every file with a layout has a row in the table or in the changes.
    whole: bool,
    /// Number of dropped changes.
    lost: u64,
}

/// Requests a write of the noted changes: at once if there are many, else soon.
type RequestWrite = Box<dyn Fn(bool) + Send + Sync>;

/// The table of hints.
pub struct Places {
    tree: OwnedFd,
    /// Prefix of an open stub's path as the kernel shows it.
    tree_path: PathBuf,
    root: u64,
    /// The last directory that was looked up, its inode number, and when.
    last: Mutex<Option<(PathBuf, u64, Instant)>>,
    inner: Mutex<Inner>,
    request: OnceLock<RequestWrite>,
    table: Mutex<Table>,
    /// Number of walks. The lock admits one walk at a time.
    walks: Mutex<()>,
    walked: AtomicU64,
}

impl Places {
    /// Opens the table in `file`, for the tree of a namespace. An unreadable table is replaced by an empty one.
    pub fn open(file: &Path, namespace: &Path) -> Result<Arc<Places>> {
        let tree_path = namespace.join("tree");
        let tree = open(&tree_path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Arc::new(Places {
            root: remembered(&tree)?.st_ino,
            tree_path: tree_path.canonicalize().unwrap_or(tree_path),
            tree,
            last: Mutex::default(),
            inner: Mutex::default(),
            request: OnceLock::new(),
            table: Mutex::new(Table::open(file)),
            walks: Mutex::new(()),
            walked: AtomicU64::new(0),
        }))
    }

    /// Sets the function that requests writes; until then changes stay in memory. Only the first call counts.
    pub fn write_on(&self, request: RequestWrite) {
        drop(self.request.set(request));
    }

    /// The tree's root directory.
    pub fn tree(&self) -> &OwnedFd {
        &self.tree
    }

    /// Records that a file just got a layout or a name in the tree. `stub` is its stub's path as the kernel shows it.
    /// Ignores a path outside of the tree. Returns whether it is in the tree.
    pub fn learn(&self, file: FileId, stub: &Path) -> bool {
        let below = stub.strip_prefix(&self.tree_path);
        below.map(|below| self.learn_below(file, below)).is_ok()
    }

    /// As above, for a path below the tree.
    pub fn learn_below(&self, file: FileId, below: &Path) {
        let (Some(directory), Some(name)) = (below.parent(), below.file_name()) else { return };
        // A file removed or renamed at the same time is reported by that operation.
        if let Some(directory) = self.lately_at(directory).or_else(|| self.directory_at(directory)) {
            self.file_is(file, directory, name);
        }
    }

    /// Inode number of a directory that was looked up lately. On a shared file system a lookup is several requests.
    fn lately_at(&self, path: &Path) -> Option<u64> {
        let last = self.last.lock();
        let (_, inode, _) = last.as_ref().filter(|(known, _, at)| known == path && at.elapsed() < LATELY)?;
        Some(*inode)
    }

    /// Returns the inode number of a directory. It and all directories above it get rows.
    fn directory_at(&self, path: &Path) -> Option<u64> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Some(self.root) };
        let stat = statat(&self.tree, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return None;
        }
        if !self.knows(stat.st_ino) {
            let above = self.directory_at(above)?;
            self.directory_is(stat.st_ino, above, name);
        }
        *self.last.lock() = Some((path.to_owned(), stat.st_ino, Instant::now()));
        Some(stat.st_ino)
    }

    /// Records that the stub of a file is now `name` in a directory.
    pub fn file_is(&self, file: FileId, directory: u64, name: &OsStr) {
        let place = Some(Place { directory, name: name.to_owned() });
        self.note(|inner| drop(inner.noted.files.insert(file, place)));
    }

    /// Records that a directory is now `name` in another.
    pub fn directory_is(&self, directory: u64, above: u64, name: &OsStr) {
        *self.last.lock() = None; // its path, or that of a directory below, may be another now
        let place = Some(Place { directory: above, name: name.to_owned() });
        self.note(|inner| {
            inner.noted.directories.insert(directory, place);
            if inner.known.len() >= DIRECTORIES_MAX {
                inner.known.clear();
            }
            inner.known.insert(directory);
        });
    }

    /// Whether a directory certainly has a row.
    pub fn knows(&self, directory: u64) -> bool {
        self.inner.lock().known.contains(&directory)
    }

    /// Records that a file was removed.
    pub fn file_is_gone(&self, file: FileId) {
        self.note(|inner| drop(inner.noted.files.insert(file, None)));
    }

    /// Records that a directory was removed. Its inode number may be reused soon.
    pub fn directory_is_gone(&self, directory: u64) {
        self.note(|inner| {
            inner.noted.directories.insert(directory, None);
            inner.known.remove(&directory);
        });
    }

    /// Number of changes that are kept for the next write.
    #[cfg(any(test, feature = "doubles"))]
    pub fn noted(&self) -> usize {
        self.inner.lock().noted.len()
    }

    fn note(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.inner.lock();
        if inner.noted.len() >= CHANGES_MAX {
            return inner.give_up();
        }
        change(&mut inner);
        let changes = inner.noted.len();
        drop(inner);
        if let Some(request) = self.request.get().filter(|_| matches!(changes, 1 | BATCH)) {
            request(changes == BATCH);
        }
    }

    /// Returns the expected path of a file's stub, below the tree.
    pub fn path_of(&self, file: FileId) -> Option<PathBuf> {
        let mut at = self.row(|changes| changes.files.get(&file).cloned(), |table| table.file(file))?;
        let mut names = vec![at.name];
        while at.directory != self.root {
            let directory = at.directory;
            at =
                self.row(|changes| changes.directories.get(&directory).cloned(), |table| table.directory(directory))?;
            names.push(at.name);
            if names.len() > DEPTH_MAX {
                return None;
            }
        }
        Some(names.iter().rev().collect())
    }

    /// Whether a file without a row has no stub in the tree.
    pub fn is_whole(&self) -> bool {
        self.inner.lock().whole
    }

    /// The latest row: from the noted changes, the changes being written, or the table.
    fn row(
        &self,
        changed: impl Fn(&Changes) -> Option<Option<Place>>,
        written: impl Fn(&mut Table) -> Option<Place>,
    ) -> Option<Place> {
        let inner = self.inner.lock();
        if let Some(place) = changed(&inner.noted).or_else(|| changed(&inner.writing)) {
            return place;
        }
        drop(inner);
        written(&mut self.table.lock())
    }

    /// Writes the changes noted so far.
    pub fn write_noted(&self) {
        // The lock is held while the changes are taken, so that two batches keep their order.
        let mut table = self.table.lock();
        let batch = {
            let mut inner = self.inner.lock();
            inner.writing = Arc::new(std::mem::take(&mut inner.noted));
            inner.writing.clone()
        };
        let written = batch.len() == 0 || table.write(&batch);
        let mut inner = self.inner.lock();
        if !written {
            inner.give_up();
        }
        inner.writing = Arc::default();
    }
}

impl Inner {
    /// Drops a change, so that a row may be missing or wrong from now on.
    fn give_up(&mut self) {
        self.lost += 1;
        self.whole = false;
    }
}
