//! The state store in one SQLite file: write-ahead log, every commit synced, one connection.
//!
//! The connection locks the file for as long as it is open. So there is no index in shared memory (`-shm`), whose locks
//! others could take or whose pages a full file system could refuse. File and log are closed to others by their mode.
//!
//! The file's `user_version` is the version of the schema. A newer one than this program knows is refused; an older one
//! is brought up step by step, each step in a transaction.

mod schema;
mod tables;

use crate::state::TargetRecord;
use crate::{Error, Result};
use object::counters::Timed;
use parking_lot::Mutex;
use policy::holders::node::Config;
use policy::holders::table::Table;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to wait for another process, such as an operator's `sqlite3`, that holds the file.
const BUSY_SPAN: Duration = Duration::from_secs(10);

/// Time limit, at the end, for a call that hangs in the file's device.
const END_SPAN: Duration = Duration::from_secs(5);

/// A state store in one file.
pub struct SqliteState {
    /// `None` after the end.
    connection: Mutex<Option<Connection>>,
    holders: Mutex<Table>,
    began: Instant,
    timed: Box<Timed>,
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
        close_to_others(path).map_err(|error| explain(error.to_string()))?;
        let connection = Connection::open(path).map_err(|error| explain(error.to_string()))?;
        Self::prepare(connection, true).map_err(|error| match error {
            Error::State(cause) => explain(cause),
            Error::Newer(cause) => Error::Newer(format!("{}: {cause}", path.display())),
            other => other,
        })
    }

    /// The targets in a store; `None` if a daemon has it open.
    pub fn known_targets(path: &Path) -> Result<Option<Vec<TargetRecord>>> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let read = || -> rusqlite::Result<_> {
            let connection = Connection::open_with_flags(path, flags)?;
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
            let is_known = version > 0 && schema::check(version).is_ok();
            Ok((version, if is_known { tables::targets(&connection)? } else { Vec::new() }))
        };
        match read() {
            Ok((version, targets)) => match schema::check(version) {
                Err(Error::Newer(cause)) => Err(Error::Newer(format!("{}: {cause}", path.display()))),
                checked => checked.map(|()| Some(targets)),
            },
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => Ok(None),
            Err(error) => Err(Error::State(format!("{} cannot be read: {error}", path.display()))),
        }
    }

    /// A store in memory, for tests.
    pub fn in_memory() -> Result<SqliteState> {
        Self::prepare(Connection::open_in_memory().map_err(from_sqlite)?, false)
    }

    fn prepare(mut connection: Connection, on_disk: bool) -> Result<SqliteState> {
        connection.busy_timeout(BUSY_SPAN).map_err(from_sqlite)?;
        if on_disk {
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE").map_err(from_sqlite)?;
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
        let holders = Mutex::new(Table::new(Config::default().session));
        let connection = Mutex::new(Some(connection));
        Ok(SqliteState { connection, holders, began: Instant::now(), timed: Box::default() })
    }

    /// Makes a change in one transaction.
    fn write<T>(&self, change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T> {
        self.timed.during(|| {
            let mut connection = self.connection.lock();
            let connection = connection.as_mut().ok_or_else(ended)?;
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(from_sqlite)?;
            let value = change(&transaction).map_err(from_sqlite)?;
            transaction.commit().map_err(from_sqlite)?;
            Ok(value)
        })
    }

    fn read<T>(&self, look: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        self.timed.during(|| look(self.connection.lock().as_ref().ok_or_else(ended)?).map_err(from_sqlite))
    }
}

/// Creates the file, and denies other users access to it and its log. The log gets the mode of the file.
fn close_to_others(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::set_permissions(&name, std::fs::Permissions::from_mode(0o600)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn ended() -> Error {
    Error::State("it is closed: the volume is down".into())
}

fn from_sqlite(error: rusqlite::Error) -> Error {
    Error::State(error.to_string())
}

#[cfg(test)]
mod tests;
