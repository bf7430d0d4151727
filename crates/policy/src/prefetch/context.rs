//! Input and output of a prefetcher for one request.

use crate::block::{Block, Reason, Span};

/// Request as the native prefetcher of a level sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// Blocks of the request, including PFC's readmore and without its bypass.
    pub(crate) span: Span,
    /// End of the blocks that count as demanded; later ones adapt nothing (section 4.1).
    pub(crate) labelled_end: Block,
    /// Index of the stream's state.
    pub(crate) stream: usize,
    /// Whether the state at that index is another stream's, or new.
    pub(crate) fresh: bool,
    /// Trigger distance, including the block being read; `None` leaves it to the prefetcher.
    pub(crate) distance: Option<u32>,
}

impl Context {
    /// Whether a block counts as demanded.
    pub(crate) fn labelled(&self, block: Block) -> bool {
        block < self.labelled_end
    }

    /// Whether any block counts as demanded.
    pub(crate) fn any_labelled(&self) -> bool {
        self.span.first < self.labelled_end
    }

    /// Number of demanded blocks, or of all blocks if none is demanded.
    pub(crate) fn read_len(&self) -> u32 {
        match self.labelled_end.0.saturating_sub(self.span.first.0) {
            0 => self.span.len,
            labelled => self.span.len.min(labelled as u32),
        }
    }
}

/// Blocks to make resident; absent ones are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) span: Span,
    pub(crate) reason: Reason,
    /// Block whose touch triggers the next prefetch, if already decided.
    pub(crate) mark: Option<Block>,
}

impl Ahead {
    /// A prefetch without a mark.
    pub(crate) fn new(first: Block, len: u32, reason: Reason) -> Ahead {
        Ahead { span: Span { first, len }, reason, mark: None }
    }
}

/// Decision of a prefetcher about one block of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verdict {
    /// Whether the block continues a run.
    pub(crate) sequential: bool,
    /// Whether a resident block keeps its recency.
    pub(crate) leave: bool,
    /// Blocks to prefetch.
    pub(crate) ahead: Option<Ahead>,
}

/// Returns the state of `stream`, reset if it belongs to another stream.
pub(crate) fn state<'a, T: Clone>(states: &'a mut Vec<T>, context: &Context, new: impl Fn() -> T) -> &'a mut T {
    if context.stream >= states.len() {
        states.resize(context.stream + 1, new());
    }
    if context.fresh {
        states[context.stream] = new();
    }
    &mut states[context.stream]
}
