//! Records of the state store as JSON.

use crate::state::State;
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes a record.
pub fn put(state: &dyn State, kind: &str, key: &str, value: &impl Serialize) -> Result<()> {
    let bytes = serde_json::to_vec(value).map_err(|error| Error::State(error.to_string()))?;
    state.record_put(kind, key, &bytes)
}

/// Reads a record. A damaged one, or one of a later version, counts as none.
pub fn get<T: DeserializeOwned>(state: &dyn State, kind: &str, key: &str) -> Result<Option<T>> {
    Ok(state.record_get(kind, key)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// Reads all records of a kind. A damaged one is logged and left out.
pub fn all<T: DeserializeOwned>(state: &dyn State, kind: &str) -> Result<Vec<(String, T)>> {
    let read = |(key, bytes): (String, Vec<u8>)| {
        let read = serde_json::from_slice(&bytes);
        let read = read.inspect_err(|error| tracing::error!("{kind} {key} is not valid and is ignored: {error}"));
        Some((key, read.ok()?))
    };
    Ok(state.records(kind)?.into_iter().filter_map(read).collect())
}
