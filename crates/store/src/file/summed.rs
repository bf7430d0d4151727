//! Checksums of what a file holds, made after it was closed: they count until the file is changed, on whatever node.
//!
//! ```text
//!  who makes them   alone: sums.ID on the stub ── reads, writes side/ ── alone: sums.ID counts, if it is still there
//!  who changes it   sums.ID away, durably ── then the first byte
//! ```
//! Who changes a file on another node looks at the stub after it said that it writes, and so sees a name that came meanwhile: `nodes`.

use super::File;
use super::nodes::Exclusive;
use crate::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl File {
    /// Whether something has to be said on the stub before the file may be changed.
    pub(super) fn is_guarded(&self) -> bool {
        self.is_recoverable() || self.has_sums.load(Ordering::Acquire)
    }

    /// No checksums count from now on, also after a loss of power.
    pub(super) fn void_sums(&self) -> Result<()> {
        if !self.has_sums.load(Ordering::Acquire) {
            return Ok(());
        }
        let _io = self.io.write();
        self.void_sums_in()
    }

    /// The same; the caller holds `io` exclusively.
    pub(super) fn void_sums_in(&self) -> Result<()> {
        if self.has_sums.load(Ordering::Acquire) {
            if self.stub.void_sums(self.id())? {
                self.stub.sync()?;
            }
            self.has_sums.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Has the file alone, ready to be changed: what had to be said before is said. With `discard` all bytes are about to go.
    pub(super) fn alone_to_change(self: &Arc<Self>, discard: bool) -> Result<Exclusive<'_>> {
        loop {
            self.ready_to_change(discard)?;
            let alone = self.exclusive()?;
            if !self.is_guarded() {
                return Ok(alone);
            }
        }
    }

    /// Begins with checksums under a name that nobody else has. Not while the kernel writes the file by itself, or an application has it open.
    pub(crate) fn begin_sums(&self, id: &str) -> Result<bool> {
        let _alone = self.exclusive()?;
        if self.is_open() || self.kernel_writes.load(Ordering::Acquire) {
            return Ok(false);
        }
        self.has_sums.store(true, Ordering::Release);
        self.void_sums_in()?;
        self.has_sums.store(true, Ordering::Release);
        self.stub.begin_sums(id)?;
        Ok(true)
    }

    /// Those that were being made will not count.
    pub(crate) fn end_making_sums(&self) {
        if let Err(error) = self.void_sums() {
            tracing::debug!("a stub goes on saying that checksums are being made: {error}");
        }
    }

    /// They count from now on, unless the file was changed meanwhile; `put` puts them where they are looked for.
    pub(crate) fn end_sums(&self, id: &str, text: &str, put: impl FnOnce() -> Result<()>) -> Result<bool> {
        let _alone = self.exclusive()?;
        put()?;
        self.stub.end_sums(id, text)
    }
}
