//! ARC: two LRU queues, for blocks used once and more often, whose shares follow hits on their ghosts.

use super::Cache;
use super::queues::Queues;

const ONCE: usize = 0;
const OFTEN: usize = 1;
const GHOST_ONCE: usize = 2;
const GHOST_OFTEN: usize = 3;

/// ARC with the adaptation of the paper.
pub struct Arc {
    capacity: usize,
    /// Target length of the queue of blocks used once.
    target: f64,
    queues: Queues<4>,
}

impl Arc {
    pub fn new(capacity: usize, blocks: usize) -> Arc {
        Arc { capacity, target: 0.0, queues: Queues::new(blocks) }
    }

    /// Evicts a block and keeps its number as a ghost. `again`: the block to insert was a ghost of the often used.
    fn replace(&mut self, again: bool) {
        let once = self.queues.len(ONCE) as f64;
        let from_once = once > 0.0 && (once > self.target || again && once == self.target);
        let (from, to) =
            if from_once || self.queues.len(OFTEN) == 0 { (ONCE, GHOST_ONCE) } else { (OFTEN, GHOST_OFTEN) };
        if let Some(block) = self.queues.pop_back(from) {
            self.queues.push_front(to, block);
        }
    }

    fn evict_for_new(&mut self) {
        let len = |list| self.queues.len(list);
        let (once, all) = (len(ONCE) + len(GHOST_ONCE), (0..4).map(len).sum::<usize>());
        if once >= self.capacity {
            if self.queues.pop_back(GHOST_ONCE).is_some() {
                self.replace(false);
            } else {
                self.queues.pop_back(ONCE);
            }
        } else {
            if all >= 2 * self.capacity {
                self.queues.pop_back(GHOST_OFTEN);
            }
            self.replace(false);
        }
    }
}

impl Cache for Arc {
    fn access(&mut self, block: u32, _: u64) -> bool {
        if self.queues.is_in(ONCE, block) || self.queues.is_in(OFTEN, block) {
            self.queues.move_to_front(OFTEN, block);
            return true;
        }
        let (once, often) = (self.queues.is_in(GHOST_ONCE, block), self.queues.is_in(GHOST_OFTEN, block));
        let (ghosts_once, ghosts_often) = (self.queues.len(GHOST_ONCE) as f64, self.queues.len(GHOST_OFTEN) as f64);
        if once {
            self.target = (self.target + (ghosts_often / ghosts_once).max(1.0)).min(self.capacity as f64);
        } else if often {
            self.target = (self.target - (ghosts_once / ghosts_often).max(1.0)).max(0.0);
        }
        self.queues.remove(block);
        if self.queues.len(ONCE) + self.queues.len(OFTEN) == self.capacity {
            if once || often { self.replace(often) } else { self.evict_for_new() }
        }
        self.queues.push_front(if once || often { OFTEN } else { ONCE }, block);
        false
    }
}
