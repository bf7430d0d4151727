//! Open files: one entry per inode, with its users.

mod accessed;
mod handle;
mod kept;

pub use handle::{Handle, is_writable};

use super::holders::Holders;
use super::slow::OWN;
use super::{File, Server};
use crate::Result;
use accessed::Accessed;
use engine::cache::WeakStream;
use engine::file::{Creation, Happened, Payer};
use kept::{Keep, Kept};
use meta::namespace::{FRESH, LOST, Node, NodeId, Removed};
use object::host;
use object::host::{fstat, remembered};
use parking_lot::Mutex;
use policy::holders::node::Use;
use rustix::fs::Stat;
use rustix::io::Errno;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

const SHARDS: usize = 64;

/// An inode in use, by the kernel's handles or by the daemon.
pub struct Open {
    pub id: NodeId,
    pub file: Arc<File>,
    /// Descriptor of the stub, for operations on the inode rather than its bytes.
    stub: Arc<OwnedFd>,
    /// Birth time of the stub, in nanoseconds since 1970; 0 if the file system has none.
    born_ns: u64,
    holders: Arc<Holders>,
    users: AtomicUsize,
    /// Set if a name of the file was removed on this node.
    lost_name_here: AtomicBool,
    /// The stream of the newest ordinary handle, to which the next one opened with `O_NOATIME` belongs.
    newest: Mutex<Option<WeakStream>>,
    /// Attributes and time of creation, for requests within the system call that created the file. Kept where fetching
    /// them is slow.
    made: Mutex<Option<(Stat, Instant)>>,
    /// Time at which a lookup kept the file open for the next request.
    pinned: Mutex<Option<Instant>>,
    /// Latest attributes, where another node may remove the file: its file system may return none afterwards.
    last: Mutex<Option<Stat>>,
    keep: Keep,
    accessed: Accessed,
}

impl Open {
    /// Records that a lookup keeps the file open for the next request.
    pub fn set_pinned(&self, now: Instant) {
        *self.pinned.lock() = Some(now);
    }

    /// Whether a lookup keeps the file open.
    fn is_pinned(&self) -> bool {
        self.pinned.lock().is_some_and(|pinned| pinned.elapsed() < LOST)
    }

    pub fn stub(&self) -> BorrowedFd<'_> {
        self.stub.as_fd()
    }

    /// Adds a user, whom [`Server::leave`] removes.
    fn enter(self: &Arc<Self>) -> Arc<Open> {
        self.users.fetch_add(1, Ordering::AcqRel);
        self.clone()
    }

    /// Whether the file is only kept open.
    fn rests(&self) -> bool {
        self.users.load(Ordering::Acquire) == 0
    }

    /// Whether a name of the file was removed on this node.
    pub fn lost_name_here(&self) -> bool {
        self.lost_name_here.load(Ordering::Acquire)
    }

    /// Records the attributes of an inode created just now. They are valid until a change.
    pub fn made_with(&self, stat: &Stat) {
        if self.file.is_shared() {
            *self.made.lock() = Some((*stat, Instant::now()));
        }
    }

    /// Discards the recorded attributes, before a change.
    pub fn changes(&self) {
        if self.file.is_shared() {
            *self.made.lock() = None;
        }
    }

    /// Present attributes, or those recorded at the creation, or the last ones before another node removed the file.
    pub fn stat(&self) -> rustix::io::Result<Stat> {
        let made = self.made.lock().take().filter(|(_, made)| made.elapsed() < FRESH && self.file.is_in_stub());
        match made.map_or_else(|| fstat(self.stub()), |(stat, _)| Ok(stat)) {
            Ok(stat) if self.file.is_shared() => Ok(*self.last.lock().insert(stat)),
            Err(Errno::NOENT | Errno::STALE) if self.file.is_shared() => {
                // Without attributes, the kernel has to look the name up again.
                let mut stat = self.last.lock().ok_or(Errno::STALE)?;
                stat.st_nlink = 0;
                Ok(stat)
            }
            done => done,
        }
    }

    /// Whether the kernel's pages of a node belong to this inode.
    pub fn is_of(&self, node: &Node) -> bool {
        node.is_of(self.born_ns)
    }
}

