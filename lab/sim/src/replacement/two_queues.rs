//! 2Q: a FIFO queue for new blocks, an LRU queue for blocks that return after it, and a ghost queue between them.

use super::Cache;
use super::queues::Queues;

const NEW: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;

/// 2Q with the shares 25 % for new blocks and 50 % for ghosts.
pub struct TwoQ {
    capacity: usize,
    new_max: usize,
    ghosts_max: usize,
    queues: Queues<3>,
}

impl TwoQ {
    pub fn new(capacity: usize, blocks: usize) -> TwoQ {
        TwoQ { capacity, new_max: capacity / 4, ghosts_max: capacity / 2, queues: Queues::new(blocks) }
    }

    fn evict(&mut self) {
        if self.queues.len(NEW) <= self.new_max && self.queues.pop_back(MAIN).is_some() {
            return;
        }
        if let Some(block) = self.queues.pop_back(NEW) {
            self.queues.push_within(GHOST, block, self.ghosts_max);
        }
    }
}

impl Cache for TwoQ {
    fn access(&mut self, block: u32, _: u64) -> bool {
        if self.queues.is_in(NEW, block) {
            return true;
        }
        if self.queues.is_in(MAIN, block) {
            self.queues.move_to_front(MAIN, block);
            return true;
        }
        let list = if self.queues.is_in(GHOST, block) { MAIN } else { NEW };
        self.queues.remove(block);
        if self.queues.len(NEW) + self.queues.len(MAIN) == self.capacity {
            self.evict();
        }
        self.queues.push_front(list, block);
        false
    }
}
