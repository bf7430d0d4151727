//! Records of files in the state store, one per file.

use crate::Result;
use meta::records;
use meta::state::State;
use parking_lot::{Mutex, MutexGuard};
use policy::FileId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Records under one name, held in memory too.
pub struct Records<T> {
    state: Arc<dyn State>,
    name: &'static str,
    held: Mutex<BTreeMap<FileId, T>>,
}

impl<T: Serialize + DeserializeOwned> Records<T> {
    /// Loads the existing records.
    pub fn open(state: Arc<dyn State>, name: &'static str) -> Result<Records<T>> {
        let mut held = BTreeMap::new();
        for (key, record) in records::all(&*state, name)? {
            if let Ok(file) = u64::from_str_radix(&key, 16) {
                held.insert(FileId(file), record);
            }
        }
        Ok(Records { state, name, held: Mutex::new(held) })
    }

    /// All records, locked.
    pub fn held(&self) -> MutexGuard<'_, BTreeMap<FileId, T>> {
        self.held.lock()
    }

    pub fn put(&self, file: FileId, record: T) -> Result<()> {
        records::put(&*self.state, self.name, &key(file), &record)?;
        self.held().insert(file, record);
        Ok(())
    }

    /// Removes the record of a file, if there is one.
    pub fn forget(&self, file: FileId) -> Result<()> {
        if self.held().contains_key(&file) {
            self.state.record_remove(self.name, &key(file))?;
            self.held().remove(&file);
        }
        Ok(())
    }
}

fn key(file: FileId) -> String {
    format!("{:016x}", file.0)
}
