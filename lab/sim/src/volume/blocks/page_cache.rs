//! The kernel's page cache below the targets, with its read-ahead: cached data cost the devices nothing, and
//! read-ahead of random reads costs them time for nothing.
//!
//! ```text
//!   a segment of a file     |stripe 0|stripe 1|stripe 2|stripe 3|stripe 4| ..
//!   its objects (width 2)    a 0      b 0      a 1      b 1      a 2           each is a file to the kernel
//! ```
//! For the kernel each object is a separate file, and a read at its start counts as the start of a sequential read. The
//! shorter the objects (segment over width), the more random reads do. The read-ahead is [`policy::prefetch`]'s
//! on-demand one.

use super::World;
use crate::event::Rank;
use crate::volume::world::Happening;
use policy::cache::{Action, Event, FetchId, Level, LevelConfig, Request, RequestId, Span};
use policy::machine::Machine;
use policy::prefetch::Prefetch;
use policy::tier::Location;
use policy::{FileId, TargetId};
use std::collections::BTreeMap;

/// Parameters of the kernel's page cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageCacheSetup {
    /// Capacity in bytes; eviction is LRU.
    pub bytes: u64,
    /// Largest read-ahead window; 0 disables read-ahead.
    pub read_ahead_bytes: u64,
    /// Size of a segment of a file: each segment has objects of its own.
    pub segment_bytes: u64,
    /// Objects that a segment is striped over, a block at a time.
    pub width: u64,
}

const PAGE: u64 = 4096;

/// Cache of all objects.
#[derive(Debug)]
pub(super) struct PageCache {
    level: Level,
    setup: PageCacheSetup,
    block_bytes: u64,
    /// Numbers of objects in order of appearance: by file, segment and column.
    objects: BTreeMap<(u64, u64, u64), u32>,
    /// Requests of the waiting pieces.
    waiting: BTreeMap<u64, usize>,
    next: u64,
}

/// Actions of a level.
struct Wants {
    /// Bytes to fetch.
    fetches: Vec<(FetchId, u64)>,
    /// Pieces whose pages are all cached.
    delivered: Vec<u64>,
}

impl PageCache {
    pub(super) fn new(setup: PageCacheSetup, block_bytes: u64) -> PageCache {
        let pages = |bytes: u64| u32::try_from(bytes / PAGE).unwrap_or(u32::MAX);
        let prefetch = match pages(setup.read_ahead_bytes) {
            0 => Prefetch::None,
            max => Prefetch::OnDemand { max },
        };
        let capacity = pages(setup.bytes).clamp(1, policy::cache::CAPACITY_MAX);
        let config = LevelConfig { join: false, buffers: true, ..LevelConfig::new(capacity, prefetch) };
        let level = Level::new(config).expect("a cache of at least one page, and a window within it");
        PageCache { level, setup, block_bytes, objects: BTreeMap::new(), waiting: BTreeMap::new(), next: 0 }
    }

    /// Returns the pages of `bytes` bytes at `from` of a location within their object, and the object's pages.
    fn span(&mut self, at: Location, from: u64, bytes: u64) -> (Span, u64) {
        let blocks = (self.setup.segment_bytes / self.block_bytes).max(1);
        let width = self.setup.width.max(1).min(blocks);
        let (segment, within) = (at.segment / blocks, at.segment % blocks);
        let (row, column) = (within / width, within % width);
        let next = self.objects.len() as u32;
        let object = *self.objects.entry((at.file, segment, column)).or_insert(next);
        let start = row * self.block_bytes + from;
        let (first, end) = (start / PAGE, (start + bytes.max(1)).div_ceil(PAGE));
        let rows = (blocks - column).div_ceil(width);
        (Span::new(object, first, (end - first) as u32), rows * self.block_bytes / PAGE)
    }

    fn wants(&mut self) -> Wants {
        let mut wants = Wants { fetches: Vec::new(), delivered: Vec::new() };
        while let Some(action) = self.level.poll() {
            match action {
                Action::Fetch(fetch) => wants.fetches.push((fetch.id, u64::from(fetch.span.len) * PAGE)),
                Action::Deliver { request, .. } | Action::Fail(request) => wants.delivered.push(request.0),
                // The kernel's block layer does not distinguish awaited reads.
                Action::Hurry { .. } => {}
                Action::Hit { .. } | Action::Wait { .. } | Action::Store { .. } | Action::Evict { .. } => {}
            }
        }
        wants
    }
}

