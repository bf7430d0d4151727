//! Names and attributes, over one connection; over another one when it breaks.
//!
//! A mount point uses a [`Namespace`], a target a [`DirectoryMedium`](object::target::DirectoryMedium).

use crate::broken::{is_broken, sent};
use crate::mounts::Root;
use crate::readers::about_to_wait;
use crate::set::Connections;
use meta::namespace::{Namespace, NodeId};
use parking_lot::{Mutex, RwLock};
use policy::connections::{Operation, Sent, Verdict, verdict};
use rustix::fs::fstat;
use rustix::io::{Errno, Result};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Result of checking over another connection whether an interrupted operation was done.
pub enum Looked<T> {
    /// The operation was done.
    Done(T),
    /// The operation was not done.
    NotDone,
    /// The result cannot be determined.
    Unknown,
}

/// A tree of names that is seen over one connection at a time.
pub trait Tree {
    /// Switches to another connection.
    fn move_to(&self, root: &Arc<Root>) -> Result<()>;
}

impl Tree for Namespace {
    fn move_to(&self, root: &Arc<Root>) -> Result<()> {
        Namespace::move_to(self, root.own()?)
    }
}

/// Paths by which files are opened, on any connection.
pub trait Paths: Send + Sync {
    /// Returns the path of a file below the root, by its last known name.
    fn path(&self, id: NodeId) -> Result<PathBuf>;
    /// Returns whether the file found at such a path is the expected one.
    fn is(&self, id: NodeId, found: BorrowedFd<'_>) -> Result<bool>;
}

impl Paths for Names<Namespace> {
    fn path(&self, id: NodeId) -> Result<PathBuf> {
        self.tree.path(id)
    }

    fn is(&self, id: NodeId, found: BorrowedFd<'_>) -> Result<bool> {
        Ok(!self.set.same_inodes || self.tree.id_of(fstat(found)?.st_ino) == id)
    }
}

/// A tree and the connection that it is seen over.
pub struct Names<T> {
    /// The tree, also for operations without a request to the server.
    pub tree: T,
    set: Arc<Connections>,
    over: RwLock<Arc<Root>>,
    moving: Mutex<()>,
}

impl<T: Tree> Names<T> {
    /// Creates the names of `tree`, seen over `over`.
    pub fn new(set: Arc<Connections>, over: Arc<Root>, tree: T) -> Names<T> {
        Names { tree, set, over: RwLock::new(over), moving: Mutex::new(()) }
    }

    /// Runs an operation that may be repeated.
    pub fn run<R>(&self, operation: Operation, act: impl Fn(&T) -> Result<R>) -> Result<R> {
        self.run_or_look(operation, act, |_| Looked::Unknown)
    }

    /// Runs an operation. If its connection breaks, `look` checks over another one whether it was done, and decides
    /// about a retry.
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
                Sent::Never // the operation met nodes of one mount and the root of another
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

    /// Switches from a broken connection to another one, unless another thread did so already.
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
