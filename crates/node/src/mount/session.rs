//! A mount from its start to its end.

use super::front::{Mounting, serve};
use super::later::Later;
use super::locks::Locks;
use super::mountpoint::{Ended, Table, clear_stale, connection, control, detach, unmount_unused, widen_read_ahead};
use super::open::{Open, OpenFiles};
use super::removal::{Removal, Steps};
use super::slow::Slow;
use super::{Options, Parts, Server};
use fuser::BackgroundSession;
use object::admission::Admission;
use parking_lot::Mutex;
use policy::shares::Descriptors;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Limit of threads of the slow pool; one user alone gets 56 of them (half of seven eighths).
const SLOW_THREADS_MAX: usize = 128;
/// Limit of requests that wait for one of these threads.
const SLOW_QUEUE_MAX: usize = 512;
/// Timeout at the end for requests under way on the slow pool.
const END_PATIENCE: Duration = Duration::from_secs(60);

/// Timeout at the end for FUSE threads: only hung targets keep them.
const JOIN_PATIENCE: Duration = Duration::from_secs(5);
/// Interval of checks for FUSE threads.
const JOIN_LOOK: Duration = Duration::from_millis(5);

/// Read-ahead of the kernel: one request of the largest size. Measured: 512 KiB to 4 MiB are alike, and a third faster
/// than the kernel's 128 KiB.
const READ_AHEAD_KIB: u32 = 1024;

/// Failure to mount or unmount.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The mount point cannot be used.
    #[error("the mount point {path} cannot be used: {error}; nothing was mounted. Give an empty directory that you may write to", path = .path.display())]
    Mountpoint {
        /// Path as it was given.
        path: PathBuf,
        /// Error of the system call.
        error: io::Error,
    },
    /// The kernel or `fusermount3` refused.
    #[error("mounting at {path} was refused: {error}. As an ordinary user you need `fusermount3` (package fuse3) and access to /dev/fuse", path = .path.display())]
    Refused {
        /// Canonical path of the mount point.
        path: PathBuf,
        /// Error of the system call.
        error: io::Error,
    },
    /// The mount cannot be ended in the requested way.
    #[error("the mount at {path} cannot be ended: {error}. `fusermount3 -u -z {path}` detaches it", path = .path.display())]
    End {
        /// Canonical path of the mount point.
        path: PathBuf,
        /// Error of the system call.
        error: io::Error,
    },
}

/// A mounted volume. Dropping this detaches the volume.
pub struct Mount {
    path: PathBuf,
    connection: Option<u32>,
    session: Mutex<Option<BackgroundSession>>,
    server: Arc<Server>,
}

