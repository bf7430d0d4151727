//! Failed syncs, kept in the state store: data that they may have lost are lost for the next daemon, too.

use crate::Result;
use crate::file::{LossLog, Lost};
use meta::state::State;
use rustix::io::Errno;
use std::sync::Arc;

/// The kind of the records: objects, with the length and the error of each.
const RECORDS: &str = "failed-syncs";

struct InState(Arc<dyn State>);

/// Losses recorded in the state store, which also records later ones.
pub fn remembered(state: &Arc<dyn State>) -> Result<Lost> {
    let records = state.records(RECORDS)?;
    let losses = records.iter().filter_map(|(key, value)| {
        let (len, errno): (u64, i32) = serde_json::from_slice(value).ok()?;
        Some((u64::from_str_radix(key, 16).ok()?, len, Errno::from_raw_os_error(errno)))
    });
    Ok(Lost::remembered(InState(state.clone()), losses))
}

impl LossLog for InState {
    fn note(&self, thing: u64, len: u64, errno: Errno) {
        let value = serde_json::to_vec(&(len, errno.raw_os_error())).expect("two numbers");
        if let Err(error) = self.0.record_put(RECORDS, &key(thing), &value) {
            tracing::warn!("the failed sync of object {thing:016x} cannot be saved for the next start: {error}");
        }
    }

    fn forget(&self, thing: u64) {
        if let Err(error) = self.0.record_remove(RECORDS, &key(thing)) {
            tracing::warn!(
                "after the next start object {thing:016x} counts as not synced, until it is written again: {error}"
            );
        }
    }
}

fn key(thing: u64) -> String {
    format!("{thing:016x}")
}
