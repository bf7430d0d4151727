//! The nodes that the kernel holds, with the names they were last seen under.

use parking_lot::Mutex;
use rustix::fs::{FileType, Stat};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of a node: the inode number underneath, 1 for the root.
pub type NodeId = u64;

/// The root of the tree.
pub const ROOT: NodeId = 1;

const SHARDS: usize = 64;
/// Limit of recorded names of one file; a lookup brings back a dropped one.
const NAMES_MAX: usize = 64;

/// One inode that the kernel holds references to.
#[derive(Debug)]
pub struct Node {
    /// Number by which the kernel names the node.
    pub id: NodeId,
    inner: Mutex<Inner>,
    /// Birth time of the inode that the kernel has pages of, in nanoseconds since 1970; 0 while unknown.
    born_ns: AtomicU64,
    used: AtomicBool,
    /// Size of a file and the bytes that its objects took, when it was last closed.
    allocated: Mutex<Option<(u64, u64)>>,
    /// A directory's layout request as last read; `None`: not read yet.
    request: Mutex<Option<Option<Arc<str>>>>,
}

#[derive(Debug)]
struct Inner {
    kind: FileType,
    references: u64,
    generation: u64,
    /// Set if the kernel's pages are not of this inode. The next lookup then makes it another node for the kernel.
    distrusted: bool,
    /// The one recorded name was removed.
    is_nameless: bool,
    names: Vec<(NodeId, OsString)>,
    directory: Option<Arc<OwnedFd>>,
}

impl Node {
    /// A node with one reference of the kernel.
    fn new(id: NodeId, kind: FileType, names: Vec<(NodeId, OsString)>) -> Node {
        let inner =
            Inner { kind, references: 1, generation: 0, distrusted: false, is_nameless: false, names, directory: None };
        Node {
            id,
            inner: Mutex::new(inner),
            born_ns: AtomicU64::new(0),
            used: AtomicBool::new(false),
            allocated: Mutex::new(None),
            request: Mutex::new(None),
        }
    }

    /// File type of the inode.
    pub fn kind(&self) -> FileType {
        self.inner.lock().kind
    }

    /// Generation for the kernel, which differs for two files that got the same inode number in turn.
    pub fn generation(&self) -> u64 {
        self.inner.lock().generation
    }

    /// Whether the kernel's node is the inode that was made at `born_ns`, as far as known. If not, another node reused
    /// the number, and the next lookup returns a new generation.
    pub fn is_of(&self, born_ns: u64) -> bool {
        let known = self.born_ns.compare_exchange(0, born_ns, Ordering::AcqRel, Ordering::Acquire);
        let same = known.is_ok() || known == Err(born_ns) || born_ns == 0;
        let mut inner = self.inner.lock();
        inner.distrusted |= !same;
        !inner.distrusted
    }

    /// Records the bytes of a file's objects at a size.
    pub fn set_allocated(&self, size: u64, bytes: u64) {
        *self.allocated.lock() = Some((size, bytes));
    }

    /// Bytes that a file of `size` takes: those counted at its last close, and its growth since. `None` if it was not
    /// closed since the kernel has the node.
    pub fn allocated(&self, size: u64) -> Option<u64> {
        self.allocated.lock().map(|(then, bytes)| bytes.saturating_add(size.saturating_sub(then)))
    }

    /// Layout request that files in this directory inherit; `read` is called once.
    pub fn request(&self, read: impl FnOnce() -> Option<Arc<str>>) -> Option<Arc<str>> {
        self.request.lock().get_or_insert_with(read).clone()
    }

    /// Replaces the cached request after a change.
    pub fn set_request(&self, request: Option<Arc<str>>) {
        *self.request.lock() = Some(request);
    }

    /// Last known name of the node.
    pub fn name(&self) -> Option<(NodeId, OsString)> {
        let inner = self.inner.lock();
        inner.names.last().filter(|_| !inner.is_nameless).cloned()
    }

    /// Last known name of the node, also after its removal.
    pub(super) fn former_name(&self) -> Option<(NodeId, OsString)> {
        self.inner.lock().names.last().cloned()
    }

    /// Open directory of the node, if it has one.
    pub fn directory(&self) -> Option<Arc<OwnedFd>> {
        self.used.store(true, Ordering::Relaxed);
        self.inner.lock().directory.clone()
    }

    /// Resets a node whose inode number was reused.
    fn begin_again(&self, inner: &mut Inner, kind: FileType) {
        inner.kind = kind;
        inner.generation += 1;
        inner.directory = None;
        inner.names.clear();
        (inner.distrusted, inner.is_nameless) = (false, false);
        self.born_ns.store(0, Ordering::Release);
        *self.request.lock() = None;
    }

    fn add_name(inner: &mut Inner, parent: NodeId, name: &OsStr) {
        if std::mem::take(&mut inner.is_nameless) {
            inner.names.clear();
        }
        match inner.names.iter().position(|(p, n)| *p == parent && n == name) {
            Some(at) if at + 1 == inner.names.len() => {}
            Some(at) => {
                let known = inner.names.remove(at);
                inner.names.push(known);
            }
            None => {
                if inner.names.len() == NAMES_MAX {
                    inner.names.remove(0);
                }
                inner.names.push((parent, name.to_owned()));
            }
        }
    }
}

