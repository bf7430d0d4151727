//! Files in use, by their numbers.

use super::File;
use parking_lot::Mutex;
use policy::FileId;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Files that have a layout and are in use. Entries of dropped files stay until the table has doubled.
#[derive(Default)]
pub struct Numbered(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    files: HashMap<FileId, Weak<File>>,
    clear_at: usize,
}

impl Numbered {
    /// Adds a file that has a number.
    pub fn add(&self, file: &Arc<File>) {
        let Some(id) = file.id() else { return };
        let mut entries = self.0.lock();
        entries.files.insert(id, Arc::downgrade(file));
        if entries.files.len() > entries.clear_at.max(64) {
            entries.files.retain(|_, file| file.strong_count() > 0);
            entries.clear_at = entries.files.len() * 2;
        }
    }

    /// The file of that number.
    pub fn get(&self, id: FileId) -> Option<Arc<File>> {
        self.0.lock().files.get(&id)?.upgrade()
    }
}
