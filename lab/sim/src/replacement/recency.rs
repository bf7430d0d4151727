//! Policies with one queue: FIFO, LRU, CLOCK, SIEVE.

use super::Cache;
use super::queues::Queues;

/// First in, first out.
pub struct Fifo {
    capacity: usize,
    queue: Queues<1>,
}

impl Fifo {
    pub fn new(capacity: usize, blocks: usize) -> Fifo {
        Fifo { capacity, queue: Queues::new(blocks) }
    }
}

impl Cache for Fifo {
    fn access(&mut self, block: u32, _: u64) -> bool {
        let hit = self.queue.is_in(0, block);
        if !hit {
            if self.queue.len(0) == self.capacity {
                self.queue.pop_back(0);
            }
            self.queue.push_front(0, block);
        }
        hit
    }
}

/// Least recently used.
pub struct Lru {
    capacity: usize,
    queue: Queues<1>,
}

impl Lru {
    pub fn new(capacity: usize, blocks: usize) -> Lru {
        Lru { capacity, queue: Queues::new(blocks) }
    }
}

impl Cache for Lru {
    fn access(&mut self, block: u32, _: u64) -> bool {
        let hit = self.queue.is_in(0, block);
        if !hit && self.queue.len(0) == self.capacity {
            self.queue.pop_back(0);
        }
        self.queue.move_to_front(0, block);
        hit
    }
}

/// A queue whose last block gets a second chance if it was used since it entered or got the last one.
pub struct Clock {
    capacity: usize,
    queue: Queues<1>,
    used: Vec<bool>,
}

impl Clock {
    pub fn new(capacity: usize, blocks: usize) -> Clock {
        Clock { capacity, queue: Queues::new(blocks), used: vec![false; blocks] }
    }
}

impl Cache for Clock {
    fn access(&mut self, block: u32, _: u64) -> bool {
        if self.queue.is_in(0, block) {
            self.used[block as usize] = true;
            return true;
        }
        if self.queue.len(0) == self.capacity {
            while let Some(last) = self.queue.pop_back(0) {
                if !std::mem::take(&mut self.used[last as usize]) {
                    break;
                }
                self.queue.push_front(0, last);
            }
        }
        self.queue.push_front(0, block);
        false
    }
}

/// A FIFO queue with a hand that moves from the back to the front and evicts the first block that was not used.
pub struct Sieve {
    capacity: usize,
    queue: Queues<1>,
    used: Vec<bool>,
    hand: Option<u32>,
}

impl Sieve {
    pub fn new(capacity: usize, blocks: usize) -> Sieve {
        Sieve { capacity, queue: Queues::new(blocks), used: vec![false; blocks], hand: None }
    }

    fn evict(&mut self) {
        let Some(mut at) = self.hand.or(self.queue.back(0)) else { return };
        while std::mem::take(&mut self.used[at as usize]) {
            let Some(next) = self.queue.ahead(at).or(self.queue.back(0)) else { return };
            at = next;
        }
        self.hand = self.queue.ahead(at);
        self.queue.remove(at);
    }
}

impl Cache for Sieve {
    fn access(&mut self, block: u32, _: u64) -> bool {
        if self.queue.is_in(0, block) {
            self.used[block as usize] = true;
            return true;
        }
        if self.queue.len(0) == self.capacity {
            self.evict();
        }
        self.queue.push_front(0, block);
        false
    }
}
