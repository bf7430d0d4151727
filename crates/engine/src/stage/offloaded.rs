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
use std::collections::{BTreeMap, BTreeSet};
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

/// Records of stage-outs, and a lock for each destination.
pub struct Registry {
    state: Arc<dyn State>,
    sending: Mutex<Sending>,
    sent: Condvar,
}

/// Files that are being sent, or wait for an earlier file with the same destination.
#[derive(Default)]
struct Sending {
    /// Inodes by URI and number of the turn. The first turn of a URI is the running one.
    turns: BTreeMap<(String, u64), u64>,
    latest: u64,
}

impl Sending {
    fn is_first(&self, key: &(String, u64)) -> bool {
        self.turns.range((key.0.clone(), 0)..).next().is_some_and(|(first, _)| first == key)
    }
}

/// Exclusive right to send a file to a URI.
pub struct Turn<'a> {
    registry: &'a Registry,
    key: (String, u64),
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.registry.sending.lock().turns.remove(&self.key);
        self.registry.sent.notify_all();
    }
}

impl Registry {
    /// Opens the records in the state store.
    pub fn new(state: Arc<dyn State>) -> Registry {
        Registry { state, sending: Mutex::default(), sent: Condvar::new() }
    }

    /// Waits until all earlier turns for `uri` are over. The file with that inode is sent there next.
    pub fn turn(&self, inode: u64, uri: &str) -> Turn<'_> {
        let mut sending = self.sending.lock();
        sending.latest += 1;
        let key = (uri.to_string(), sending.latest);
        sending.turns.insert(key.clone(), inode);
        while !sending.is_first(&key) {
            self.sent.wait(&mut sending);
        }
        Turn { registry: self, key }
    }

    /// Whether the file with that inode is being sent anywhere, or waits for its turn.
    pub fn is_being_sent(&self, inode: u64) -> bool {
        self.sending.lock().turns.values().any(|sent| *sent == inode)
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

#[cfg(test)]
mod tests {
    use super::*;
    use meta::state::SqliteState;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// [S-073]
    #[test]
    fn two_files_are_sent_to_one_destination_one_after_the_other() {
        let registry = Registry::new(Arc::new(SqliteState::in_memory().expect("a state store")));
        let (first, first_is_over) = (registry.turn(1, "mem://o/a"), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let _turn = registry.turn(2, "mem://o/a");
                assert!(first_is_over.load(Ordering::Acquire), "both are sent at once");
            });
            while !registry.is_being_sent(2) && !second.is_finished() {
                std::thread::yield_now();
            }
            drop(registry.turn(2, "mem://o/b"));
            assert!(registry.is_being_sent(1));
            first_is_over.store(true, Ordering::Release);
            drop(first);
        });
        assert!(!registry.is_being_sent(1) && !registry.is_being_sent(2));
    }
}
