//! Requests for blocks, and reasons of fetches.

use super::Span;
use crate::named;

/// Number of a request, chosen by the driver and unique among those not yet delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Request from above: from an application, or a fetch of the level above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of the request.
    pub id: RequestId,
    /// Requested blocks, at least one.
    pub span: Span,
    /// Number of blocks, from the first, that the application waits for; the rest is a prefetch of the level above. It
    /// is 0 for a pure prefetch and `span.len` for an application's request. Only levels with demand labels use it, and
    /// the fetches of all levels pass it on.
    pub demand_len: u32,
    /// Sequential reader: an open file, or any other unit that the driver can distinguish. Rates, and prefetchers that
    /// remember a position (Linux, the stream read-ahead), have one state per stream.
    pub stream: u32,
    /// Client that sent it; PFC may keep its state per client.
    pub client: u32,
    /// Length of the file in blocks; nothing beyond is prefetched. `u64::MAX` if unknown.
    pub file_blocks: u64,
    /// Write of whole blocks: they become resident without a fetch, and nothing is prefetched. The driver passes
    /// the write on. For a write to a part of a block, the driver sends `Forget`, or a write if the block is resident.
    pub write: bool,
}

impl Request {
    /// Returns an application's read with defaults: stream = file, client 0, unknown length of the file.
    pub fn read(id: u64, span: Span) -> Request {
        Request {
            id: RequestId(id),
            span,
            demand_len: span.len,
            stream: span.first.file(),
            client: 0,
            file_blocks: u64::MAX,
            write: false,
        }
    }
}

named! {
    /// Reason of a fetch.
    Reason {
        /// Requested from above and not here. Blocks beyond the request are a prefetch joined to it.
        Missing = "asked for and not cached",
        /// Prefetch started by a miss.
        Ahead = "read ahead after a miss",
        /// Prefetch started by a touched trigger.
        Triggered = "a trigger block was reached",
        /// Fetched by PFC past the native cache.
        Bypass = "PFC bypasses this level's cache",
        /// PFC reads more than was requested.
        Readmore = "PFC reads more than was asked",
        /// Passed through: every frame is in flight, or the block may not be kept.
        NoRoom = "no free frame: passed through",
    }
}
