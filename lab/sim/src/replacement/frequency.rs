//! Policies with a priority for each block: LFU and Belady.

use super::Cache;
use std::collections::BTreeSet;

/// Least frequently used. Among blocks of one count, the one that reached it first leaves.
pub struct Lfu {
    capacity: usize,
    /// Count, time at which it was reached, block.
    order: BTreeSet<(u64, u64, u32)>,
    /// Key of each block that is here.
    here: Vec<Option<(u64, u64)>>,
    now: u64,
}

impl Lfu {
    pub fn new(capacity: usize, blocks: usize) -> Lfu {
        Lfu { capacity, order: BTreeSet::new(), here: vec![None; blocks], now: 0 }
    }
}

impl Cache for Lfu {
    fn access(&mut self, block: u32, _: u64) -> bool {
        self.now += 1;
        let known = self.here[block as usize];
        if let Some((count, since)) = known {
            self.order.remove(&(count, since, block));
        } else if self.order.len() == self.capacity
            && let Some((_, _, rarest)) = self.order.pop_first()
        {
            self.here[rarest as usize] = None;
        }
        let key = (known.map_or(0, |(count, _)| count) + 1, self.now);
        self.here[block as usize] = Some(key);
        self.order.insert((key.0, key.1, block));
        known.is_some()
    }
}

/// Evicts the block whose next access is farthest. Every block enters, as for the other policies.
pub struct Belady {
    capacity: usize,
    /// Next access, block.
    order: BTreeSet<(u64, u32)>,
    here: Vec<Option<u64>>,
}

impl Belady {
    pub fn new(capacity: usize, blocks: usize) -> Belady {
        Belady { capacity, order: BTreeSet::new(), here: vec![None; blocks] }
    }
}

impl Cache for Belady {
    fn access(&mut self, block: u32, next: u64) -> bool {
        let known = self.here[block as usize].take();
        if let Some(at) = known {
            self.order.remove(&(at, block));
        }
        if self.order.len() == self.capacity
            && let Some((_, farthest)) = self.order.pop_last()
        {
            self.here[farthest as usize] = None;
        }
        self.here[block as usize] = Some(next);
        self.order.insert((next, block));
        known.is_some()
    }
}