/// All nodes, and a limited number of open directories.
#[derive(Debug)]
pub(super) struct Nodes {
    shards: Vec<Mutex<HashMap<NodeId, Arc<Node>>>>,
    /// Directories in the order in which they were opened. At the limit the front is closed, unless it was used lately.
    opened: Mutex<VecDeque<NodeId>>,
    opened_max: usize,
}

impl Nodes {
    pub(super) fn new(opened_max: usize) -> Nodes {
        let nodes =
            Nodes { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), opened: Mutex::default(), opened_max };
        nodes.shard(ROOT).lock().insert(ROOT, Arc::new(Node::new(ROOT, FileType::Directory, Vec::new())));
        nodes
    }

    fn shard(&self, id: NodeId) -> &Mutex<HashMap<NodeId, Arc<Node>>> {
        &self.shards[(id as usize ^ (id >> 32) as usize) % SHARDS]
    }

    pub(super) fn get(&self, id: NodeId) -> Option<Arc<Node>> {
        self.shard(id).lock().get(&id).cloned()
    }

    /// Counts a reference to the inode of that name; `new` if it was created just now.
    pub(super) fn found(&self, id: NodeId, stat: &Stat, parent: NodeId, name: &OsStr, new: bool) -> Arc<Node> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let mut shard = self.shard(id).lock();
        match shard.entry(id) {
            Entry::Occupied(known) => {
                let node = known.get();
                let mut inner = node.inner.lock();
                inner.references += 1;
                if new || inner.kind != kind || inner.distrusted {
                    node.begin_again(&mut inner, kind);
                }
                Node::add_name(&mut inner, parent, name);
                node.clone()
            }
            Entry::Vacant(free) => {
                let names = vec![(parent, name.to_owned())];
                free.insert(Arc::new(Node::new(id, kind, names))).clone()
            }
        }
    }

    pub(super) fn forget(&self, id: NodeId, count: u64) {
        if id == ROOT {
            return;
        }
        let mut shard = self.shard(id).lock();
        let Entry::Occupied(known) = shard.entry(id) else { return };
        let gone = {
            let mut inner = known.get().inner.lock();
            inner.references = inner.references.saturating_sub(count);
            inner.references == 0
        };
        if gone {
            // Dropped outside the lock: closing a directory may take a while.
            let node = known.remove();
            drop(shard);
            drop(node);
        }
    }

    pub(super) fn add_name(&self, id: NodeId, parent: NodeId, name: &OsStr) {
        if let Some(node) = self.get(id) {
            Node::add_name(&mut node.inner.lock(), parent, name);
        }
    }

    /// Drops a name of a node.
    pub(super) fn remove_name(&self, id: NodeId, parent: NodeId, name: &OsStr) {
        if let Some(node) = self.get(id) {
            let mut inner = node.inner.lock();
            let is_it = |(p, n): &(NodeId, OsString)| *p == parent && n == name;
            if inner.names.len() == 1 && is_it(&inner.names[0]) {
                inner.is_nameless = true;
            } else {
                inner.names.retain(|known| !is_it(known));
            }
        }
    }

    /// Closes all directories; they are opened again by name.
    pub(super) fn close_directories(&self) {
        let opened = std::mem::take(&mut *self.opened.lock());
        for node in opened.iter().filter_map(|id| self.get(*id)) {
            node.inner.lock().directory = None;
        }
    }

    /// Keeps an opened directory. At the limit closes one that was not used lately.
    pub(super) fn opened(&self, node: &Node, fd: Arc<OwnedFd>) {
        node.inner.lock().directory = Some(fd);
        let mut opened = self.opened.lock();
        opened.push_back(node.id);
        let mut chances = opened.len();
        while opened.len() > self.opened_max && chances > 0 {
            chances -= 1;
            let Some(id) = opened.pop_front() else { return };
            let Some(old) = self.get(id) else { continue };
            // A removed directory cannot be opened again by name, so it keeps its descriptor while the kernel refers to
            // it.
            let mut inner = old.inner.lock();
            if old.used.swap(false, Ordering::Relaxed) || (inner.names.is_empty() || inner.is_nameless) {
                opened.push_back(id);
            } else {
                inner.directory = None;
            }
        }
        // All are in use or removed. A removed directory has little left to read, and any user can keep any number of
        // them open.
        while opened.len() > self.opened_max {
            let Some(id) = opened.pop_front() else { return };
            if let Some(old) = self.get(id).filter(|old| old.id != node.id) {
                old.inner.lock().directory = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [S-170]
    #[test]
    fn what_is_remembered_of_an_inode_is_less_than_the_kernel_keeps_of_it() {
        // A dentry has 192 bytes and an inode of FUSE more than 800. Both are accounted to the control group of the
        // process that looked the name up. The kernel drops them when memory is short, and the node with them.
        let entry = 2 * size_of::<(NodeId, Arc<Node>)>();
        let name = size_of::<(NodeId, OsString)>() + 255;
        assert!(size_of::<Node>() + entry + name < 800, "{} bytes", size_of::<Node>());
    }
}
