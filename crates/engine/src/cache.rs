//! The mount's block cache: `policy::cache` decides, this module acts. The simulator drives the same machine.
//!
//! ```text
//! read ──> Level ──> Hit: copy           Wait: until the fetch is over, at most a deadline
//!            │  ├──> Fetch ──> pieces on the targets' workers ──> FetchDone ──> Store, Deliver
//!            │  └──> Hurry: what waits for a worker as a prefetch goes before the others
//!            └─────> Evict: the frame is free
//! write, truncate, punch, new layout ──> Forget, after it took effect and before it is acknowledged
//! ```
//! **No stale byte.** A fetch looks at layout, size and bytes only after it is registered with the level. A change
//! forgets its range after it took effect. So a fetch that may have read old bytes is registered when the range is
//! forgotten: its result is dropped, and no later request waits for it. A new end of the file takes effect in the same
//! step, since a block holds zeros beyond the end that its fetch saw.
//!
//! **Bounded.** A block that is resident or on the way has a frame; there are never more frames than the level has
//! blocks. A fetch that hangs keeps its frames until it returns. Blocks that the level passes through are read by the
//! reader without the cache.
//!
//! **Locks.** `inner` is held while the level and the frames change, and for copying hits; never while anything is
//! handed to a target.

mod carry;
mod counts;
#[cfg(any(test, feature = "doubles"))]
mod doubles;
mod files;
mod frames;
mod piece;
mod stream;
mod ticket;

pub use counts::CacheCounts;
pub use stream::{Stream, WeakStream};
pub use ticket::Ticket;

pub(crate) use piece::PieceWork;

use carry::{Copies, Flying};
use files::Files;
use frames::{Frame, Frames};
use object::target::Queued;
use parking_lot::Mutex;
use policy::cache::{Block, ConfigError, Event, FetchId, INDEX_MAX, Level, LevelConfig, Request, RequestId, Span};
use policy::machine::Machine;
use policy::precedence::Class;
use policy::{FileId, Time};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use ticket::Waiter;

/// Bytes of a block: a page, the unit of all published algorithms.
pub const BLOCK_BYTES: u32 = 4096;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// End of the part of a file that has block numbers. Bytes beyond it are never cached.
pub(crate) const CACHED_END: u64 = (INDEX_MAX + 1) * BLOCK;

/// Nanoseconds since the clock's own origin.
pub type Clock = Box<dyn Fn() -> Time + Send + Sync>;

/// The block cache of a volume.
pub struct BlockCache {
    inner: Mutex<Inner>,
    clock: Clock,
    deadline: Duration,
    /// Requests that were on handles opened with `O_NOATIME`.
    speculative: AtomicU64,
    /// Reads that began here and got their bytes elsewhere.
    around: AtomicU64,
}

struct Inner {
    level: Level,
    frames: Frames,
    files: Files,
    flying: HashMap<FetchId, Flying>,
    waiting: HashMap<RequestId, Arc<Waiter>>,
    request_last: u64,
    stream_last: u32,
}

/// Request for a range of a file.
pub(crate) struct Asked<'a> {
    pub stream: &'a Stream,
    pub file: FileId,
    pub offset: u64,
    /// Within the file and below [`CACHED_END`].
    pub len: usize,
    /// Size of the file.
    pub size: u64,
}

/// A fetch to be carried out, with its frames.
pub(crate) struct Order {
    pub fetch: FetchId,
    /// Index of the first block in the file.
    pub first: u64,
    /// Number of leading blocks that an application waits for.
    pub demand_len: u32,
    /// Class in the targets' queues.
    pub class: Class,
    pub frames: Vec<Frame>,
}

/// State of a read after its start.
pub(crate) struct Begun {
    /// Fetches to issue now.
    pub orders: Vec<Order>,
    /// Prefetches that have become awaited.
    pub hurried: Vec<Queued>,
    /// Pending fetches to wait for; `None` if all bytes were resident.
    pub wait: Option<ticket::Wait>,
}

impl BlockCache {
    /// An empty cache on the machine's clock. Readers wait for a fetch of others no longer than `deadline`.
    pub fn new(config: LevelConfig, deadline: Duration) -> Result<Arc<BlockCache>, ConfigError> {
        let began = Instant::now();
        BlockCache::with_clock(config, deadline, Box::new(move || Time(began.elapsed().as_nanos() as u64)))
    }

    /// As [`BlockCache::new`], on another clock.
    pub fn with_clock(config: LevelConfig, deadline: Duration, clock: Clock) -> Result<Arc<BlockCache>, ConfigError> {
        let config = LevelConfig { announce: true, ..config };
        Ok(Arc::new(BlockCache {
            inner: Mutex::new(Inner {
                frames: Frames::new(config.capacity_blocks as usize),
                level: Level::new(config)?,
                files: Files::default(),
                flying: HashMap::new(),
                waiting: HashMap::new(),
                request_last: 0,
                stream_last: 0,
            }),
            clock,
            deadline,
            speculative: AtomicU64::new(0),
            around: AtomicU64::new(0),
        }))
    }

    /// Counters since the start.
    pub fn counts(&self) -> CacheCounts {
        let inner = self.inner.lock();
        let bytes = inner.frames.made as u64 * BLOCK;
        let around = self.around.load(Ordering::Relaxed);
        CacheCounts::new(&inner.level, bytes, self.speculative.load(Ordering::Relaxed), around)
    }