impl Mount {
    /// Mounts and serves in the background.
    pub fn start(parts: Parts, options: Options, mountpoint: &Path) -> Result<Mount, MountError> {
        let unusable = |error| MountError::Mountpoint { path: mountpoint.to_path_buf(), error };
        clear_stale(mountpoint).map_err(unusable)?;
        let path = mountpoint.canonicalize().map_err(unusable)?;
        let threads = options.threads.max(4);
        let descriptors = Descriptors::of(options.descriptors_max);
        let held = Admission::new(options.held_bytes_max, options.held_bytes_max / 8);
        let slow = Slow::new(SLOW_THREADS_MAX, SLOW_QUEUE_MAX, threads);
        let later = Later::new(&slow);
        let admission = Admission::new(descriptors.files, descriptors.operator);
        let refused = |error| MountError::Refused { path: path.clone(), error };
        let server = Arc::new(Server {
            ended: Ended::new().map_err(refused)?,
            removal: Removal::new(slow.clone(), later.clone(), removal_steps()),
            later,
            locks: Locks::new(slow.clone(), admission.clone()),
            slow,
            passthrough: AtomicBool::new(true),
            parts,
            options,
            open: Arc::new(OpenFiles::new(descriptors.files)),
            handles: Default::default(),
            directories: Default::default(),
            texts: Default::default(),
            admission,
            held,
        });
        let mounting = Mounting {
            path: &path,
            subtype: "entrepot",
            name: &server.options.name,
            allow_other: server.options.allow_other.unwrap_or(rustix::process::geteuid().is_root()),
            threads,
        };
        let session = serve(server.clone(), &mounting).map_err(refused)?;
        let connection = connection(&path);
        if let Some(connection) = connection {
            widen_read_ahead(connection, READ_AHEAD_KIB);
        }
        Ok(Mount { connection, session: Mutex::new(Some(session)), server, path })
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts, or fails with `EBUSY` if the mount is in use. Does not wait for requests under way.
    pub fn take_away(&self) -> Result<(), MountError> {
        unmount_unused(&self.path).map_err(|error| MountError::End { path: self.path.clone(), error })
    }

    /// Ends the mount at once: requests under way and later ones fail. Nothing acknowledged is lost.
    pub fn abort(&self) -> Result<(), MountError> {
        let aborted = abort_connection(self.connection, &self.path);
        let detached = detach(&self.path);
        match (aborted, detached) {
            (Ok(()), _) => Ok(()),
            // A detached mount ends with its last user. The end of the process turns its remaining requests into
            // errors.
            (Err(error), Ok(())) => {
                tracing::warn!(%error, "the connection cannot be aborted (is /sys/fs/fuse/connections mounted?); waiting calls end with this process");
                Ok(())
            }
            (Err(_), Err(error)) => Err(MountError::End { path: self.path.clone(), error }),
        }
    }

    /// Whether the objects of all removed files are removed, once the mount has ended.
    pub fn has_removed_all(&self) -> bool {
        self.server.removal.is_complete()
    }

    /// Waits until the volume is unmounted, by any process, or has no server any more, or `told` is set.
    pub fn watch(&self, told: &Ended) {
        let table = Table::open();
        let is_there = || self.connection.is_none() || connection(&self.path) == self.connection;
        while is_there() && !table.wait(&[&self.server.ended, told]) {}
    }

    /// Waits until the volume is unmounted, by any process, and until requests under way are done.
    pub fn wait(&self) -> io::Result<()> {
        let session = self.session.lock().take();
        let ended = session.map_or(Ok(true), |session| self.join(session));
        self.server.locks.end_all();
        self.server.removal.end();
        self.server.later.end();
        let served = self.server.slow.end(END_PATIENCE);
        if !served {
            tracing::warn!("requests still wait for targets that do not answer; leaving them behind");
        }
        if served && !matches!(ended, Ok(false)) {
            self.server.close_all();
        }
        match ended {
            // The FUSE device returns ECONNABORTED after an abort.
            Err(error) if error.raw_os_error() == Some(Errno::CONNABORTED.raw_os_error()) => Ok(()),
            ended => ended.map(|_| ()),
        }
    }
}

impl Mount {
    /// Joins the FUSE threads. After the end of the connection, threads that hang in a target are left behind, and the
    /// result is `false`.
    fn join(&self, session: BackgroundSession) -> io::Result<bool> {
        let table = Table::open();
        while self.connection.is_some() && connection(&self.path) == self.connection {
            if table.wait(&[&self.server.ended]) {
                return session.join().map(|()| true);
            }
        }
        let until = std::time::Instant::now() + JOIN_PATIENCE;
        while !session.guard.is_finished() {
            if std::time::Instant::now() >= until {
                tracing::warn!("threads still hang in targets that do not answer; leaving them behind");
                return Ok(false);
            }
            std::thread::sleep(JOIN_LOOK);
        }
        session.join().map(|()| true)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.session.lock().is_some()
            && let Err(error) = detach(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "a mount that is not needed any more cannot be detached");
        }
    }
}

/// Aborts through the kernel's control file system, which the mounting user may use. Where that is not mounted, forces
/// an unmount, which only root may do; it aborts even if it then finds the mount in use.
fn abort_connection(connection: Option<u32>, path: &Path) -> io::Result<()> {
    let number = connection.ok_or(io::ErrorKind::NotFound)?;
    let file = std::fs::OpenOptions::new().write(true).open(control(number).join("abort"));
    match file.and_then(|mut file| file.write_all(b"1")) {
        Ok(()) => Ok(()),
        Err(error) => match rustix::mount::unmount(path, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW) {
            Ok(()) | Err(Errno::BUSY) => Ok(()),
            Err(_) => Err(error),
        },
    }
}

/// Steps to remove the objects of a file without names.
fn removal_steps() -> Steps<Arc<Open>> {
    Steps {
        sync: Box::new(|open: &Arc<Open>| Ok(rustix::fs::syncfs(open.stub())?)),
        remove: Box::new(|open: Arc<Open>, wait| {
            if open.file.is_held_elsewhere(wait) {
                return Some(open);
            }
            if let Err(error) = open.file.remove_objects() {
                tracing::warn!(%error, "objects of a removed file stay; `entrepot check` will find them");
            }
            None
        }),
    }
}
