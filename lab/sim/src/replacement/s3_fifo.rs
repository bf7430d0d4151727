//! S3-FIFO: a small FIFO queue in front of a main one, and a ghost queue of blocks that left the small one.

use super::Cache;
use super::queues::Queues;

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;
/// Hits in the small queue after which a block moves to the main queue.
const MOVES_FROM: u32 = 2;
/// Maximum of the hits that keep a block in the main queue.
const HITS_MAX: u32 = 3;

/// S3-FIFO with a small queue of 10 % and a ghost queue of 90 %.
pub struct S3Fifo {
    capacity: usize,
    small_max: usize,
    main_max: usize,
    ghosts_max: usize,
    queues: Queues<3>,
    hits: Vec<u32>,
    has_evicted: bool,
}

impl S3Fifo {
    pub fn new(capacity: usize, blocks: usize) -> S3Fifo {
        let small_max = (capacity as f64 * 0.1) as usize;
        let ghosts_max = (capacity as f64 * 0.9) as usize;
        let (queues, hits) = (Queues::new(blocks), vec![0; blocks]);
        S3Fifo { capacity, small_max, main_max: capacity - small_max, ghosts_max, queues, hits, has_evicted: false }
    }

    fn evict(&mut self) {
        self.has_evicted = true;
        if self.queues.len(MAIN) > self.main_max || self.queues.len(SMALL) == 0 {
            self.evict_main();
        } else {
            self.evict_small();
        }
    }

    fn evict_small(&mut self) {
        while let Some(block) = self.queues.pop_back(SMALL) {
            if self.hits[block as usize] >= MOVES_FROM {
                self.hits[block as usize] = 0;
                self.queues.push_front(MAIN, block);
                continue;
            }
            self.queues.push_within(GHOST, block, self.ghosts_max);
            return;
        }
    }

    fn evict_main(&mut self) {
        while let Some(block) = self.queues.pop_back(MAIN) {
            let hits = &mut self.hits[block as usize];
            if *hits == 0 {
                return;
            }
            *hits = (*hits).min(HITS_MAX) - 1;
            self.queues.push_front(MAIN, block);
        }
    }
}

impl Cache for S3Fifo {
    fn access(&mut self, block: u32, _: u64) -> bool {
        if self.queues.is_in(SMALL, block) || self.queues.is_in(MAIN, block) {
            self.hits[block as usize] += 1;
            return true;
        }
        let was_ghost = self.queues.is_in(GHOST, block);
        self.queues.remove(block);
        while self.queues.len(SMALL) + self.queues.len(MAIN) >= self.capacity {
            self.evict();
        }
        let is_main = was_ghost || !self.has_evicted && self.queues.len(SMALL) >= self.small_max;
        self.hits[block as usize] = 0;
        self.queues.push_front(if is_main { MAIN } else { SMALL }, block);
        false
    }
}
