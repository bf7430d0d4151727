//! The calls of a state store as statements.
//!
//! Numbers of files and objects use all 64 bits, but SQLite's integers are signed. They are stored as their bit
//! pattern, and ordered as unsigned by comparing the sign first.

use super::SqliteState;
use crate::Result;
use crate::state::dump::{self, Row as Dumped};
use crate::state::{JournalEntry, State, TargetRecord, state_name, state_of};
use object::counters::Timed;
use object::target::State as TargetState;
use policy::holders::table::{Answer, Caller, Request};
use policy::{FileId, ObjectId, TargetId, Time};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

fn bits(n: u64) -> i64 {
    n as i64
}

fn target_record(row: &Row<'_>) -> rusqlite::Result<TargetRecord> {
    let state: String = row.get(2)?;
    let unknown = || rusqlite::Error::FromSqlConversionFailure(2, Type::Text, format!("no state: {state}").into());
    Ok(TargetRecord {
        id: TargetId(row.get(0)?),
        name: row.get(1)?,
        state: state_of(&state).ok_or_else(unknown)?,
        by_operator: row.get(3)?,
        ordered_ms: 0,
    })
}

/// All targets, by number.
pub fn targets(connection: &Connection) -> rusqlite::Result<Vec<TargetRecord>> {
    let mut select = connection.prepare_cached("SELECT id, name, state, by_operator FROM target ORDER BY id")?;
    select.query_map([], target_record)?.collect()
}

fn next(transaction: &Transaction<'_>, sequence: &str) -> rusqlite::Result<i64> {
    transaction.query_row(
        "INSERT INTO sequence VALUES (?1, 1) ON CONFLICT DO UPDATE SET last = last + 1 RETURNING last",
        [sequence],
        |row| row.get(0),
    )
}

fn add_garbage(transaction: &Transaction<'_>, objects: &[(TargetId, ObjectId)]) -> rusqlite::Result<()> {
    let mut insert = transaction.prepare_cached("INSERT OR IGNORE INTO garbage VALUES (?1, ?2)")?;
    for (target, object) in objects {
        insert.execute(params![target.0, bits(object.0)])?;
    }
    Ok(())
}

