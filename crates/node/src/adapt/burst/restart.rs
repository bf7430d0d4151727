//! Restart of an application: finds the directory of its newest complete version.
//!
//! The deciding node has the versions. The node that received the request locates their files, without a lock, since
//! each of thousands of ranks may have a file.

use super::record::Version;
use super::{Burst, Command};
use crate::control::answers::Restart;
use crate::control::{Caller, Problem, Request, Result};
use engine::file::{File, FileTable};
use meta::stub::real::number_at;
use object::host::descriptor_path;
use policy::FileId;
use rustix::fs::{AtFlags, FileType, statat};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reply of the node that decides about an application.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct ApplicationVersions {
    /// Complete versions, newest first.
    versions: Vec<Version>,
    /// Label of a version that is begun and not complete.
    begun: Option<String>,
}

impl Burst {
    /// The version to restart from, with its directory relative to the mount's root.
    ///
    /// # Errors
    /// The caller may see no such version, or the deciding node does not answer.
    pub(crate) fn restart(self: &Arc<Burst>, files: &FileTable, caller: &Caller, app: &str) -> Result<Restart> {
        let request = Command::Control(Request::RestartFrom { app: app.to_owned() });
        let known: ApplicationVersions = self.call(caller.uid, request)?;
        for version in &known.versions {
            if let Some(directory) = self.directory_now(files, version) {
                return Ok(Restart {
                    app: app.to_owned(),
                    label: version.label.clone(),
                    number: version.number,
                    directory,
                    bytes: version.bytes(),
                    files: version.parts.len(),
                    at_ms: version.at_ms,
                });
            }
        }
        let begun = known.begun.map_or(String::new(), |label| format!("; version \"{label}\" is not complete yet"));
        Err(Problem::not_found(format!("{app} has no complete version of a checkpoint{begun}"))
            .so("there is nothing to restart from")
            .try_this(format!("start it from the beginning; `entrepot checkpoint list {app}` shows what there is")))
    }

    /// The versions that the caller may see.
    pub(super) fn to_restart_from(&self, caller: &Caller, name: &str) -> Result<ApplicationVersions> {
        let app = self.named(caller, name)?;
        let table = self.table.lock();
        if !self.may_see(&table, caller, &app) {
            return Ok(ApplicationVersions::default());
        }
        let mut versions: Vec<_> = table.complete.values().filter(|version| version.app == app).cloned().collect();
        versions.sort_by_key(|version| std::cmp::Reverse(version.number));
        let begun = table.current.values().find(|current| current.app == app).map(|current| current.label.clone());
        Ok(ApplicationVersions { versions, begun })
    }

    /// The directory of a version's files now; `None` if a file is not found. A file with its bytes in its stub has no
    /// number. It is searched at its old path and below the directories to which other files of the version moved.
    fn directory_now(&self, files: &FileTable, version: &Version) -> Option<String> {
        let (numbered, small): (Vec<_>, Vec<_>) = version.parts.iter().partition(|part| part.file != 0);
        let (mut places, mut moves) = (Vec::with_capacity(version.parts.len()), BTreeSet::new());
        for part in numbered {
            let own = PathBuf::from(&part.path);
            let place = if self.lies_at(&own, part.file) { own } else { files.locate(FileId(part.file))? };
            moves.extend(moved(Path::new(&part.path), &place));
            places.push(place);
        }
        for part in small {
            let own = PathBuf::from(&part.path);
            let along = moves.iter().filter_map(|(from, to)| Some(to.join(own.strip_prefix(from).ok()?)));
            places.push(along.chain([own.clone()]).find(|place| self.lies_at(place, 0))?);
        }
        directory(version.announced.as_deref(), &places)
    }

    /// Whether the path leads to the file with that number; 0 stands for a file with its bytes in its stub.
    fn lies_at(&self, path: &Path, file: u64) -> bool {
        let number = number_at(self.volume.tree(), path.as_os_str());
        let is_that = number.is_ok_and(|number| number.map_or(0, |id| id.0) == file);
        let stat = || statat(self.volume.tree(), path, AtFlags::SYMLINK_NOFOLLOW);
        is_that && stat().is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }

