//! LIRS: blocks whose last two accesses are close (LIR) stay; the others (HIR) pass through a short queue.
//!
//! Two details are those of libCacheSim and not of the paper. A hit outside the stack makes the oldest LIR block HIR.
//! In a queue of one block (fewer than 200 blocks in all), that block displaces the accessed one. The accessed block
//! remains cached while it is in the stack, so such a cache holds a few blocks more than its capacity.

use super::Cache;
use super::queues::Queues;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    /// Not in the cache. Its number may be in the stack.
    Away,
    /// In the cache, with low inter-reference recency.
    Low,
    /// In the cache, with high inter-reference recency.
    High,
}

/// LIRS with 1 % of the cache for HIR blocks, and a stack of at most twice as many numbers as the cache has blocks.
pub struct Lirs {
    capacity: usize,
    low_max: usize,
    high_max: usize,
    low: usize,
    status: Vec<Status>,
    /// Blocks by recency; the last one is LIR.
    stack: Queues<1>,
    /// HIR blocks in the cache.
    queue: Queues<1>,
    /// Blocks of the stack that are away, by the time at which they left.
    ghosts: Queues<1>,
}

impl Lirs {
    pub fn new(capacity: usize, blocks: usize) -> Lirs {
        let high_max = ((capacity as f64 * 0.01) as usize).max(1);
        let (low_max, status) = (capacity.saturating_sub(high_max), vec![Status::Away; blocks]);
        let [stack, queue, ghosts] = std::array::from_fn(|_| Queues::new(blocks));
        Lirs { capacity, low_max, high_max, low: 0, status, stack, queue, ghosts }
    }

    fn set(&mut self, block: u32, status: Status) {
        self.status[block as usize] = status;
    }

    /// Makes a block of the stack LIR.
    fn raise(&mut self, block: u32) {
        self.make_room();
        self.set(block, Status::Low);
        self.low += 1;
    }

    /// Makes the oldest LIR block HIR if no other block can become LIR.
    fn make_room(&mut self) {
        if self.low < self.low_max || self.low == 0 {
            return;
        }
        let Some(oldest) = self.stack.pop_back(0) else { return };
        self.low -= 1;
        self.insert_high(oldest);
        self.prune();
    }

    /// Inserts a block into the queue, which evicts another one if the queue is full.
    fn insert_high(&mut self, block: u32) {
        if self.queue.len(0) >= self.high_max
            && let Some(evicted) = self.queue.pop_back(0)
        {
            self.set(evicted, Status::Away);
            if self.stack.is_in(0, evicted) {
                self.ghosts.push_front(0, evicted);
            }
        }
        self.set(block, Status::High);
        self.queue.move_to_front(0, block);
    }

    /// Removes HIR blocks from the bottom of the stack.
    fn prune(&mut self) {
        while let Some(last) = self.stack.back(0)
            && self.status[last as usize] != Status::Low
            && self.stack.len(0) > 1
        {
            self.stack.remove(last);
            self.ghosts.remove(last);
            if !self.queue.is_in(0, last) {
                self.set(last, Status::Away);
            }
        }
    }

    fn hit_high(&mut self, block: u32, can_rise: bool) {
        if can_rise {
            self.queue.remove(block);
            return self.raise(block);
        }
        self.queue.move_to_front(0, block);
        self.make_room();
        self.set(block, Status::High);
        self.stack.move_to_front(0, block);
    }

    fn miss(&mut self, block: u32, can_rise: bool) {
        self.ghosts.remove(block);
        if can_rise {
            return self.raise(block);
        }
        if self.low < self.low_max {
            self.set(block, Status::Low);
            self.low += 1;
        } else {
            self.insert_high(block);
        }
        self.stack.move_to_front(0, block);
    }
}

impl Cache for Lirs {
    fn access(&mut self, block: u32, _: u64) -> bool {
        let (status, is_in_stack) = (self.status[block as usize], self.stack.is_in(0, block));
        if is_in_stack {
            self.stack.move_to_front(0, block);
        }
        // A cache of one block has no LIR blocks.
        let can_rise = is_in_stack && self.low_max > 0;
        match status {
            Status::Low => self.prune(),
            Status::High => self.hit_high(block, can_rise),
            Status::Away => self.miss(block, can_rise),
        }
        while self.stack.len(0) > 2 * self.capacity
            && let Some(forgotten) = self.ghosts.pop_back(0)
        {
            self.stack.remove(forgotten);
        }
        status != Status::Away
    }
}
