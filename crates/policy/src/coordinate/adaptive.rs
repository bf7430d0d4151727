//! The per-stream coordinator, ours: PFC's two actions decided stream by stream, from what streams and blocks did before.
//!
//! ```text
//!   request -- goes on a stream? --> serve it; keep it if such blocks come back; read more if such streams go on
//! ```
//! PFC (section 4.2) has one length for all requests, which it changes by one block per request, so that interleaved streams and
//! random requests undo each other's lessons; and it bypasses whole requests whether or not their blocks are wanted again.
//! Here streams are told apart by address ([`Streams`]), and each action has a measure of its own:
//!
//! * *Reading more.* A stream that has read `r` blocks is offered as many more, at least 4 and at most 64 or a quarter of the cache, as long as what was read for all
//!   streams and not asked for yet is at most three quarters of the cache. Whether it is done depends on how often streams of
//!   that length went on that far, `p`: a seek saved with probability `p` against the transfer of the window in vain. `p` is
//!   learnt for each power of two up to 128, apart for streams that just began within a file and with one, from all streams, whether
//!   anything was read for them or not: no experiment costs a disk access. It is a request of its own, behind what somebody waits for; while
//!   other requests wait nothing is read more, for it would stand in their way, and the stream is offered it again at its next request.
//! * *Bypassing.* Blocks that were sent up are kept here only if a sample of their kind (streams' blocks, others), remembered by number
//!   as in PFC's queue, shows that they come back within the time that this cache could keep them.
//!
//! The native prefetcher sees nothing; the native replacement decides about what is kept. Memory is 64 streams, 24 counters, and a
//! two queues of an eighth of the capacity in block numbers.

use super::pfc::clipped;
use crate::block::recent::Recent;
use crate::block::{Block, Request, Span};
use crate::streams::Streams;

/// Streams that are told apart.
const STREAMS: usize = 64;

/// Classes of streams by length: powers of two; three times: those that went on, those that begin somewhere in a file, and those
/// that begin with a file.
const LENGTHS: usize = 8;

/// Longest read, in blocks: what a disk transfers in the time of two or three seeks. Somebody may come meanwhile.
const WINDOW_MAX: u64 = 64;

/// One of so many parts of the cache is the longest read where that is less, so that some streams have room at once.
const WINDOW_PARTS: u64 = 4;

/// What a seek costs, in blocks transferred: for a Cheetah 9LP seek, rotation and command take some 9 ms, 40 blocks, and whoever misses waits for
/// all of it, while a transfer in vain mostly meets an idle disk.
const BLOCKS_PER_SEEK: u64 = 64;

/// Shortest read that is worth a request of its own.
const WINDOW_MIN: u64 = 4;

/// One of so many blocks is remembered to see whether it comes back.
const SAMPLE: u64 = 8;

/// Blocks of a kind are kept when more than one in so many comes back.
const KEEP_SHARE: u32 = 12;

/// Samples after which the older ones count half.
const SAMPLES_MAX: u32 = 512;

/// State at one level.
#[derive(Clone, Debug)]
pub(crate) struct Adaptive {
    streams: Streams,
    ahead: Vec<Lookout>,
    went_on: [Share; 3 * LENGTHS],
    /// Streams' blocks, others': a sample of them by number, how often they came back, and whether they are kept for it.
    asked: [Recent; 2],
    came_back: [Share; 2],
    keep: [bool; 2],
    capacity: u64,
    /// Whether it knows what only the upper level's prefetcher wants.
    labels: bool,
}

/// What is expected of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Lookout {
    /// It has read up to here.
    next: u64,
    /// It was read ahead up to here.
    end: u64,
    /// It has gone on when it gets here.
    mark: u64,
    /// Class of the stream when the mark was set, if it is not decided yet.
    class: Option<usize>,
    /// Up to here it was demanded, by a request that did not go on.
    demanded: Option<u64>,
}

/// How often something came true, older times counting less.
#[derive(Clone, Copy, Debug)]
struct Share {
    yes: u32,
    all: u32,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Course {
    /// Whether it goes on a stream.
    pub(crate) sequential: bool,
    /// Whether its blocks are kept here.
    pub(crate) keep: bool,
    /// What is read unasked; may be empty.
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
            labels,
        }
    }

    /// What to do with a request for reading, while so many others wait.
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
        let lookout = &mut self.ahead[seen.at];
        // What the upper level prefetches along with a request that began a stream says as little as that did.
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

    /// How far a stream that has read `run` blocks up to `end` is to be read ahead now; 0 if it is not.
    fn read_more(&mut self, at: usize, run: u64, class: usize, end: u64, tail: bool) -> u64 {
        let unread: u64 = self.ahead.iter().map(|stream| stream.end.saturating_sub(stream.next)).sum();
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
        if window < WINDOW_MIN || left > window / 4 || !pays { 0 } else { window }
    }

    /// What is read unasked so that `window` blocks behind `end` have been; empty for a window of 0.
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

    /// Whether blocks of this request's kind come back, and a sample of them for later.
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

    /// Whether a read of `window` blocks is worth it: the seek that it saves if they are asked for, against their transfer if not.
    fn pays(self, window: u64) -> bool {
        u64::from(self.yes) * BLOCKS_PER_SEEK > u64::from(self.all - self.yes) * window
    }
}

#[cfg(test)]
mod tests;
