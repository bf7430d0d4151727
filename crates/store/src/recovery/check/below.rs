//! Lists the files at or below a path, for callers that have numbers and need names.

use super::Checker;
use crate::file::File;
use crate::stage::place::names;
use policy::FileId;
use rustix::fd::OwnedFd;
use rustix::fs::{Dir, FileType, OFlags, fstat};
use std::sync::Arc;

impl Checker {
    /// The regular file at a path, if there is one. Symbolic links are not followed.
    pub fn file_at(&self, path: &str) -> Option<Arc<File>> {
        self.files.get_or_open(self.stub_at(path)?).ok()
    }

    /// Stub of the regular file at a path.
    pub fn stub_at(&self, path: &str) -> Option<OwnedFd> {
        let fd = self.open(&names(path).ok()?, OFlags::RDWR | OFlags::NONBLOCK).ok()?;
        let is_file = fstat(&fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        is_file.then_some(fd)
    }

    /// The files at or below a path that have a layout, with their paths. Symbolic links are not followed; unreadable
    /// names are left out.
    pub fn files_below(&self, path: &str) -> Vec<(FileId, String)> {
        let mut files = Vec::new();
        let mut todo: Vec<_> = names(path).into_iter().collect();
        while let Some(names) = todo.pop() {
            let Ok(fd) = self.open(&names, OFlags::RDONLY) else { continue };
            let Ok(stat) = fstat(&fd) else { continue };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    let entries = Dir::new(fd).into_iter().flatten().flatten();
                    let plain = entries.filter_map(|e| e.file_name().to_str().ok().map(str::to_string));
                    for name in plain.filter(|name| name != "." && name != "..") {
                        todo.push(names.iter().cloned().chain([name]).collect());
                    }
                }
                FileType::RegularFile => {
                    let file = self.files.get_or_open(fd).ok();
                    let layout = file.and_then(|file| file.layout());
                    files.extend(layout.map(|layout| (layout.file, names.join("/"))));
                }
                _ => {}
            }
        }
        files
    }
}
