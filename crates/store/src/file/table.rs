//! One [`File`] per inode: everybody who opens the same stub gets the same one.

use super::{File, Pool};
use crate::Result;
use crate::host::remembered;
use crate::stub::Inode;
use crate::stub::real::FdStub;
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

struct Entry {
    file: Weak<File>,
    stub: Weak<FdStub>,
}

/// Entries of one part of the table, and how many there may be before the dead ones are cleared out.
#[derive(Default)]
struct Shard {
    entries: HashMap<Inode, Entry>,
    clear_at: usize,
}

/// Parts of the table that are locked apart, so that opening one file waits for no other. A guess.
const SHARDS: usize = 64;

/// The files in use, by device and inode of their stubs. A file leaves with its last user; an inode's number is not
/// used again before, since the file holds it open.
pub struct FileTable {
    pool: Arc<Pool>,
    namespace: PathBuf,
    shards: Vec<Mutex<Shard>>,
}

impl FileTable {
    /// An empty table. `namespace` is the directory that holds `tree`, `side` and `open`.
    pub fn new(pool: Arc<Pool>, namespace: PathBuf) -> Arc<FileTable> {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Arc::new(FileTable { pool, namespace, shards })
    }

    /// What all files share.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The directory that holds `tree`, `side` and `open`.
    pub fn namespace(&self) -> &Path {
        &self.namespace
    }

    /// The file behind an open stub. A descriptor open for writing makes the file writable for all.
    pub fn get_or_open(&self, stub: OwnedFd) -> Result<Arc<File>> {
        self.get_or_share(Arc::new(stub))
    }

    /// The same, with a descriptor that the caller goes on using.
    pub fn get_or_share(&self, stub: Arc<OwnedFd>) -> Result<Arc<File>> {
        self.of_stub(stub, false)
    }

    /// The file behind the stub of one that was made just now.
    pub fn get_or_make(&self, stub: Arc<OwnedFd>) -> Result<Arc<File>> {
        self.of_stub(stub, true)
    }

    fn of_stub(&self, stub: Arc<OwnedFd>, new: bool) -> Result<Arc<File>> {
        let stat = remembered(&stub)?;
        let inode = (stat.st_dev, stat.st_ino);
        let mut shard = self.shard(inode).lock();
        if let Some(entry) = shard.entries.get(&inode)
            && let (Some(file), Some(known)) = (entry.file.upgrade(), entry.stub.upgrade())
        {
            known.offer(stub);
            drop(shard);
            file.refresh()?; // other nodes may have changed it since it was opened here
            return Ok(file);
        }
        let stub = Arc::new(FdStub::sharing(stub, &self.namespace, self.pool.cluster.get().is_some()));
        let file = match new {
            true => File::made(stub.clone(), self.pool.clone()),
            false => File::open(stub.clone(), self.pool.clone())?,
        };
        shard.entries.insert(inode, Entry { file: Arc::downgrade(&file), stub: Arc::downgrade(&stub) });
        shard.clear();
        self.pool.numbered.add(&file);
        Ok(file)
    }

    /// The file of that device and inode, if it is in use.
    pub fn get(&self, dev: u64, ino: u64) -> Option<Arc<File>> {
        self.shard((dev, ino)).lock().entries.get(&(dev, ino))?.file.upgrade()
    }

    /// Whether the file of that device and inode may be in use. Waits for nobody who opens another.
    pub fn may_be_in_use(&self, dev: u64, ino: u64) -> bool {
        let is_there = |shard: &Shard| shard.entries.get(&(dev, ino)).is_some_and(|e| e.file.strong_count() > 0);
        self.shard((dev, ino)).try_lock().is_none_or(|shard| is_there(&shard))
    }

    /// Those with that inode, on whichever device, that are in use.
    pub fn of_inode(&self, inode: u64) -> Vec<Arc<File>> {
        let of = |s: &Mutex<Shard>| {
            let shard = s.lock();
            let entries = shard.entries.iter().filter(|((_, ino), _)| *ino == inode);
            entries.filter_map(|(_, entry)| entry.file.upgrade()).collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of).collect()
    }

    /// The files in use now.
    pub fn files(&self) -> Vec<Arc<File>> {
        let live = |s: &Mutex<Shard>| s.lock().entries.values().filter_map(|e| e.file.upgrade()).collect::<Vec<_>>();
        self.shards.iter().flat_map(live).collect()
    }

    fn shard(&self, (dev, ino): Inode) -> &Mutex<Shard> {
        &self.shards[(ino ^ dev) as usize % SHARDS]
    }
}

impl Shard {
    /// Clears out entries without file once they may be half of all.
    fn clear(&mut self) {
        if self.entries.len() > self.clear_at.max(64) {
            self.entries.retain(|_, e| e.file.strong_count() > 0);
            self.clear_at = self.entries.len() * 2;
        }
    }
}
