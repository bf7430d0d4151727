//! LIRS: blocks whose last two accesses are close (LIR) stay; the others (HIR) pass through a short queue.

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

    /// Makes a block LIR, and the oldest LIR block HIR if there are too many.
    fn raise(&mut self, block: u32) {
        self.set(block, Status::Low);
        self.stack.move_to_front(0, block);
        self.low += 1;
        if self.low > self.low_max
            && let Some(oldest) = self.stack.pop_back(0)
        {
            self.set(oldest, Status::High);
            self.queue.push_front(0, oldest);
            self.low -= 1;
        }
        self.prune();
    }

    /// Removes HIR blocks from the bottom of the stack.
    fn prune(&mut self) {
        while let Some(last) = self.stack.back(0).filter(|last| self.status[*last as usize] != Status::Low) {
            self.stack.remove(last);
            self.ghosts.remove(last);
        }
    }

    fn hit_high(&mut self, block: u32) {
        self.queue.remove(block);
        if self.stack.is_in(0, block) {
            return self.raise(block);
        }
        self.stack.push_front(0, block);
        self.queue.push_front(0, block);
        self.prune();
    }

    fn miss(&mut self, block: u32) {
        self.ghosts.remove(block);
        if self.low < self.low_max && !self.stack.is_in(0, block) {
            return self.raise(block);
        }
        if self.queue.len(0) >= self.high_max {
            self.evict();
        }
        if self.stack.is_in(0, block) && self.low_max > 0 {
            return self.raise(block);
        }
        self.set(block, Status::High);
        self.stack.move_to_front(0, block);
        self.queue.push_front(0, block);
        self.prune();
    }

    fn evict(&mut self) {
        let Some(evicted) = self.queue.pop_back(0) else { return };
        self.set(evicted, Status::Away);
        if self.stack.is_in(0, evicted) {
            self.ghosts.push_front(0, evicted);
        }
    }
}

impl Cache for Lirs {
    fn access(&mut self, block: u32, _: u64) -> bool {
        let status = self.status[block as usize];
        match status {
            Status::Low => {
                self.stack.move_to_front(0, block);
                self.prune();
            }
            Status::High => self.hit_high(block),
            Status::Away => self.miss(block),
        }
        while self.stack.len(0) > 2 * self.capacity
            && let Some(forgotten) = self.ghosts.pop_back(0)
        {
            self.stack.remove(forgotten);
        }
        status != Status::Away
    }
}
