//! Copying inside the kernel: the pages of an object go through a pipe to the new one, and no byte through this process.
//!
//! ```text
//! worker of the source:  object -> pipe          (references to pages of the page cache)
//! worker of the new one:           pipe -> object
//! ```
//! `sendfile` is these two steps behind one call. They are apart here so that each runs on a worker of its own target, under its own
//! deadline: a source that hangs is never held against the target that is written. Where a medium has no file, a kernel or a
//! file system refuses, or a page goes away in the pipe, the bytes are read and written instead.
//!
//! Source: Sung (2020), section 5.3 (demotion by `sendfile`).

use crate::file::Slot;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Bytes that a pipe must take at once: what every user may ask for. With less, handing over would cost more than copying.
const PIPE_BYTES: usize = 1 << 20;

/// A pipe between two targets. A worker that hangs keeps its own reference.
pub(super) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// The pipes of one move; whether it still copies inside the kernel.
pub(super) struct Pipes {
    idle: RefCell<Vec<Arc<Pipe>>>,
    refused: Cell<bool>,
}

impl Pipes {
    /// None yet; with `allowed` false there will never be any.
    pub fn new(allowed: bool) -> Pipes {
        Pipes { idle: RefCell::default(), refused: Cell::new(!allowed) }
    }

    /// An empty pipe, or `None` if this move copies through the process.
    pub fn take(&self) -> Option<Arc<Pipe>> {
        if self.refused.get() {
            return None;
        }
        if let Some(pipe) = self.idle.borrow_mut().pop() {
            return Some(pipe);
        }
        let made = pipe_with(PipeFlags::CLOEXEC).and_then(|(read, write)| {
            let granted = fcntl_setpipe_size(&write, PIPE_BYTES)?;
            if granted < PIPE_BYTES { Err(Errno::PERM) } else { Ok(Pipe { read, write }) }
        });
        made.inspect_err(|error| self.refuse(*error)).ok().map(Arc::new)
    }

    /// Gives an empty pipe back. One in which bytes may be left is dropped.
    pub fn give(&self, pipe: Arc<Pipe>) {
        self.idle.borrow_mut().push(pipe);
    }

    /// From now on this move reads and writes.
    pub fn refuse(&self, why: Errno) {
        if !self.refused.replace(true) {
            tracing::debug!("a move copies through the process: {why}");
        }
    }
}

/// Whether an error says that this way is closed, and not that the target is ill.
pub(super) fn is_refusal(error: Errno) -> bool {
    // NODATA: the page was cut off while it was in the pipe. AGAIN: the pipe is not as it was said to be.
    matches!(error, Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::NODATA | Errno::AGAIN | Errno::PERM)
}

/// Fills the pipe from an object, on a worker of its target. Gives the bytes, fewer at the end of the object or where the pipe is full; `None` if
/// this way is closed or the object cannot be read.
pub(super) fn fill(
    slot: &Arc<Slot>,
    pool: &crate::file::Pool,
    pipe: &Arc<Pipe>,
    offset: u64,
    len: usize,
) -> Option<usize> {
    let pipe = pipe.clone();
    slot.run(pool, move |handle| {
        let mut done = 0;
        while done < len {
            match handle.splice_out(offset + done as u64, len - done, pipe.write.as_fd()) {
                Ok(0) => break,
                Ok(some) => done += some,
                Err(Errno::AGAIN) if done > 0 => break,
                Err(error) if is_refusal(error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(done))
    })
    .ok()
    .flatten()
}

/// Empties the pipe into an object; runs on a worker of its target.
pub(super) fn empty(handle: &dyn crate::target::Handle, pipe: &Pipe, offset: u64, len: usize) -> Result<(), Errno> {
    let mut done = 0;
    while done < len {
        match handle.splice_in(offset + done as u64, len - done, pipe.read.as_fd())? {
            0 => return Err(Errno::AGAIN),
            some => done += some,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
