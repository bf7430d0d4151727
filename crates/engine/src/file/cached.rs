//! Files behind the block cache: reads through the cache, its fetches, and invalidation.

use super::{File, View};
use crate::cache::{Asked, BLOCK_BYTES, BlockCache, CACHED_END, Order, PieceWork, Stream, Ticket};
use object::target::Pending;
use policy::cache::FetchId;
use policy::precedence::Class;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// State of a read through the cache after its start.
pub enum Reading {
    /// All bytes are in the buffer; their number.
    Done(usize),
    /// The bytes are on their way. Not to be awaited on a thread that must not wait.
    Waits(Box<Ticket>),
    /// The cache doesn't serve this file or range.
    Uncached,
}

/// A part of a fetch: the frames `first..first + count`, and the source of their bytes.
struct Part {
    first: usize,
    count: usize,
    /// Object, its offset, bytes; `None`: zeros.
    from: Option<(Arc<super::Slot>, u64, usize)>,
}

impl File {
    /// Reads up to `buf.len()` bytes through the cache, without waiting for any target.
    pub fn begin_read(self: &Arc<Self>, stream: &Stream, offset: u64, buf: &mut [u8]) -> Reading {
        let (Some(cache), Some(id)) = (self.pool.cache.get(), self.id()) else { return Reading::Uncached };
        let Some(right) = self.may_read_inline() else { return Reading::Uncached };
        let Some(snapshot) = self.snapshot_now() else { return Reading::Uncached };
        let size = snapshot.size;
        let len = snapshot.within(offset, buf.len());
        if len == 0 {
            return Reading::Done(0);
        }
        if offset + len as u64 > CACHED_END {
            return Reading::Uncached;
        }
        let begun = cache.begin(&Asked { stream, file: id, offset, len, size }, &mut buf[..len]);
        let mut pending = Vec::new();
        begun.hurried.iter().for_each(|queued| {
            queued.raise();
        });
        for order in begun.orders {
            self.fetch(cache, order, &mut pending);
        }
        match begun.wait {
            None if self.is_current(&snapshot) && self.may_answer(&right) => Reading::Done(len),
            None => Reading::Uncached,
            Some(mut wait) => {
                wait.own = pending;
                let (cache, file) = (cache.clone(), self.clone());
                let around = Box::new(move |offset, buf: &mut [u8]| file.read(offset, buf));
                let file = self.clone();
                let current = Box::new(move || file.is_current(&snapshot) && file.may_answer(&right));
                Reading::Waits(Box::new(Ticket { cache, around, current, offset, len, wait }))
            }
        }
    }

    /// Submits a fetch to the workers of the targets, without waiting for room in their queues. Awaited pieces are
    /// added to `own`.
    fn fetch(self: &Arc<Self>, cache: &Arc<BlockCache>, order: Order, own: &mut Vec<(FetchId, Pending<()>)>) {
        let Order { fetch, first, demand_len, class, mut frames } = order;
        // The view is taken after the level registered the fetch, so every later change makes it forget the blocks.
        let view = self.view();
        let Some(parts) = self.parts(&view, first, frames.len()) else {
            return drop(PieceWork::new(cache.clone(), fetch, 0, frames));
        };
        cache.set_out(fetch, parts.len());
        let advice = self.advice();
        for part in parts {
            let rest = frames.split_off(part.count);
            let work = PieceWork::new(cache.clone(), fetch, part.first, std::mem::replace(&mut frames, rest));
            let work = work.whole(self.is_shared());
            let Some((slot, offset, len)) = part.from else {
                work.zeros();
                continue;
            };
            let demand_bytes = (demand_len as usize).saturating_sub(part.first) * BLOCK_BYTES as usize;
            let op = move |h: &dyn object::target::Handle| {
                h.advise(advice);
                work.run(h, offset, len, demand_bytes.min(len))
            };
            let Ok(pending) = slot.try_submit(&self.pool, class, op) else { continue };
            if class == Class::Prefetch
                && let Some(queued) = pending.queued()
                && let Some(queued) = cache.queued(fetch, queued)
            {
                queued.raise();
            }
            if part.first < demand_len as usize {
                own.push((fetch, pending));
            }
        }
    }

    /// Locations of the blocks of a fetch; `None` if a part of it needs more than plain reads.
    fn parts(self: &Arc<Self>, view: &View, first: u64, count: usize) -> Option<Vec<Part>> {
        let layout = view.layout.as_ref()?;
        let end = ((first + count as u64) * BLOCK).min(self.size());
        let preferred = self.preferred(view, first * BLOCK, count * BLOCK as usize).unwrap_or(0);
        let state = |t| self.target_state(t);
        let mut parts = Vec::new();
        let mut at = 0;
        while at < count {
            let offset = (first + at as u64) * BLOCK;
            let best = (offset < end).then(|| layout.best_candidate(preferred, offset, end - offset, state));
            let Some(candidate) = best.flatten() else {
                parts.push(Part { first: at, count: count - at, from: None });
                break;
            };
            let piece = candidate.piece;
            let ends_file = offset + piece.len == end;
            if !(ends_file || piece.len.is_multiple_of(BLOCK)) || !self.is_readable(view, &piece) {
                return None;
            }
            let blocks = piece.len.div_ceil(BLOCK) as usize;
            let from = Some((view.slot(piece.at).clone(), piece.object_offset, piece.len as usize));
            parts.push(Part { first: at, count: blocks, from });
            at += blocks;
        }
        Some(parts)
    }

    /// Drops cached bytes of a range. Must be called after the change took effect and before it is acknowledged.
    pub(super) fn forget(&self, offset: u64, len: u64) {
        if let (Some(cache), Some(id)) = (self.pool.cache.get(), self.id()) {
            cache.forget(id, offset, len);
        }
    }

    /// Makes a new size visible, and in the same step drops cached blocks with zeros beyond the old one. Bytes up to the
    /// new size are in the objects already. The caller holds `extend`.
    pub(super) fn set_known_size(&self, size: u64) {
        let before = self.size.load(Ordering::Acquire);
        if size <= before {
            return self.size.store(size, Ordering::Release);
        }
        let longer = || {
            self.size.fetch_max(size, Ordering::AcqRel);
        };
        match (self.pool.cache.get(), self.id()) {
            (Some(cache), Some(id)) => cache.forget_and(id, before, size - before, longer),
            _ => longer(),
        }
    }

    /// Drops all bytes of the file in the caches of this daemon. The kernel's cache is not changed.
    pub(crate) fn forget_all(&self) {
        self.forget(0, u64::MAX);
    }
}
