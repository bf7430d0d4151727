//! Which daemon a command is for: the volume it names, the mount that its path lies in, or the only one there is.
//!
//! A mount carries its state directory in the kernel's table of mounts, as `entrepot#STATE` in the place of the device. So
//! it is found although its daemon is dead or hung, and there is no registry that could be wrong.

use super::{Problem, exit};
use crate::volume::Config;
use std::path::{Path, PathBuf};

/// The environment variable that names the `volume.toml`.
pub const ENVIRONMENT: &str = "ENTREPOT_VOLUME";

/// What stands before the state directory in the kernel's table of mounts.
pub const DEVICE_PREFIX: &str = "entrepot#";

/// A volume that a command is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its state directory.
    pub state: PathBuf,
    /// Where it is mounted, as far as known.
    pub mount_point: Option<PathBuf>,
    /// `MAJOR:MINOR` of the mount; the minor number is the kernel's name of its FUSE connection.
    pub device: Option<String>,
}

impl Found {
    /// Its control socket.
    pub fn socket(&self) -> PathBuf {
        socket_of(&self.state)
    }
}

/// The control socket of a state directory.
pub fn socket_of(state: &Path) -> PathBuf {
    state.join("control.sock")
}

/// The Entrepot mounts of this machine, from the kernel's table.
pub fn mounts() -> Vec<Found> {
    parse(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
}

/// Finds the volume: `volume` (the file, as given with `--volume`), else the environment, else the mount above `path`
/// (else above the working directory), else the only one mounted.
pub fn find(volume: Option<&Path>, path: Option<&Path>) -> Result<Found, Problem> {
    let named = volume.map(Path::to_path_buf).or_else(|| std::env::var_os(ENVIRONMENT).map(PathBuf::from));
    let mounts = mounts();
    if let Some(file) = named {
        return find_named(&file, mounts);
    }
    let cwd = std::env::current_dir().ok();
    let places = path.map(|p| cwd.as_deref().unwrap_or(Path::new("/")).join(p)).into_iter().chain(cwd.clone());
    for place in places {
        if let Some(found) = above(&place, &mounts) {
            return Ok(found);
        }
    }
    match mounts.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Problem::new(exit::NO_DAEMON, "no Entrepot volume is mounted on this machine")
            .try_this("start one with `entrepot up VOLUME.TOML --at MOUNTPOINT`, or name one with `--volume`")),
        many => {
            let list: Vec<_> =
                many.iter().filter_map(|f| f.mount_point.as_ref()).map(|p| p.display().to_string()).collect();
            Err(Problem::wrong(format!("several volumes are mounted: {}", list.join(", ")))
                .try_this(format!("name one with `--volume VOLUME.TOML` or {ENVIRONMENT}, or `cd` into its mount")))
        }
    }
}

fn find_named(file: &Path, mounts: Vec<Found>) -> Result<Found, Problem> {
    let unreadable = |e: std::io::Error| {
        Problem::wrong(format!("{} cannot be read: {e}", file.display()))
            .try_this(format!("check `--volume` and {ENVIRONMENT}"))
    };
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    let config = Config::parse(&file.canonicalize().map_err(unreadable)?, &text)?;
    let state = config.state.canonicalize().unwrap_or(config.state);
    let known = mounts.into_iter().find(|m| m.state == state);
    Ok(known.unwrap_or(Found { state, mount_point: None, device: None }))
}

/// The innermost mount that `place` lies in. Looks at names alone: a hung mount must not hang this. Symbolic links are
/// followed only when the names alone lead nowhere.
fn above(place: &Path, mounts: &[Found]) -> Option<Found> {
    let inside = |p: &Path| {
        let at = |m: &&Found| m.mount_point.as_ref().is_some_and(|mount_point| p.starts_with(mount_point));
        mounts.iter().filter(at).max_by_key(|m| m.mount_point.as_ref().map(|p| p.components().count())).cloned()
    };
    inside(place).or_else(|| {
        let parent = place.ancestors().find_map(|p| p.canonicalize().ok())?;
        inside(&parent)
    })
}

fn parse(mountinfo: &str) -> Vec<Found> {
    let one = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let before: Vec<_> = before.split(' ').collect();
        let after: Vec<_> = after.split(' ').collect();
        let state = unescape(after.get(1)?);
        let state = state.strip_prefix(DEVICE_PREFIX)?;
        after.first()?.starts_with("fuse").then(|| Found {
            state: PathBuf::from(state),
            mount_point: before.get(4).map(|p| PathBuf::from(unescape(p))),
            device: before.get(2).map(|d| d.to_string()),
        })
    };
    mountinfo.lines().filter_map(one).collect()
}

/// The kernel writes blanks, tabs, line ends and backslashes as three octal digits.
fn unescape(field: &str) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&b, after)) = rest.split_first() {
        let octal =
            after.get(..3).and_then(|d| std::str::from_utf8(d).ok()).and_then(|d| u8::from_str_radix(d, 8).ok());
        match (b, octal) {
            (b'\\', Some(value)) => {
                bytes.push(value);
                rest = &after[3..];
            }
            _ => {
                bytes.push(b);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "22 1 0:20 / /proc rw - proc proc rw\n\
        40 1 0:50 / /scratch rw,nosuid - fuse.entrepot entrepot#/vol/state rw\n\
        41 1 0:51 / /my\\040scratch rw - fuse.entrepot entrepot#/other\\040vol/state rw\n\
        42 1 0:52 / /home/x rw - fuse.sshfs entrepot.example.org:/ rw\n";

    #[test]
    fn the_kernels_table_names_state_and_mount_point() {
        let found = parse(TABLE);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].state, Path::new("/vol/state"));
        assert_eq!(found[0].device.as_deref(), Some("0:50"));
        assert_eq!(found[1].state, Path::new("/other vol/state"));
        assert_eq!(found[1].mount_point.as_deref(), Some(Path::new("/my scratch")));
    }

    #[test]
    fn a_path_belongs_to_the_mount_above_it_and_to_no_neighbour() {
        let mounts = parse(TABLE);
        assert_eq!(above(Path::new("/scratch/a/b"), &mounts).map(|f| f.state), Some("/vol/state".into()));
        assert_eq!(above(Path::new("/scratch-not/a"), &mounts), None);
    }
}
