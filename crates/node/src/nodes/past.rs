//! Nodes that are over leave two names each, which would be in every listing forever. So the numbers of many are folded
//! into one file, and their names go to a directory that is never listed.
//!
//! ```text
//!   nodes/fold.ID --> nodes/past.ID      first the numbers that are over are written down
//!   nodes/N       --> nodes/past/N       then their names go; that one stays, so that no number is taken twice
//!   nodes/N.over  --> nodes/past/N.over
//!   nodes/past.OLD                       removed last: the new file has all of it
//! ```
//! The next fold completes one that was cut off. Two folds at once leave two files, and the union counts.

use super::leases::{Leases, OVER, PAST};
use crate::Result;
use object::host;
use object::volume_id::unique;
use policy::cluster::Node;
use policy::cluster::past::{self, Past};
use rustix::fs::{self, AtFlags, Mode};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};

/// Size limit of a file: the ranges of a million numbers of which none are adjacent.
const BYTES_MAX: u64 = 8 << 20;

/// Past nodes in the latest listing.
#[derive(Default)]
pub(super) struct Folded {
    files: BTreeMap<String, Past>,
    /// Numbers that are over, and whose names are still beside the leases.
    named: Vec<Node>,
}

impl Folded {
    fn all(&self) -> Past {
        let mut all = Past::default();
        self.files.values().for_each(|past| all.join(past));
        all
    }
}

impl Leases {
    /// Reads the numbers in these files. Keeps the named numbers that are in no file yet.
    pub(super) fn look_at_past(&self, files: BTreeSet<String>, named: &[Node]) -> Past {
        let mut folded = self.folded.lock();
        folded.files.retain(|name, _| files.contains(name));
        for name in files {
            // An unreadable file is retried at the next listing, or another file has its numbers.
            if !folded.files.contains_key(&name)
                && let Some(past) = self.text(&name, BYTES_MAX).and_then(|text| Past::parse(&text))
            {
                folded.files.insert(name, past);
            }
        }
        folded.named = named.to_vec();
        folded.all()
    }

    /// Whether a number was taken, and its names are folded.
    pub(super) fn is_folded(&self, node: Node) -> Result<bool, Errno> {
        match fs::statat(&self.directory, format!("{PAST}/{}", node.0), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Folds the latest listing, if it has many names.
    pub fn fold(&self) -> Result<()> {
        let (old, mut all, named) = {
            let mut folded = self.folded.lock();
            let count = past::to_fold(folded.named.len());
            // The names are removed here, so that a second fold waits for the next listing.
            let mut named = if count > 0 { std::mem::take(&mut folded.named) } else { return Ok(()) };
            named.truncate(count);
            (folded.files.keys().cloned().collect::<Vec<_>>(), folded.all(), named)
        };
        // An interrupted fold has written the numbers already.
        let replaced = if named.iter().all(|node| all.contains(*node)) {
            Vec::new()
        } else {
            named.iter().for_each(|node| all.insert(*node));
            self.write(&all)?;
            old
        };
        match fs::mkdirat(&self.directory, PAST, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        for node in &named {
            // The number's name is removed first, so that an interrupted fold leaves a name for the next one.
            let (number, over) = (node.0.to_string(), format!("{}.{OVER}", node.0));
            self.rename(&number, &format!("{PAST}/{number}"))?;
            self.rename(&over, &format!("{PAST}/{over}"))?;
        }
        for name in replaced {
            match fs::unlinkat(&self.directory, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        tracing::info!("{} nodes that are over have one name together", all.nodes().count());
        Ok(())
    }

    /// Writes a file with these numbers, durable on return.
    fn write(&self, all: &Past) -> Result<()> {
        let id = unique()?;
        let fresh = format!("fold.{id}");
        self.create(&fresh, all.to_string().as_bytes())?;
        self.rename(&fresh, &format!("{PAST}.{id}"))?;
        match host::sync_directory(&self.directory) {
            // Some file systems lack this call, and are synchronous.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests;
