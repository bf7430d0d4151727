//! The directory tree that the mount shows. Each operation on a node is one or two system calls on the namespace's own
//! file system. This file system stays the authority on names, permissions, links and times.
//!
//! A node is an inode that the kernel looked up. A directory is reached through an `O_PATH` descriptor, any other node
//! relative to its directory, by its last known name. A result is used only if its inode number is the requested one.
//! So a concurrent rename can make an operation try again, never hit the wrong file.

pub mod attributes;
pub mod create;
pub mod credentials;
pub mod listing;
pub mod node;
pub mod reach;
pub mod remove;
mod replaced;
pub mod request;
mod seen;
pub mod times;

pub use credentials::Caller;
pub use listing::Listing;
pub use node::{Node, NodeId, ROOT};
pub use remove::Removed;
pub use replaced::LOST;
pub use seen::FRESH;

use crate::places::Places;
use crate::quota::Quotas;
use node::Nodes;
use object::descriptors;
use object::host::{fstat, remembered};
use parking_lot::RwLock;
use policy::shares::Descriptors;
use replaced::{Lost, Replaced};
use rustix::fs::{AtFlags, Stat, statat};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tree and its cache of nodes.
pub struct Namespace {
    root: RwLock<Arc<OwnedFd>>,
    root_inode: AtomicU64,
    device: AtomicU64,
    /// Whether the tree lies on a local file system, which reuses the numbers of removed files.
    is_local: bool,
    nodes: Nodes,
    /// Held exclusively by a rename; shared by a removal, and by a thread that retries after a stale name.
    renames: RwLock<()>,
    /// Map of the places of files and directories, to be kept current.
    places: Option<Arc<Places>>,
    /// Latest lookups, where other nodes change the tree and fetching attributes is slow.
    seen: Option<seen::LastSeen>,
    /// Names that other nodes may replace, where there are other nodes.
    replaced: Option<Replaced>,
    lost: Lost,
    /// Quotas from which a removed file is subtracted.
    quotas: Arc<Quotas>,
}

impl Namespace {
    /// The tree below `root`, an open directory (`NAMESPACE/tree`).
    pub fn new(root: OwnedFd) -> Result<Namespace> {
        let stat = remembered(&root)?;
        Ok(Namespace {
            is_local: object::host::is_local(&root),
            nodes: Nodes::new(Descriptors::of(descriptors::raise()).directories as usize),
            root_inode: AtomicU64::new(stat.st_ino),
            device: AtomicU64::new(stat.st_dev),
            root: RwLock::new(Arc::new(root)),
            renames: RwLock::new(()),
            places: None,
            seen: None,
            replaced: None,
            lost: Lost::default(),
            quotas: Arc::default(),
        })
    }

    /// Prepares for other nodes that change the tree.
    pub fn shared(self) -> Namespace {
        let seen = object::host::is_fuse(&*self.root()).then(seen::LastSeen::default);
        Namespace { seen, replaced: Some(Replaced::new()), ..self }
    }

    /// Reports from now on the places of files and directories.
    pub fn telling(self, places: Arc<Places>) -> Namespace {
        Namespace { places: Some(places), ..self }
    }

    /// Opens removed files from now on if their length counts for quotas.
    pub fn counting(self, quotas: Arc<Quotas>) -> Namespace {
        Namespace { quotas, ..self }
    }

