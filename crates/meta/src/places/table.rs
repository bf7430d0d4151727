//! The rows of [`super::Places`] in a SQLite file of their own, which may be deleted at any time.
//!
//! The state store is unsuitable: its calls are durable and its backup has all rows, and a row per file would make both
//! slow.

use super::{Changes, Place};
use policy::FileId;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Version of these tables. A file of another version is replaced by an empty one.
const VERSION: u32 = 1;

const TABLES: &str = "
    DROP TABLE IF EXISTS file;
    DROP TABLE IF EXISTS directory;
    CREATE TABLE file (id INTEGER PRIMARY KEY, directory INTEGER NOT NULL, name BLOB NOT NULL) STRICT;
    CREATE TABLE directory (id INTEGER PRIMARY KEY, directory INTEGER NOT NULL, name BLOB NOT NULL) STRICT;
";

/// The open file.
pub struct Table {
    file: PathBuf,
    /// `None` if the file cannot be created: then every lookup is a walk.
    connection: Option<Connection>,
}

impl Table {
    /// Opens the file. An unreadable file is replaced by an empty one.
    pub fn open(file: &Path) -> Table {
        let mut table = Table { file: file.to_path_buf(), connection: None };
        match connect(file) {
            Ok(connection) => table.connection = Some(connection),
            Err(error) => table.begin_again(&error),
        }
        table
    }

    fn begin_again(&mut self, error: &rusqlite::Error) {
        tracing::warn!("{} is rebuilt by a walk of the tree when it is needed: {error}", self.file.display());
        self.connection = None;
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let mut name = self.file.as_os_str().to_owned();
            name.push(suffix);
            // The next connection reports a file that cannot be removed.
            drop(std::fs::remove_file(name));
        }
        match connect(&self.file) {
            Ok(connection) => self.connection = Some(connection),
            Err(error) => tracing::warn!("{} cannot be used, so files are searched for: {error}", self.file.display()),
        }
    }

    /// Runs `act` on the table. A damaged table is replaced by an empty one.
    fn try_on<T>(&mut self, act: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Option<T> {
        match act(self.connection.as_mut()?) {
            Ok(value) => Some(value),
            Err(error) => {
                use rusqlite::ErrorCode::{DiskFull, SystemIoFailure};
                match error.sqlite_error_code() {
                    // A retry may succeed.
                    Some(DiskFull | SystemIoFailure) => {
                        tracing::debug!("{} accepts no entries now: {error}", self.file.display());
                    }
                    _ => self.begin_again(&error),
                }
                None
            }
        }
    }

    /// Returns the place of a file.
    pub fn file(&mut self, file: FileId) -> Option<Place> {
        self.row("SELECT directory, name FROM file WHERE id = ?1", file.0)
    }

    /// Returns the place of a directory.
    pub fn directory(&mut self, inode: u64) -> Option<Place> {
        self.row("SELECT directory, name FROM directory WHERE id = ?1", inode)
    }

    fn row(&mut self, sql: &str, id: u64) -> Option<Place> {
        self.try_on(|c| c.prepare_cached(sql)?.query_row([id as i64], place).optional()).flatten()
    }

    /// Writes changes in one step. Returns whether that succeeded.
    pub fn write(&mut self, changes: &Changes) -> bool {
        self.try_on(|connection| {
            let transaction = connection.transaction()?;
            put(&transaction, "file", changes.files.iter().map(|(id, place)| (id.0, place)))?;
            put(&transaction, "directory", changes.directories.iter().map(|(id, place)| (*id, place)))?;
            transaction.commit()
        })
        .is_some()
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.try_on(|connection| connection.execute_batch(TABLES));
    }
}

fn place(row: &Row<'_>) -> rusqlite::Result<Place> {
    Ok(Place { directory: row.get::<_, i64>(0)? as u64, name: OsString::from_vec(row.get(1)?) })
}

fn put<'a>(
    transaction: &Transaction<'_>,
    table: &str,
    changes: impl Iterator<Item = (u64, &'a Option<Place>)>,
) -> rusqlite::Result<()> {
    let mut put = transaction.prepare_cached(&format!("INSERT OR REPLACE INTO {table} VALUES (?1, ?2, ?3)"))?;
    let mut remove = transaction.prepare_cached(&format!("DELETE FROM {table} WHERE id = ?1"))?;
    for (id, place) in changes {
        match place {
            Some(at) => put.execute(params![id as i64, at.directory as i64, at.name.as_bytes()])?,
            None => remove.execute([id as i64])?,
        };
    }
    Ok(())
}

fn connect(file: &Path) -> rusqlite::Result<Connection> {
    // The file holds users' names, so it is created closed to others. If that fails, opening it reports the cause.
    drop(std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(file));
    let connection = Connection::open(file)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // A file damaged by a loss of power is replaced by an empty one.
    connection.pragma_update(None, "synchronous", "OFF")?;
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != VERSION {
        connection.execute_batch(TABLES)?;
        connection.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(connection)
}
