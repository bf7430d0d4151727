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

/// Reason why there is no mount point.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The servers, the type or the options are wrong.
    #[error("{0}; nothing was mounted. See `entrepot connect --help`")]
    Recipe(String),
    /// The mount point cannot be used.
    #[error("the mount point {path} cannot be used: {error}; nothing was mounted. Give an empty directory", path = .path.display())]
    Mountpoint {
        /// Path of the mount point.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The private mounts cannot be made.
    #[error("mounts of its own cannot be made: {0}; nothing was mounted. Run it as root")]
    Private(io::Error),
    /// The connections cannot be made.
    #[error(
        "{0}; nothing was mounted. Try the same mount by hand, and check that the servers export the same directory"
    )]
    Set(#[from] SetError),
    /// The kernel refused.
    #[error("mounting at {path} was refused: {error}; nothing was mounted. Root and /dev/fuse are needed", path = .path.display())]
    Refused {
        /// Path of the mount point.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
}

/// A mount point at work. Dropping it detaches it.
pub struct Connected {
    path: PathBuf,
    world: Arc<World>,
    session: Mutex<Option<BackgroundSession>>,
}

impl Connected {
    /// Makes the connections in a mount namespace of their own, and serves them at `mountpoint`.
    pub fn start(recipe: Recipe, mountpoint: &Path, options: Options) -> Result<Connected, StartError> {
        recipe.check().map_err(StartError::Recipe)?;
        let path = usable(mountpoint)?;
        let mounts = Private::new(recipe, options.set.connections).map_err(StartError::Private)?;
        Connected::start_over(Box::new(mounts), &path, options)
    }

    /// Serves connections over the given mounts.
    pub fn start_over(mounts: Box<dyn Mounts>, mountpoint: &Path, options: Options) -> Result<Connected, StartError> {
        let path = usable(mountpoint)?;
        let set = Connections::start(mounts, options.set.clone())?;
        let refused = |error| StartError::Refused { path: path.clone(), error };
        let root = set.root(ConnectionId(0)).ok_or(SetError::Gone)?;
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

fn usable(mountpoint: &Path) -> Result<PathBuf, StartError> {
    let unusable = |error| StartError::Mountpoint { path: mountpoint.to_path_buf(), error };
    clear_stale(mountpoint).map_err(unusable)?;
    let path = mountpoint.canonicalize().map_err(unusable)?;
    if path.is_dir() { Ok(path) } else { Err(unusable(io::ErrorKind::NotADirectory.into())) }
}
