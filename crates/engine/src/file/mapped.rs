//! Closed files with a mapped object: they stay in use, so that the kernel's hold of the layout is not forgotten.

use super::{File, FileTable};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Number of files that one look checks: more than one close can add, so that the table shrinks.
const CHECKED: usize = 2;

/// Attempts after a close: the closing process may release the object just after the daemon gets the close.
const ATTEMPTS: usize = 3;

/// Files by address, and the last one checked.
#[derive(Default)]
pub(super) struct Mapped(Mutex<(BTreeMap<usize, Arc<File>>, usize)>);

impl Mapped {
    fn after_last(&self) -> Option<Arc<File>> {
        let mut inner = self.0.lock();
        let (files, last) = &mut *inner;
        let next = files.range((Bound::Excluded(*last), Bound::Unbounded)).next().or_else(|| files.iter().next());
        let (number, file) = next?;
        *last = *number;
        Some(file.clone())
    }

    fn look(&self, number: usize) {
        for _ in 0..number {
            let Some(file) = self.after_last() else { return };
            if !file.is_mapped() {
                let removed = self.0.lock().0.remove(&number_of(&file));
                drop(removed);
            }
        }
    }
}

fn number_of(file: &Arc<File>) -> usize {
    Arc::as_ptr(file) as usize
}

impl FileTable {
    /// Handles the close of a file, which stays in use while it is mapped.
    pub fn closed(&self, file: &Arc<File>) {
        let is_mapped = || {
            let mapped = file.is_mapped();
            if mapped {
                std::thread::yield_now();
            }
            mapped
        };
        if (0..ATTEMPTS).all(|_| is_mapped()) {
            self.mapped.0.lock().0.insert(number_of(file), file.clone());
        }
        self.mapped.look(CHECKED);
    }

    /// Checks all files that were mapped when they were closed.
    pub fn check_mapped(&self) {
        let number = self.mapped.0.lock().0.len();
        self.mapped.look(number);
    }

    /// Drops all files at the end of the mount.
    pub fn forget_mapped(&self) {
        let files = std::mem::take(&mut self.mapped.0.lock().0);
        drop(files);
    }
}
