//! Checks that the directories of a `volume.toml` exist, are separate, and belong to the volume. Changes nothing.

use super::VolumeId;
use super::config::{Config, Keeping, TargetConfig};
use super::joining;
use super::namespace;
use super::problem::{Problem, Problems, Result};
use super::real_paths;
use super::sections::StateStore;
use super::state_store::known_targets;
use crate::Error;
use meta::state::TargetRecord;
use object::exit;
use object::host;
use object::target::{Identity, IdentityError};
use rustix::fs::Access;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

const REFUSED: &str = "the volume is not opened";
const NEWER: &str = "Use the entrepot that wrote it; an older one can only have what was saved before the upgrade \
                     (docs/guide/operate/set-up.md, \"Upgrade\")";

const OLDER: &str = "Take all nodes down (`entrepot down`), then start all with the newer one \
                     (docs/guide/operate/set-up.md, \"Upgrade\")";

/// Name of the state store in the state directory.
pub const STATE_FILE: &str = "state.db";

/// Finds all problems.
pub fn check(config: &Config) -> Result<()> {
    formats(config)?;
    let mut check = Check { config, problems: Vec::new() };
    let known = check.known_targets();
    check.all(known)
}

/// Finds all problems, given the known targets.
pub fn check_as(config: &Config, known: &[TargetRecord]) -> Result<()> {
    formats(config)?;
    Check { config, problems: Vec::new() }.all(Some(known.to_vec()))
}

/// Checks that the identity on a target's file servers, or in its directory, is of this volume and target.
pub fn found_on(
    config: &Config,
    target: &TargetConfig,
    found: Result<Identity, IdentityError>,
    volume: VolumeId,
    known: &[TargetRecord],
) -> Result<()> {
    let mut check = Check { config, problems: Vec::new() };
    let shown = match &target.keeping {
        Keeping::Directory(path) => path.display().to_string(),
        Keeping::Servers(connections) => connections.servers.clone(),
    };
    check.identity((found, shown), target, Some(volume), known);
    if check.problems.is_empty() { Ok(()) } else { Err(Problems(check.problems)) }
}

/// Checks the formats of namespace and nodes; with a newer one nothing more is checked.
fn formats(config: &Config) -> Result<()> {
    let mut check = Check { config, problems: Vec::new() };
    let namespace = namespace::read_format(&config.namespace).err().map(|cause| (cause, true));
    match namespace.or_else(|| config.is_shared().then(|| joining::foreign_node(&config.namespace)).flatten()) {
        Some((cause, newer)) => {
            check.problem(config.namespace_place, cause, if newer { NEWER } else { OLDER });
            Err(Problems(check.problems))
        }
        None => Ok(()),
    }
}

