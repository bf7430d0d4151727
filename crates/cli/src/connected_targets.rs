//! The targets of a volume that are reached over several connections: each shown in its directory by a process of its own, before the
//! volume is opened and until it is closed.

use crate::failure::Result;
use std::path::{Path, PathBuf};
use std::process::Command;
use store::control::Problem;
use store::mount::mountpoint::{clear_stale, connection, unmount_unused};
use store::volume::{Config, ConnectionsConfig, TargetConfig};

/// Directories that connections are shown in; unmounted at the end.
#[derive(Debug, Default)]
pub struct ConnectedTargets(Vec<PathBuf>);

impl ConnectedTargets {
    /// Connects all targets that want it. One that cannot be reached is a failed target if the volume knows it; a new one is refused,
    /// since its data would land in the directory below.
    pub fn start(config: &Config) -> Result<ConnectedTargets> {
        let mut connected = ConnectedTargets::default();
        let wanted: Vec<_> = config.targets.iter().filter_map(|t| Some((t, t.connections.as_ref()?))).collect();
        if wanted.is_empty() {
            return Ok(connected);
        }
        let known = store::volume::known_targets(config).ok().flatten().unwrap_or_default();
        for (target, connections) in wanted {
            match connect(target, connections) {
                Ok(()) => connected.0.push(target.path.clone()),
                Err(cause) if known.iter().any(|record| record.name == target.name) => {
                    tracing::error!("target {} cannot be reached, and is failed: {cause}", target.name);
                }
                Err(cause) => {
                    let cause = format!("target {} cannot be reached: {cause}", target.name);
                    let next =
                        format!("check `servers` and `type` of target {} in {}", target.name, config.file.display());
                    return Err(Problem::failed(cause).so("the volume is not opened").try_this(next).into());
                }
            }
        }
        Ok(connected)
    }
}

/// Starts the process and waits until it serves.
fn connect(target: &TargetConfig, connections: &ConnectionsConfig) -> std::result::Result<(), String> {
    let path = &target.path;
    take_over(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    command.arg("connect").args(["-n", &connections.count.to_string(), "-t", &connections.kind]);
    command.args(["--policy", &connections.policy.to_string(), "--bytes-over", &connections.bytes_over.to_string()]);
    command.args(["--write-behind", &connections.write_behind.to_string(), "--detach"]);
    if !connections.options.is_empty() {
        command.args(["-o", &connections.options]);
    }
    let done = command.arg(&connections.servers).arg(path).output().map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let cause = said.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or("it does not say why");
    Err(cause.to_owned())
}

/// A daemon that was killed leaves its targets connected; they are connected anew.
fn take_over(path: &Path) -> std::io::Result<()> {
    clear_stale(path)?;
    let ours = rustix::fs::getxattr(path, ::connect::status::ATTRIBUTE, &mut [0; 0]).is_ok();
    if ours && connection(&path.canonicalize()?).is_some() { unmount_unused(path) } else { Ok(()) }
}

impl Drop for ConnectedTargets {
    fn drop(&mut self) {
        for path in &self.0 {
            if let Err(error) = unmount_unused(path).or_else(|_| store::mount::mountpoint::detach(path)) {
                tracing::warn!(%error, path = %path.display(), "a connected target cannot be unmounted");
            }
        }
    }
}