    /// Starts a request. Resident bytes are copied into `buf`.
    pub(crate) fn begin(&self, asked: &Asked<'_>, buf: &mut [u8]) -> Begun {
        if asked.stream.speculative {
            self.speculative.fetch_add(1, Ordering::Relaxed);
        }
        let now = (self.clock)();
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let file = asked.stream.enter(asked.file, &mut inner.files);
        let (first, end) = (asked.offset / BLOCK, (asked.offset + asked.len as u64).div_ceil(BLOCK));
        let span = Span::new(file, first, (end - first) as u32);
        inner.request_last += 1;
        let id = RequestId(inner.request_last);
        let request = Request {
            id,
            span,
            demand_len: if asked.stream.speculative { 0 } else { span.len },
            stream: asked.stream.number.number,
            client: asked.stream.client,
            file_blocks: asked.size.div_ceil(BLOCK).min(INDEX_MAX + 1),
            write: false,
        };
        inner.level.handle(now, Event::Request(request));
        let mut copies = Copies::new(id, asked.offset, &mut buf[..asked.len]);
        let orders = inner.carry_out(Some(&mut copies), None);
        if copies.delivered {
            return Begun { orders, hurried: Vec::new(), wait: None };
        }
        let (offset, len) = (asked.offset, asked.len);
        let Copies { hits, waits, hurried, buf, .. } = copies;
        let waiter = Arc::new(Waiter::new(len, &hits, buf));
        let mut wait =
            ticket::Wait { request: id, waiter: waiter.clone(), direct: Vec::new(), own: Vec::new(), hopeless: false };
        for (fetch, span) in waits {
            let Some(flying) = inner.flying.get_mut(&fetch) else { continue };
            wait.hopeless |= flying.overdue;
            if flying.keep {
                flying.waiters.push((id, span, offset));
            } else {
                wait.direct.push((fetch, span));
            }
        }
        inner.waiting.insert(id, waiter);
        Begun { orders, hurried, wait: Some(wait) }
    }

    /// Drops cached bytes of a range after a change of its bytes or of the file's end. Must be called after the change
    /// took effect and before it is acknowledged.
    pub(crate) fn forget(&self, file: FileId, offset: u64, len: u64) {
        self.forget_and(file, offset, len, || ());
    }

    /// As `forget`, with a new end of the file that `set_size` makes visible: no request is between the two.
    pub(crate) fn forget_and(&self, file: FileId, offset: u64, len: u64, set_size: impl FnOnce()) {
        let now = (self.clock)();
        let mut inner = self.inner.lock();
        inner.forget(now, file, offset, len);
        set_size();
    }

    /// Sets the number of pieces of a fetch that are on their way.
    pub(crate) fn set_out(&self, fetch: FetchId, pieces: usize) {
        if let Some(flying) = self.inner.lock().flying.get_mut(&fetch) {
            flying.pieces_left = pieces;
        }
    }

    /// Queues a piece of a prefetch for a worker. Returns the piece if a caller already waits for the fetch.
    pub(crate) fn queued(&self, fetch: FetchId, piece: Queued) -> Option<Queued> {
        let mut inner = self.inner.lock();
        let flying = inner.flying.get_mut(&fetch)?;
        if flying.class == Class::Awaited {
            return Some(piece);
        }
        flying.queued.push(piece);
        None
    }

    /// Ends a piece of a fetch: takes its frames back, filled if `done`.
    pub(crate) fn piece_over(&self, fetch: FetchId, first: usize, frames: Vec<Frame>, done: bool) {
        let now = (self.clock)();
        let mut inner = self.inner.lock();
        let Some(flying) = inner.flying.get_mut(&fetch) else { return inner.frames.give(frames) };
        flying.failed |= !done;
        for (at, frame) in (first..).zip(frames) {
            flying.frames[at] = Some(frame);
        }
        flying.pieces_left -= 1;
        if flying.pieces_left == 0 {
            inner.fetch_over(now, fetch);
        }
    }

    /// Ends a fetch that the level passed through and the reader read without the cache.
    fn direct_over(&self, fetch: FetchId, done: bool) {
        let now = (self.clock)();
        let mut inner = self.inner.lock();
        if let Some(flying) = inner.flying.get_mut(&fetch) {
            flying.failed |= !done;
            inner.fetch_over(now, fetch);
        }
    }

    /// Marks fetches that passed their deadline: no caller waits for them any more.
    fn give_up(&self, fetches: &[FetchId]) {
        let mut inner = self.inner.lock();
        for fetch in fetches {
            if let Some(flying) = inner.flying.get_mut(fetch) {
                flying.overdue = true;
            }
        }
    }

    /// Removes a reader that no longer waits.
    fn leave(&self, request: RequestId) {
        self.inner.lock().waiting.remove(&request);
    }

    fn stream_ended(&self, stream: u32, file: Option<FileId>) {
        let now = (self.clock)();
        let mut inner = self.inner.lock();
        inner.level.handle(now, Event::StreamEnded(stream));
        inner.carry_out(None, None);
        if let Some(file) = file {
            inner.files.leave(file);
        }
    }
}

/// Part of `span` that lies in `[offset, offset+len)`, relative to `offset`.
fn part(span: Span, offset: u64, len: usize) -> std::ops::Range<usize> {
    let start = (span.first.index() * BLOCK).max(offset);
    let end = ((span.first.index() + u64::from(span.len)) * BLOCK).min(offset + len as u64);
    (start - offset) as usize..(end.max(start) - offset) as usize
}

/// Part of a block that lies in a range, relative to `offset`, and its start within the block.
fn part_of_block(block: Block, offset: u64, len: usize) -> Option<(std::ops::Range<usize>, usize)> {
    let of = part(Span::new(block.file(), block.index(), 1), offset, len);
    let in_block = (offset + of.start as u64).checked_sub(block.index() * BLOCK)? as usize;
    (!of.is_empty()).then_some((of, in_block))
}
