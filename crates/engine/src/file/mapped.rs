//! Closed files with a mapped object, or with a size that only the object has. They stay in use, so that the kernel's
//! hold of the layout and its writes are not forgotten.

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

    /// `settles`: whether the caller may wait for targets.
    fn look(&self, number: usize, settles: bool) {
        for _ in 0..number {
            let Some(file) = self.after_last() else { return };
            if settles && file.is_unsettled() {
                file.settle_mark();
            }
            if !file.is_mapped() && !file.is_unsettled() {
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
    /// Handles the close of a file, which stays in use while it is mapped or unsettled.
    pub fn closed(&self, file: &Arc<File>) {
        let is_mapped = || {
            let mapped = file.is_mapped();
            if mapped {
                std::thread::yield_now();
            }
            mapped
        };
        if file.is_unsettled() || (0..ATTEMPTS).all(|_| is_mapped()) {
            self.mapped.0.lock().0.insert(number_of(file), file.clone());
        }
        self.mapped.look(CHECKED, false);
    }

    /// Checks all files that were mapped or unsettled when they were closed, and settles them.
    pub fn check_mapped(&self) {
        let number = self.mapped.0.lock().0.len();
        self.mapped.look(number, true);
    }

    /// Drops all files at the end of the mount.
    pub fn forget_mapped(&self) {
        let files = std::mem::take(&mut self.mapped.0.lock().0);
        drop(files);
    }
}