/// Open files by inode.
pub struct OpenFiles {
    shards: Vec<Mutex<HashMap<NodeId, Arc<Open>>>>,
    /// Set if the namespace's file system has no birth times. One request shows that, since it may reach a server.
    no_births: AtomicBool,
    kept: Kept,
}

impl OpenFiles {
    /// An empty table; `descriptors` are those for the files of users.
    pub fn new(descriptors: u64) -> OpenFiles {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        OpenFiles { shards, no_births: AtomicBool::new(false), kept: Kept::new(descriptors) }
    }

    fn shard(&self, id: NodeId) -> &Mutex<HashMap<NodeId, Arc<Open>>> {
        &self.shards[id as usize % SHARDS]
    }

    /// The open file of a node, without becoming a user. `None` if it is only kept open: it may be outdated.
    pub fn get(&self, id: NodeId) -> Option<Arc<Open>> {
        self.shard(id).lock().get(&id).filter(|open| !open.rests()).cloned()
    }

    /// Whether a file is open without a user.
    pub fn rests(&self, id: NodeId) -> bool {
        self.shard(id).lock().get(&id).is_some_and(|open| open.rests())
    }

    fn born_ns(&self, stub: &OwnedFd) -> u64 {
        if self.no_births.load(Ordering::Relaxed) {
            return 0;
        }
        match host::born_ns(stub) {
            Ok(Some(ns)) => ns,
            Ok(None) => {
                self.no_births.store(true, Ordering::Relaxed);
                0
            }
            Err(_) => 0,
        }
    }

    fn enter(&self, id: NodeId) -> Option<Arc<Open>> {
        Some(self.shard(id).lock().get(&id)?.enter())
    }
}

/// A user of an open file; leaves when dropped.
pub struct User<'a> {
    server: &'a Server,
    pub open: Arc<Open>,
    /// User to charge for the removal, if the file has no name left.
    uid: u32,
    /// Set if the stub was read for this user.
    looked: bool,
}

impl User<'_> {
    /// Reads changes of the stub by other nodes, unless they were read just now.
    pub fn refresh(&self, usage: Use) -> Result<()> {
        if self.looked { Ok(()) } else { self.open.file.refresh_for(usage).map(drop) }
    }

    /// Keeps the user, whom [`Server::leave`] removes.
    pub fn keep(self) -> Arc<Open> {
        self.open.enter()
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.server.leave(&self.open, self.uid);
    }
}

