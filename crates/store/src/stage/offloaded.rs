//! What was taken home: which version of a file lies where, verified; so that it is not sent twice, and may be purged.

use crate::Result;
use crate::file::File;
use crate::state::State;
use parking_lot::{Condvar, Mutex};
use policy::FileId;
use rustix::fd::AsFd;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The name under which these are kept in the state store.
const RECORDS: &str = "offloaded";

/// One version of a file at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offloaded {
    /// The URI that it was staged out to.
    pub uri: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub modified_ns: u64,
}

/// The version of a file now.
pub fn version(file: &File, stub: impl AsFd) -> Result<(u64, u64)> {
    let stat = rustix::fs::fstat(stub)?;
    let settled = (stat.st_mtime as u64).wrapping_mul(1_000_000_000).wrapping_add(stat.st_mtime_nsec);
    Ok((file.size(), file.modified_ns().unwrap_or(0).max(settled)))
}

/// The records, and who is sending what.
pub struct Registry {
    state: Arc<dyn State>,
    sending: Mutex<BTreeSet<(u64, String)>>,
    sent: Condvar,
}

/// Nobody else sends this file there meanwhile.
pub struct Turn<'a> {
    registry: &'a Registry,
    key: (u64, String),
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.registry.sending.lock().remove(&self.key);
        self.registry.sent.notify_all();
    }
}

impl Registry {
    /// Those that the state store remembers.
    pub fn new(state: Arc<dyn State>) -> Registry {
        Registry { state, sending: Mutex::default(), sent: Condvar::new() }
    }

    /// Waits until nobody else sends the file of that inode there.
    pub fn turn(&self, inode: u64, uri: &str) -> Turn<'_> {
        let key = (inode, uri.to_string());
        let mut sending = self.sending.lock();
        while !sending.insert(key.clone()) {
            self.sent.wait(&mut sending);
        }
        Turn { registry: self, key }
    }

    /// Whether the file of that inode is being sent anywhere.
    pub fn is_being_sent(&self, inode: u64) -> bool {
        self.sending.lock().range((inode, String::new())..).next().is_some_and(|(sent, _)| *sent == inode)
    }

    /// What is known of a file.
    pub fn get(&self, file: FileId) -> Result<Option<Offloaded>> {
        let bytes = self.state.record_get(RECORDS, &key(file))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// This version lies there, verified.
    pub fn put(&self, file: FileId, offloaded: &Offloaded) -> Result<()> {
        let bytes = serde_json::to_vec(offloaded).expect("a text and two numbers");
        self.state.record_put(RECORDS, &key(file), &bytes)
    }

    /// Forgets the records of all files that are not among these.
    pub fn keep(&self, files: &BTreeSet<FileId>) -> Result<()> {
        for (name, _) in self.state.records(RECORDS)? {
            let known = u64::from_str_radix(&name, 16).is_ok_and(|id| files.contains(&FileId(id)));
            if !known {
                self.state.record_remove(RECORDS, &name)?;
            }
        }
        Ok(())
    }
}

fn key(file: FileId) -> String {
    format!("{:016x}", file.0)
}
