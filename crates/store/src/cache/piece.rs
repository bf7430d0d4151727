//! One piece of a fetch on a target's worker. However it ends, its frames come back and the fetch hears of it.

use super::BlockCache;
use super::frames::Frame;
use crate::target::Handle;
use policy::cache::FetchId;
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::sync::Arc;

/// A piece on its way.
pub(crate) struct PieceWork {
    cache: Arc<BlockCache>,
    fetch: FetchId,
    /// Its first frame's place in the fetch.
    first: usize,
    frames: Vec<Frame>,
    over: bool,
}

impl PieceWork {
    pub fn new(cache: Arc<BlockCache>, fetch: FetchId, first: usize, frames: Vec<Frame>) -> PieceWork {
        PieceWork { cache, fetch, first, frames, over: false }
    }

    /// Fills the frames from an object; what it does not have, and what lies behind `len`, is zeros. The first
    /// `demand_bytes` are waited for, the rest is fetched on speculation.
    pub fn run(mut self, handle: &dyn Handle, offset: u64, len: usize, demand_bytes: usize) -> Result<(), Errno> {
        let mut left = len;
        let mut buffers: Vec<IoSliceMut<'_>> = Vec::with_capacity(self.frames.len());
        for frame in &mut self.frames {
            let take = frame.len().min(left);
            left -= take;
            buffers.push(IoSliceMut::new(&mut frame[..take]));
        }
        let read = handle.read_vectored_at(offset, &mut buffers, demand_bytes)?;
        let mut filled = read.min(len);
        for frame in &mut self.frames {
            let here = filled.min(frame.len());
            frame[here..].fill(0);
            filled -= here;
        }
        self.end(true);
        Ok(())
    }

    /// Nothing of the file lies there: zeros.
    pub fn zeros(mut self) {
        self.frames.iter_mut().for_each(|frame| frame.fill(0));
        self.end(true);
    }

    fn end(&mut self, done: bool) {
        self.over = true;
        self.cache.piece_over(self.fetch, self.first, std::mem::take(&mut self.frames), done);
    }
}

impl Drop for PieceWork {
    fn drop(&mut self) {
        if !self.over {
            self.end(false);
        }
    }
}
