//! Execution of the level's actions: copies, fetches, frames filled and freed, replies to readers.

use super::frames::Frame;
use super::{BLOCK, Inner, Order, part_of_block};
use object::target::Queued;
use policy::cache::{Action, Event, FetchId, RequestId, Span};
use policy::machine::Machine;
use policy::precedence::Class;
use policy::{FileId, Time};
use std::ops::Range;

/// A running fetch.
pub(super) struct Flying {
    pub span: Span,
    /// Whether its blocks have frames here; otherwise the reader reads without the cache.
    pub keep: bool,
    /// Frames that the pieces returned.
    pub frames: Vec<Option<Frame>>,
    pub pieces_left: usize,
    pub failed: bool,
    /// The fetch passed its deadline.
    pub overdue: bool,
    /// `Awaited` once a caller waits for the fetch.
    pub class: Class,
    /// Pieces that wait, or waited, for a worker as prefetches.
    pub queued: Vec<Queued>,
    /// Waiting requests: id, awaited blocks, and the start of the request's range in the file.
    pub waiters: Vec<(RequestId, Span, u64)>,
}

/// Destination of the actions for the request that just arrived.
pub(super) struct Copies<'b> {
    request: RequestId,
    offset: u64,
    pub buf: &'b mut [u8],
    /// Ranges of `buf` that are filled.
    pub hits: Vec<Range<usize>>,
    pub waits: Vec<(FetchId, Span)>,
    /// Prefetches that this request is the first to wait for.
    pub hurried: Vec<Queued>,
    /// Whether all bytes were resident.
    pub delivered: bool,
}

impl<'b> Copies<'b> {
    pub fn new(request: RequestId, offset: u64, buf: &'b mut [u8]) -> Copies<'b> {
        Copies { request, offset, buf, hits: Vec::new(), waits: Vec::new(), hurried: Vec::new(), delivered: false }
    }
}

impl Inner {
    /// Forgets the blocks of a range.
    pub(super) fn forget(&mut self, now: Time, file: FileId, offset: u64, len: u64) {
        let Some((number, end)) = self.files.find(file).filter(|_| len > 0) else { return };
        let (mut at, last) = (offset / BLOCK, offset.saturating_add(len).div_ceil(BLOCK).min(end));
        while at < last {
            let step = u32::try_from(last - at).unwrap_or(u32::MAX);
            self.level.handle(now, Event::Forget(Span::new(number, at, step)));
            self.carry_out(None, None);
            at += u64::from(step);
        }
    }

    /// Executes actions until the level has no more; returns the fetches to issue. `copies` belongs to the request that
    /// just arrived, `landed` to the fetch that just ended.
    pub(super) fn carry_out(
        &mut self,
        mut copies: Option<&mut Copies<'_>>,
        mut landed: Option<&mut Flying>,
    ) -> Vec<Order> {
        let mut orders = Vec::new();
        while let Some(action) = self.level.poll() {
            match action {
                Action::Hit { request, span } => {
                    if let Some(copies) = copies.as_deref_mut().filter(|c| c.request == request) {
                        self.copy_hit(span, copies);
                    }
                }
                Action::Wait { request, span, fetch } => {
                    if let Some(copies) = copies.as_deref_mut().filter(|c| c.request == request) {
                        copies.waits.push((fetch, span));
                    }
                }
                Action::Hurry(fetch) => {
                    if let (Some(copies), Some(flying)) = (copies.as_deref_mut(), self.flying.get_mut(&fetch)) {
                        flying.class = Class::Awaited;
                        copies.hurried.append(&mut flying.queued);
                    }
                }
                Action::Fetch(fetch) => orders.extend(self.depart(&fetch)),
                Action::Store { span, .. } => {
                    if let Some(landed) = landed.as_deref_mut() {
                        self.store(span, landed);
                    }
                }
                Action::Evict { block, .. } => {
                    self.frames.free(block);
                    self.files.release(block.file(), 1);
                }
                Action::Deliver { request, .. } => match copies.as_deref_mut() {
                    Some(copies) if copies.request == request => copies.delivered = true,
                    _ => self.answer(request, true),
                },
                Action::Fail(request) => self.answer(request, false),
            }
        }
        orders
    }

    fn copy_hit(&self, span: Span, copies: &mut Copies<'_>) {
        for block in span.blocks() {
            if let Some((to, from)) = part_of_block(block, copies.offset, copies.buf.len())
                && let Some(frame) = self.frames.get(block)
            {
                let len = to.len();
                copies.buf[to.clone()].copy_from_slice(&frame[from..from + len]);
                match copies.hits.last_mut() {
                    Some(last) if last.end == to.start => last.end = to.end,
                    _ => copies.hits.push(to),
                }
            }
        }
    }

    /// Takes frames for a fetch. A fetch that is passed through needs none.
    fn depart(&mut self, fetch: &policy::cache::Fetch) -> Option<Order> {
        let len = fetch.span.len as usize;
        let flying = Flying {
            span: fetch.span,
            keep: fetch.keep,
            frames: if fetch.keep { (0..len).map(|_| None).collect() } else { Vec::new() },
            pieces_left: 1,
            failed: false,
            overdue: false,
            class: fetch.class,
            queued: Vec::new(),
            waiters: Vec::new(),
        };
        self.flying.insert(fetch.id, flying);
        let file = fetch.span.first.file();
        self.files.hold(file, 1, fetch.span.first.index() + len as u64);
        fetch.keep.then(|| Order {
            fetch: fetch.id,
            first: fetch.span.first.index(),
            demand_len: fetch.demand_len,
            class: fetch.class,
            frames: (0..len).map(|_| self.frames.take()).collect(),
        })
    }

    /// Makes blocks of the fetch that just ended resident.
    fn store(&mut self, span: Span, landed: &mut Flying) {
        for block in span.blocks() {
            let at = (block.index() - landed.span.first.index()) as usize;
            let frame = landed.frames[at].take().expect("every frame of a fetch that is done came back");
            self.frames.fill(block, frame);
        }
        self.files.hold(span.first.file(), u64::from(span.len), 0);
    }

    /// Ends a fetch: fills its waiting requests and informs the level.
    pub(super) fn fetch_over(&mut self, now: Time, fetch: FetchId) {
        let Some(mut flying) = self.flying.remove(&fetch) else { return };
        if flying.failed {
            self.level.handle(now, Event::FetchFailed(fetch));
        } else {
            for (request, span, offset) in &flying.waiters {
                if let Some(waiter) = self.waiting.get(request) {
                    waiter.fill(*span, *offset, |block| {
                        let at = (block.index() - flying.span.first.index()) as usize;
                        flying.frames[at].as_deref()
                    });
                }
            }
            self.level.handle(now, Event::FetchDone(fetch));
        }
        // Neither fetches nor copies follow from the end of a fetch.
        self.carry_out(None, Some(&mut flying));
        self.frames.give(flying.frames.into_iter().flatten());
        self.files.release(flying.span.first.file(), 1);
    }

    fn answer(&mut self, request: RequestId, done: bool) {
        if let Some(waiter) = self.waiting.remove(&request) {
            waiter.answer(done);
        }
    }
}
