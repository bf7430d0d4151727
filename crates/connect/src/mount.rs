//! A mount point with several connections behind it, from start to unmount.

use crate::file::World;
use crate::mounts::Mounts;
use crate::names::Names;
use crate::options::Options;
use crate::private::Private;
use crate::recipe::Recipe;
use crate::serve::Shared;
use crate::set::{Connections, SetError};
use crate::status::Status;
use fuser::BackgroundSession;
use meta::namespace::Namespace;
use node::control::Problem;
use node::mount::front::{Mounting, serve};
use node::mount::mountpoint::{clear_stale, connection, detach, unmount_unused, widen_read_ahead};
use parking_lot::Mutex;
use policy::connections::ConnectionId;
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Threads that serve requests, per connection: each may be blocked by the server.
const THREADS_PER_CONNECTION: usize = 16;
/// Limits of the number of threads.
const THREADS: std::ops::RangeInclusive<usize> = 32..=96;

/// A mount point at work. Dropping it detaches it.
pub struct Connected {
    path: PathBuf,
    world: Arc<World>,
    session: Mutex<Option<BackgroundSession>>,
}

impl Connected {
    /// Makes the connections in a mount namespace of their own, and serves them at `mountpoint`.
    pub fn start(recipe: Recipe, mountpoint: &Path, options: Options) -> Result<Connected, Problem> {
        recipe.check().map_err(|why| not_mounted(Problem::wrong(why), "See `entrepot connect --help`"))?;
        let path = usable(mountpoint)?;
        let mounts = Private::new(recipe, options.set.connections).map_err(|error| {
            let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
            let problem = if is_denied { Problem::denied } else { Problem::failed };
            not_mounted(problem(format!("mounts of its own cannot be made: {error}")), "Run it as root")
        })?;
        Connected::start_over(Box::new(mounts), &path, options)
    }

    /// Serves connections over the given mounts.
    pub fn start_over(mounts: Box<dyn Mounts>, mountpoint: &Path, options: Options) -> Result<Connected, Problem> {
        let path = usable(mountpoint)?;
        let set = Connections::start(mounts, options.set.clone()).map_err(not_connected)?;
        let refused = |error: io::Error| {
            let cause = format!("mounting at {} was refused: {error}", path.display());
            not_mounted(Problem::failed(cause), "Root and /dev/fuse are needed")
        };
        let root = set.root(ConnectionId(0)).ok_or_else(|| not_connected(SetError::gone()))?;
        let tree = root.own().and_then(Namespace::new).map_err(|error| refused(error.into()))?;
        let names = Arc::new(Names::new(set.clone(), root, tree));
        let threads = (THREADS_PER_CONNECTION * usize::from(set.count())).clamp(*THREADS.start(), *THREADS.end());
        let world = World::new(set, names.clone(), options.write_behind_bytes, threads);
        let shared = Arc::new(Shared::new(world.clone(), names, options.clone()));
        let mounting = Mounting {
            path: &path,
            subtype: "entrepot-connect",
            name: &options.name,
            allow_other: rustix::process::geteuid().is_root(),
            threads,
        };
        let started = serve(shared.clone(), &mounting);
        let session = started.inspect_err(|_| world.set.end()).map_err(refused)?;
        shared.set_notifier(session.notifier());
        if let Some(number) = connection(&path) {
            widen_read_ahead(number, options.read_ahead_bytes() >> 10);
        }
        Ok(Connected { path, world, session: Mutex::new(Some(session)) })
    }

    /// Path of the mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the state of the connections.
    pub fn status(&self) -> Status {
        self.world.status()
    }

    /// Unmounts: `EBUSY` while it is in use.
    pub fn unmount(&self) -> io::Result<()> {
        unmount_unused(&self.path)
    }

    /// Detaches the mount point from the tree at once; the mount ends with its last user.
    pub fn detach(&self) -> io::Result<()> {
        detach(&self.path)
    }

    /// Waits until the mount point is unmounted. Returns the final state of the connections, which are unmounted on
    /// drop.
    pub fn wait(&self) -> io::Result<Status> {
        let session = self.session.lock().take();
        match session.map_or(Ok(()), BackgroundSession::join) {
            // A thread that was taking a request at the moment of the unmount gets this error instead of the end.
            Err(error) if error.raw_os_error() == Some(Errno::CONNABORTED.raw_os_error()) => {}
            ended => ended?,
        }
        self.world.end();
        Ok(self.world.status())
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.world.set.end();
        if self.session.lock().is_some()
            && let Err(error) = detach(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "a mount that is not needed any more cannot be detached");
        }
    }
}

fn usable(mountpoint: &Path) -> Result<PathBuf, Problem> {
    let unusable = |error: io::Error| {
        let cause = format!("the mount point {} cannot be used: {error}", mountpoint.display());
        not_mounted(Problem::wrong(cause), "Give an empty directory")
    };
    clear_stale(mountpoint).map_err(unusable)?;
    let path = mountpoint.canonicalize().map_err(unusable)?;
    if path.is_dir() { Ok(path) } else { Err(unusable(io::ErrorKind::NotADirectory.into())) }
}

fn not_mounted(problem: Problem, next: &str) -> Problem {
    problem.so("nothing was mounted").try_this(next)
}

fn not_connected(error: SetError) -> Problem {
    let problem = match error {
        SetError::Different(why) => Problem::wrong(why),
        SetError::Failed(why) => Problem::failed(why),
    };
    not_mounted(problem, "Try the same mount by hand, and check that the servers export the same directory")
}
