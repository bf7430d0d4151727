//! Limits in control groups: they bound writes to the buffer's devices, where the daemon has a group of its own. The
//! token buckets always do.
//!
//! Version 1 (`blkio.throttle.write_bps_device`) bounds direct and synchronous writes, version 2 (`io.max`) also later
//! write-back. The group of the whole machine is never touched.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Relative difference of rates below which the limit is not written again.
const WORTH: f64 = 0.02;
/// Ratio of the group's limit to the bucket's rate: the bucket must take effect first.
const SLACK: f64 = 1.1;
/// Rate above which there is no limit.
const NO_LIMIT: f64 = 1e12;

/// Control group in which limits are set.
pub struct Limits {
    /// The group and the devices, or the reason why there are no limits.
    place: Result<(Group, BTreeSet<String>), &'static str>,
    last: Mutex<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Group {
    One(PathBuf),
    Two(PathBuf),
}

impl Limits {
    /// Limits for the devices of these directories, if `wanted`.
    pub fn new(paths: &[PathBuf], wanted: bool) -> Limits {
        let place = if wanted { place_of(paths) } else { Err("not asked for") };
        Limits { place, last: Mutex::new(0.0) }
    }

    /// Limits writes to a rate in bytes per second, times `SLACK`.
    pub fn set(&self, write: f64) {
        let Ok((group, devices)) = &self.place else { return };
        let mut last = self.last.lock();
        if (write - *last).abs() <= WORTH * *last {
            return;
        }
        *last = write;
        let bytes = (write < NO_LIMIT).then_some((write * SLACK) as u64);
        for device in devices {
            let (file, text) = match group {
                Group::One(dir) => {
                    (dir.join("blkio.throttle.write_bps_device"), format!("{device} {}", bytes.unwrap_or(0)))
                }
                Group::Two(dir) => {
                    let limit = bytes.map_or("max".into(), |bytes| bytes.to_string());
                    (dir.join("io.max"), format!("{device} wbps={limit}"))
                }
            };
            if let Err(error) = std::fs::write(&file, text) {
                tracing::debug!(%error, file = %file.display(), "a limit is not set; the token buckets hold");
            }
        }
    }

    /// Removes the limits.
    pub fn clear(&self) {
        self.set(f64::MAX);
    }

    /// Description of the group in which limits are set.
    pub fn describe(&self) -> String {
        match &self.place {
            Ok((Group::One(dir), _)) => format!("token buckets, and blkio of {}", dir.display()),
            Ok((Group::Two(dir), _)) => format!("token buckets, and io.max of {}", dir.display()),
            Err(why) => format!("token buckets (no control group: {why})"),
        }
    }
}

/// The group of this process, and the devices of these directories.
fn place_of(paths: &[PathBuf]) -> Result<(Group, BTreeSet<String>), &'static str> {
    let devices: BTreeSet<String> = paths.iter().filter_map(|path| device_of(path)).collect();
    if devices.is_empty() {
        return Err("the buffer is on no block device");
    }
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = group_in(&text, Path::new("/sys/fs/cgroup"));
    Ok((group.ok_or("the daemon is in no control group of its own that may be written")?, devices))
}

/// The group of this process in which limits can be set, given `/proc/self/cgroup` and where groups are mounted.
fn group_in(text: &str, root: &Path) -> Option<Group> {
    let path_of = |wanted: &dyn Fn(&str) -> bool| {
        let lines = text.lines().filter_map(|line| line.split_once(':').and_then(|(_, rest)| rest.split_once(':')));
        lines.into_iter().find(|(names, _)| wanted(names)).map(|(_, path)| path.trim_start_matches('/').to_owned())
    };
    let own = |path: Option<String>| path.filter(|path| !path.is_empty());
    if let Some(path) = own(path_of(&|names| names.split(',').any(|name| name == "blkio"))) {
        let dir = root.join("blkio").join(path);
        if dir.join("blkio.throttle.write_bps_device").exists() {
            return Some(Group::One(dir));
        }
    }
    let path = own(path_of(&str::is_empty))?;
    let dirs = [root.join(&path), root.join("unified").join(&path)];
    dirs.into_iter().find(|dir| dir.join("io.max").exists()).map(Group::Two)
}

/// The disk of a directory, as `major:minor`; for a partition, its whole disk.
fn device_of(path: &Path) -> Option<String> {
    let device = std::fs::metadata(path).ok()?.dev();
    let name = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let here = PathBuf::from("/sys/dev/block").join(&name);
    if !here.exists() {
        return None;
    }
    if here.join("partition").exists() {
        let disk = here.canonicalize().ok()?;
        return Some(std::fs::read_to_string(disk.parent()?.join("dev")).ok()?.trim().to_owned());
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_all_is_never_touched() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("blkio/a"), dir.path().join("b"));
        std::fs::create_dir_all(&one).unwrap();
        std::fs::create_dir_all(&two).unwrap();
        std::fs::write(one.join("blkio.throttle.write_bps_device"), "").unwrap();
        std::fs::write(two.join("io.max"), "").unwrap();
        let group = |text: &str| group_in(text, dir.path());
        assert_eq!(group("3:cpu:/x\n2:blkio:/a\n0::/b\n"), Some(Group::One(one)));
        assert_eq!(group("2:blkio:/\n0::/b\n"), Some(Group::Two(two)));
        assert_eq!(group("2:blkio:/\n0::/\n"), None);
    }
}
