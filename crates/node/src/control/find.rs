//! Selection of the daemon for a command: by the volume that it names, by the mount of its path, or the only one
//! mounted.
//!
//! A mount carries its name and its state directory in the kernel's table of mounts, as `NAME#STATE` in the place of
//! the device. So it is found although its daemon is dead or hung, and there is no registry that could be wrong.
//! Mounts of users other than root and the client's own are ignored.

use super::trust::Trust;
use super::{Problem, Result, exit};
use engine::volume::Config;
use object::mounts::Mounted;
use std::path::{Path, PathBuf};

/// Environment variable with the path of the `volume.toml`.
pub const ENVIRONMENT: &str = "ENTREPOT_VOLUME";

/// Type of Entrepot mounts in the kernel's table.
const TYPE: &str = "fuse.entrepot";

/// Device name of a mount in the kernel's table, and so the first column of `df`.
pub fn device_of(name: &str, state: &Path) -> String {
    let name = name.replace(|c: char| c == '#' || c == ',' || c == '/' || c.is_whitespace() || c.is_control(), "_");
    format!("{name}#{}", state.display())
}

/// The volume of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// State directory of the volume.
    pub state: PathBuf,
    /// Mount point of the volume, if known.
    pub mount_point: Option<PathBuf>,
    /// `MAJOR:MINOR` of the mount; the minor number is the kernel's name of its FUSE connection.
    pub device: Option<String>,
}

impl Found {
    /// Path of the control socket.
    pub fn socket(&self) -> PathBuf {
        socket_of(&self.state)
    }
}

/// The control socket of a state directory.
pub fn socket_of(state: &Path) -> PathBuf {
    state.join("control.sock")
}

/// The Entrepot mounts of this machine that root or this user mounted, from the kernel's table.
pub fn mounts() -> Vec<Found> {
    trusted(object::mounts::all(), Trust::of_process())
}

/// Finds the volume: `volume` (the file, as given with `--volume`), else the environment, else the mount above `path`
/// (else above the working directory), else the only one mounted.
pub fn find(volume: Option<&Path>, path: Option<&Path>) -> Result<Found> {
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
        many => Err(Problem::wrong(format!("several volumes are mounted: {}", shown(many)))
            .try_this(format!("name one with `--volume VOLUME.TOML` or {ENVIRONMENT}, or `cd` into its mount"))),
    }
}

