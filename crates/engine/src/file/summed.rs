//! Checksums of a file, made after it was closed. They are valid until the file is changed on any node.
//!
//! ```text
//!  checksummer   alone: sums.ID on the stub ── reads, writes side/ ── alone: sums.ID is valid, if it is still there
//!  writer        removes sums.ID, durably ── then writes the first byte
//! ```
//! A node that changes the file looks at the stub after setting its writer mark, and so sees a concurrent `sums` mark:
//! see `nodes`.

use super::File;
use super::nodes::Exclusive;
use crate::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl File {
    /// Whether a mark on the stub must be changed before the file may be changed.
    pub(super) fn is_guarded(&self) -> bool {
        self.may_be_pristine() || self.has_sums.load(Ordering::Acquire)
    }

    /// Invalidates the checksums, also after a loss of power.
    pub(super) fn void_sums(&self) -> Result<()> {
        if !self.has_sums.load(Ordering::Acquire) {
            return Ok(());
        }
        let _io = self.io.write();
        self.void_sums_in()
    }

    /// As `void_sums`; the caller holds `io` exclusively.
    pub(super) fn void_sums_in(&self) -> Result<()> {
        if self.has_sums.load(Ordering::Acquire) {
            if self.stub.void_sums(self.id())? {
                self.stub.sync()?;
            }
            self.has_sums.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Locks the file exclusively, ready to be changed: source and checksum marks are settled. With `discard` all bytes
    /// are about to be dropped.
    pub(super) fn alone_to_change(self: &Arc<Self>, discard: bool) -> Result<Exclusive<'_>> {
        loop {
            self.ready_to_change(discard)?;
            let alone = self.alone()?;
            if !self.is_guarded() {
                return Ok(alone);
            }
        }
    }

    /// Begins checksums under a unique name. Returns false while the kernel writes the file by itself or an application
    /// has it open.
    pub(crate) fn begin_sums(&self, id: &str) -> Result<bool> {
        let _alone = self.alone()?;
        if self.is_open() || self.check_unpinned().is_err() || self.kernel_writes.load(Ordering::Acquire) {
            return Ok(false);
        }
        self.has_sums.store(true, Ordering::Release);
        self.void_sums_in()?;
        self.has_sums.store(true, Ordering::Release);
        self.stub.begin_sums(id)?;
        Ok(true)
    }

    /// Abandons checksums that are being made.
    pub(crate) fn end_making_sums(&self) {
        if let Err(error) = self.void_sums() {
            tracing::debug!("the mark of running checksums stays on a stub: {error}");
        }
    }

    /// Makes the checksums valid, unless the file was changed since `begin_sums`; `put` stores them in their place.
    pub(crate) fn end_sums(&self, id: &str, text: &str, put: impl FnOnce() -> Result<()>) -> Result<bool> {
        let _alone = self.alone()?;
        put()?;
        self.stub.end_sums(id, text)
    }
}
