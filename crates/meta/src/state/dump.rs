//! A state store as rows of text, the same for every kind of store: the content of a backup.
//!
//! ```text
//! {"entrepot_state":1,"volume":"...","epoch":7,"rows":1234}
//! {"sequence":{"name":"epoch","last":7}}
//! ...
//! {"blake3":"..."}                of all lines before
//! ```

use super::{JournalEntry, State, TargetRecord};
use crate::{Error, Result};
use object::host::rename_durably;
use object::volume_id::VolumeId;
use policy::{FileId, ObjectId, TargetId};
use serde::{Deserialize, Serialize};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The format that this program writes and reads.
const FORMAT: u32 = 1;

/// Bytes, written as text if they are UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Bytes {
    /// Bytes in UTF-8.
    Text(String),
    /// Any other bytes.
    Raw(Vec<u8>),
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        String::from_utf8(bytes).map_or_else(|error| Bytes::Raw(error.into_bytes()), Bytes::Text)
    }
}

impl Bytes {
    /// The bytes of either form.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Text(text) => text.as_bytes(),
            Bytes::Raw(bytes) => bytes,
        }
    }
}

/// One row of a state store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Row {
    /// Last number of a sequence. The store's own are `epoch`, `target`, and `order:N` for the time of a target's last
    /// order. The names of others begin with `record:`.
    Sequence {
        /// Name of the counter.
        name: String,
        /// Last number given.
        last: u64,
    },
    /// A target of the volume.
    Target {
        /// The number that the target keeps in its `target.id`.
        id: u16,
        /// Name of the target.
        name: String,
        /// State as written by `super::state_name`.
        state: String,
        /// Whether the operator failed it.
        by_operator: bool,
    },
    /// A move under way.
    Journal {
        /// The number of the file that a move changes.
        file: u64,
        /// Path of its stub when the move began.
        path: Bytes,
        /// Inode of the file.
        inode: u64,
        /// Objects that the move creates, with their targets.
        objects: Vec<(u16, u64)>,
    },
    /// An object to be removed.
    Garbage {
        /// Target of the object.
        target: u16,
        /// The number of the object to remove.
        object: u64,
    },
    /// A staging under way.
    Staging {
        /// Key of the row.
        key: String,
        /// Progress of the staging.
        progress: Bytes,
    },
    /// A record of a component.
    Record {
        /// Kind of record.
        kind: String,
        /// Key of the record.
        key: String,
        /// Content of the record.
        value: Bytes,
    },
}

impl From<TargetRecord> for Row {
    fn from(record: TargetRecord) -> Row {
        let TargetRecord { id, name, state, by_operator, .. } = record;
        Row::Target { id: id.0, name, state: super::state_name(state).into(), by_operator }
    }
}

impl From<JournalEntry> for Row {
    fn from(entry: JournalEntry) -> Row {
        let path = entry.path.as_os_str().as_bytes().to_vec().into();
        let objects = entry.objects.into_iter().map(|(target, object)| (target.0, object.0)).collect();
        Row::Journal { file: entry.file.0, path, inode: entry.inode, objects }
    }
}

/// Journal entry of a row.
pub(super) fn journal_entry(file: u64, path: &Bytes, inode: u64, objects: &[(u16, u64)]) -> JournalEntry {
    JournalEntry {
        file: FileId(file),
        path: PathBuf::from(std::ffi::OsString::from_vec(path.as_slice().to_vec())),
        inode,
        objects: objects.iter().map(|(target, object)| (TargetId(*target), ObjectId(*object))).collect(),
    }
}

#[derive(Serialize, Deserialize)]
struct Head {
    entrepot_state: u32,
    volume: String,
    epoch: u32,
    rows: usize,
}

#[derive(Serialize, Deserialize)]
struct Tail {
    blake3: String,
}

/// Complete backup, as read from its file.
#[derive(Debug)]
pub struct Backup {
    /// Volume of the backup.
    pub volume: String,
    /// Last epoch at the time of the backup.
    pub epoch: u32,
    /// Rows of the backup.
    pub rows: Vec<Row>,
}

fn line(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map(|text| text + "\n").map_err(|error| Error::State(error.to_string()))
}

/// Writes a backup, durably and in one step, readable by its owner alone; returns the number of rows.
pub fn write(state: &dyn State, volume: VolumeId, file: &Path) -> Result<usize> {
    let rows = state.dump()?;
    let epoch = rows.iter().find_map(|row| match row {
        Row::Sequence { name, last } if name == "epoch" => u32::try_from(*last).ok(),
        _ => None,
    });
    let head =
        Head { entrepot_state: FORMAT, volume: volume.to_string(), epoch: epoch.unwrap_or_default(), rows: rows.len() };
    let mut text = line(&head)?;
    for row in &rows {
        text += &line(row)?;
    }
    text += &line(&Tail { blake3: blake3::hash(text.as_bytes()).to_string() })?;
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let put = || {
        drop(std::fs::remove_file(&new));
        let mut made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        std::io::Write::write_all(&mut made, text.as_bytes())?;
        made.sync_all()?;
        rename_durably(Path::new(&new), file)
    };
    put().map_err(|error| {
        drop(std::fs::remove_file(&new));
        Error::State(format!("{} cannot be written: {error}", file.display()))
    })?;
    Ok(rows.len())
}

/// Reads a backup and checks that it is complete. The error is a cause for people.
pub fn read(file: &Path) -> Result<Backup, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    parse(&text).map_err(|why| format!("{} is no whole backup of a state: {why}", file.display()))
}

fn parse(text: &str) -> Result<Backup, String> {
    let head = text.lines().next().unwrap_or_default();
    let head: Head = serde_json::from_str(head).map_err(|_| "its first line is not that of a dump".to_string())?;
    if head.entrepot_state != FORMAT {
        return Err(format!("its format is {}, and this program reads {FORMAT}", head.entrepot_state));
    }
    let body = text.trim_end_matches('\n');
    let (body, last) = body.split_at(body.rfind('\n').map_or(0, |at| at + 1));
    let tail: Tail = serde_json::from_str(last).map_err(|_| "its end is missing".to_string())?;
    if tail.blake3 != blake3::hash(body.as_bytes()).to_string() {
        return Err("its checksum does not match".into());
    }
    let rows = body.lines().skip(1).map(|row| serde_json::from_str(row).map_err(|error| error.to_string()));
    let rows = rows.collect::<Result<Vec<Row>, String>>()?;
    if rows.len() != head.rows {
        return Err(format!("it has {} rows instead of {}", rows.len(), head.rows));
    }
    Ok(Backup { volume: head.volume, epoch: head.epoch, rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::SqliteState;

    #[test]
    fn a_backup_that_is_cut_off_or_changed_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("b");
        let state = SqliteState::in_memory().unwrap();
        state.record_put("job", "1", b"{\"name\":\"x\"}").unwrap();
        state.record_put("job", "2", b"\xff\0").unwrap();
        state.new_epoch(6).unwrap();
        assert_eq!(write(&state, VolumeId(5), &file).unwrap(), 3);
        let backup = read(&file).unwrap();
        assert_eq!((backup.epoch, backup.rows.len(), backup.volume), (7, 3, VolumeId(5).to_string()));
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "jobs and their commands are nobody else's business");
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for kept in 0..lines.len() {
            parse(&lines[..kept].join("\n")).unwrap_err();
        }
        let why = parse(&text.replace("\"x\\\"", "\"y\\\"")).unwrap_err();
        assert!(why.contains("checksum"), "{why}");
    }
}
