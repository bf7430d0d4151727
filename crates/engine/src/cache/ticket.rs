//! A waiting read: for its own fetches, for those of others, or for blocks that it reads by itself.

use super::{BlockCache, part, part_of_block};
use crate::{Error, Result};
use object::target::{Pending, TargetError};
use parking_lot::{Condvar, Mutex};
use policy::cache::{Block, FetchId, RequestId, Span};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Buffer in which the bytes of a read are collected.
pub(super) struct Waiter {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    bytes: Vec<u8>,
    /// Result of the request, once it ended.
    over: Option<bool>,
}

impl Waiter {
    /// A waiter for `len` bytes; the ranges `hits` of `buf` are copied.
    pub fn new(len: usize, hits: &[Range<usize>], buf: &[u8]) -> Waiter {
        let mut bytes = vec![0; len];
        for hit in hits {
            bytes[hit.clone()].copy_from_slice(&buf[hit.clone()]);
        }
        Waiter { state: Mutex::new(State { bytes, over: None }), changed: Condvar::new() }
    }

    /// Copies the blocks of `span` into the range that begins at `offset`.
    pub fn fill<'f>(&self, span: Span, offset: u64, frame: impl Fn(Block) -> Option<&'f [u8]>) {
        let mut state = self.state.lock();
        for block in span.blocks() {
            if let Some((to, from)) = part_of_block(block, offset, state.bytes.len())
                && let Some(frame) = frame(block)
            {
                let len = to.len();
                state.bytes[to].copy_from_slice(&frame[from..from + len]);
            }
        }
    }

    pub fn answer(&self, done: bool) {
        self.state.lock().over = Some(done);
        self.changed.notify_all();
    }
}

/// Pending parts of a read.
pub(crate) struct Wait {
    pub(super) request: RequestId,
    pub(super) waiter: Arc<Waiter>,
    /// Blocks that the reader must read without the cache.
    pub(super) direct: Vec<(FetchId, Span)>,
    /// Fetches that this read started.
    pub(crate) own: Vec<(FetchId, Pending<()>)>,
    /// Whether an awaited fetch has passed its deadline already.
    pub(super) hopeless: bool,
}

/// Reads a range of the file without the cache, up to the end of the file.
pub(crate) type Around = dyn Fn(u64, &mut [u8]) -> Result<usize> + Send;

/// A running read. [`Ticket::finish`] waits for it.
pub struct Ticket {
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) around: Box<Around>,
    /// Whether bytes that came from the level are valid for this read.
    pub(crate) current: Box<dyn Fn() -> bool + Send>,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    pub(crate) wait: Wait,
}

impl Ticket {
    /// Waits for the bytes, at most a deadline for each fetch. When a fetch fails or hangs, reads without the cache, by
    /// the path that handles mirrors and recovery.
    ///
    /// # Errors
    /// Errors of the read without the cache.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        let direct = self.read_direct();
        if direct.is_ok() && !self.wait.hopeless && self.wait_for_own() && self.wait_for_all() && (self.current)() {
            return Ok(std::mem::take(&mut self.wait.waiter.state.lock().bytes));
        }
        self.cache.around.fetch_add(1, Ordering::Relaxed);
        let mut bytes = vec![0; self.len];
        let got = (self.around)(self.offset, &mut bytes)?;
        bytes.truncate(got);
        Ok(bytes)
    }

    /// Reads the blocks that the level passes through.
    fn read_direct(&mut self) -> Result<()> {
        let mut result = Ok(());
        for (fetch, span) in std::mem::take(&mut self.wait.direct) {
            let range = part(span, self.offset, self.len);
            let mut bytes = vec![0; range.len()];
            let read = match &result {
                Ok(()) => (self.around)(self.offset + range.start as u64, &mut bytes),
                Err(_) => Err(Error::Busy("an earlier part of the read failed".into())),
            };
            // The last check finds out whether the file became shorter.
            if read.is_ok() {
                self.wait.waiter.state.lock().bytes[range].copy_from_slice(&bytes);
            }
            self.cache.direct_over(fetch, read.is_ok());
            result = result.and(read.map(|_| ()));
        }
        result
    }

    /// Waits for the fetches that this read started; returns whether all arrived. A failure counts against the target's
    /// health.
    fn wait_for_own(&mut self) -> bool {
        let mut late = Vec::new();
        let mut all = true;
        for (fetch, pending) in std::mem::take(&mut self.wait.own) {
            match pending.wait() {
                Ok(()) => {}
                Err(error) => {
                    all = false;
                    if error == TargetError::Deadline {
                        late.push(fetch);
                    }
                }
            }
        }
        if !late.is_empty() {
            self.cache.give_up(&late);
        }
        all
    }

    fn wait_for_all(&self) -> bool {
        let waiter = &self.wait.waiter;
        let mut state = waiter.state.lock();
        waiter.changed.wait_while_for(&mut state, |state| state.over.is_none(), self.cache.deadline);
        state.over == Some(true)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        for (fetch, _) in std::mem::take(&mut self.wait.direct) {
            self.cache.direct_over(fetch, false);
        }
        self.cache.leave(self.wait.request);
    }
}
