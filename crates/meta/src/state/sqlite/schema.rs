//! The tables of the state store and how one version becomes the next.

use super::from_sqlite;
use crate::{Error, Result};
use object::newer::newer_than;
use rusqlite::Connection;

/// Step `i` leads from version `i` to `i + 1`. Steps that were released are never changed.
const STEPS: &[&str] = &["
    CREATE TABLE sequence (name TEXT PRIMARY KEY, last INTEGER NOT NULL) STRICT;
    CREATE TABLE target (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, state TEXT NOT NULL, by_operator INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE journal (file INTEGER PRIMARY KEY, path BLOB NOT NULL, inode INTEGER NOT NULL) STRICT;
    CREATE TABLE journal_object (
        file INTEGER NOT NULL REFERENCES journal ON DELETE CASCADE,
        target INTEGER NOT NULL, object INTEGER NOT NULL, PRIMARY KEY (file, target, object)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE garbage (
        target INTEGER NOT NULL, object INTEGER NOT NULL, PRIMARY KEY (target, object)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE staging (key TEXT PRIMARY KEY, progress BLOB NOT NULL) STRICT;
    CREATE TABLE record (
        kind TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (kind, key)
    ) STRICT, WITHOUT ROWID;
"];

/// Whether this program can read a version's tables.
pub fn check(version: u32) -> Result<()> {
    let known = STEPS.len() as u32;
    if version <= known { Ok(()) } else { Err(Error::Newer(newer_than("the state", version, known))) }
}

/// Upgrades the tables to this program's version.
pub fn bring_up(connection: &mut Connection) -> Result<()> {
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(from_sqlite)?;
    check(version)?;
    for (done, step) in STEPS.iter().enumerate().skip(version as usize) {
        let transaction = connection.transaction().map_err(from_sqlite)?;
        transaction.execute_batch(step).map_err(from_sqlite)?;
        transaction.pragma_update(None, "user_version", done as u32 + 1).map_err(from_sqlite)?;
        transaction.commit().map_err(from_sqlite)?;
    }
    Ok(())
}
