//! What a prefetcher is told about a request, and what it answers.

use crate::block::{Block, Reason, Span};

/// One request as the native prefetcher of a level sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// Its blocks, PFC's readmore included and its bypass not.
    pub(crate) span: Span,
    /// Blocks before this one count as demanded; the others adapt nothing (section 4.1).
    pub(crate) labelled_end: Block,
    /// Where the stream's state is.
    pub(crate) stream: usize,
    /// Whether the stream's state is another's or none's.
    pub(crate) fresh: bool,
    /// Trigger distance, the block being read included; `None` leaves it to the prefetcher.
    pub(crate) distance: Option<u32>,
}

impl Context {
    /// Whether a block counts as demanded.
    pub(crate) fn labelled(&self, block: Block) -> bool {
        block < self.labelled_end
    }

    /// Whether any of it does.
    pub(crate) fn any_labelled(&self) -> bool {
        self.span.first < self.labelled_end
    }

    /// Demanded blocks, or all if none is.
    pub(crate) fn read_len(&self) -> u32 {
        match self.labelled_end.0.saturating_sub(self.span.first.0) {
            0 => self.span.len,
            labelled => self.span.len.min(labelled as u32),
        }
    }
}

/// Blocks to be here; those that are not yet are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) span: Span,
    pub(crate) reason: Reason,
    /// The block whose touch triggers the next prefetch, if the prefetcher knows it already.
    pub(crate) mark: Option<Block>,
}

impl Ahead {
    /// A prefetch without a mark.
    pub(crate) fn new(first: Block, len: u32, reason: Reason) -> Ahead {
        Ahead { span: Span { first, len }, reason, mark: None }
    }
}

/// What a prefetcher says to one block of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verdict {
    /// Whether the block continues a run.
    pub(crate) sequential: bool,
    /// For a block that is here: whether its recency stays as it was.
    pub(crate) leave: bool,
    /// What to prefetch.
    pub(crate) ahead: Option<Ahead>,
}

/// The state of `stream`, new if it is not this stream's.
pub(crate) fn state<'a, T: Clone>(states: &'a mut Vec<T>, context: &Context, new: impl Fn() -> T) -> &'a mut T {
    if context.stream >= states.len() {
        states.resize(context.stream + 1, new());
    }
    if context.fresh {
        states[context.stream] = new();
    }
    &mut states[context.stream]
}
