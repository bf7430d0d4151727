//! Names and attributes, over one connection: when it breaks, over another.
//!
//! The mount point's are those of a [`Namespace`], a target's those of a [`DirectoryMedium`](store::target::DirectoryMedium).

use crate::broken::{is_broken, sent};
use crate::mounts::Root;
use crate::readers::about_to_wait;
use crate::set::Connections;
use parking_lot::{Mutex, RwLock};
use policy::connections::{Operation, Sent, Verdict, verdict};
use rustix::fs::fstat;
use rustix::io::{Errno, Result};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use store::namespace::{Namespace, NodeId};

/// What another connection shows of an operation that may have been done or not.
pub enum Looked<T> {
    /// It was done.
    Done(T),
    /// It was not.
    NotDone,
    /// That cannot be told.
    Unknown,
}

/// What is seen over one connection at a time.
pub trait Tree {
    /// Goes on over another one.
    fn move_to(&self, root: &Arc<Root>) -> Result<()>;
}

impl Tree for Namespace {
    fn move_to(&self, root: &Arc<Root>) -> Result<()> {
        Namespace::move_to(self, root.own()?)
    }
}

/// Where files are opened, on whichever connection.
pub trait Paths: Send + Sync {
    /// The path of a file below the root, by the name it was last seen under.
    fn path(&self, id: NodeId) -> Result<PathBuf>;
    /// Whether what such a path led to is the file.
    fn is(&self, id: NodeId, found: BorrowedFd<'_>) -> Result<bool>;
}

impl Paths for Names<Namespace> {
    fn path(&self, id: NodeId) -> Result<PathBuf> {
        self.tree.path(id)
    }

    fn is(&self, id: NodeId, found: BorrowedFd<'_>) -> Result<bool> {
        Ok(!self.set.same_inodes() || self.tree.id_of(fstat(found)?.st_ino) == id)
    }
}

/// The tree and the connection that it is seen over.
pub struct Names<T> {
    tree: T,
    set: Arc<Connections>,
    over: RwLock<Arc<Root>>,
    moving: Mutex<()>,
}

impl<T: Tree> Names<T> {
    /// The tree as a connection shows it.
    pub fn new(set: Arc<Connections>, over: Arc<Root>, tree: T) -> Names<T> {
        Names { tree, set, over: RwLock::new(over), moving: Mutex::new(()) }
    }

    /// The tree, for what asks no server.
    pub fn tree(&self) -> &T {
        &self.tree
    }

    /// Does an operation that may be done twice.
    pub fn run<R>(&self, operation: Operation, act: impl Fn(&T) -> Result<R>) -> Result<R> {
        self.run_or_look(operation, act, |_| Looked::Unknown)
    }

    /// Does an operation; when its connection breaks on the way, again or not, as `look` through another one tells.
    pub fn run_or_look<R>(
        &self,
        operation: Operation,
        act: impl Fn(&T) -> Result<R>,
        look: impl Fn(&T) -> Looked<R>,
    ) -> Result<R> {
        about_to_wait();
        loop {
            let (root, began) = (self.over.read().clone(), Instant::now());
            let done = act(&self.tree);
            self.set.counted(root.number, began);
            let Err(error) = done else { return done };
            let sent = if is_broken(error) || (error == Errno::IO && root.probe().is_err_and(is_broken)) {
                let sent = sent(&root, error);
                self.set.failed(&root, error);
                sent
            } else if matches!(error, Errno::STALE | Errno::XDEV) && !Arc::ptr_eq(&root, &self.over.read()) {
                Sent::Never // it met nodes of one mount and the root of another
            } else {
                return Err(error);
            };
            self.move_from(&root)?;
            if verdict(operation, sent) == Verdict::Look {
                match look(&self.tree) {
                    Looked::Done(done) => return Ok(done),
                    Looked::NotDone => {}
                    Looked::Unknown => return Err(Errno::IO),
                }
            }
        }
    }

    /// Goes on over another connection than this broken one; nothing to do if somebody else did already.
    fn move_from(&self, broken: &Arc<Root>) -> Result<()> {
        let _alone = self.moving.lock();
        if !Arc::ptr_eq(broken, &self.over.read()) {
            return Ok(());
        }
        let root = self.set.other_than(broken)?;
        tracing::info!(from = broken.number, to = root.number, "names go over another connection");
        self.tree.move_to(&root)?;
        *self.over.write() = root;
        Ok(())
    }
}