    /// Whether a name exists in a directory.
    pub fn has(&self, parent: NodeId, name: &OsStr) -> bool {
        self.directory(parent).is_ok_and(|directory| statat(&*directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// Switches to another way to the same tree: `root` is its open directory as another mount shows it. Operations
    /// under way may still use the old root, and fail.
    pub fn move_to(&self, root: OwnedFd) -> Result<()> {
        let stat = remembered(&root)?;
        *self.root.write() = Arc::new(root);
        self.root_inode.store(stat.st_ino, Ordering::Release);
        self.device.store(stat.st_dev, Ordering::Release);
        self.nodes.close_directories();
        self.seen.iter().for_each(seen::LastSeen::clear);
        Ok(())
    }

    /// Returns the path of an inode below the root, by the last names seen of it; `NOENT` if it has none.
    pub fn path(&self, id: NodeId) -> Result<PathBuf> {
        let mut names = Vec::new();
        let mut at = id;
        while at != ROOT {
            let (parent, name) = self.node(at)?.name().ok_or(Errno::NOENT)?;
            names.push(name);
            at = parent;
            if names.len() > reach::DEPTH_MAX {
                return Err(Errno::LOOP);
            }
        }
        Ok(names.iter().rev().collect())
    }

    fn root(&self) -> Arc<OwnedFd> {
        self.root.read().clone()
    }

    /// Cached node of a number.
    pub fn node(&self, id: NodeId) -> Result<Arc<Node>> {
        self.nodes.get(id).ok_or(Errno::STALE)
    }

    /// Finds `name` in a directory and counts the kernel's reference to it.
    pub fn lookup(&self, parent: NodeId, name: &OsStr) -> Result<(Arc<Node>, Stat)> {
        self.lookup_with(parent, name, |_| true)
    }

    /// As [`Namespace::lookup`]; `in_use` returns whether this node may be changing the found file.
    pub fn lookup_with(
        &self,
        parent: NodeId,
        name: &OsStr,
        in_use: impl Fn(&Stat) -> bool,
    ) -> Result<(Arc<Node>, Stat)> {
        let directory = self.directory(parent)?;
        let look = || match &self.seen {
            Some(seen) => self.look(seen, (parent, &directory), name, &in_use),
            None => statat(&*directory, name, AtFlags::SYMLINK_NOFOLLOW),
        };
        let stat = match &self.replaced {
            Some(replaced) => replaced.look_up(parent, name, look)?,
            None => look()?,
        };
        self.found(parent, name, &stat).map(|node| (node, stat))
    }

    /// Counts a reference to the inode `name`, whose attributes are `stat`.
    pub(crate) fn found(&self, parent: NodeId, name: &OsStr, stat: &Stat) -> Result<Arc<Node>> {
        self.count(parent, name, stat, false)
    }

    /// As `found`, for an inode just created, whose number may have been used before.
    fn created(&self, parent: NodeId, name: &OsStr, stat: &Stat) -> Result<Arc<Node>> {
        self.count(parent, name, stat, true)
    }

    fn count(&self, parent: NodeId, name: &OsStr, stat: &Stat, new: bool) -> Result<Arc<Node>> {
        if stat.st_dev != self.device.load(Ordering::Relaxed) {
            // Something is mounted inside the tree; its inode numbers would collide with ours.
            return Err(Errno::XDEV);
        }
        self.replaced.iter().for_each(|replaced| replaced.saw(parent, name));
        Ok(self.nodes.found(self.id_of(stat.st_ino), stat, parent, name, new))
    }

    /// Drops `count` references of the kernel.
    pub fn forget(&self, id: NodeId, count: u64) {
        self.nodes.forget(id, count);
    }

    /// Attributes of a node.
    pub fn stat(&self, id: NodeId) -> Result<Stat> {
        if id == ROOT {
            return fstat(&*self.root());
        }
        let node = self.node(id)?;
        if let Some(directory) = node.directory() {
            return fstat(&*directory);
        }
        if let Some(stat) = self.just_seen(id) {
            return Ok(stat);
        }
        self.retrying(id, |directory, name| {
            let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            self.is(id, &stat).then_some(stat).ok_or(Errno::STALE)
        })
    }

    /// Free and total space and inodes of the namespace's own file system.
    pub fn space(&self) -> Result<rustix::fs::StatVfs> {
        rustix::fs::fstatvfs(&*self.root())
    }

    /// The node number of an inode: the inode number itself, except for the root, whose number is 1 in FUSE.
    pub fn id_of(&self, inode: u64) -> NodeId {
        if inode == self.root_inode.load(Ordering::Relaxed) { ROOT } else { inode }
    }

    fn inode_of(&self, id: NodeId) -> u64 {
        if id == ROOT { self.root_inode.load(Ordering::Relaxed) } else { id }
    }

    fn is(&self, id: NodeId, stat: &Stat) -> bool {
        self.id_of(stat.st_ino) == id && stat.st_dev == self.device.load(Ordering::Relaxed)
    }
}