/// All moves under way, by file.
fn journal(c: &Connection) -> rusqlite::Result<Vec<JournalEntry>> {
    let mut entries = c.prepare_cached("SELECT file, path, inode FROM journal ORDER BY file < 0, file")?;
    let mut objects = c.prepare_cached(
        "SELECT target, object FROM journal_object WHERE file = ?1 ORDER BY target, object < 0, object",
    )?;
    let rows = entries.query_map([], |row| {
        let (file, path, inode): (i64, Vec<u8>, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let pair = |row: &Row<'_>| Ok((TargetId(row.get(0)?), ObjectId(row.get::<_, i64>(1)? as u64)));
        Ok(JournalEntry {
            file: FileId(file as u64),
            path: PathBuf::from(std::ffi::OsString::from_vec(path)),
            inode: inode as u64,
            objects: objects.query_map([file], pair)?.collect::<rusqlite::Result<_>>()?,
        })
    })?;
    rows.collect()
}

fn put_journal(t: &Transaction<'_>, entry: &JournalEntry) -> rusqlite::Result<()> {
    let file = bits(entry.file.0);
    t.execute("DELETE FROM journal WHERE file = ?1", [file])?;
    let path = entry.path.as_os_str().as_bytes();
    t.execute("INSERT INTO journal VALUES (?1, ?2, ?3)", params![file, path, bits(entry.inode)])?;
    let mut insert = t.prepare_cached("INSERT OR IGNORE INTO journal_object VALUES (?1, ?2, ?3)")?;
    for (target, object) in &entry.objects {
        insert.execute(params![file, target.0, bits(object.0)])?;
    }
    Ok(())
}

fn rows<T>(
    connection: &Connection,
    sql: &str,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(sql)?.query_map([], row)?.collect()
}

fn put_row(t: &Transaction<'_>, row: &Dumped) -> rusqlite::Result<()> {
    match row {
        Dumped::Sequence { name, last } => {
            t.execute("INSERT INTO sequence VALUES (?1, ?2)", params![name, bits(*last)])
        }
        Dumped::Target { id, name, state, by_operator } => {
            t.execute("INSERT INTO target VALUES (?1, ?2, ?3, ?4)", params![id, name, state, by_operator])
        }
        Dumped::Journal { file, path, inode, objects } => {
            return put_journal(t, &dump::journal_entry(*file, path, *inode, objects));
        }
        Dumped::Garbage { target, object } => {
            t.execute("INSERT OR IGNORE INTO garbage VALUES (?1, ?2)", params![target, bits(*object)])
        }
        Dumped::Staging { key, progress } => {
            t.execute("INSERT INTO staging VALUES (?1, ?2)", params![key, progress.as_slice()])
        }
        Dumped::Record { kind, key, value } => {
            t.execute("INSERT INTO record VALUES (?1, ?2, ?3)", params![kind, key, value.as_slice()])
        }
    }
    .map(drop)
}

fn pairs(connection: &Connection, sql: &str, arguments: &[&str]) -> rusqlite::Result<Vec<(String, Vec<u8>)>> {
    let mut select = connection.prepare_cached(sql)?;
    let rows = select.query_map(rusqlite::params_from_iter(arguments), |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

impl State for SqliteState {
    fn hold(&self, caller: Caller, request: &Request) -> Result<Answer> {
        let now = Time(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        Ok(self.holders.lock().serve(now, caller, request))
    }

    fn timed(&self) -> Option<&Timed> {
        Some(&self.timed)
    }

    fn new_epoch(&self, above: u32) -> Result<u32> {
        let epoch: i64 = self.write(|t| {
            t.query_row(
                "INSERT INTO sequence VALUES ('epoch', ?1 + 1) \
                 ON CONFLICT DO UPDATE SET last = max(last, ?1) + 1 RETURNING last",
                [above],
                |row| row.get(0),
            )
        })?;
        u32::try_from(epoch).map_err(|_| crate::Error::State("all epochs are used up".into()))
    }

    fn epoch(&self) -> Result<u32> {
        let sql = "SELECT last FROM sequence WHERE name = 'epoch'";
        self.read(|c| c.query_row(sql, [], |row| row.get(0)).optional()).map(Option::unwrap_or_default)
    }

    fn new_target_number(&self) -> Result<TargetId> {
        let number = self.write(|t| next(t, "target"))?;
        u16::try_from(number).map(TargetId).map_err(|_| crate::Error::State("all target numbers are used up".into()))
    }

    fn remember_target(&self, id: TargetId, name: &str) -> Result<()> {
        self.write(|t| {
            let known = "INSERT INTO target VALUES (?1, ?2, 'ok', 0) ON CONFLICT (id) DO NOTHING";
            t.execute(known, params![id.0, name])?;
            let used = "INSERT INTO sequence VALUES ('target', ?1) ON CONFLICT DO UPDATE SET last = max(last, ?1)";
            t.execute(used, [id.0]).map(drop)
        })
    }

    fn targets(&self) -> Result<Vec<TargetRecord>> {
        self.read(targets)
    }

    fn set_target_state(&self, id: TargetId, state: TargetState, by_operator: bool) -> Result<()> {
        self.write(|t| {
            let sql = "UPDATE target SET state = ?2, by_operator = ?3 WHERE id = ?1";
            t.execute(sql, params![id.0, state_name(state), by_operator]).map(drop)
        })
    }

    fn forget_target(&self, id: TargetId) -> Result<()> {
        self.write(|t| {
            t.execute("DELETE FROM garbage WHERE target = ?1", [id.0])?;
            t.execute("DELETE FROM target WHERE id = ?1", [id.0]).map(drop)
        })
    }

    fn journal_put(&self, entry: &JournalEntry) -> Result<()> {
        self.write(|t| put_journal(t, entry))
    }

    fn journal_finish(&self, file: FileId, garbage: &[(TargetId, ObjectId)]) -> Result<()> {
        self.write(|t| {
            t.execute("DELETE FROM journal WHERE file = ?1", [bits(file.0)])?;
            add_garbage(t, garbage)
        })
    }

    fn journal(&self) -> Result<Vec<JournalEntry>> {
        self.read(journal)
    }

    fn garbage_add(&self, objects: &[(TargetId, ObjectId)]) -> Result<()> {
        self.write(|t| add_garbage(t, objects))
    }

    fn garbage_removed(&self, objects: &[(TargetId, ObjectId)]) -> Result<()> {
        self.write(|t| {
            let mut delete = t.prepare_cached("DELETE FROM garbage WHERE target = ?1 AND object = ?2")?;
            for (target, object) in objects {
                delete.execute(params![target.0, bits(object.0)])?;
            }
            Ok(())
        })
    }

    fn garbage_of(&self, target: TargetId, count_max: usize) -> Result<Vec<ObjectId>> {
        self.read(|c| {
            let sql = "SELECT object FROM garbage WHERE target = ?1 ORDER BY object < 0, object LIMIT ?2";
            let mut select = c.prepare_cached(sql)?;
            let limit = i64::try_from(count_max).unwrap_or(i64::MAX);
            let rows = select.query_map(params![target.0, limit], |row| row.get::<_, i64>(0))?;
            rows.map(|object| object.map(|object| ObjectId(object as u64))).collect()
        })
    }

    fn garbage_count(&self) -> Result<u64> {
        self.read(|c| c.query_row("SELECT count(*) FROM garbage", [], |row| row.get::<_, i64>(0))).map(|n| n as u64)
    }

    fn staging_put(&self, key: &str, progress: &[u8]) -> Result<()> {
        self.write(|t| t.execute("INSERT OR REPLACE INTO staging VALUES (?1, ?2)", params![key, progress]).map(drop))
    }

    fn staging_get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.read(|c| c.query_row("SELECT progress FROM staging WHERE key = ?1", [key], |row| row.get(0)).optional())
    }

    fn staging_remove(&self, key: &str) -> Result<()> {
        self.write(|t| t.execute("DELETE FROM staging WHERE key = ?1", [key]).map(drop))
    }

    fn stagings(&self) -> Result<Vec<(String, Vec<u8>)>> {
        self.read(|c| pairs(c, "SELECT key, progress FROM staging ORDER BY key", &[]))
    }

    fn record_put(&self, kind: &str, key: &str, value: &[u8]) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO record VALUES (?1, ?2, ?3)";
        self.write(|t| t.execute(sql, params![kind, key, value]).map(drop))
    }

    fn record_get(&self, kind: &str, key: &str) -> Result<Option<Vec<u8>>> {
        let sql = "SELECT value FROM record WHERE kind = ?1 AND key = ?2";
        self.read(|c| c.query_row(sql, [kind, key], |row| row.get(0)).optional())
    }

    fn record_remove(&self, kind: &str, key: &str) -> Result<bool> {
        self.write(|t| t.execute("DELETE FROM record WHERE kind = ?1 AND key = ?2", [kind, key])).map(|n| n > 0)
    }

    fn record_swap(&self, kind: &str, key: &str, before: Option<&[u8]>, value: &[u8]) -> Result<bool> {
        let changed = self.write(|t| match before {
            Some(before) => {
                let sql = "UPDATE record SET value = ?4 WHERE kind = ?1 AND key = ?2 AND value = ?3";
                t.execute(sql, params![kind, key, before, value])
            }
            None => t.execute("INSERT OR IGNORE INTO record VALUES (?1, ?2, ?3)", params![kind, key, value]),
        })?;
        Ok(changed > 0)
    }

    fn records(&self, kind: &str) -> Result<Vec<(String, Vec<u8>)>> {
        self.read(|c| pairs(c, "SELECT key, value FROM record WHERE kind = ?1 ORDER BY key", &[kind]))
    }

    fn record_kinds(&self) -> Result<Vec<String>> {
        self.read(|c| rows(c, "SELECT DISTINCT kind FROM record ORDER BY kind", |row| row.get(0)))
    }

    fn dump(&self) -> Result<Vec<Dumped>> {
        self.read(|c| {
            let mut all = rows(c, "SELECT name, last FROM sequence ORDER BY name", |row| {
                Ok(Dumped::Sequence { name: row.get(0)?, last: row.get::<_, i64>(1)? as u64 })
            })?;
            all.extend(targets(c)?.into_iter().map(Dumped::from));
            all.extend(journal(c)?.into_iter().map(Dumped::from));
            all.extend(rows(c, "SELECT target, object FROM garbage", |row| {
                Ok(Dumped::Garbage { target: row.get(0)?, object: row.get::<_, i64>(1)? as u64 })
            })?);
            all.extend(rows(c, "SELECT key, progress FROM staging ORDER BY key", |row| {
                Ok(Dumped::Staging { key: row.get(0)?, progress: row.get::<_, Vec<u8>>(1)?.into() })
            })?);
            all.extend(rows(c, "SELECT kind, key, value FROM record", |row| {
                Ok(Dumped::Record { kind: row.get(0)?, key: row.get(1)?, value: row.get::<_, Vec<u8>>(2)?.into() })
            })?);
            Ok(all)
        })
    }

    fn load(&self, rows: &[Dumped]) -> Result<()> {
        self.write(|t| {
            for table in ["journal", "sequence", "target", "garbage", "staging", "record"] {
                t.execute(&format!("DELETE FROM {table}"), [])?;
            }
            rows.iter().try_for_each(|row| put_row(t, row))
        })
    }

    /// Merges the log into the file, so that a copy of the file is complete, and closes the file.
    fn finish(&self) -> Result<()> {
        let mut open =
            self.connection.try_lock_for(super::END_SPAN).ok_or_else(|| crate::Error::State("it hangs".into()))?;
        let Some(connection) = open.take() else { return Ok(()) };
        let done = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        done.and_then(|()| connection.close().map_err(|(_, error)| error)).map_err(super::from_sqlite)
    }

    fn next_number(&self, sequence: &str) -> Result<u64> {
        self.write(|t| next(t, &format!("record:{sequence}"))).map(|n| n as u64)
    }
}
