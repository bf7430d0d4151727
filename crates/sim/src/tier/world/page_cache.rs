//! The kernel's page cache below the targets, with its read-ahead: what it holds costs the devices nothing, and what it reads ahead of random
//! reads costs them time for nothing.
//!
//! ```text
//!   a segment of a file     |stripe 0|stripe 1|stripe 2|stripe 3|stripe 4| ..
//!   its objects (width 2)    a 0      b 0      a 1      b 1      a 2           each is a file to the kernel
//! ```
//! To the kernel each object is a file of its own, and a read that begins at its start looks like that of somebody who will read on. The
//! shorter the objects (segment over width), the more random reads do. The read-ahead is [`policy::prefetch`]'s on-demand one.

use super::{Job, World};
use crate::tier::PageCacheSetup;
use policy::cache::{Action, Event, FetchId, Level, LevelConfig, Request, RequestId, Span};
use policy::machine::Machine;
use policy::prefetch::Prefetch;
use policy::tier::machine::Event as TierEvent;
use policy::tier::{Location, Region, Tier};
use policy::time::Time;
use std::collections::BTreeMap;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// The cache of all objects.
#[derive(Debug)]
pub(super) struct PageCache {
    level: Level,
    setup: PageCacheSetup,
    block_bytes: u64,
    /// Objects are numbered as they are met: by file, segment and column.
    objects: BTreeMap<(u64, u64, u64), u32>,
    /// Pieces that wait: the request, and where they lie.
    waiting: BTreeMap<u64, (usize, Tier)>,
    next: u64,
}

/// What a level wants done.
struct Wants {
    /// Bytes to fetch.
    fetches: Vec<(FetchId, u64)>,
    /// Pieces that have all their pages.
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

    /// The pages of `bytes` bytes from byte `from` of a location on, in the object that they lie in, and the object's pages.
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
                Action::Deliver { request, .. } | Action::Fail { request } => wants.delivered.push(request.0),
                // The kernel's block layer takes a read for a read.
                Action::Hurry { .. } => {}
                Action::Hit { .. } | Action::Wait { .. } | Action::Store { .. } | Action::Evict { .. } => {}
            }
        }
        wants
    }
}

impl World<'_> {
    /// A piece of a read goes to the cache first. What is fetched comes from the device of the piece, where its object lies.
    pub(super) fn read_cached(
        &mut self,
        now: Time,
        request: usize,
        at: Location,
        from: u64,
        bytes: u64,
        device: usize,
    ) {
        let tier = self.tier_of(device);
        let Some(cache) = &mut self.page_cache else { return };
        let (span, file_blocks) = cache.span(at, from, bytes);
        let id = cache.next;
        cache.next += 1;
        cache.waiting.insert(id, (request, tier));
        cache.level.handle(now, Event::Request(Request { file_blocks, ..Request::read(id, span) }));
        self.foreground[tier as usize] += 1;
        let wants = cache.wants();
        if wants.delivered.is_empty() {
            self.tell(now, TierEvent::Busy(tier));
        }
        self.cache_wants(now, device, wants);
    }

    /// A piece of a write leaves its pages in the cache.
    pub(super) fn write_cached(&mut self, now: Time, at: Location, from: u64, bytes: u64) {
        let Some(cache) = &mut self.page_cache else { return };
        let (span, file_blocks) = cache.span(at, from, bytes);
        let write = Request { id: RequestId(u64::MAX), write: true, file_blocks, ..Request::read(0, span) };
        cache.level.handle(now, Event::Request(write));
        cache.wants();
    }

    /// A location lies in another object now.
    pub(super) fn forget_cached(&mut self, now: Time, at: Location) {
        let Some(cache) = &mut self.page_cache else { return };
        let (span, _) = cache.span(at, 0, cache.block_bytes);
        cache.level.handle(now, Event::Forget(span));
        cache.wants();
    }

    /// A fetch is done.
    pub(super) fn fetched(&mut self, now: Time, id: FetchId, device: usize) {
        let Some(cache) = &mut self.page_cache else { return };
        cache.level.handle(now, Event::FetchDone(id));
        let wants = cache.wants();
        self.cache_wants(now, device, wants);
    }

    fn cache_wants(&mut self, now: Time, device: usize, wants: Wants) {
        for (id, bytes) in wants.fetches {
            self.queue(now, device, Job::Fetch { id }, Region::Read, bytes);
        }
        for id in wants.delivered {
            let waiting = self.page_cache.as_mut().and_then(|cache| cache.waiting.remove(&id));
            if let Some((request, tier)) = waiting {
                self.no_longer(now, tier);
                self.piece_done(now, request);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 64 << 10;

    /// Bytes that a read of a whole block fetches, all of it done before the next.
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
        // A segment's first four blocks are the starts of its four objects; a read of one reads the object's next block as well.
        let of = |block: u64| fetched(&mut PageCache::new(setup, BLOCK), block) / BLOCK;
        assert_eq!((0..16).map(of).collect::<Vec<_>>(), [2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        // What was read ahead is there, one that follows reads on, and what is held costs nothing.
        let mut cache = PageCache::new(setup, BLOCK);
        let all = [0, 4, 8, 12, 0, 16, 9].map(|block| fetched(&mut cache, block) / BLOCK);
        assert_eq!(all.iter().sum::<u64>(), 4 + 2 + 1, "{all:?}");
        // Without read-ahead and without room, each read is what it is.
        let none = PageCacheSetup { read_ahead_bytes: 0, bytes: PAGE, ..setup };
        let mut cache = PageCache::new(none, BLOCK);
        assert_eq!([0, 4, 0, 4].map(|block| fetched(&mut cache, block) / BLOCK), [1; 4]);
    }
}