struct Check<'a> {
    config: &'a Config,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn all(mut self, known: Option<Vec<TargetRecord>>) -> Result<()> {
        let config = self.config;
        self.directory(&config.namespace, config.namespace_place, "the namespace");
        if !config.state_is_derived || config.state.exists() {
            self.directory(&config.state, config.state_place, "the state store");
        }
        let volume = self.namespace();
        let host = host::name();
        let (targets, paths): (Vec<_>, Vec<_>) = config
            .targets
            .iter()
            .filter(|target| target.is_on(&host))
            .filter_map(|target| Some((target, target.directory()?)))
            .unzip();
        let real = real_paths(&paths, config.health.deadline);
        for ((target, &path), real) in targets.iter().zip(&paths).zip(&real) {
            // Targets of a volume that is in use were checked when it was opened.
            let is_known = known.as_ref().is_none_or(|known| known.iter().any(|record| record.name == target.name));
            // A device that is away or hangs is a failed target, not a wrong configuration.
            if is_known && real.as_ref().is_none_or(|_| !path.is_dir()) {
                continue;
            }
            if real.is_none() {
                let cause = format!("{}, for target \"{}\", does not answer", path.display(), target.name);
                self.problem(target.place, cause, "Mend the device, or name another directory");
                continue;
            }
            // A target that became read-only is accepted, too: its objects can be read.
            let read_only = || rustix::fs::access(path, Access::WRITE_OK) == Err(Errno::ROFS);
            if (is_known && read_only()) || self.directory(path, target.place, &format!("target \"{}\"", target.name)) {
                let found = (Identity::read(path), path.display().to_string());
                self.identity(found, target, volume, known.as_deref().unwrap_or_default());
            }
        }
        self.apart(&targets, &real);
        let mut problems = self.problems;
        problems.sort_by(|a, b| a.place.cmp(&b.place));
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
    }

    fn problem(&mut self, place: (usize, usize), cause: String, mend: impl Into<String>) {
        let mut problem = Problem::new(cause, REFUSED, mend);
        problem.place = Some((self.config.file.clone(), place.0, place.1));
        self.problems.push(problem);
    }

    /// The targets that the volume has had so far; none before it is formatted, `None` if it is in use.
    fn known_targets(&mut self) -> Option<Vec<TargetRecord>> {
        known_targets(self.config).unwrap_or_else(|error| {
            self.problem(
                self.config.state_place,
                error.to_string(),
                match (&error, &self.config.state_store) {
                    (Error::Newer(_), _) => NEWER,
                    (_, StateStore::Embedded) => "See docs/guide/operate/backup.md, \"The state store is damaged\"",
                    (_, StateStore::Redis(_)) => "See docs/guide/operate/backup.md, \"The state in Redis\"",
                },
            );
            if let Some(problem) = self.problems.last_mut().filter(|_| !matches!(error, Error::Newer(_))) {
                problem.exit_code = Some(exit::FAILED);
            }
            None
        })
    }

    /// Checks that a directory exists and can be used.
    fn directory(&mut self, path: &Path, place: (usize, usize), what: &str) -> bool {
        let shown = path.display();
        let mut denied = false;
        let (cause, mend) = match std::fs::metadata(path) {
            Ok(found) if !found.is_dir() => {
                (format!("{shown}, for {what}, is no directory"), "Name a directory".to_owned())
            }
            Ok(_) => match rustix::fs::access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
                Ok(()) => return true,
                Err(Errno::ROFS) => {
                    (format!("{shown}, for {what}, is on a read-only file system"), "Mount it for writing".to_owned())
                }
                Err(errno) => {
                    denied = errno == Errno::ACCESS;
                    let mend = "Give it to the user who runs the daemon, with mode 0700".to_owned();
                    (format!("{shown}, for {what}, cannot be read and written: {errno}"), mend)
                }
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (
                format!("{shown}, for {what}, does not exist"),
                format!("Make it (`mkdir -p {shown}`), mount the file system that belongs there, or correct the path"),
            ),
            Err(error) => {
                denied = error.kind() == std::io::ErrorKind::PermissionDenied;
                (format!("{shown}, for {what}, cannot be checked: {error}"), "Correct the path".to_owned())
            }
        };
        self.problem(place, cause, mend);
        if let Some(problem) = self.problems.last_mut().filter(|_| denied) {
            problem.exit_code = Some(exit::DENIED);
        }
        false
    }

    /// Checks that the namespace can hold attributes; returns its volume.
    fn namespace(&mut self) -> Option<VolumeId> {
        let (path, place) = (&self.config.namespace, self.config.namespace_place);
        if !path.is_dir() {
            return None;
        }
        let mut nothing = [0u8; 1];
        if rustix::fs::getxattr(path, "user.entrepot.layout", &mut nothing[..]) == Err(Errno::OPNOTSUPP) {
            let cause = format!("the file system of {} has no user extended attributes", path.display());
            self.problem(place, cause, "Put the namespace on ext4, xfs or btrfs, or mount it with `user_xattr`");
        }
        namespace::read_id(path).unwrap_or_else(|cause| {
            let mend = "Put the right file back from a backup; without it the volume of these targets is unknown";
            self.problem(place, cause, mend);
            None
        })
    }

    /// Checks that the identity found in a target's directory is of this volume and target. `name` is for messages.
    fn identity(
        &mut self,
        (found, shown): (Result<Identity, IdentityError>, String),
        target: &TargetConfig,
        volume: Option<VolumeId>,
        known: &[TargetRecord],
    ) {
        let name = &target.name;
        let record = known.iter().find(|record| record.name == *name);
        let (cause, mend) = match found {
            Err(IdentityError::Missing) => return, // new, or (if known) a device that is away
            Ok(found) if Some(found.volume) != volume => (
                format!("{shown} is target {} (\"{}\") of another volume, {}", found.target, found.name, found.volume),
                "Name the directory that belongs here. To give this one to this volume for good, and lose what the other has \
                 on it, empty it first".to_owned(),
            ),
            Ok(found) => {
                let expected = record.map(|record| record.id);
                let holder = known.iter().find(|record| record.id == found.target);
                if expected.is_none_or(|id| id == found.target) && holder.is_none_or(|holder| holder.name == *name) {
                    return;
                }
                let called = holder.map_or(found.name.as_str(), |holder| holder.name.as_str());
                (
                    format!("{shown} is target \"{called}\" of this volume, not \"{name}\""),
                    format!("Call it \"{called}\", or correct the path; the names and places of targets belong together"),
                )
            }
            Err(error @ IdentityError::Newer { .. }) => (format!("{shown}: {error}"), NEWER.to_owned()),
            Err(error) => (format!("{shown}: {error}"), "Put the right file back, or name another directory".to_owned()),
        };
        self.problem(target.place, cause, mend);
    }

    /// Checks that no directory lies in another: one would remove the other's data as foreign.
    fn apart(&mut self, targets: &[&TargetConfig], real: &[Option<PathBuf>]) {
        let config = self.config;
        let mut all = vec![
            ("the namespace".to_owned(), config.namespace_place),
            ("the state store".to_owned(), config.state_place),
        ];
        all.extend(targets.iter().map(|t| (format!("target \"{}\"", t.name), t.place)));
        let own = [&config.namespace, &config.state].map(|p| p.canonicalize().unwrap_or_else(|_| p.clone()));
        let as_named = |t: &TargetConfig| t.directory().map(Path::to_path_buf).unwrap_or_default();
        let targets = real.iter().zip(targets).map(|(real, t)| real.clone().unwrap_or_else(|| as_named(t)));
        let real: Vec<PathBuf> = own.into_iter().chain(targets).collect();
        for later in 1..all.len() {
            for earlier in 0..later {
                let (inner, outer) = if real[later].starts_with(&real[earlier]) {
                    (later, earlier)
                } else if real[earlier].starts_with(&real[later]) {
                    (earlier, later)
                } else {
                    continue;
                };
                let cause = format!(
                    "{} ({}) lies inside {} ({})",
                    all[inner].0,
                    real[inner].display(),
                    all[outer].0,
                    real[outer].display()
                );
                self.problem(all[later].1, cause, "Give each a directory of its own");
            }
        }
    }
}

#[cfg(test)]
mod tests;
