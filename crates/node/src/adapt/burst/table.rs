//! The table of checkpoints: applications, their complete versions, the versions being written, and which file belongs
//! to which.

use super::app_names;
use super::open::OpenCheckpoint;
use super::record::{self, App, MtbfFrom};
use crate::{Error, Result};
use meta::state::State;
use policy::FileId;
use policy::burst::tables::Version;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A version being written.
pub struct Current {
    /// Name of the application.
    pub app: String,
    /// Label of the version, as chosen by the application.
    pub label: String,
    /// Whether it was announced by `entrepot checkpoint begin`, so that only `commit` ends it.
    pub explicit: bool,
    /// Its files by path.
    pub open: BTreeMap<String, Arc<OpenCheckpoint>>,
    /// Files of the complete version with the same label, which is dropped once one of them is overwritten.
    pub carried: BTreeMap<String, record::Part>,
    /// Whether its turn was reported as an event: a request for more room gets a second turn.
    pub turn_is_reported: bool,
}

/// An announced checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    /// Name of the application.
    pub app: String,
    /// The version's name.
    pub label: String,
    /// Files and directories of the checkpoint.
    pub paths: Vec<String>,
    /// User that announced it.
    pub uid: u32,
    /// Announced size in bytes; 0 if unknown.
    pub bytes: u64,
    /// Latest time of change below these paths at the announcement, in ns.
    pub newest_ns: i64,
    /// Number of its request, after the first write.
    #[serde(skip)]
    pub request: u64,
}

impl Session {
    /// Whether a path belongs to the checkpoint.
    pub fn has(&self, path: &str) -> bool {
        let below =
            |dir: &str| dir.is_empty() || path == dir || path.strip_prefix(dir).is_some_and(|r| r.starts_with('/'));
        self.paths.iter().any(|dir| below(dir))
    }
}

/// Applications and versions of checkpoints.
#[derive(Default)]
pub struct CheckpointTable {
    pub apps: BTreeMap<String, App>,
    pub names: BTreeMap<u64, String>,
    pub complete: BTreeMap<Version, record::Version>,
    pub current: BTreeMap<u64, Current>,
    by_path: HashMap<String, Version>,
    by_file: HashMap<FileId, Version>,
    next_app: u64,
}

impl CheckpointTable {
    /// Loads the records of the state store.
    pub fn open(state: &dyn State) -> Result<CheckpointTable> {
        let mut table = CheckpointTable::default();
        for (name, app) in record::APPS.all::<Vec<_>>(state)? {
            table.next_app = table.next_app.max(app.number);
            table.names.insert(app.number, name.clone());
            table.apps.insert(name, app);
        }
        let mut versions: Vec<(String, record::Version)> = record::VERSIONS.all(state)?;
        versions.sort_by_key(|(_, version)| (version.at_ms, version.number));
        versions.into_iter().for_each(|(_, version)| table.enter(version));
        Ok(table)
    }

    /// Whether a file is a part of a complete version or of a current one. The latter counts until its commit has
    /// ended.
    pub fn holds(&self, file: FileId) -> bool {
        let mut current = self.current.values().flat_map(|current| current.open.values());
        self.by_file.contains_key(&file) || current.any(|checkpoint| checkpoint.file.id() == Some(file))
    }

    /// The application of that name, created if necessary; returns whether it is new.
    ///
    /// # Errors
    /// The user has too many applications.
    pub fn app(&mut self, name: &str, now_ms: u64, mtbf_s: u64) -> Result<(App, bool)> {
        if let Some(app) = self.apps.get(name) {
            return Ok((app.clone(), false));
        }
        let uid = app_names::user(name);
        if self.apps.keys().filter(|of| app_names::user(of) == uid).count() >= app_names::PER_USER_MAX {
            let most = app_names::PER_USER_MAX;
            return Err(Error::Invalid(format!("a user has at most {most} applications; take a name that is there")));
        }
        self.next_app += 1;
        let mtbf_from = if mtbf_s > 0 { MtbfFrom::Given } else { MtbfFrom::Default };
        let app = App { number: self.next_app, first_ms: now_ms, mtbf_s, mtbf_from, ..App::default() };
        self.names.insert(app.number, name.to_owned());
        self.apps.insert(name.to_owned(), app.clone());
        Ok((app, true))
    }

    /// Adds a complete version.
    pub fn enter(&mut self, version: record::Version) {
        let Some(app) = self.apps.get(&version.app) else { return };
        let key = Version { app: app.number, number: version.number };
        for part in &version.parts {
            self.by_path.insert(part.path.clone(), key);
            if part.file != 0 {
                self.by_file.insert(FileId(part.file), key);
            }
        }
        self.complete.insert(key, version);
    }

