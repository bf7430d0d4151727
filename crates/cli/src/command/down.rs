//! `entrepot down`: stops a volume.

use crate::connect::Context;
use crate::failure::{Failure, Result};
use crate::shown;
use clap::Args;
use node::control::{Client, Found, Problem, Request, exit, is_dead};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Unmount the volume and stop its daemon
///
/// While processes use the mount, the command is refused and lists them. With `--force` waiting calls end with an
/// error, even if a target or the daemon hangs; acknowledged writes are kept. Running jobs continue, and the next
/// `entrepot up` manages them again.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot down
  entrepot down /mnt/scratch
  entrepot down --force
  entrepot --volume scratch/volume.toml down")]
pub struct Down {
    /// Mount point of the volume; default: the volume of `--volume` or of this directory, or the only one.
    #[arg(value_name = "MOUNTPOINT")]
    at: Option<PathBuf>,
    /// Unmount in any case; waiting calls end with an error.
    #[arg(long)]
    force: bool,
}

/// Time limit of a clean end; after it `--force` kills the daemon.
const FORCED_TIMEOUT: Duration = Duration::from_secs(20);

impl Down {
    pub fn run(self, context: &Context) -> Result<u8> {
        let context = Context { volume: self.at.or_else(|| context.volume.clone()) };
        let found = context.find()?;
        let mut client = match Client::connect(&found.socket()) {
            Ok(client) => client,
            Err(problem) if self.force && problem.exit_code == exit::NO_DAEMON && found.mount_point.is_some() => {
                cut_off(&found)?;
                shown::text("the daemon was dead already; its mount is gone now\n")?;
                return Ok(0);
            }
            Err(problem) => return Err(problem.into()),
        };
        let pid = client.daemon_pid();
        client.set_timeout(self.force.then_some(FORCED_TIMEOUT))?;
        match client.ask(&Request::Down { force: self.force }, &mut |_| {}) {
            Ok(_) => {}
            Err(problem) if self.force && problem.exit_code == exit::NO_DAEMON => cut_off(&found)?,
            // The daemon ended before it answered.
            Err(problem) if problem.exit_code == exit::NO_DAEMON && is_unmounted(&found) => {}
            Err(problem) => return Err(problem.into()),
        }
        if !self.force {
            // The daemon holds the connection until its process ends.
            client.wait_for_end()?;
        } else if let Some(pid) = pid {
            end(pid)?;
        }
        shown::text("the volume is down\n")?;
        Ok(0)
    }
}

/// Whether the mount is gone.
fn is_unmounted(found: &Found) -> bool {
    found.mount_point.is_some() && node::control::mounts().iter().all(|mount| mount.state != found.state)
}

/// Aborts the FUSE connection, which ends waiting calls, and unmounts.
fn cut_off(found: &Found) -> Result<()> {
    if let Some(minor) = found.device.as_deref().and_then(|d| d.split(':').nth(1)) {
        let abort = Path::new("/sys/fs/fuse/connections").join(minor).join("abort");
        // Without permission or without that file system, the end of the daemon has the same effect.
        drop(std::fs::write(abort, "1"));
    }
    let Some(mount_point) = &found.mount_point else { return Ok(()) };
    let detached = rustix::mount::unmount(mount_point, rustix::mount::UnmountFlags::DETACH);
    if detached.is_ok() {
        return Ok(());
    }
    let status = std::process::Command::new("fusermount3").args(["-u", "-z", "--"]).arg(mount_point).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Failure::Problem(
            Problem::failed(format!("{} cannot be unmounted", mount_point.display()))
                .so("the mount is still there")
                .try_this(format!("as root: umount -l {}", mount_point.display())),
        )),
    }
}

/// Waits for the end of a daemon, and kills it after a time limit.
fn end(pid: i32) -> Result<()> {
    let Some(pid) = Pid::from_raw(pid) else { return Ok(()) };
    let until = Instant::now() + FORCED_TIMEOUT;
    while !is_dead(pid.as_raw_nonzero().get()) {
        if Instant::now() > until {
            kill_process(pid, Signal::KILL).map_err(std::io::Error::from)?;
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
