//! The per-stream coordinator, ours: decides PFC's two actions stream by stream, from the past of streams and blocks.
//!
//! ```text
//!   request -- continues a stream? --> serve it; keep blocks if such blocks return; read ahead if such streams last
//! ```
//! PFC (section 4.2) has one length for all requests and changes it by one block per request. So interleaved streams
//! and random requests undo each other's lessons. It also bypasses whole requests without regard to the reuse of their
//! blocks. Here streams are distinguished by address ([`Streams`]), and each action has its own measure:
//!
//! - *Reading more.* A stream that has read `r` blocks may get `r` more: at least 4, and at most 64 or a quarter of the
//!   cache. The blocks read ahead and not yet requested, of all streams, take at most three quarters of the cache.
//!   A stream that has stopped keeps its part until the cache has served as many blocks as it holds. The
//!   decision depends on the share `p` of streams of that length that continued that far. A read-ahead saves a seek
//!   with probability `p` and wastes a transfer otherwise. `p` is learnt per power of two up to 128. Streams that begin
//!   with a file, or within one, have counters of their own. Streams without read-ahead count, too, so no experiment
//!   costs a disk access. The read-ahead is a separate request behind awaited ones. While an application waits for
//!   another request there is none, and the stream gets its next chance with its next request.
//! - *Bypassing.* Blocks sent up are kept here only if a sample of their kind (stream or other) returns soon enough.
//!   Soon means within the time that this cache could keep them. The sample is remembered by block number, as in PFC's
//!   queue.
//!
//! The native prefetcher sees nothing; the native replacement decides about the kept blocks. Memory: 64 streams, 24
//! counters, and two queues of an eighth of the capacity in block numbers.

use super::pfc::clipped;
use crate::block::recent::Recent;
use crate::block::{Block, Request, Span};
use crate::streams::Streams;

/// Number of streams that are tracked.
const STREAMS: usize = 64;

/// Length classes of streams: powers of two. Each exists three times: for streams that continue, that begin within a
/// file, and that begin with a file.
const LENGTHS: usize = 8;

/// Longest read-ahead, in blocks: a disk transfers them in the time of two or three seeks, in which another request may
/// arrive.
const WINDOW_MAX: u64 = 64;

/// A read-ahead takes at most 1/4 of the cache, so that several streams fit.
const WINDOW_PARTS: u64 = 4;

/// More is read once half of a read-ahead is used: a stream would wait for a later fetch as long as it takes.
const REFILL_PARTS: u64 = 2;

/// Cost of a seek, in blocks transferred. For a Cheetah 9LP seek, rotation and command take some 9 ms, or 40 blocks. It
/// counts more than that: a miss waits for all of it, while a wasted transfer mostly meets an idle disk.
const BLOCKS_PER_SEEK: u64 = 64;

/// Shortest read-ahead that is worth a request of its own.
const WINDOW_MIN: u64 = 4;

/// Sampling interval: one of 8 blocks is remembered, to detect its return.
const SAMPLE: u64 = 8;

/// Blocks of a kind are kept when more than one in 12 returns.
const KEEP_SHARE: u32 = 12;

/// Number of samples after which all counts are halved.
const SAMPLES_MAX: u32 = 512;

/// State at one level.
#[derive(Clone, Debug)]
pub(crate) struct Adaptive {
    streams: Streams,
    ahead: Vec<Lookout>,
    went_on: [Share; 3 * LENGTHS],
    /// Per kind (blocks of streams, others): sampled block numbers, the share that returned, and whether the kind is
    /// kept.
    asked: [Recent; 2],
    came_back: [Share; 2],
    keep: [bool; 2],
    capacity: u64,
    /// Number of blocks requested so far.
    blocks: u64,
    /// Whether requests show which blocks only the upper level's prefetcher requests.
    labels: bool,
}

/// Expectations about a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Lookout {
    /// End of the blocks that it has read.
    next: u64,
    /// End of the blocks read ahead for it.
    end: u64,
    /// Number of blocks requested, of all streams, at its last request.
    at: u64,
    /// Block at which the stream counts as continued.
    mark: u64,
    /// Class of the stream when the mark was set; `None` once counted.
    class: Option<usize>,
    /// End of the demanded request that began the stream; `None` after the next one.
    demanded: Option<u64>,
}

/// Frequency of an outcome; older samples count less.
#[derive(Clone, Copy, Debug)]
struct Share {
    yes: u32,
    all: u32,
}

/// Decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Course {
    /// Whether it continues a stream.
    pub(crate) sequential: bool,
    /// Whether its blocks are kept here.
    pub(crate) keep: bool,
    /// Blocks to read ahead; may be empty.
    pub(crate) ahead: Span,
}

impl Adaptive {
    pub(crate) fn new(capacity: u32, labels: bool) -> Adaptive {
        Adaptive {
            streams: Streams::new(STREAMS),
            ahead: Vec::new(),
            went_on: std::array::from_fn(|class| Share { yes: 1, all: if class < LENGTHS { 1 } else { 2 } }),
            asked: std::array::from_fn(|_| Recent::new((capacity / SAMPLE as u32).max(1))),
            came_back: [Share { yes: 0, all: 1 }; 2],
            keep: [false, true],
            capacity: u64::from(capacity),
            blocks: 0,
            labels,
        }
    }

