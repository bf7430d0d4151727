//! A walk through the tree, which brings the table up to date.

use super::Places;
use crate::descent::{Descent, Met};
use crate::stub::real::number_at;
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;

impl Places {
    /// Number of walks.
    pub fn walks(&self) -> u64 {
        self.walked.load(Ordering::Acquire)
    }

    /// Walks the tree and records the places of all files, unless another walk began after walk number `since`.
    pub fn walk(&self, since: u64) {
        let _one = self.walks.lock();
        if self.walks() != since {
            return;
        }
        tracing::info!("looking through the tree for where files are");
        let lost = {
            let mut table = self.table.lock();
            table.clear();
            let mut inner = self.inner.lock();
            inner.known.clear();
            inner.lost
        };
        let complete = self.walk_all().unwrap_or_else(|error| {
            tracing::warn!("the tree cannot be looked through: {error}");
            false
        });
        let mut inner = self.inner.lock();
        inner.whole = complete && inner.lost == lost;
        drop(inner);
        self.walked.fetch_add(1, Ordering::Release);
    }

    /// Whether everything could be read.
    fn walk_all(&self) -> Result<bool> {
        let mut complete = true;
        for met in Descent::new(&self.tree)? {
            complete &= met.and_then(|met| self.note_met(&met)).is_ok();
            // Applications drop the hints of too many changes; a walk writes each full batch instead.
            if self.inner.lock().noted.len() >= super::BATCH {
                self.write_noted();
            }
        }
        Ok(complete)
    }

    fn note_met(&self, met: &Met) -> Result<()> {
        let name = OsStr::from_bytes(met.name.to_bytes());
        match met.inode {
            Some(inode) => self.directory_is(inode, met.above, name),
            None => match number_at(&met.directory, name) {
                Ok(Some(file)) => self.file_is(file, met.above, name),
                Ok(None) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            },
        }
        Ok(())
    }
}
