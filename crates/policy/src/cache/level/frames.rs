//! Frames: allocation for blocks, evictions that make room, and the counts of both.

use super::Level;
use super::plan::Placed;
use crate::block::Block;
use crate::block::page::{DOOMED, FLYING, PLANNED, PREFETCHED, SEQUENTIAL, USED};
use crate::block::{Reason, Request};
use crate::cache::event::Action;
use crate::prefetch::{Ahead, Algorithm, Context, Prefetcher};

impl<A: Algorithm> Level<A> {
    /// Makes a frame free. Returns false if all are in flight.
    #[inline]
    fn make_room(&mut self) -> bool {
        while self.frames_used() >= self.pages.capacity {
            let Some(slot) = self.pages.lists.victim() else { return false };
            if self.prefetcher.keeps(&mut self.pages, slot) {
                continue;
            }
            self.stats.evicted += 1;
            self.drop_slot(slot);
            self.pages.lists.evicted();
        }
        true
    }

    /// Number of frames in use: with separate buffers, blocks in flight have none yet.
    #[inline]
    pub(super) fn frames_used(&self) -> u32 {
        if self.config.buffers { self.pages.lists.len() } else { self.pages.used() }
    }

    /// Adds a block to the lists on arrival; with separate buffers, it takes its frame now.
    #[inline]
    pub(super) fn insert(&mut self, slot: u32) {
        if self.config.buffers {
            self.make_room();
        }
        self.pages.lists.insert(&mut self.pages.slab, slot);
    }

    /// Gives a block a frame, in no list yet; `None` if no frame is free.
    #[inline]
    pub(super) fn frame(&mut self, block: Block, flags: u32, owner: u32) -> Option<u32> {
        if !self.config.buffers && !self.make_room() {
            return None;
        }
        let slot = self.pages.slab.take(block.0);
        let node = self.pages.slab.node_mut(slot);
        node.flags = flags;
        node.owner = owner;
        self.pages.table.insert(block.0, slot);
        self.prefetcher.fresh(slot, block);
        Some(slot)
    }

    /// Plans the fetch of a block with a new frame; it is resident at once if fetches are instant.
    pub(super) fn send_for(&mut self, slot: u32, block: Block, reason: Reason) {
        self.stats.fetched += 1;
        self.plan.placed.push(Placed { block, slot, reason });
        if self.instant {
            *self.pages.flags_mut(slot) &= !FLYING;
            self.insert(slot);
        }
    }

    /// Places a prefetch: gives frames to its absent blocks as long as there are any. Blocks of the request before
    /// `visited_end` are skipped, even if they have lost their frames again.
    pub(super) fn place(&mut self, ahead: &Ahead, request: &Request, visited_end: Block, context: &Context) {
        let span = crate::coordinate::pfc::clipped(ahead.span.first, ahead.span.len, request.file_blocks);
        let owner = request.stream;
        let visited = request.span.first..visited_end;
        let mut placed = 0;
        for block in span.blocks() {
            if !visited.contains(&block) && self.pages.find(block).is_none() {
                let flags = FLYING | PLANNED | PREFETCHED | SEQUENTIAL;
                let Some(slot) = self.frame(block, flags, owner) else {
                    self.stats.prefetch_dropped += u64::from(span.len - placed);
                    break;
                };
                self.count_prefetched(owner);
                self.send_for(slot, block, ahead.reason);
            }
            placed += 1;
        }
        let set = crate::cache::Span { len: placed, ..span };
        if placed > 0 {
            self.prefetcher.placed(&mut self.pages, set, context);
            if let Some(mark) = ahead.mark {
                self.pages.set_trigger_if_new(mark);
            }
        }
    }

    /// Counts a prefetched block.
    pub(super) fn count_prefetched(&mut self, owner: u32) {
        self.stats.prefetched += 1;
        if let Some(stream) = self.tally.as_mut().and_then(|tally| tally.find(owner)) {
            stream.prefetched += 1;
            stream.inventory += 1;
        }
    }

    /// Drops a block, resident or in flight. A block in flight still arrives for waiting requests, but is not kept.
    pub(super) fn drop_slot(&mut self, slot: u32) {
        let block = self.pages.block(slot);
        let flags = self.pages.flags(slot);
        self.count_wasted(slot);
        self.pages.table.remove(block.0, slot);
        if flags & FLYING != 0 {
            *self.pages.flags_mut(slot) |= DOOMED;
            return;
        }
        self.pages.lists.remove(&mut self.pages.slab, slot);
        self.pages.slab.give(slot);
        if self.config.announce {
            self.say_run();
            self.actions.push_back(Action::Evict { block, used: flags & USED != 0 });
        }
    }

    /// Counts a dropped block as wasted if it was prefetched and never requested.
    pub(super) fn count_wasted(&mut self, slot: u32) {
        let node = self.pages.slab.node_mut(slot);
        if node.flags & (PREFETCHED | USED) != PREFETCHED {
            return;
        }
        node.flags &= !PREFETCHED;
        let owner = node.owner;
        self.stats.prefetch_wasted += 1;
        if let Some(stream) = self.tally.as_mut().and_then(|tally| tally.find(owner)) {
            stream.prefetch_wasted += 1;
            stream.inventory = stream.inventory.saturating_sub(1);
        }
    }
}
