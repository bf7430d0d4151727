//! Names and attributes, over one connection: when it breaks, over another.

use crate::broken::{is_broken, sent};
use crate::mounts::Root;
use crate::set::Connections;
use crate::takers::about_to_wait;
use parking_lot::{Mutex, RwLock};
use policy::connections::{Operation, Sent, Verdict, verdict};
use rustix::io::{Errno, Result};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;
use store::namespace::Namespace;

/// What another connection shows of an operation that may have been done or not.
pub enum Looked<T> {
    /// It was done.
    Done(T),
    /// It was not.
    NotDone,
    /// That cannot be told.
    Unknown,
}

/// The tree and the connection that it is seen over.
pub struct Names {
    namespace: Namespace,
    set: Arc<Connections>,
    over: RwLock<Arc<Root>>,
    moving: Mutex<()>,
}

fn own(root: &Root) -> io::Result<OwnedFd> {
    root.fd().try_clone()
}

impl Names {
    /// The tree as the first usable connection shows it.
    pub fn new(set: Arc<Connections>) -> io::Result<Names> {
        let root = set.root(Default::default()).ok_or(io::ErrorKind::NotConnected)?;
        let namespace = Namespace::new(own(&root)?)?;
        Ok(Names { namespace, set, over: RwLock::new(root), moving: Mutex::new(()) })
    }

    /// The tree, for what asks no server.
    pub fn tree(&self) -> &Namespace {
        &self.namespace
    }

    /// Does an operation that may be done twice.
    pub fn run<T>(&self, operation: Operation, act: impl Fn(&Namespace) -> Result<T>) -> Result<T> {
        self.run_or_look(operation, act, |_| Looked::Unknown)
    }

    /// Does an operation; when its connection breaks on the way, again or not, as `look` through another one tells.
    pub fn run_or_look<T>(
        &self,
        operation: Operation,
        act: impl Fn(&Namespace) -> Result<T>,
        look: impl Fn(&Namespace) -> Looked<T>,
    ) -> Result<T> {
        about_to_wait();
        loop {
            let (root, began) = (self.over.read().clone(), Instant::now());
            let done = act(&self.namespace);
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
                match look(&self.namespace) {
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
        self.namespace.move_to(own(&root).map_err(|_| Errno::MFILE)?)?;
        *self.over.write() = root;
        Ok(())
    }
}
