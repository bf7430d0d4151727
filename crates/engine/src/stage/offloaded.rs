//! Records of stage-outs: the verified version of a file at its destination. Such a file is not sent twice and may be
//! purged.

use crate::Result;
use crate::file::File;
use meta::records;
use meta::state::State;
use object::host::fstat;
use parking_lot::{Condvar, Mutex};
use policy::FileId;
use rustix::fd::AsFd;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Name of these records in the state store.
const RECORDS: &str = "offloaded";

/// A version of a file at one destination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offloaded {
    /// URI of the destination.
    pub uri: String,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last write, in nanoseconds since 1970.
    pub modified_ns: u64,
}

/// Present size and time of the last write of a file.
pub fn version(file: &File, stub: impl AsFd) -> Result<(u64, u64)> {
    let stat = fstat(stub)?;
    let settled = (stat.st_mtime as u64).wrapping_mul(1_000_000_000).wrapping_add(stat.st_mtime_nsec);
    Ok((file.size(), file.modified_ns().unwrap_or(0).max(settled)))
}

/// Records of stage-outs, and a lock for each file that is being sent.
pub struct Registry {
    state: Arc<dyn State>,
    sending: Mutex<BTreeSet<(u64, String)>>,
    sent: Condvar,
}

/// Exclusive right to send a file to a URI.
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
    /// Opens the records in the state store.
    pub fn new(state: Arc<dyn State>) -> Registry {
        Registry { state, sending: Mutex::default(), sent: Condvar::new() }
    }

    /// Waits until no other thread sends the file with that inode to `uri`.
    pub fn turn(&self, inode: u64, uri: &str) -> Turn<'_> {
        let key = (inode, uri.to_string());
        let mut sending = self.sending.lock();
        while !sending.insert(key.clone()) {
            self.sent.wait(&mut sending);
        }
        Turn { registry: self, key }
    }

    /// Whether the file with that inode is being sent anywhere.
    pub fn is_being_sent(&self, inode: u64) -> bool {
        self.sending.lock().range((inode, String::new())..).next().is_some_and(|(sent, _)| *sent == inode)
    }

    /// The record of a file.
    pub fn get(&self, file: FileId) -> Result<Option<Offloaded>> {
        records::get(&*self.state, RECORDS, &file.to_string())
    }

    /// Records a verified version.
    pub fn put(&self, file: FileId, offloaded: &Offloaded) -> Result<()> {
        records::put(&*self.state, RECORDS, &file.to_string(), offloaded)
    }

    /// Removes the records of all other files.
    pub fn keep(&self, files: &BTreeSet<FileId>) -> Result<()> {
        for (name, _) in self.state.records(RECORDS)? {
            if !name.parse().is_ok_and(|file| files.contains(&file)) {
                self.state.record_remove(RECORDS, &name)?;
            }
        }
        Ok(())
    }
}