    /// Decides about a read request, while an application waits for `waiting` others.
    pub(crate) fn course(&mut self, request: &Request, waiting: usize) -> Course {
        let span = request.span;
        let seen = self.streams.enter(span);
        if seen.at >= self.ahead.len() {
            self.ahead.resize(seen.at + 1, Lookout::default());
        }
        let end = span.end().0;
        let begins = match (seen.fresh, span.first.index()) {
            (false, _) => 0,
            (true, 1..) => 1,
            (true, 0) => 2,
        };
        if seen.fresh {
            if let Some(class) = self.ahead[seen.at].class {
                self.went_on[class].count(false);
            }
            self.ahead[seen.at] = Lookout { next: end, end, ..Lookout::default() };
        }
        self.blocks += u64::from(span.len);
        let lookout = &mut self.ahead[seen.at];
        lookout.at = self.blocks;
        // The upper level's prefetch along with a request that began a stream is no sign of a stream either.
        let tail = self.labels && request.demand_len == 0 && lookout.demanded == Some(span.first.0);
        lookout.demanded = (self.labels && seen.fresh && request.demand_len > 0).then_some(end);
        let begins_stream = seen.fresh || tail;
        self.look_back(span, usize::from(begins_stream));
        let run = seen.run + u64::from(span.len);
        let class = begins * LENGTHS + (run.ilog2() as usize).min(LENGTHS - 1);
        let more = self.read_more(seen.at, run, class, end, tail);
        let quiet = waiting <= usize::from(tail);
        let ahead = self.offer(seen.at, end, if quiet { more } else { 0 }, request.file_blocks);
        Course { sequential: !begins_stream, keep: self.keep[usize::from(begins_stream)], ahead }
    }

    /// Returns how many blocks after `end` to have read ahead, for a stream that has read `run` blocks; 0 for none.
    fn read_more(&mut self, at: usize, run: u64, class: usize, end: u64, tail: bool) -> u64 {
        // Blocks of a stream that stopped longer ago have been evicted.
        let since = self.blocks.saturating_sub(self.capacity);
        let live = self.ahead.iter().filter(|stream| stream.at >= since);
        let unread: u64 = live.map(|stream| stream.end.saturating_sub(stream.next)).sum();
        let window = run.clamp(WINDOW_MIN, WINDOW_MAX.min(self.capacity / WINDOW_PARTS).max(WINDOW_MIN));
        let lookout = &mut self.ahead[at];
        let left = lookout.end.saturating_sub(end);
        let room = (self.capacity * 3 / 4).saturating_sub(unread - lookout.end.saturating_sub(lookout.next));
        lookout.next = lookout.next.max(end);
        if let Some(class) = lookout.class.filter(|_| !tail && end >= lookout.mark) {
            self.went_on[class].count(true);
            lookout.class = None;
        }
        if lookout.class.is_none() || tail {
            lookout.class = Some(class);
            lookout.mark = end + window;
        }
        let pays = self.went_on[class].pays(window);
        let window = window.min(room);
        if window < WINDOW_MIN || left > window / REFILL_PARTS || !pays { 0 } else { window }
    }

    /// Returns the blocks still missing from the `window` behind `end`; empty for a window of 0.
    fn offer(&mut self, at: usize, end: u64, window: u64, file_blocks: u64) -> Span {
        if window == 0 {
            return Span { first: Block(end), len: 0 };
        }
        let lookout = &mut self.ahead[at];
        let first = lookout.end.max(end);
        let more = clipped(Block(first), (end + window - first) as u32, file_blocks);
        lookout.end = more.end().0;
        more
    }

    /// Counts returning blocks, and samples this request's blocks for later.
    fn look_back(&mut self, span: Span, kind: usize) {
        for block in span.blocks() {
            if !block.0.is_multiple_of(SAMPLE) {
                continue;
            }
            for of in 0..2 {
                if self.asked[of].touch(block.0) {
                    self.came_back[of].yes = (self.came_back[of].yes + 1).min(self.came_back[of].all);
                }
            }
            self.asked[kind].enter(block.0);
            self.came_back[kind].count_none();
            self.keep[kind] = self.came_back[kind].yes * KEEP_SHARE > self.came_back[kind].all;
        }
    }
}

impl Share {
    fn count(&mut self, yes: bool) {
        self.yes += u32::from(yes);
        self.count_none();
    }

    fn count_none(&mut self) {
        self.all += 1;
        if self.all >= SAMPLES_MAX {
            self.all /= 2;
            self.yes /= 2;
        }
    }

    /// Whether a read-ahead of `window` blocks pays: the seek saved if they are used, against their transfer if not.
    fn pays(self, window: u64) -> bool {
        u64::from(self.yes) * BLOCKS_PER_SEEK > u64::from(self.all - self.yes) * window
    }
}

#[cfg(test)]
mod tests;