impl Server {
    /// Uses a file by its node. Opens its stub if it is not open.
    pub fn user(&self, id: NodeId) -> Result<User<'_>> {
        self.user_for(id, Use::Read)
    }

    /// As `user`, for a use that follows.
    pub fn user_for(&self, id: NodeId, usage: Use) -> Result<User<'_>> {
        if let Some(open) = self.open.enter(id) {
            return Ok(User { server: self, open, uid: OWN, looked: false });
        }
        let stub = self.parts.namespace.open_stub(id)?;
        self.user_of_stub(id, stub, usage)
    }

    /// Uses the file behind a stub that was just opened.
    pub fn user_of_stub(&self, id: NodeId, stub: OwnedFd, usage: Use) -> Result<User<'_>> {
        let stub = Arc::new(stub);
        self.user_of_file(id, stub.clone(), self.parts.files.get_or_share_for(stub, usage)?)
    }

    /// Uses the file behind a stub that was made just now.
    pub fn user_of_new_stub(&self, id: NodeId, stub: OwnedFd, creation: Creation) -> Result<User<'_>> {
        let stub = Arc::new(stub);
        self.user_of_file(id, stub.clone(), self.parts.files.get_or_make(stub, creation)?)
    }

    fn user_of_file(&self, id: NodeId, stub: Arc<OwnedFd>, file: Arc<File>) -> Result<User<'_>> {
        let born_ns = self.open.born_ns(&stub);
        let mut shard = self.open.shard(id).lock();
        let open = match shard.entry(id) {
            Entry::Occupied(known) => known.get().clone(),
            // Another thread removed the last known name, and perhaps the objects, after this one had opened the stub.
            // The kernel looks the name up again.
            Entry::Vacant(_) if self.parts.namespace.node(id).is_ok_and(|node| node.name().is_none()) => {
                return Err(Errno::STALE.into());
            }
            Entry::Vacant(free) => {
                let users = AtomicUsize::new(0);
                let (newest, holders) = (Mutex::default(), Holders::new(self.admission.clone()));
                let payer: Arc<dyn Payer> = holders.clone();
                file.set_payer(Arc::downgrade(&payer));
                let lost_name_here = AtomicBool::new(false);
                let (made, pinned, last) = (Mutex::default(), Mutex::default(), Mutex::default());
                let open = Open {
                    id,
                    file,
                    stub,
                    born_ns,
                    holders,
                    users,
                    lost_name_here,
                    newest,
                    made,
                    pinned,
                    last,
                    keep: Keep::default(),
                    accessed: Accessed::default(),
                };
                free.insert(Arc::new(open)).clone()
            }
        };
        let open = open.enter();
        drop(shard);
        Ok(User { server: self, open, uid: OWN, looked: true })
    }

    /// Leaves an open file. The last user of a file without a name removes its objects.
    pub fn leave(&self, open: &Arc<Open>, uid: u32) {
        if open.users.load(Ordering::Acquire) == 1 {
            // This precedes the removal from the table: other threads find the file there, and the number of its links
            // that are names.
            open.file.settle_mark();
        }
        let mut shard = self.open.shard(open.id).lock();
        if open.users.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        // Marks a change before the inode stops counting as in use.
        drop(self.parts.namespace.changing());
        if let Some(since) = self.open.keeps(open, &self.later) {
            drop(shard);
            return self.open.will_close(open.id, since, &self.later);
        }
        shard.remove(&open.id);
        drop(shard);
        self.counts_no_more_if_nameless(open);
        // With several nodes, the node that removes the last name removes the objects. It has read the layout before,
        // so a file that is in its stub has no objects.
        if open.file.is_shared() && (open.file.is_in_stub() || !open.lost_name_here()) {
            return;
        }
        if open.file.is_nameless(|| fstat(open.stub()).ok().map(|stat| stat.st_nlink)) {
            self.remove_objects(open, uid);
        }
    }

    /// Uses a file that is about to lose a name. A shared file system may afterwards return only its bytes, so its
    /// layout is read now. `None`: another node removed the file first, and its objects; the name may lead to another
    /// file by now.
    pub fn user_of_removed(&self, removed: &mut Removed) -> Option<Option<User<'_>>> {
        let Some(stub) = removed.stub.take() else { return Some(None) };
        match self.user_of_stub(removed.id, stub, Use::Read) {
            Ok(user) => {
                user.open.file.loses_name();
                Some(Some(user))
            }
            Err(error) if error.is_gone() && self.parts.pool.cluster.get().is_some() => None,
            Err(error) => {
                tracing::warn!(%error, "the objects of a removed file stay; `entrepot check` will find them");
                Some(None)
            }
        }
    }

    /// Records that a user removed or replaced a name of a file. If it was the last and the file is unused, leaving
    /// removes its objects.
    pub fn unlinked(&self, uid: u32, user: Option<User<'_>>) {
        let Some(mut user) = user else { return };
        user.uid = uid;
        user.open.lost_name_here.store(true, Ordering::Release);
    }

    fn remove_objects(&self, open: &Arc<Open>, uid: u32) {
        match open.file.refresh() {
            Ok(_) => {}
            // The node that removed the last name removes the objects, even if other nodes have the file open.
            Err(error) if error.is_gone() && open.lost_name_here() => {}
            Err(error) if error.is_gone() && open.file.is_shared() => {
                return tracing::debug!("a file that was in use here was removed by another node");
            }
            Err(error) => {
                tracing::warn!(%error, "the objects of a removed file stay; `entrepot check` will find them");
                return;
            }
        }
        open.file.tell(Happened::Removed);
        let Some(layout) = open.file.layout() else { return };
        let home = remembered(open.stub()).map(|stat| stat.st_dev).ok();
        let device = |target| self.parts.pool.targets.get(target).and_then(|t| t.space().device);
        let beside = home.is_some() && layout.objects().all(|(_, object)| device(object.target) == home);
        self.removal.add(uid, open.clone(), beside);
    }
}
