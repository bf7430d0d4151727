//! Input and output of a prefetcher for one request.

use crate::block::{Block, Reason, Span};

/// Request as the native prefetcher of a level sees it.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Blocks of the request, including PFC's readmore and without its bypass.
    pub span: Span,
    /// End of the blocks that count as demanded; later ones adapt nothing (section 4.1).
    pub labelled_end: Block,
    /// Index of the stream's state.
    pub stream: usize,
    /// Whether the state at that index is another stream's, or new.
    pub fresh: bool,
    /// Trigger distance, including the block being read; `None` leaves it to the prefetcher.
    pub distance: Option<u32>,
}

impl Context {
    /// Whether a block counts as demanded.
    pub fn labelled(&self, block: Block) -> bool {
        block < self.labelled_end
    }

    /// Whether any block counts as demanded.
    pub fn any_labelled(&self) -> bool {
        self.span.first < self.labelled_end
    }

    /// Number of demanded blocks, or of all blocks if none is demanded.
    pub fn read_len(&self) -> u32 {
        match self.labelled_end.0.saturating_sub(self.span.first.0) {
            0 => self.span.len,
            labelled => self.span.len.min(labelled as u32),
        }
    }
}

/// Blocks to make resident; absent ones are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Span to make resident, within the file after clipping.
    pub span: Span,
    /// Reason of the fetch.
    pub reason: Reason,
    /// Block whose touch triggers the next prefetch, if already decided.
    pub mark: Option<Block>,
}

impl Ahead {
    /// A prefetch without a mark.
    pub fn new(first: Block, len: u32, reason: Reason) -> Ahead {
        Ahead { span: Span { first, len }, reason, mark: None }
    }
}

/// Decision of a prefetcher about one block of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    /// Whether the block continues a run.
    pub sequential: bool,
    /// Whether a resident block keeps its recency.
    pub leave: bool,
    /// Blocks to prefetch.
    pub ahead: Option<Ahead>,
}

/// Returns the state of `stream`, reset if it belongs to another stream.
pub fn state<'a, T: Clone>(states: &'a mut Vec<T>, context: &Context, new: impl Fn() -> T) -> &'a mut T {
    if context.stream >= states.len() {
        states.resize(context.stream + 1, new());
    }
    if context.fresh {
        states[context.stream] = new();
    }
    &mut states[context.stream]
}
