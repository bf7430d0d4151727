//! Records in the state store: of one kind, or one per file.

use crate::Result;
use meta::records;
use meta::state::State;
use parking_lot::{Mutex, MutexGuard};
use policy::FileId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

/// Records of one kind, which have one type.
pub struct Kind<T> {
    name: &'static str,
    of: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> Kind<T> {
    /// Returns the kind of that name.
    pub const fn new(name: &'static str) -> Kind<T> {
        Kind { name, of: PhantomData }
    }

    /// Writes a record.
    pub fn put(&self, state: &dyn State, key: &str, record: &T) -> Result<()> {
        records::put(state, self.name, key, record)
    }

    /// Removes a record, if there is one.
    pub fn remove(&self, state: &dyn State, key: &str) -> Result<()> {
        state.record_remove(self.name, key).map(drop)
    }

    /// Reads all records with their keys. A damaged one is logged and left out.
    pub fn all<C: FromIterator<(String, T)>>(&self, state: &dyn State) -> Result<C> {
        Ok(records::all(state, self.name)?.into_iter().collect())
    }
}

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
            if let Ok(file) = key.parse() {
                held.insert(file, record);
            }
        }
        Ok(Records { state, name, held: Mutex::new(held) })
    }

    /// All records, locked.
    pub fn held(&self) -> MutexGuard<'_, BTreeMap<FileId, T>> {
        self.held.lock()
    }

    pub fn put(&self, file: FileId, record: T) -> Result<()> {
        records::put(&*self.state, self.name, &file.to_string(), &record)?;
        self.held().insert(file, record);
        Ok(())
    }

    /// Removes the record of a file, if there is one.
    pub fn forget(&self, file: FileId) -> Result<()> {
        if self.held().contains_key(&file) {
            self.state.record_remove(self.name, &file.to_string())?;
            self.held().remove(&file);
        }
        Ok(())
    }
}
