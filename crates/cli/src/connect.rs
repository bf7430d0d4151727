//! Finds the daemon of a path or of `--volume`, and sends requests to it.

use crate::failure::{Failure, Result};
use node::control::answers::read;
use node::control::{Client, ENVIRONMENT, Found, Problem, Request, exit, find};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Global options of the command line.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The `volume.toml`, or the mount point, named with `--volume`.
    pub volume: Option<PathBuf>,
}

/// A path inside a volume.
pub struct Inside {
    /// Volume below that mount point.
    pub volume: Found,
    /// The path below the mount point, with `/` between its parts; empty for the mount point itself.
    pub path: String,
}

impl Context {
    /// The volume named by `--volume`, or by the environment.
    pub fn named(&self) -> Option<PathBuf> {
        self.volume.clone().or_else(|| std::env::var_os(ENVIRONMENT).map(PathBuf::from))
    }

    /// The `volume.toml` of a command that needs no daemon.
    pub fn file(&self) -> PathBuf {
        self.named().unwrap_or_else(|| "volume.toml".into())
    }

    /// Finds the volume for a command without a path.
    pub fn find(&self) -> Result<Found> {
        Ok(find(self.volume.as_deref(), None)?)
    }

    /// Connects to the daemon of that volume.
    pub fn connect(&self) -> Result<Client> {
        Ok(Client::connect(&self.find()?.socket())?)
    }

    /// Sends a request to the store and drops progress.
    pub fn ask_store<T: DeserializeOwned>(&self, request: &Request) -> Result<T> {
        Ok(read(self.connect()?.ask(request, &mut |_| {})?)?)
    }

    /// Sends a request to the daemon and drops progress.
    pub fn ask<T: DeserializeOwned>(&self, command: &str, args: impl Serialize) -> Result<T> {
        Ok(read(self.connect()?.request(command, args, &mut |_| {})?)?)
    }

    /// Finds the volume of a directory, or the volume for a command without one, whose root is meant then.
    pub fn inside_or_root(&self, directory: Option<&Path>) -> Result<Inside> {
        directory.map_or_else(|| Ok(Inside { volume: self.find()?, path: String::new() }), |dir| self.inside(dir))
    }

    /// Finds the volume of a path, and the path in it. The path itself may be missing, its directory must exist.
    pub fn inside(&self, path: &Path) -> Result<Inside> {
        let real = real(path)?;
        let volume = find(self.volume.as_deref(), Some(&real))?;
        let shown = path.display();
        let Some(mount_point) = &volume.mount_point else {
            return Err(not_mounted("the volume is not mounted"));
        };
        let Ok(below) = real.strip_prefix(mount_point) else {
            let cause = format!("{shown} is not in the volume mounted at {}", mount_point.display());
            return Err(Problem::wrong(cause).try_this("name a path below the mount point").into());
        };
        let Some(below) = below.to_str() else {
            let cause = format!("{shown} is not UTF-8, and the control socket accepts UTF-8 only");
            return Err(Problem::wrong(cause).try_this("rename the file, or name its directory instead").into());
        };
        Ok(Inside { path: below.to_string(), volume })
    }

    /// Sends a request to the store of the volume that `path` lies in, with the path below its mount point.
    pub fn ask_about(
        &self,
        path: &Path,
        request: impl FnOnce(String) -> Request,
        progress: &mut dyn FnMut(Value),
    ) -> Result<Value> {
        let inside = self.inside(path)?;
        Ok(Client::connect(&inside.volume.socket())?.ask(&request(inside.path), progress)?)
    }
}

/// Resolves symbolic links; only the last part of the path may be missing.
fn real(path: &Path) -> Result<PathBuf> {
    let problem = |e: std::io::Error| {
        let cause = format!("{}: {e}", path.display());
        match e.raw_os_error() {
            // The second error is that of a call during the death of the daemon.
            Some(n) if [Errno::NOTCONN, Errno::CONNABORTED].iter().any(|dead| n == dead.raw_os_error()) => {
                Problem::new(exit::NO_DAEMON, cause).try_this(
                    "the daemon of this mount has died: start it again with `entrepot up VOLUME.TOML --at MOUNTPOINT`",
                )
            }
            _ => Failure::of_io(&path.display().to_string(), &e),
        }
    };
    let error = match path.canonicalize() {
        Ok(real) => return Ok(real),
        Err(e) => e,
    };
    let Some(name) = path.file_name().filter(|_| error.kind() == std::io::ErrorKind::NotFound) else {
        return Err(problem(error).into());
    };
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(parent.canonicalize().map_err(problem)?.join(name))
}

/// Failure of a command that needs the mount of a volume.
pub fn not_mounted(cause: &str) -> Failure {
    let next = "start it with `entrepot up VOLUME.TOML --at MOUNTPOINT`";
    Problem::new(exit::NO_DAEMON, cause).try_this(next).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_in_a_real_directory_has_a_real_path_and_one_in_no_directory_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().canonicalize().unwrap();
        assert_eq!(real(&dir.path().join("new")).unwrap(), at.join("new"));
        std::os::unix::fs::symlink("..", dir.path().join("up")).unwrap();
        assert_eq!(real(&dir.path().join("up/new")).unwrap(), at.parent().unwrap().join("new"));
        assert!(real(&dir.path().join("no/new")).is_err());
    }
}
