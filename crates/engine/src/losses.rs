//! Failed syncs, kept in the state store: data that they may have lost are lost for the next daemon, too.

use crate::Result;
use crate::file::{LossLog, Lost};
use meta::records;
use meta::state::State;
use rustix::io::Errno;
use std::sync::Arc;

/// The kind of the records: objects, with the length and the error of each.
const RECORDS: &str = "failed-syncs";

struct InState(Arc<dyn State>);

/// Losses recorded in the state store, which also records later ones.
pub fn remembered(state: &Arc<dyn State>) -> Result<Lost> {
    let losses = records::all::<(u64, i32)>(&**state, RECORDS)?.into_iter();
    let losses = losses.filter_map(|(key, (len, errno))| {
        Some((u64::from_str_radix(&key, 16).ok()?, len, Errno::from_raw_os_error(errno)))
    });
    Ok(Lost::remembered(InState(state.clone()), losses))
}

impl LossLog for InState {
    fn note(&self, thing: u64, len: u64, errno: Errno) {
        if let Err(error) = records::put(&*self.0, RECORDS, &key(thing), &(len, errno.raw_os_error())) {
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