/// The mount points, for people.
fn shown(mounts: &[Found]) -> String {
    let points = mounts.iter().filter_map(|found| found.mount_point.as_ref());
    points.map(|point| point.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Finds a volume by its file or by its mount point.
fn find_named(file: &Path, mounts: Vec<Found>) -> Result<Found> {
    if let Some(found) = mount_at(file, &mounts) {
        return Ok(found);
    }
    let unreadable = |e: std::io::Error| {
        let cause = match e.kind() {
            std::io::ErrorKind::IsADirectory => format!("no volume is mounted at {}", file.display()),
            _ => format!("{} cannot be read: {e}", file.display()),
        };
        let known = if mounts.is_empty() { "none".into() } else { shown(&mounts) };
        Problem::new(exit::of_io(&e), cause)
            .try_this(format!("name a volume's file or its mount point (mounted here: {known})"))
    };
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    let config = Config::parse(&file.canonicalize().map_err(unreadable)?, &text)?;
    let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
    let roots = config.roots_state_dir().map(real);
    let state = real(config.state);
    let is_roots = |mount: &Found| Some(&mount.state) == roots.as_ref();
    let known = mounts.iter().find(|m| m.state == state).or_else(|| mounts.iter().find(|m| is_roots(m))).cloned();
    Ok(known.unwrap_or(Found { state, mount_point: None, device: None }))
}

/// The mount of a volume with this mount point, from the kernel's table alone: a mount that hangs does not hang this.
pub(crate) fn mounted_at(place: &Path) -> Option<Found> {
    mount_at(place, &mounts())
}

/// The mount with this mount point. Compares names without file system access where possible: a hung mount must not
/// hang this.
fn mount_at(place: &Path, mounts: &[Found]) -> Option<Found> {
    let is = |path: &Path| mounts.iter().find(|m| m.mount_point.as_deref() == Some(path)).cloned();
    let absolute = std::path::absolute(place).ok()?;
    let absolute: PathBuf = absolute.components().collect();
    is(&absolute).or_else(|| is(&absolute.parent()?.canonicalize().ok()?.join(absolute.file_name()?)))
}

/// The innermost mount that contains `place`. Compares names alone: a hung mount must not hang this. Symbolic links
/// are followed only when the names alone lead nowhere.
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

fn trusted(mounts: Vec<Mounted>, trust: Trust) -> Vec<Found> {
    let one = |mounted: Mounted| {
        let (_, state) = mounted.source.split_once('#').filter(|(_, state)| state.starts_with('/'))?;
        let user = mounted.options.split(',').find_map(|option| option.strip_prefix("user_id="))?.parse().ok()?;
        (mounted.kind == TYPE && trust.mount(user)).then(|| Found {
            state: PathBuf::from(state),
            mount_point: Some(mounted.at),
            device: Some(mounted.device),
        })
    };
    mounts.into_iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "22 1 0:20 / /proc rw - proc proc rw\n\
        40 1 0:50 / /scratch rw,nosuid - fuse.entrepot scratch#/vol/state rw,user_id=0,group_id=0\n\
        41 1 0:51 / /my\\040scratch rw - fuse.entrepot other#/other\\040vol/state rw,user_id=48301,group_id=0\n\
        43 1 0:53 / /scratch/bob rw - fuse.entrepot scratch#/vol/state rw,user_id=48302,group_id=0\n\
        44 1 0:54 / /home/bob rw - fuse.entrepot user_id=0#/vol/state rw,xuser_id=0\n\
        42 1 0:52 / /home/x rw - fuse.sshfs entrepot#/x/state rw,user_id=0\n";

    fn parse(table: &str, trust: Trust) -> Vec<Found> {
        trusted(object::mounts::parse(table.as_bytes()), trust)
    }

    fn mounts() -> Vec<Found> {
        parse(TABLE, Trust::of_user(48301))
    }

    #[test]
    fn the_kernels_table_names_state_and_mount_point() {
        let found = mounts();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].state, Path::new("/vol/state"));
        assert_eq!(found[0].device.as_deref(), Some("0:50"));
        assert_eq!(found[1].state, Path::new("/other vol/state"));
        assert_eq!(found[1].mount_point.as_deref(), Some(Path::new("/my scratch")));
    }

    #[test]
    fn a_volume_is_named_by_its_mount_point_too() {
        let mounts = mounts();
        for place in ["/scratch", "/scratch/", "/./scratch"] {
            assert_eq!(mount_at(Path::new(place), &mounts).map(|f| f.state), Some("/vol/state".into()), "{place}");
        }
        assert_eq!(mount_at(Path::new("/scratch/a"), &mounts), None);
        let named = find_named(Path::new("/my scratch"), mounts).expect("found");
        assert_eq!(named.state, Path::new("/other vol/state"));
        let missing = find_named(Path::new("/nowhere/volume.toml"), Vec::new()).expect_err("missing");
        assert_eq!(missing.exit_code, exit::NOT_FOUND);
    }

    #[test]
    fn what_df_shows_is_the_name_and_leads_to_the_state() {
        let device = device_of("my #1, scratch", Path::new("/vol/state"));
        assert_eq!(device, "my__1__scratch#/vol/state");
        let line = format!("40 1 0:50 / /s rw - fuse.entrepot {device} rw,user_id=0\n");
        assert_eq!(parse(&line, Trust::of_user(0))[0].state, Path::new("/vol/state"));
    }

    /// [S-341]
    #[test]
    fn a_mount_of_another_user_is_ignored() {
        let places = mounts().into_iter().filter_map(|mount| mount.mount_point).collect::<Vec<_>>();
        assert_eq!(places, [Path::new("/scratch"), Path::new("/my scratch")]);
        assert_eq!(parse(TABLE, Trust::of_user(48302)).len(), 2, "root's and that user's own");
    }

    #[test]
    fn a_path_belongs_to_the_mount_above_it_and_to_no_neighbour() {
        let mounts = mounts();
        assert_eq!(above(Path::new("/scratch/a/b"), &mounts).map(|f| f.state), Some("/vol/state".into()));
        assert_eq!(above(Path::new("/scratch-not/a"), &mounts), None);
    }
}
