//! What goes into a level and what comes out of it.

use crate::block::{Block, Reason, Request, RequestId, Span};
use crate::machine;
use crate::precedence::Class;

/// A fetch's name, chosen by the level: unique among its outstanding ones, and below 2^48.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchId(pub u64);

impl FetchId {
    /// A small number that no other outstanding fetch of the level has.
    pub fn place(self) -> usize {
        super::flight::place(self) as usize
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request arrived.
    Request(Request),
    /// The blocks of a fetch are here, all of them.
    FetchDone(FetchId),
    /// A fetch failed: its blocks are not here, and the requests that wait for them fail.
    FetchFailed(FetchId),
    /// These blocks changed behind the cache, or their file ended before them. Blocks in flight are fetched for those who
    /// wait and not kept.
    Forget(Span),
    /// The level above says that an application has come to wait for this request, which was a prefetch. Only levels with demand
    /// labels look at it.
    Hurry(RequestId),
    /// A stream ended; what was remembered of it can go.
    StreamEnded(u32),
}

/// Blocks to fetch from below. Its blocks are, in this order, `demand_len` that the application waits for,
/// `wanted_len - demand_len` that a level above wants, and the rest that only this level wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Its name, for [`Event::FetchDone`].
    pub id: FetchId,
    /// The blocks.
    pub span: Span,
    /// So many of them an application waits for. The `demand_len` of the request to the level below.
    pub demand_len: u32,
    /// So many of them the request that caused it waits for; 0 for a pure prefetch.
    pub wanted_len: u32,
    /// Whether they become resident here when done.
    pub keep: bool,
    /// The stream of the request that caused it.
    pub stream: u32,
    /// The client of the request that caused it.
    pub client: u32,
    /// Blocks of the file, as in the request.
    pub file_blocks: u64,
    /// Why.
    pub reason: Reason,
    /// Whether a caller waits for any of it, as far as this level knows: where it stands in queues.
    pub class: Class,
}

/// How the blocks of a request were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Resident.
    pub hit: u32,
    /// On the way already: waited for.
    pub late: u32,
    /// Not here.
    pub missed: u32,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// These blocks of the request are resident: take them now, before the next `Evict` of one of them. Only with
    /// [`LevelConfig::announce`](super::LevelConfig::announce).
    Hit {
        /// The request.
        request: RequestId,
        /// The blocks.
        span: Span,
    },
    /// These blocks of the request come with a fetch. Only with `announce`, and before the `Fetch` if that is new.
    Wait {
        /// The request.
        request: RequestId,
        /// The blocks.
        span: Span,
        /// The fetch.
        fetch: FetchId,
    },
    /// Fetch from below.
    Fetch(Fetch),
    /// Somebody has come to wait for a fetch that was a prefetch: it stands in queues as if it had been awaited from the start.
    Hurry {
        /// The fetch.
        fetch: FetchId,
    },
    /// These blocks are resident now: store their bytes, those of the fetch, or those written. Only with `announce`.
    Store {
        /// The blocks.
        span: Span,
        /// The fetch, or `None` for a write.
        fetch: Option<FetchId>,
    },
    /// The block is no longer resident. Only with `announce`.
    Evict {
        /// The block.
        block: Block,
        /// Whether anything above ever asked for it.
        used: bool,
    },
    /// All blocks of the request are here: answer it.
    Deliver {
        /// The request.
        request: RequestId,
        /// How its blocks were found.
        outcome: Outcome,
    },
    /// A fetch that the request waited for failed, and no other is outstanding for it: answer it with an error.
    Fail {
        /// The request.
        request: RequestId,
    },
}

/// A line of a level's log.
pub type Logged = machine::Logged<Event, Action>;
