//! The directory tree that the mount shows: operations by node, each of them one or two system calls on the namespace's own
//! file system, which stays the authority on names, permissions, links and times.
//!
//! A node is an inode that somebody looked up. Directories are reached through an `O_PATH` descriptor; everything else
//! relative to its directory, by the name it was last seen under, and what answers is taken only if its inode number is
//! the one that was asked for. So a rename that is under way can make an operation try again, never hit the wrong file.

pub mod attributes;
pub mod create;
pub mod credentials;
pub mod listing;
pub mod node;
pub mod reach;
pub mod remove;
pub mod request;
mod seen;
pub mod times;

pub use credentials::Caller;
pub use listing::Listing;
pub use node::{Node, NodeId, ROOT};
pub use remove::Removed;
pub use seen::FRESH;

use crate::descriptors;
use crate::places::Places;
use crate::quota::Quotas;
use node::Nodes;
use parking_lot::RwLock;
use policy::shares::Descriptors;
use rustix::fs::{AtFlags, Stat, fstat, statat};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tree and what is known of it.
pub struct Namespace {
    root: RwLock<Arc<OwnedFd>>,
    root_inode: AtomicU64,
    device: AtomicU64,
    nodes: Nodes,
    /// Held exclusively by a rename, shared by whoever found a name that no longer fits and looks again.
    renames: RwLock<()>,
    /// Told where files and directories go.
    places: Option<Arc<Places>>,
    /// What was looked up last, where other nodes have the tree and asking costs.
    seen: Option<seen::LastSeen>,
    /// Where it counts what a removed file had.
    quotas: Arc<Quotas>,
}

impl Namespace {
    /// The tree below `root`, an open directory (`NAMESPACE/tree`).
    pub fn new(root: OwnedFd) -> Result<Namespace> {
        let stat = fstat(&root)?;
        Ok(Namespace {
            nodes: Nodes::new(Descriptors::of(descriptors::raise()).directories as usize),
            root_inode: AtomicU64::new(stat.st_ino),
            device: AtomicU64::new(stat.st_dev),
            root: RwLock::new(Arc::new(root)),
            renames: RwLock::new(()),
            places: None,
            seen: None,
            quotas: Arc::default(),
        })
    }

    /// Other nodes change the tree, too.
    pub fn shared(self) -> Namespace {
        let seen = crate::host::is_fuse(&*self.root()).then(seen::LastSeen::default);
        Namespace { seen, ..self }
    }

    /// Tells from now on where files and directories go.
    pub fn telling(self, places: Arc<Places>) -> Namespace {
        Namespace { places: Some(places), ..self }
    }

    /// Opens from now on what is removed where its length counts.
    pub(crate) fn counting(self, quotas: Arc<Quotas>) -> Namespace {
        Namespace { quotas, ..self }
    }

    /// Whether something has that name in a directory.
    pub(crate) fn has(&self, parent: NodeId, name: &OsStr) -> bool {
        self.directory(parent).is_ok_and(|directory| statat(&*directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// Goes on with another way to the same tree: `root` is its open directory as another mount shows it. What is under way may
    /// meet the old root still, and fail.
    pub fn move_to(&self, root: OwnedFd) -> Result<()> {
        let stat = fstat(&root)?;
        *self.root.write() = Arc::new(root);
        self.root_inode.store(stat.st_ino, Ordering::Release);
        self.device.store(stat.st_dev, Ordering::Release);
        self.nodes.close_directories();
        self.seen.iter().for_each(seen::LastSeen::clear);
        Ok(())
    }

    /// The path of a node below the root by the names it was last seen under; `NOENT` if it has none.
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

    /// What is known of a node.
    pub fn node(&self, id: NodeId) -> Result<Arc<Node>> {
        self.nodes.get(id).ok_or(Errno::STALE)
    }

    /// Finds `name` in a directory and counts the kernel's reference to it.
    pub fn lookup(&self, parent: NodeId, name: &OsStr) -> Result<(Arc<Node>, Stat)> {
        self.lookup_with(parent, name, |_| true)
    }

    /// The same; `in_use` says whether this node may be changing the file that was found.
    pub fn lookup_with(
        &self,
        parent: NodeId,
        name: &OsStr,
        in_use: impl Fn(&Stat) -> bool,
    ) -> Result<(Arc<Node>, Stat)> {
        let directory = self.directory(parent)?;
        let stat = match &self.seen {
            Some(seen) => self.look(seen, (parent, &directory), name, in_use)?,
            None => statat(&*directory, name, AtFlags::SYMLINK_NOFOLLOW)?,
        };
        self.found(parent, name, &stat).map(|node| (node, stat))
    }

    /// Counts a reference to what `stat` says `name` is.
    pub(crate) fn found(&self, parent: NodeId, name: &OsStr, stat: &Stat) -> Result<Arc<Node>> {
        self.count(parent, name, stat, false)
    }

    /// The same for an inode that was created just now, whose number may have been another's before.
    fn created(&self, parent: NodeId, name: &OsStr, stat: &Stat) -> Result<Arc<Node>> {
        self.count(parent, name, stat, true)
    }

    fn count(&self, parent: NodeId, name: &OsStr, stat: &Stat, new: bool) -> Result<Arc<Node>> {
        if stat.st_dev != self.device.load(Ordering::Relaxed) {
            // Something is mounted inside the tree; its inode numbers would collide with ours.
            return Err(Errno::XDEV);
        }
        Ok(self.nodes.found(self.id_of(stat.st_ino), stat, parent, name, new))
    }

    /// The kernel gives back `count` references.
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

    /// The node number of an inode: the inode number itself, except for the root, which FUSE calls 1.
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
