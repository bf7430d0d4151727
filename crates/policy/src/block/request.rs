//! A request for blocks, and why blocks are fetched.

use super::Span;
use std::fmt;

/// A request's name, chosen by the driver and unique among those not yet delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A request from above: an application's, or a fetch of the level above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name.
    pub id: RequestId,
    /// The blocks. At least one.
    pub span: Span,
    /// So many of them, from the first, the application waits for; the rest is a prefetch of the level above. 0 for a
    /// pure prefetch, `span.len` for an application's request. Only levels with demand labels look at it, and the
    /// fetches of all levels pass it on.
    pub demand_len: u32,
    /// Who reads sequentially: an open file, or whatever the driver can tell apart. Prefetchers that remember a
    /// position (Linux, the stream read-ahead) and rates have one state for each.
    pub stream: u32,
    /// The client it came from; a context of PFC can be per client.
    pub client: u32,
    /// Blocks of the file; nothing beyond is prefetched. `u64::MAX` when not known.
    pub file_blocks: u64,
    /// A write of whole blocks: they become resident without being fetched, and nothing is prefetched. Passing the
    /// write on is the driver's business. Where only a part of a block is written, the level forgets the block, or, if it
    /// is resident, takes a write.
    pub write: bool,
}

impl Request {
    /// An application's read without further ado: stream = file, client 0, length of the file not known.
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

/// Why blocks are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Asked for from above and not here. If blocks follow that nobody asked for, a prefetch was joined to it.
    Missing,
    /// A prefetch that began because something was missing.
    Ahead,
    /// A prefetch that began because a trigger was touched.
    Triggered,
    /// PFC took it past the native cache.
    Bypass,
    /// PFC reads more than was asked.
    Readmore,
    /// Every frame was in flight or the block may not be kept: passed through.
    NoRoom,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Missing => "asked for and not cached",
            Reason::Ahead => "read ahead after a miss",
            Reason::Triggered => "a trigger block was reached",
            Reason::Bypass => "PFC bypasses this level's cache",
            Reason::Readmore => "PFC reads more than was asked",
            Reason::NoRoom => "no free frame: passed through",
        })
    }
}
