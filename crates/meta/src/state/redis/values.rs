//! Values of the tables as the server holds them.

use crate::state::{JournalEntry, TargetRecord, state_of as named_state};
use crate::{Error, Result};
use object::target::State as TargetState;
use policy::{ObjectId, TargetId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

#[derive(Serialize, Deserialize)]
struct Journalled {
    path: Vec<u8>,
    inode: u64,
    objects: Vec<(u16, u64)>,
}

pub(super) fn state_of(text: &str) -> Option<(TargetState, bool)> {
    let (state, by) = text.split_once(' ')?;
    Some((named_state(state)?, by == "operator"))
}

/// Name of the sequence that holds the time of a target's last order.
pub(super) fn order_of(target: TargetId) -> String {
    format!("order:{}", target.0)
}

pub(super) fn state_text(state: &str, by_operator: bool) -> String {
    format!("{state} {}", if by_operator { "operator" } else { "-" })
}

/// Text that is ordered as the pair of numbers.
pub(super) fn member((target, object): &(TargetId, ObjectId)) -> String {
    format!("{:04x}:{object}", target.0)
}

/// First and last possible member of a target.
pub(super) fn members_of(target: TargetId) -> (String, String) {
    (format!("[{:04x}:", target.0), format!("({:04x};", target.0))
}

pub(super) fn journalled(entry: &JournalEntry) -> Result<Vec<u8>> {
    let mut objects: Vec<_> = entry.objects.iter().map(|(target, object)| (target.0, object.0)).collect();
    objects.sort_unstable();
    objects.dedup();
    let path = entry.path.as_os_str().as_bytes().to_vec();
    let value = serde_json::to_vec(&Journalled { path, inode: entry.inode, objects });
    value.map_err(|error| Error::State(error.to_string()))
}

pub(super) fn entry_of(file: &str, value: &[u8]) -> Result<JournalEntry> {
    let unknown = || not_understood("a move under way");
    let journalled: Journalled = serde_json::from_slice(value).map_err(|_| unknown())?;
    let objects = journalled.objects.into_iter().map(|(target, object)| (TargetId(target), ObjectId(object)));
    Ok(JournalEntry {
        file: file.parse().map_err(|_| unknown())?,
        path: PathBuf::from(std::ffi::OsString::from_vec(journalled.path)),
        inode: journalled.inode,
        objects: objects.collect(),
    })
}

pub(super) fn object_of(member: &str) -> Result<(TargetId, ObjectId)> {
    let parts = member.split_once(':');
    let ids = parts
        .and_then(|(target, object)| Some((TargetId(u16::from_str_radix(target, 16).ok()?), object.parse().ok()?)));
    ids.ok_or_else(|| not_understood("garbage"))
}

pub(super) fn not_understood(what: &str) -> Error {
    Error::State(format!("the Redis server holds {what} that is not valid: another program wrote it"))
}

pub(super) fn target_records(
    names: BTreeMap<u16, String>,
    states: &BTreeMap<u16, String>,
    sequences: &BTreeMap<String, u64>,
) -> impl Iterator<Item = Result<TargetRecord>> {
    names.into_iter().map(|(id, name)| {
        let found = states.get(&id).and_then(|text| state_of(text));
        let (state, by_operator) = found.ok_or_else(|| not_understood("a target's state"))?;
        let ordered_ms = sequences.get(&order_of(TargetId(id))).copied().unwrap_or_default();
        Ok(TargetRecord { id: TargetId(id), name, state, by_operator, ordered_ms })
    })
}
