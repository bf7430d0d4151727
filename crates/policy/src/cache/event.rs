//! Events and actions of a cache level.

use crate::block::{Block, Reason, Request, RequestId, Span};
use crate::machine;
use crate::precedence::Class;

/// Number of a fetch, chosen by the level: unique among its outstanding ones, and below 2^48.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchId(pub u64);

impl FetchId {
    /// Returns a small number that no other outstanding fetch of the level has.
    pub fn place(self) -> usize {
        super::flight::place(self) as usize
    }
}

/// Input of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request arrived from above.
    Request(Request),
    /// All blocks of a fetch arrived.
    FetchDone(FetchId),
    /// A fetch failed: its blocks are not here, and the requests that wait for them fail.
    FetchFailed(FetchId),
    /// These blocks changed behind the cache, or their file was truncated. Blocks in flight are still delivered to
    /// waiting requests, but not kept.
    Forget(Span),
    /// An application now waits for this prefetch of the level above. Only levels with demand labels use it.
    Hurry(RequestId),
    /// A stream ended; its state can be dropped.
    StreamEnded(u32),
}

/// Blocks to fetch from below, in this order: `demand_len` blocks that the application waits for,
/// `wanted_len - demand_len` that a level above requested, and the rest that only this level prefetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Number of the fetch, for [`Event::FetchDone`].
    pub id: FetchId,
    /// Blocks to fetch.
    pub span: Span,
    /// Number of blocks that an application waits for: the `demand_len` of the request to the level below.
    pub demand_len: u32,
    /// Number of blocks that the causing request waits for; 0 for a pure prefetch.
    pub wanted_len: u32,
    /// Whether the blocks become resident here on arrival.
    pub keep: bool,
    /// Stream of the causing request.
    pub stream: u32,
    /// Client of the causing request.
    pub client: u32,
    /// Length of the file in blocks, from the request.
    pub file_blocks: u64,
    /// Algorithm behind the fetch.
    pub reason: Reason,
    /// Priority in queues: whether a caller waits for any of the blocks, as far as known here.
    pub class: Class,
}

/// Blocks of a request, by where they were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Blocks that were resident.
    pub hit: u32,
    /// Blocks already in flight, waited for.
    pub late: u32,
    /// Blocks neither resident nor in flight.
    pub missed: u32,
}

/// Output of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// These blocks of the request are resident: copy them now, before the next `Evict` of one of them. Only with
    /// [`LevelConfig::announce`](super::LevelConfig::announce).
    Hit {
        /// Request to serve.
        request: RequestId,
        /// Resident blocks of the request.
        span: Span,
    },
    /// These blocks of the request arrive with a fetch. Only with `announce`, and before the `Fetch` if that is new.
    Wait {
        /// Request that waits.
        request: RequestId,
        /// Blocks in flight.
        span: Span,
        /// Fetch that delivers them.
        fetch: FetchId,
    },
    /// Fetch blocks from below.
    Fetch(Fetch),
    /// A caller now waits for a fetch that was a prefetch: from now on queue it as an awaited one.
    Hurry(FetchId),
    /// These blocks become resident: store their bytes, from the fetch or the write. Only with `announce`.
    Store {
        /// Blocks to store.
        span: Span,
        /// Fetch that delivered them; `None` for a write.
        fetch: Option<FetchId>,
    },
    /// The block is no longer resident. Only with `announce`.
    Evict {
        /// Block to drop.
        block: Block,
        /// Whether any request from above needed the block.
        used: bool,
    },
    /// All blocks of the request are here: answer it.
    Deliver {
        /// Request to answer.
        request: RequestId,
        /// Counts of its blocks.
        outcome: Outcome,
    },
    /// A fetch for the request failed, and no other is outstanding for it: answer it with an error.
    Fail(RequestId),
}

/// Line of a level's log.
pub type Logged = machine::Logged<Event, Action>;
