//! The end of a daemon, clean or forced, and what could keep it from starting.

use super::Daemon;
use super::users::users_of;
use crate::control::{self, Found};
use crate::mount::{Mount, MountError};
use crate::volume::{self, Config, Problem, Problems};
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// How long the steps of the end may take together before the rest is left to the end of the process.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same after a forced end: no caller waits for an answer any more.
const FORCED_PATIENCE: Duration = Duration::from_secs(5);

/// How a daemon is told to end, and who waits for that.
pub struct Ending {
    mount: Arc<Mount>,
    ended: Mutex<bool>,
    forced: AtomicBool,
    told: Condvar,
}

impl Ending {
    pub(super) fn new(mount: Arc<Mount>) -> Arc<Ending> {
        let ending =
            Arc::new(Ending { mount, ended: Mutex::new(false), forced: AtomicBool::new(false), told: Condvar::new() });
        let watcher = ending.clone();
        let watch = move || {
            // Ends when anybody unmounts: us, `umount`, `fusermount3 -u`.
            if let Err(error) = watcher.mount.wait() {
                tracing::error!("the mount ended with an error: {error}");
            }
            watcher.tell();
        };
        if let Err(error) = std::thread::Builder::new().name("mount-watch".into()).spawn(watch) {
            tracing::error!("nobody will notice when the volume is unmounted from outside: {error}");
        }
        ending
    }

    /// Unmounts, and so makes [`Daemon::run`] return. Without `force` it is refused while somebody uses the mount; with
    /// it, waiting calls end with an error.
    pub fn unmount(&self, force: bool) -> Result<(), control::Problem> {
        let path = self.mount.path();
        if force {
            self.forced.store(true, Ordering::Release);
        }
        match self.mount.take_away() {
            Ok(()) => {}
            Err(_) if force => self.mount.abort().map_err(|e| failed(&e))?,
            Err(MountError::End { error, .. }) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                let users = users_of(path);
                let who = if users.is_empty() { "somebody".into() } else { users.join(", ") };
                return Err(control::Problem::busy(format!("{} is in use by {who}", path.display()))
                    .so("nothing was stopped")
                    .try_this("end these processes, or use `entrepot down --force`: their calls end with errors"));
            }
            Err(e) => return Err(failed(&e)),
        }
        self.tell();
        Ok(())
    }

    pub(super) fn wait(&self) {
        let mut ended = self.ended.lock();
        while !*ended {
            self.told.wait(&mut ended);
        }
    }

    fn tell(&self) {
        *self.ended.lock() = true;
        self.told.notify_all();
    }
}

fn failed(error: &MountError) -> control::Problem {
    control::Problem::failed(error.to_string()).so("the volume is still mounted")
}

/// Stops everything in order; leaves behind what does not end in time.
pub(super) fn finish<S: Send + 'static>(daemon: Daemon<S>, stop_jobs: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let volume = daemon.core.volume.clone();
    let forced = daemon.ending.forced.load(Ordering::Acquire);
    let patience = if forced { FORCED_PATIENCE } else { PATIENCE };
    let steps = move || {
        let Daemon { core, mount, control, .. } = daemon;
        stop_jobs();
        drop(control);
        core.mover.stop();
        core.adapt.stop();
        core.background.stop();
        core.balancing.stop();
        core.scrubs.stop();
        core.sums.stop();
        core.repair.stop();
        if let Err(error) = mount.wait() {
            tracing::warn!("the mount ended with an error: {error}");
        }
        for file in core.files.files() {
            if let Err(error) = file.settle() {
                tracing::warn!("a file could not be settled, the next start does it: {error}");
            }
        }
        if let Err(error) = core.names.finish() {
            tracing::warn!("the names of new objects could not be made durable: {error}");
        }
        if let Some(places) = core.pool.places.get() {
            places.stop();
        }
        core.accounts.stop(&core);
        core.quotas.stop(&core);
        if let Some(nodes) = &core.nodes {
            nodes.leave();
        }
        core.volume.targets().stop();
        // Whoever listened may be gone.
        let _ = done.send(());
    };
    let started = std::thread::Builder::new().name("end".into()).spawn(steps);
    match started {
        Ok(_) if wait.recv_timeout(patience).is_ok() => tracing::info!("the volume is down"),
        Ok(_) => tracing::warn!("something does not end (a target that hangs?); it is left behind"),
        Err(error) => tracing::warn!("no thread for a clean end: {error}"),
    }
    volume.release();
}

/// The Entrepot mount at a mount point, from the kernel's table.
fn mounted_at(path: &Path) -> Option<Found> {
    control::mounts().into_iter().find(|m| m.mount_point.as_deref() == Some(path))
}

/// Whether somebody serves a mount. Asking the mount itself says little: the kernel remembers attributes for a while.
fn answers(there: &Found) -> bool {
    UnixStream::connect(there.socket()).is_ok()
}

/// Unmounts what a daemon that was killed left at the mount point.
pub(super) fn clear_dead_mount(path: &Path) {
    let path = path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_path_buf());
    while let Some(there) = mounted_at(&path).filter(|there| !answers(there)) {
        tracing::warn!(state = %there.state.display(), "the daemon of this mount was killed; unmounting what it left");
        if let Err(error) = crate::mount::detach(&path) {
            tracing::warn!("it cannot be unmounted: {error}");
            return;
        }
    }
}

/// Looks at the mount point before anything is touched.
pub(super) fn check_mount_point(path: &Path, config: &Config) -> Result<(), Problems> {
    let refused = |cause: String, mend: &str| {
        Err(Problems::one(Problem::new(cause, "nothing was touched, nothing is mounted", mend)))
    };
    let shown = path.display();
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        // A dead mount: it is cleared away when the new one starts.
        Err(e) if e.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => return Ok(()),
        Err(e) => {
            let (cause, mend) = match e.kind() {
                std::io::ErrorKind::NotFound => (
                    format!("there is no directory {shown} to mount at"),
                    format!("`mkdir -p {shown}`, then the same command; or give another directory with --at"),
                ),
                _ => (format!("the mount point {shown}: {e}"), "Give another directory with --at".to_string()),
            };
            let problem = Problem::new(cause, "nothing was touched, nothing is mounted", mend);
            return Err(Problems::one(problem.of_io(&e)));
        }
    };
    if !metadata.is_dir() {
        return refused(format!("the mount point {shown} is no directory"), "Give a directory with --at");
    }
    let real = path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_path_buf());
    if let Some(there) = mounted_at(&real).filter(answers) {
        let mend = "Use `entrepot down` there first, or give another directory with --at";
        return refused(format!("{shown} is in use by the volume with state in {}", there.state.display()), mend);
    }
    let own: Vec<_> = [&*config.namespace, &*config.state]
        .into_iter()
        .chain(config.targets.iter().filter_map(|t| t.directory()))
        .collect();
    for (dir, found) in own.iter().zip(volume::real_paths(&own, config.health.deadline)) {
        let dir = found.unwrap_or_else(|| dir.to_path_buf());
        if dir.starts_with(&real) || real.starts_with(&dir) {
            let cause = format!("the mount point {shown} and {} lie in each other", dir.display());
            return refused(cause, "Give a directory outside of the volume's own with --at");
        }
    }
    Ok(())
}
