//! The table of checkpoints: applications, their complete versions, the versions being written, and which file belongs to which.

use super::open::OpenCheckpoint;
use super::record::{self, App, MtbfFrom};
use crate::Result;
use crate::state::State;
use policy::FileId;
use policy::burst::tables::Version;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A version being written.
pub struct Current {
    /// Whose, by name.
    pub app: String,
    /// As the application names it.
    pub label: String,
    /// Begun by `entrepot checkpoint begin`, so that only `commit` ends it.
    pub explicit: bool,
    /// Its files by path.
    pub open: BTreeMap<String, Arc<OpenCheckpoint>>,
    /// Files of the complete version of that name, which goes as soon as one of them is written over.
    pub carried: BTreeMap<String, record::Part>,
    /// Its turn was told as an event. It is made ready once more when it asks for more room.
    pub turn_is_told: bool,
}

/// A checkpoint that was announced.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    /// Whose, by name.
    pub app: String,
    /// The version's name.
    pub label: String,
    /// Files at or below these belong to it.
    pub paths: Vec<String>,
    /// Who announced it.
    pub uid: u32,
    /// Bytes that were announced; 0: none.
    pub bytes: u64,
    /// Its request, once something was written.
    #[serde(skip)]
    pub request: u64,
}

impl Session {
    /// Whether a path belongs to it.
    pub fn has(&self, path: &str) -> bool {
        let below =
            |dir: &str| dir.is_empty() || path == dir || path.strip_prefix(dir).is_some_and(|r| r.starts_with('/'));
        self.paths.iter().any(|dir| below(dir))
    }
}

/// What is known of checkpoints.
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
    /// What the state store remembers.
    pub fn open(state: &dyn State) -> Result<CheckpointTable> {
        let mut table = CheckpointTable::default();
        for (name, app) in record::apps(state)? {
            table.next_app = table.next_app.max(app.number);
            table.names.insert(app.number, name.clone());
            table.apps.insert(name, app);
        }
        for version in record::versions(state)? {
            if table.apps.contains_key(&version.app) {
                table.enter(version);
            }
        }
        Ok(table)
    }

    /// Whether a file is a part of a complete version, or of one that is being written or made durable: between its last close and the end of
    /// its commit a file has neither a writer nor a complete version.
    pub fn holds(&self, file: FileId) -> bool {
        let mut current = self.current.values().flat_map(|current| current.open.values());
        self.by_file.contains_key(&file) || current.any(|checkpoint| checkpoint.file.id() == Some(file))
    }

    /// The application of that name; a new one of that user if need be. Whether it is new, or new whose it is.
    pub fn app(&mut self, name: &str, now_ms: u64, mtbf_s: u64, uid: Option<u32>) -> (App, bool) {
        if let Some(app) = self.apps.get_mut(name) {
            let learned = app.uid.is_none() && uid.is_some();
            app.uid = app.uid.or(uid);
            return (app.clone(), learned);
        }
        self.next_app += 1;
        let mtbf_from = if mtbf_s > 0 { MtbfFrom::Given } else { MtbfFrom::Default };
        let app = App { number: self.next_app, uid, first_ms: now_ms, mtbf_s, mtbf_from, ..App::default() };
        self.names.insert(app.number, name.to_owned());
        self.apps.insert(name.to_owned(), app.clone());
        (app, true)
    }

    /// A version is complete.
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

    /// A version is gone.
    pub fn strike(&mut self, key: Version) -> Option<record::Version> {
        self.by_path.retain(|_, of| *of != key);
        self.by_file.retain(|_, of| *of != key);
        self.complete.remove(&key)
    }

    /// The complete version that a path belongs to.
    pub fn version_at(&self, path: &str) -> Option<Version> {
        self.by_path.get(path).copied()
    }

    /// The complete version that a file with objects belongs to.
    pub fn version_with(&self, file: FileId) -> Option<Version> {
        self.by_file.get(&file).copied()
    }

    /// The complete version of a file: by its number or, without one, by its path.
    pub fn version_of(&self, file: Option<FileId>, path: impl FnOnce() -> Option<String>) -> Option<Version> {
        match file {
            _ if self.complete.is_empty() => None,
            Some(file) => self.version_with(file),
            None => self.version_at(&path()?),
        }
    }

    /// A file is gone for good: the version that is gone with it, if it was the last.
    pub fn file_removed(&mut self, file: FileId) -> Option<(Version, Option<record::Version>)> {
        let key = self.by_file.remove(&file)?;
        let version = self.complete.get_mut(&key)?;
        version.parts.retain(|part| part.file != file.0);
        let left = version.clone();
        if left.parts.is_empty() {
            self.strike(key);
            return Some((key, None));
        }
        Some((key, Some(left)))
    }

    /// The version of an application with that name that is being written.
    pub fn writing(&self, app: &str, label: &str) -> Option<u64> {
        self.current.iter().find(|(_, of)| of.app == app && of.label == label).map(|(request, _)| *request)
    }
}
