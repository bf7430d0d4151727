//! Lists the files at or below a path, for callers that have numbers and need names.

use super::Checker;
use crate::file::File;
use crate::stage::place::names;
use meta::descent::Descent;
use object::host::remembered;
use policy::FileId;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags};
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Checker {
    /// The regular file at a path, if there is one. Symbolic links are not followed.
    pub fn file_at(&self, path: &str) -> Option<Arc<File>> {
        self.files.get_or_open(self.stub_at(path)?).ok()
    }

    /// Stub of the regular file at a path.
    pub fn stub_at(&self, path: &str) -> Option<OwnedFd> {
        let fd = self.open(&names(path).ok()?, OFlags::RDWR | OFlags::NONBLOCK).ok()?;
        let is_file = remembered(&fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        is_file.then_some(fd)
    }

    /// The files at or below a path that have a layout, with their paths. Symbolic links are not followed; unreadable
    /// names are left out.
    pub fn files_below(&self, path: &str) -> Vec<(FileId, String)> {
        let mut files = Vec::new();
        let mut add = |file: Option<Arc<File>>, path: PathBuf| {
            let layout = file.and_then(|file| file.layout());
            files.extend(layout.map(|layout| layout.file).zip(path.into_os_string().into_string().ok()));
        };
        let opened =
            names(path).ok().and_then(|names| Some((self.open(&names, OFlags::RDONLY).ok()?, names.join("/"))));
        let Some((fd, top)) = opened else { return files };
        let Ok(mut descent) = Descent::new(&fd) else {
            add(self.files.get_or_open(fd).ok(), top.into());
            return files;
        };
        while let Some(met) = descent.next() {
            if let Some(met) = met.ok().filter(|met| met.inode.is_none()) {
                let file = self.files.open_at(&met.directory, &met.name).ok().flatten();
                add(file, Path::new(&top).join(descent.path_of(&met.name)));
            }
        }
        files
    }
}
