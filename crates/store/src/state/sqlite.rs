//! The state store in one SQLite file: write-ahead log, every commit synced, one connection.
//!
//! The file's `user_version` is the version of the schema. A newer one than this program knows is refused; an older one
//! is brought up step by step, each step in a transaction.

mod schema;
mod tables;

use crate::state::TargetRecord;
use crate::{Error, Result};
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::path::Path;
use std::time::Duration;

/// How long to wait for another process, such as an operator's `sqlite3`, that holds the file.
const BUSY_SPAN: Duration = Duration::from_secs(10);

/// A state store in one file.
pub struct SqliteState {
    connection: Mutex<Connection>,
}

impl SqliteState {
    /// Opens or makes the store.
    pub fn open(path: &Path) -> Result<SqliteState> {
        let explain = |error: String| {
            Error::State(format!(
                "{} cannot be used: {error}. The volume is not opened. Files and objects are not touched by this; put \
                 a backup of the file back, or move it away to start with an empty store (targets keep their numbers, \
                 unfinished moves leave objects that `entrepot check` removes)",
                path.display()
            ))
        };
        let connection = Connection::open(path).map_err(|error| explain(error.to_string()))?;
        Self::prepare(connection, true).map_err(|error| match error {
            Error::State(cause) => explain(cause),
            other => other,
        })
    }

    /// The targets in a store that may be in use, without changing it.
    pub fn known_targets(path: &Path) -> Result<Vec<TargetRecord>> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let read = || {
            let connection = Connection::open_with_flags(path, flags)?;
            connection.busy_timeout(BUSY_SPAN)?;
            let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
            if version == 0 { Ok(Vec::new()) } else { tables::targets(&connection) }
        };
        read().map_err(|error| Error::State(format!("{} cannot be read: {error}", path.display())))
    }

    /// A store in memory, for tests.
    pub fn in_memory() -> Result<SqliteState> {
        Self::prepare(Connection::open_in_memory().map_err(from_sqlite)?, false)
    }

    fn prepare(mut connection: Connection, on_disk: bool) -> Result<SqliteState> {
        connection.busy_timeout(BUSY_SPAN).map_err(from_sqlite)?;
        if on_disk {
            let mode: String = connection
                .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
                .map_err(from_sqlite)?;
            if !mode.eq_ignore_ascii_case("wal") {
                return Err(Error::State(format!("its file system gives it no write-ahead log (but \"{mode}\")")));
            }
            let verdict: String =
                connection.pragma_query_value(None, "quick_check", |row| row.get(0)).map_err(from_sqlite)?;
            if verdict != "ok" {
                return Err(Error::State(format!("it is damaged: {verdict}")));
            }
        }
        connection.pragma_update(None, "synchronous", "FULL").map_err(from_sqlite)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(from_sqlite)?;
        schema::bring_up(&mut connection)?;
        Ok(SqliteState { connection: Mutex::new(connection) })
    }

    /// Does all of it or nothing.
    fn write<T>(&self, change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T> {
        let mut connection = self.connection.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(from_sqlite)?;
        let value = change(&transaction).map_err(from_sqlite)?;
        transaction.commit().map_err(from_sqlite)?;
        Ok(value)
    }

    fn read<T>(&self, look: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        look(&self.connection.lock()).map_err(from_sqlite)
    }
}

fn from_sqlite(error: rusqlite::Error) -> Error {
    Error::State(error.to_string())
}

#[cfg(test)]
mod tests;