    /// Present path of a file relative to the mount's root; `None` if it was removed.
    pub(super) fn name_now(&self, file: &File) -> Option<String> {
        let tree = std::fs::read_link(descriptor_path(self.volume.tree())).ok()?;
        let path = file.stub().path()?.strip_prefix(tree).ok()?.to_str()?.to_owned();
        // The kernel also has a name for a removed file, so the name is checked.
        statat(self.volume.tree(), &*path, AtFlags::SYMLINK_NOFOLLOW).is_ok().then_some(path)
    }
}

/// The renamed directory of a moved file, and its new name: both paths without their common last names.
fn moved(from: &Path, to: &Path) -> Option<(PathBuf, PathBuf)> {
    // Only directories are compared: a file's new name does not apply to other files.
    let (mut from, mut to) = (from.parent()?, to.parent()?);
    while from != to && from.file_name() == to.file_name() {
        (from, to) = (from.parent()?, to.parent()?);
    }
    (from != to).then(|| (from.to_path_buf(), to.to_path_buf()))
}

/// The announced directory, if all files lie below it; otherwise the innermost directory above all of them.
fn directory(announced: Option<&str>, places: &[PathBuf]) -> Option<String> {
    let is_above = |dir: &&Path| places.iter().all(|place| place != *dir && place.starts_with(dir));
    let mut dir = places.first()?.parent()?;
    while !is_above(&dir) {
        dir = dir.parent()?;
    }
    let dir = announced.map(Path::new).filter(is_above).unwrap_or(dir);
    Some(dir.to_str()?.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_of_the_directory_that_has_another_name() {
        let of = |from: &str, to: &str| {
            let moved = moved(Path::new(from), Path::new(to))?;
            Some((moved.0.display().to_string(), moved.1.display().to_string()))
        };
        let is = |from: &str, to: &str| Some((from.to_owned(), to.to_owned()));
        assert_eq!(of("run/state/r0/d", "run/aside/r0/d"), is("run/state", "run/aside"));
        assert_eq!(of("run/state/d.tmp", "run/aside/d"), is("run/state", "run/aside"), "and the file, too");
        assert_eq!(of("a/d.tmp", "a/d"), None, "a file that got another name takes nothing along");
        assert_eq!(of("a/b/d", "b/d"), is("a", ""), "a directory that is the volume's own now");
        assert_eq!(of("a/d", "a/d"), None);
    }

    #[test]
    fn it_is_the_directory_that_was_announced_else_the_innermost_above_all_files() {
        let of = |announced: Option<&str>, places: &[&str]| {
            let places: Vec<_> = places.iter().map(PathBuf::from).collect();
            directory(announced, &places)
        };
        let is = |dir: &str| Some(dir.to_owned());
        assert_eq!(of(Some("run/state"), &["run/state/rank-0/data"]), is("run/state"));
        assert_eq!(of(Some("run/state/"), &["run/state/a"]), is("run/state"));
        assert_eq!(of(None, &["run/state/rank-0/data"]), is("run/state/rank-0"));
        assert_eq!(of(None, &["run/state/r0/d", "run/state/r1/d"]), is("run/state"));
        assert_eq!(of(None, &["run/step-1/d", "run/step-10/d"]), is("run"), "names are not cut");
        assert_eq!(of(Some("run/state"), &["run/state"]), is("run"), "a file was announced");
        assert_eq!(of(Some("run/state"), &["other/a", "other/b"]), is("other"), "it was renamed");
        assert_eq!(of(Some("run"), &["other/a", "run/b"]), is(""), "the volume itself");
        assert_eq!(of(Some(""), &["a/b"]), is(""));
        assert_eq!(of(Some("run"), &[]), None);
    }
}
