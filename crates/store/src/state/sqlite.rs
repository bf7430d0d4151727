//! The state store in one SQLite file.

use crate::Result;
use std::path::Path;

/// A state store in one file.
pub struct SqliteState {}

impl SqliteState {
    /// Opens or makes the store.
    pub fn open(path: &Path) -> Result<SqliteState> {
        let _ = path;
        todo!()
    }
    /// A store in memory, for tests.
    pub fn in_memory() -> Result<SqliteState> {
        todo!()
    }
}
