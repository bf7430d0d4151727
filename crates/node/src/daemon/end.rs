//! The end of a daemon, clean or forced, and conditions that prevent its start.

use super::Daemon;
use super::users::users_of;
use crate::control::{self, Found};
use crate::mount::mountpoint::Ended;
use crate::mount::{Mount, MountError};
use engine::volume::{self, Config, Problem, Problems};
use object::workers::within;
use rustix::io::Errno;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time limit of all steps of the end together; then the process ends without the rest.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same limit after a forced end: no caller waits for an answer any more.
const FORCED_PATIENCE: Duration = Duration::from_secs(5);

/// Ends a daemon, and lets callers wait for the end.
pub struct Ending {
    mount: Arc<Mount>,
    forced: AtomicBool,
    /// Whether the daemon ends by a request.
    told: Ended,
}

impl Ending {
    pub(super) fn new(mount: Arc<Mount>) -> std::io::Result<Arc<Ending>> {
        Ok(Arc::new(Ending { mount, forced: AtomicBool::new(false), told: Ended::new()? }))
    }

    /// Unmounts, so that [`Daemon::run`] returns. Without `force` it is refused while a process uses the mount; with
    /// `force`, waiting calls end with an error.
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
        self.told.ring();
        Ok(())
    }

    /// Waits for any unmount: by the daemon, `umount`, or `fusermount3 -u`.
    pub(super) fn wait(&self) {
        self.mount.watch(&self.told);
    }
}

fn failed(error: &MountError) -> control::Problem {
    control::Problem::failed(error.to_string()).so("the volume is still mounted")
}

/// Stops everything in order; abandons steps that do not end in time.
pub(super) fn finish<S: Send + 'static>(daemon: Daemon<S>, stop_jobs: impl FnOnce() + Send + 'static) {
    let volume = daemon.core.volume.clone();
    let forced = daemon.ending.forced.load(Ordering::Acquire);
    let patience = if forced { FORCED_PATIENCE } else { PATIENCE };
    let steps = move || {
        let Daemon { core, mount, control, .. } = daemon;
        stop_jobs();
        drop(control);
        core.mover.stop();
        core.adapt.stop();
        core.maintenance.stop();
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
            places.write_noted();
        }
        core.accounts.finish(&core);
        core.quotas.finish(&core);
        if let Some(nodes) = &core.nodes {
            nodes.leave();
        }
        core.volume.targets().stop();
        if mount.has_removed_all() {
            core.unclean.ended();
        }
    };
    match within(patience, "end", [steps])[..] {
        [Some(())] => tracing::info!("the volume is down"),
        _ => tracing::warn!("a thread does not end (a hung target?); it is left behind"),
    }
    volume.release();
}

/// State of the daemon that serves a mount.
enum Server {
    Runs,
    /// The daemon was killed, and does not end while one of its threads waits for a device. It still holds its locks.
    Killed(i32),
    Gone,
}

/// Finds the daemon of a mount by its socket. A request to the mount proves little: the kernel caches attributes for a
/// while, and a killed daemon does not answer.
fn server_of(there: &Found) -> Server {
    let Ok(stream) = UnixStream::connect(there.socket()) else { return Server::Gone };
    let Ok(peer) = rustix::net::sockopt::socket_peercred(&stream) else { return Server::Runs };
    let pid = peer.pid.as_raw_nonzero().get();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    if was_killed(&status) { Server::Killed(pid) } else { Server::Runs }
}

/// Whether the `status` in `/proc` shows a process that is ending: a zombie, or one with a pending SIGKILL.
fn was_killed(status: &str) -> bool {
    const SIGKILL: u64 = 1 << 8;
    let is_pending = |mask: &str| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & SIGKILL != 0);
    status.lines().any(|line| match line.split_once(':') {
        Some(("State", state)) => state.trim_start().starts_with(['Z', 'X']),
        Some(("SigPnd" | "ShdPnd", mask)) => is_pending(mask),
        _ => false,
    })
}

/// Unmounts the mounts of killed daemons at the mount point.
pub(super) fn clear_dead_mount(path: &Path) {
    while let Some(there) = control::mounted_at(path).filter(|there| matches!(server_of(there), Server::Gone)) {
        tracing::warn!(state = %there.state.display(), "the daemon of this mount was killed; unmounting the mount \
            that it left");
        if let Err(error) = crate::mount::detach(there.mount_point.as_deref().unwrap_or(path)) {
            tracing::warn!("it cannot be unmounted: {error}");
            return;
        }
    }
}

/// Checks the mount point before anything is changed.
pub(super) fn check_mount_point(path: &Path, config: &Config) -> Result<(), Problems> {
    let refused = |cause: String, mend: &str| {
        Err(Problems::one(Problem::new(cause, "nothing was touched, nothing is mounted", mend)))
    };
    let shown = path.display();
    // This check comes first: the mount of a killed daemon that has not ended would not answer any call.
    if let Some(there) = control::mounted_at(path) {
        let state = there.state.display();
        match server_of(&there) {
            Server::Runs => {
                let mend = "Use `entrepot down` there first, or give another directory with --at";
                return refused(format!("{shown} is in use by the volume with state in {state}"), mend);
            }
            Server::Killed(pid) => {
                let cause = format!(
                    "process {pid} of the volume with state in {state} was killed and has not ended: it waits for a device"
                );
                return refused(cause, "Wait until the device answers or its client gives up, then repeat the command");
            }
            Server::Gone => return Ok(()),
        }
    }
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        // A dead mount, which is removed at the start of the new one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_process_is_told_from_a_running_one() {
        let status = |state: &str, own: &str, shared: &str| {
            format!("Name:\tentrepot\nState:\t{state}\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t0000000000000100\n")
        };
        let none = "0000000000000000";
        assert!(!was_killed(&status("S (sleeping)", none, none)) && !was_killed(""));
        assert!(!was_killed(&status("T (stopped)", "0000000000040000", none)), "SIGSTOP");
        assert!(was_killed(&status("Z (zombie)", none, none)));
        assert!(was_killed(&status("D (disk sleep)", "0000000000000100", none)));
        assert!(was_killed(&status("D (disk sleep)", none, "0000000000000100")));
        let own = std::fs::read_to_string("/proc/self/status").expect("status");
        assert!(!was_killed(&own), "{own}");
    }
}
