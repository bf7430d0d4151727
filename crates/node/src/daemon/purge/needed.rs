//! Files and directories that jobs need, including the targets of symbolic links.

use crate::daemon::Core;
use crate::{Error, Result};
use rustix::fd::BorrowedFd;
use rustix::fs::readlinkat;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Source of the paths below the mount that jobs need; an error if they are unknown.
pub type Needs = Arc<dyn Fn() -> std::result::Result<Vec<PathBuf>, String> + Send + Sync>;

/// Age at which the paths are requested again.
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// Maximum of symbolic links: as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// Paths that jobs need, and the time of the request.
pub(super) struct Needed {
    /// Paths relative to the mount's root.
    paths: BTreeSet<PathBuf>,
    asked: Instant,
}

impl Needed {
    /// Whether a file is needed, or a directory above it.
    pub fn has(&self, path: &str) -> bool {
        Path::new(path).ancestors().any(|above| self.paths.contains(above))
    }

    pub fn is_old(&self) -> bool {
        self.asked.elapsed() > KNOWN_FOR
    }
}

impl Core {
    /// Adds a source of the paths that jobs need.
    pub fn add_needs(&self, needs: Needs) {
        self.needs.lock().push(needs);
    }

    pub(super) fn needed(&self) -> Result<Needed> {
        let mut needed = Needed { paths: BTreeSet::new(), asked: Instant::now() };
        for needs in self.needs.lock().clone() {
            let paths = needs().map_err(|e| Error::Busy(format!("the files that jobs need are unknown: {e}")))?;
            for path in paths.iter().filter_map(|path| path.strip_prefix(&self.mount_point).ok()) {
                let led_to = led_to(self.volume.tree(), &self.mount_point, path);
                // A link to the root would keep the files of all users.
                needed.paths.extend(led_to.filter(|path| !path.as_os_str().is_empty()));
                needed.paths.insert(path.to_path_buf());
            }
        }
        Ok(needed)
    }
}

/// Target of the links in a path below `tree`, if they stay on the mount.
fn led_to(tree: BorrowedFd<'_>, mount_point: &Path, path: &Path) -> Option<PathBuf> {
    let (mut done, mut links) = (PathBuf::new(), 0);
    let mut todo: Vec<OsString> = names(path).collect();
    while let Some(name) = todo.pop() {
        if name == ".." {
            done.pop();
            continue;
        }
        done.push(&name);
        let Ok(target) = readlinkat(tree, &done, Vec::new()) else { continue };
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        links += 1;
        if links > LINKS_MAX {
            return None;
        }
        done.pop();
        let inside = if target.is_absolute() {
            done.clear();
            target.strip_prefix(mount_point).ok()?
        } else {
            &target
        };
        todo.extend(names(inside));
    }
    Some(done)
}

/// The names of a path, the last one first.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    let names = path.components().rev().filter(|one| matches!(one, Component::Normal(_) | Component::ParentDir));
    names.map(|name| name.as_os_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_job_needs_what_links_lead_to() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("data/old")).expect("directories");
        symlink("data", at("link")).expect("link");
        symlink("/mnt/v/link/old", at("again")).expect("link");
        symlink("../link/old/x", at("data/back")).expect("link");
        symlink("/elsewhere", at("out")).expect("link");
        symlink("loop", at("loop")).expect("link");
        let tree = std::fs::File::open(dir.path()).expect("tree");
        for (path, leads_to) in [
            ("data/x", Some("data/x")),
            ("link/x", Some("data/x")),
            ("again/x", Some("data/old/x")),
            ("data/back", Some("data/old/x")),
            ("out/x", None),
            ("loop", None),
        ] {
            let found = led_to(tree.as_fd(), Path::new("/mnt/v"), Path::new(path));
            assert_eq!(found, leads_to.map(PathBuf::from), "{path}");
        }
        let needed = Needed { paths: [PathBuf::from("data/old")].into(), asked: Instant::now() };
        assert!(needed.has("data/old") && needed.has("data/old/a/b") && !needed.has("data/older"));
    }
}
