//! The SQLite store: the suite, restarts, and files that are no store.

use super::*;
use crate::state::{State, conformance};

#[test]
fn the_suite_holds_in_memory_and_on_disk() {
    conformance(&SqliteState::in_memory().unwrap());
    let dir = tempfile::tempdir().unwrap();
    conformance(&SqliteState::open(&dir.path().join("state.db")).unwrap());
}

#[test]
fn what_was_said_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let first = {
        let state = SqliteState::open(&path).unwrap();
        state.record_put("job", "1", b"x").unwrap();
        state.new_epoch(0).unwrap()
    };
    let state = SqliteState::open(&path).unwrap();
    assert!(state.new_epoch(0).unwrap() > first);
    assert_eq!(state.record_get("job", "1").unwrap().as_deref(), Some(&b"x"[..]));
}

#[test]
fn every_commit_is_synced() {
    let dir = tempfile::tempdir().unwrap();
    let state = SqliteState::open(&dir.path().join("state.db")).unwrap();
    let connection = state.connection.lock();
    let connection = connection.as_ref().unwrap();
    let synchronous: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    let journal: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!((synchronous, journal.as_str()), (2, "wal"));
}

#[test]
fn a_newer_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    drop(SqliteState::open(&path).unwrap());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 999).unwrap();
    let error = SqliteState::open(&path).err().unwrap().to_string();
    assert!(error.contains("format 999") && error.contains("newer entrepot"), "{error}");
}

#[test]
fn garbage_instead_of_a_store_is_one_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    std::fs::write(&path, vec![0x5a; 8192]).unwrap();
    let error = SqliteState::open(&path).err().unwrap().to_string();
    assert!(error.contains("state.db") && error.contains("not a database") && error.contains("backup"), "{error}");
}

#[test]
fn a_damaged_page_is_found_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    {
        let state = SqliteState::open(&path).unwrap();
        for i in 0..200 {
            state.record_put("job", &i.to_string(), &[1; 500]).unwrap();
        }
        state.finish().unwrap();
    }
    let mut bytes = std::fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let error = SqliteState::open(&path).err().unwrap().to_string();
    assert!(error.contains("cannot be used") && error.contains("backup"), "{error}");
}

/// [S-165]
#[test]
fn nobody_else_can_lock_or_read_the_store_and_after_a_clean_end_the_file_is_all_of_it() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    let mode = |name: &str| std::fs::metadata(dir.path().join(name)).map(|m| m.permissions().mode() & 0o777).ok();
    for (name, open) in [("state.db", 0o644), ("state.db-wal", 0o644)] {
        std::fs::write(dir.path().join(name), "").unwrap(); // as an earlier version left them
        std::fs::set_permissions(dir.path().join(name), std::fs::Permissions::from_mode(open)).unwrap();
    }
    let state = SqliteState::open(&path).unwrap();
    state.record_put("job", "1", b"secret").unwrap();
    assert_eq!((mode("state.db"), mode("state.db-wal")), (Some(0o600), Some(0o600)));
    assert_eq!(
        mode("state.db-shm"),
        None,
        "no memory to be shared: no locks of others, no page that a full disk refuses"
    );
    assert!(SqliteState::known_targets(&path).unwrap().is_none(), "the store is in use, and nobody waits for it");
    state.finish().unwrap();
    std::fs::copy(&path, dir.path().join("copy.db")).unwrap();
    let copy = SqliteState::open(&dir.path().join("copy.db")).unwrap();
    assert_eq!(copy.record_get("job", "1").unwrap().as_deref(), Some(&b"secret"[..]));
    assert!(state.record_put("job", "2", b"x").unwrap_err().to_string().contains("closed"));
    SqliteState::open(&path).expect("another may have it, though the first is not dropped yet");
}
