//! From the number of a file to the file, long after its last access: by where its stub was.
//!
//! A hint is the stub's path in the namespace, as it was when the file was met. A rename makes it stale; then the file is not found
//! until it is used again.

use crate::file::{File, FileTable};
use parking_lot::Mutex;
use policy::FileId;
use policy::layout::Segment;
use policy::tier::Location;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files whose place is remembered: some ten megabytes of paths.
const HINTS_MAX: usize = 1 << 16;

pub(super) struct Finder {
    files: Arc<FileTable>,
    tree: PathBuf,
    hints: Mutex<BTreeMap<FileId, PathBuf>>,
}

impl Finder {
    pub fn new(files: Arc<FileTable>) -> Finder {
        let tree = files.namespace().join("tree");
        let tree = tree.canonicalize().unwrap_or(tree);
        Finder { files, tree, hints: Mutex::default() }
    }

    /// A stub's path as users know it: below the mount's root.
    pub fn shown(&self, path: &Path) -> Option<String> {
        path.strip_prefix(&self.tree).ok().map(|path| path.display().to_string())
    }

    /// Whether there is a hint.
    pub fn knows(&self, id: FileId) -> bool {
        self.hints.lock().contains_key(&id)
    }

    /// Notes where these files are, those of them that are in use.
    pub fn learn(&self, ids: Vec<FileId>) {
        if ids.is_empty() {
            return;
        }
        let ids: BTreeSet<FileId> = ids.into_iter().collect();
        for file in self.files.files() {
            if file.id().is_some_and(|id| ids.contains(&id)) {
                self.learn_file(&file);
            }
        }
    }

    /// Notes where a file is.
    pub fn learn_file(&self, file: &File) {
        if let (Some(id), Some(path)) = (file.id(), file.stub().path()) {
            self.learn_place(id, path);
        }
    }

    /// Notes where the stub of a file was just now.
    pub fn learn_place(&self, id: FileId, path: PathBuf) {
        let mut hints = self.hints.lock();
        if hints.len() >= HINTS_MAX && !hints.contains_key(&id) {
            // Any quarter: those in use are learned again.
            let mut kept = 0u64;
            hints.retain(|_, _| {
                kept += 1;
                !kept.is_multiple_of(4)
            });
        }
        hints.insert(id, path);
    }

    /// The file of that number.
    pub fn file(&self, id: FileId) -> Option<Arc<File>> {
        if let Some(file) = self.files.files().into_iter().find(|file| file.id() == Some(id)) {
            return Some(file);
        }
        let path = self.hints.lock().get(&id).cloned()?;
        let found = self.open(&path).filter(|file| file.id() == Some(id));
        if found.is_none() {
            self.hints.lock().remove(&id);
        }
        found
    }

    fn open(&self, path: &Path) -> Option<Arc<File>> {
        let open = |mode: OFlags| {
            let flags = mode | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            openat(CWD, path, flags, Mode::empty())
        };
        let fd = open(OFlags::RDWR).or_else(|_| open(OFlags::RDONLY)).ok()?;
        let regular = fstat(&fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        if regular { self.files.get_or_open(fd).ok() } else { None }
    }

    /// The file of a location, and the segment.
    pub fn segment(&self, location: Location) -> Option<(Arc<File>, Segment)> {
        let file = self.file(FileId(location.file))?;
        let layout = file.layout()?;
        let (_, segments) = super::ear::read_from(&layout)?;
        let segment = segments.get(usize::try_from(location.block).ok()?)?.clone();
        Some((file, segment))
    }
}
