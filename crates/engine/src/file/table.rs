//! One [`File`] per inode: all openings of a stub share it.

use super::mapped::Mapped;
use super::{File, Pool};
use crate::Result;
use meta::stub::Inode;
use meta::stub::real::FdStub;
use object::host::remembered;
use parking_lot::Mutex;
use policy::Time;
use policy::holders::node::Use;
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Begin of the creation of a stub, on the clock of the holds.
#[derive(Clone, Copy, Debug)]
pub struct Creation(Option<Time>);

/// Reason for an open.
#[derive(Clone, Copy)]
enum Opening {
    /// The use that follows.
    For(Use),
    /// The stub was just created.
    Made(Creation),
}

struct Entry {
    file: Weak<File>,
    stub: Weak<FdStub>,
}

/// Entries of one part of the table, and the number of entries at which unused ones are removed.
#[derive(Default)]
struct Shard {
    entries: HashMap<Inode, Entry>,
    clear_at: usize,
}

/// Number of separately locked parts, so that opening one file rarely waits for another. A guess.
const SHARDS: usize = 64;

/// Files in use, by device and inode of their stubs. A file is dropped with its last user. It keeps its stub open, so
/// the inode number is not reused before.
pub struct FileTable {
    pool: Arc<Pool>,
    namespace: PathBuf,
    shards: Vec<Mutex<Shard>>,
    pub(super) mapped: Mapped,
}

impl FileTable {
    /// An empty table. `namespace` is the directory that holds `tree`, `side` and `open`.
    pub fn new(pool: Arc<Pool>, namespace: PathBuf) -> Arc<FileTable> {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Arc::new(FileTable { pool, namespace, shards, mapped: Mapped::default() })
    }

    /// State shared by all files.
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

    /// As [`FileTable::get_or_open`], with a descriptor that the caller continues to use.
    pub fn get_or_share(&self, stub: Arc<OwnedFd>) -> Result<Arc<File>> {
        self.get_or_share_for(stub, Use::Read)
    }

    /// As `get_or_share`, with the right to a use that follows.
    pub fn get_or_share_for(&self, stub: Arc<OwnedFd>, usage: Use) -> Result<Arc<File>> {
        self.of_stub(stub, Opening::For(usage))
    }

    /// The file behind a stub that was just created, with `creation` of before.
    pub fn get_or_make(&self, stub: Arc<OwnedFd>, creation: Creation) -> Result<Arc<File>> {
        self.of_stub(stub, Opening::Made(creation))
    }

    /// To be called before the creation of a stub.
    pub fn begin_creation(&self) -> Creation {
        Creation(self.pool.holds.get().map(|holds| holds.now()))
    }

    fn of_stub(&self, stub: Arc<OwnedFd>, opening: Opening) -> Result<Arc<File>> {
        let stat = remembered(&stub)?;
        let inode = (stat.st_dev, stat.st_ino);
        let mut shard = self.shard(inode).lock();
        if let Some(entry) = shard.entries.get(&inode)
            && let (Some(file), Some(known)) = (entry.file.upgrade(), entry.stub.upgrade())
        {
            known.offer(stub);
            drop(shard);
            let usage = if let Opening::For(usage) = opening { usage } else { Use::Read };
            file.refresh_for(usage)?; // other nodes may have changed it since it was opened here
            return Ok(file);
        }
        let stub = Arc::new(FdStub::sharing(stub, &self.namespace, self.pool.cluster.get().is_some()));
        let held = self.pool.holds.get().is_some();
        let file = match opening {
            Opening::Made(Creation(began)) => File::made(stub.clone(), self.pool.clone(), began),
            Opening::For(_) if held => File::made(stub.clone(), self.pool.clone(), None),
            Opening::For(_) => File::open(stub.clone(), self.pool.clone())?,
        };
        shard.entries.insert(inode, Entry { file: Arc::downgrade(&file), stub: Arc::downgrade(&stub) });
        shard.clear();
        drop(shard);
        if let Opening::For(usage) = opening
            && held
        {
            file.refresh_for(usage)?;
        }
        self.pool.numbered.add(&file);
        Ok(file)
    }

    /// The file of that device and inode, if it is in use.
    pub fn get(&self, dev: u64, ino: u64) -> Option<Arc<File>> {
        self.shard((dev, ino)).lock().entries.get(&(dev, ino))?.file.upgrade()
    }

    /// Whether the file of that device and inode may be in use. Doesn't wait for concurrent openings.
    pub fn may_be_in_use(&self, dev: u64, ino: u64) -> bool {
        let is_there = |shard: &Shard| shard.entries.get(&(dev, ino)).is_some_and(|e| e.file.strong_count() > 0);
        self.shard((dev, ino)).try_lock().is_none_or(|shard| is_there(&shard))
    }

    /// Files in use with that inode number, on any device.
    pub fn of_inode(&self, inode: u64) -> Vec<Arc<File>> {
        let of = |s: &Mutex<Shard>| {
            let shard = s.lock();
            let entries = shard.entries.iter().filter(|((_, ino), _)| *ino == inode);
            entries.filter_map(|(_, entry)| entry.file.upgrade()).collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of).collect()
    }

    /// The files in use now, without those that are only kept in memory.
    pub fn files(&self) -> Vec<Arc<File>> {
        let live = |s: &Mutex<Shard>| s.lock().entries.values().filter_map(|e| e.file.upgrade()).collect::<Vec<_>>();
        self.shards.iter().flat_map(live).filter(|file| !file.rests()).collect()
    }

    fn shard(&self, (dev, ino): Inode) -> &Mutex<Shard> {
        &self.shards[(ino ^ dev) as usize % SHARDS]
    }
}

impl Shard {
    /// Removes entries without a file once they may be half of all.
    fn clear(&mut self) {
        if self.entries.len() > self.clear_at.max(64) {
            self.entries.retain(|_, e| e.file.strong_count() > 0);
            self.clear_at = self.entries.len() * 2;
        }
    }
}
