//! One [`File`] per inode: everybody who opens the same stub gets the same one.

use super::{File, Pool};
use crate::Result;
use rustix::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// The files in use, by device and inode of their stubs. A file leaves with its last user.
pub struct FileTable {
    #[allow(dead_code)]
    pool: Arc<Pool>,
}

#[allow(unused_variables)]
impl FileTable {
    /// An empty table. `namespace` is the directory that holds `tree`, `side` and `open`.
    pub fn new(pool: Arc<Pool>, namespace: PathBuf) -> Arc<FileTable> {
        todo!()
    }

    /// The file behind an open stub. A descriptor open for writing makes the file writable for all.
    pub fn get_or_open(&self, stub: OwnedFd) -> Result<Arc<File>> {
        todo!()
    }

    /// The file of that device and inode, if it is in use.
    pub fn get(&self, dev: u64, ino: u64) -> Option<Arc<File>> {
        todo!()
    }

    /// The files in use now.
    pub fn files(&self) -> Vec<Arc<File>> {
        todo!()
    }
}