impl World<'_> {
    /// Reads a piece through the cache, if there is one. Fetches come from the target of the piece, which has its
    /// object.
    pub(super) fn read_cached(
        &mut self,
        request: usize,
        file: FileId,
        from: u64,
        bytes: u64,
        target: TargetId,
    ) -> bool {
        let (now, Some(playing)) = (self.now, &mut self.playing) else { return false };
        let (at, Some(cache)) = (playing.location(file), &mut playing.page_cache) else { return false };
        let (span, file_blocks) = cache.span(at, from, bytes);
        let id = cache.next;
        cache.next += 1;
        cache.waiting.insert(id, request);
        cache.level.handle(now, Event::Request(Request { file_blocks, ..Request::read(id, span) }));
        let wants = cache.wants();
        playing.under_way.entry(request).and_modify(|of| of.waiting += 1);
        self.cache_wants(target, wants);
        true
    }

    /// Adds the pages of a written piece to the cache.
    pub(super) fn write_cached(&mut self, file: FileId, from: u64, bytes: u64) {
        self.tell_cache(file, from, bytes, |span, file_blocks| {
            let write = Request { id: RequestId(u64::MAX), write: true, file_blocks, ..Request::read(0, span) };
            Event::Request(write)
        });
    }

    /// Drops the pages of a block that has moved to another object.
    pub(in crate::volume) fn lies_elsewhere(&mut self, file: FileId) {
        let bytes = self.setup.segment_bytes;
        self.tell_cache(file, 0, bytes, |span, _| Event::Forget(span));
    }

    fn tell_cache(&mut self, file: FileId, from: u64, bytes: u64, event: impl FnOnce(Span, u64) -> Event) {
        let Some(playing) = &mut self.playing else { return };
        let (at, Some(cache)) = (playing.location(file), &mut playing.page_cache) else { return };
        let (span, file_blocks) = cache.span(at, from, bytes);
        cache.level.handle(self.now, event(span, file_blocks));
        cache.wants();
    }

    /// Completes a fetch.
    pub(in crate::volume) fn fetched(&mut self, id: FetchId, target: TargetId) {
        let Some(cache) = self.playing.as_mut().and_then(|playing| playing.page_cache.as_mut()) else { return };
        cache.level.handle(self.now, Event::FetchDone(id));
        let wants = cache.wants();
        self.cache_wants(target, wants);
    }

    fn cache_wants(&mut self, target: TargetId, wants: Wants) {
        for (id, bytes) in wants.fetches {
            let done = self.serve_block(target, bytes, false);
            self.events.push(done, Rank::Completion, Happening::Fetched(id, target));
        }
        for id in wants.delivered {
            let Some(playing) = &mut self.playing else { return };
            let request = playing.page_cache.as_mut().and_then(|cache| cache.waiting.remove(&id));
            request.into_iter().for_each(|request| self.waits_no_longer(request));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Time;

    const BLOCK: u64 = 64 << 10;

    /// Returns the bytes that a read of a whole block fetches, all of it done before the next.
    fn fetched(cache: &mut PageCache, block: u64) -> u64 {
        let (span, file_blocks) = cache.span(Location { file: 0, segment: block }, 0, BLOCK);
        cache.next += 1;
        cache.level.handle(Time::ZERO, Event::Request(Request { file_blocks, ..Request::read(cache.next, span) }));
        let (mut all, mut bytes) = (cache.wants().fetches, 0);
        while let Some((id, len)) = all.pop() {
            bytes += len;
            cache.level.handle(Time::ZERO, Event::FetchDone(id));
            all.extend(cache.wants().fetches);
        }
        bytes
    }

    #[test]
    fn random_reads_are_read_ahead_of_at_the_start_of_an_object_only() {
        let setup = PageCacheSetup { bytes: 1 << 20, read_ahead_bytes: BLOCK, segment_bytes: 16 * BLOCK, width: 4 };
        // A segment's first four blocks are the starts of its four objects; a read of one reads the object's next
        // block as well.
        let of = |block: u64| fetched(&mut PageCache::new(setup, BLOCK), block) / BLOCK;
        assert_eq!((0..16).map(of).collect::<Vec<_>>(), [2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        // Read-ahead data are cached, a following read continues, and cached blocks cost nothing.
        let mut cache = PageCache::new(setup, BLOCK);
        let all = [0, 4, 8, 12, 0, 16, 9].map(|block| fetched(&mut cache, block) / BLOCK);
        assert_eq!(all.iter().sum::<u64>(), 4 + 2 + 1, "{all:?}");
        // Without read-ahead and capacity, each read fetches exactly its block.
        let none = PageCacheSetup { read_ahead_bytes: 0, bytes: PAGE, ..setup };
        let mut cache = PageCache::new(none, BLOCK);
        assert_eq!([0, 4, 0, 4].map(|block| fetched(&mut cache, block) / BLOCK), [1; 4]);
    }
}