    /// Removes a version.
    pub fn strike(&mut self, key: Version) -> Option<record::Version> {
        self.by_path.retain(|_, of| *of != key);
        self.by_file.retain(|_, of| *of != key);
        self.complete.remove(&key)
    }

    /// The complete version that a path belongs to.
    pub fn version_at(&self, path: &str) -> Option<Version> {
        self.by_path.get(path).copied()
    }

    /// The complete version of a file: by its number or, without one, by its path.
    pub fn version_of(&self, file: Option<FileId>, path: impl FnOnce() -> Option<String>) -> Option<Version> {
        match file {
            _ if self.complete.is_empty() => None,
            Some(file) => self.by_file.get(&file).copied(),
            None => self.version_at(&path()?),
        }
    }

    /// Handles the removal of a file. Its version keeps the part, so that it is known to be incomplete, and is removed
    /// with the last of its numbered files. Returns the version if it was removed.
    pub fn file_removed(&mut self, file: FileId) -> Option<Version> {
        let key = self.by_file.remove(&file)?;
        if self.by_file.values().any(|of| *of == key) {
            return None;
        }
        self.strike(key).map(|_| key)
    }

    /// Whether a numbered file of a complete version was removed.
    pub fn is_damaged(&self, version: &record::Version) -> bool {
        version.parts.iter().any(|part| part.file != 0 && !self.by_file.contains_key(&FileId(part.file)))
    }

    /// The request that writes an application's version with that label.
    pub fn writing(&self, app: &str, label: &str) -> Option<u64> {
        self.current.iter().find(|(_, of)| of.app == app && of.label == label).map(|(request, _)| *request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::state::SqliteState;

    /// [S-364]
    #[test]
    fn names_belong_to_users() {
        let state = SqliteState::in_memory().unwrap();
        let app = |number, restarts| App { number, restarts, ..App::default() };
        let version = |of: &str, number, path: &str| record::Version {
            app: of.into(),
            number,
            label: "1".into(),
            parts: vec![record::Part { path: path.into(), file: number, bytes: 1 }],
            at_ms: 1,
            announced: None,
        };
        record::APPS.put(&state, "7/wave", &app(1, 3)).unwrap();
        record::APPS.put(&state, "8/old", &app(2, 0)).unwrap();
        record::VERSIONS
            .put(&state, &record::version_key(Version { app: 1, number: 1 }), &version("7/wave", 1, "a"))
            .unwrap();
        record::VERSIONS
            .put(&state, &record::version_key(Version { app: 2, number: 2 }), &version("8/old", 2, "b"))
            .unwrap();
        let table = &mut CheckpointTable::open(&state).unwrap();
        assert_eq!(table.apps.keys().collect::<Vec<_>>(), ["7/wave", "8/old"]);
        assert_eq!(table.complete.values().map(|v| &*v.app).collect::<Vec<_>>(), ["7/wave", "8/old"]);
        // Another user has an application of the same name.
        let (other, fresh) = table.app("8/wave", 1, 0).unwrap();
        assert!(fresh && other.number == 3 && !table.app("7/wave", 1, 0).unwrap().1);
        assert_eq!(table.apps["7/wave"].restarts, 3);
        // One user has too many applications; other users are not affected.
        for n in table.apps.keys().filter(|of| of.starts_with("8/")).count()..app_names::PER_USER_MAX {
            table.app(&format!("8/n{n}"), 1, 0).unwrap();
        }
        assert!(table.app("8/more", 1, 0).is_err() && table.app("8/old", 1, 0).is_ok());
        assert!(table.app("9/more", 1, 0).is_ok());
    }

    /// [S-275]
    #[test]
    fn a_version_that_lost_a_file_keeps_its_part_until_all_are_gone() {
        let mut table = CheckpointTable::default();
        table.apps.insert("7/wave".into(), App { number: 1, ..App::default() });
        let part = |file: u64| record::Part { path: format!("1/rank-{file}"), file, bytes: 1 };
        let (app, parts) = ("7/wave".to_owned(), vec![part(1), part(2)]);
        table.enter(record::Version { app, number: 7, label: "1".into(), parts, at_ms: 1, announced: None });
        let key = Version { app: 1, number: 7 };
        assert!(!table.is_damaged(&table.complete[&key]));
        assert_eq!(table.file_removed(FileId(1)), None);
        assert_eq!(table.complete[&key].parts.len(), 2, "a restart finds that a file is gone");
        assert!(table.is_damaged(&table.complete[&key]));
        assert_eq!(table.file_removed(FileId(1)), None, "it is removed once");
        assert_eq!((table.file_removed(FileId(2)), table.complete.len()), (Some(key), 0));
    }
}
