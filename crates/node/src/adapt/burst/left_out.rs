//! Files below the announced paths that were written since the announcement and are not part of the version.
//!
//! A node that fails loses its list of the files that it wrote. These files exist, but are not made durable with the
//! version. The newest time of change at the announcement separates them from older files. It is compared with times of
//! the same files, so that the clocks of daemons do not matter.

use super::Burst;
use super::table::Session;
use meta::descent::Descent;
use meta::stub::Inode;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, openat2, statat};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Maximum of files examined below one path, so that an announcement does not wait for a walk of a whole volume.
const FILES_MAX: usize = 100_000;
/// Maximum of files named in a message.
const NAMED_MAX: usize = 5;

fn modified_ns(stat: &Stat) -> i64 {
    stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec as i64)
}

impl Burst {
    /// The latest time of change of the files at or below these paths; 0 if there are none.
    pub(super) fn newest_below(&self, paths: &[String]) -> i64 {
        let mut newest = 0;
        paths.iter().for_each(|path| self.each_below(path, &mut |_, stat| newest = newest.max(modified_ns(stat))));
        newest
    }

    /// Paths of files of an announced version that were written and are not among its parts.
    pub(super) fn left_out(&self, session: &Session) -> Vec<String> {
        let parts: BTreeSet<Inode> = {
            let table = self.table.lock();
            let current = table.current.get(&session.request);
            current.into_iter().flat_map(|c| c.open.values()).filter_map(|c| c.file.stub().inode()).collect()
        };
        let mut left = Vec::new();
        for path in &session.paths {
            self.each_below(path, &mut |path, stat| {
                // An empty file has no bytes to lose. Files of other users do not belong to this version.
                let counts = stat.st_size > 0 && (session.uid == 0 || session.uid == stat.st_uid);
                if counts && modified_ns(stat) > session.newest_ns && !parts.contains(&(stat.st_dev, stat.st_ino)) {
                    left.push(path.display().to_string());
                }
            });
        }
        left.sort();
        left.dedup();
        left
    }

    fn each_below(&self, path: &str, each: &mut dyn FnMut(PathBuf, &Stat)) {
        let name = if path.is_empty() { Path::new(".") } else { Path::new(path) };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let open = |flags| openat2(self.volume.tree(), name, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
        let Ok(directory) = open(OFlags::RDONLY | OFlags::DIRECTORY) else {
            if let Ok(stat) = open(OFlags::PATH).and_then(rustix::fs::fstat)
                && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            {
                each(PathBuf::from(path), &stat);
            }
            return;
        };
        let Ok(mut descent) = Descent::new(&directory) else { return };
        let mut n_files = 0;
        // A file that is removed between its entry and its look does not belong to the version.
        while let Some(met) = descent.next() {
            let Ok(met) = met else { continue };
            if met.inode.is_some() {
                continue;
            }
            n_files += 1;
            if n_files > FILES_MAX {
                tracing::warn!(
                    "more than {FILES_MAX} files lie below {path}: files that a version lacks are not detected"
                );
                return;
            }
            if let Ok(stat) = statat(&*met.directory, &*met.name, AtFlags::SYMLINK_NOFOLLOW) {
                each(Path::new(path).join(descent.path_of(&met.name)), &stat);
            }
        }
    }
}

/// The first of these files, and the number of the others.
pub(super) fn named(files: &[String]) -> String {
    let first = files.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match files.len().saturating_sub(NAMED_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
