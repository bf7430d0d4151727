//! One piece of a fetch on a target's worker. At its end, its frames and its result return to the fetch.

use super::BlockCache;
use super::frames::Frame;
use object::target::Handle;
use policy::cache::FetchId;
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::sync::Arc;

/// A running piece.
pub(crate) struct PieceWork {
    cache: Arc<BlockCache>,
    fetch: FetchId,
    /// Index of its first frame in the fetch.
    first: usize,
    frames: Vec<Frame>,
    /// Whether an object that ends early counts as a failure: another node may be cutting the file.
    whole: bool,
    over: bool,
}

impl PieceWork {
    pub fn new(cache: Arc<BlockCache>, fetch: FetchId, first: usize, frames: Vec<Frame>) -> PieceWork {
        PieceWork { cache, fetch, first, frames, whole: false, over: false }
    }

    /// Sets whether the piece fails if the object doesn't have all of it.
    pub fn whole(mut self, whole: bool) -> PieceWork {
        self.whole = whole;
        self
    }

    /// Fills the frames from an object; missing bytes, and bytes behind `len`, become zeros. The first `demand_bytes`
    /// are awaited, the rest is speculative.
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
        if self.whole && filled < len {
            return Ok(());
        }
        for frame in &mut self.frames {
            let here = filled.min(frame.len());
            frame[here..].fill(0);
            filled -= here;
        }
        self.end(true);
        Ok(())
    }

    /// Fills the frames with zeros, where the file has no object.
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
