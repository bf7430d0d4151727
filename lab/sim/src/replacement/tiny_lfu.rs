//! W-TinyLFU: a small LRU window in front of a segmented LRU; a block enters the main part only if it was used more
//! often than the block that it would replace.

use super::Cache;
use super::queues::Queues;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// Rows of the sketch of counts.
const ROWS: usize = 4;
/// Counts are at most this.
const COUNT_MAX: u8 = 15;

/// W-TinyLFU with a window of 1 % and 80 % of the rest protected.
pub struct WTinyLfu {
    window_max: usize,
    main_max: usize,
    protected_max: usize,
    queues: Queues<3>,
    sketch: Sketch,
}

impl WTinyLfu {
    pub fn new(capacity: usize, blocks: usize) -> WTinyLfu {
        let window_max = ((capacity as f64 * 0.01) as usize).max(1).min(capacity);
        let main_max = capacity - window_max;
        let protected_max = main_max * 4 / 5;
        WTinyLfu { window_max, main_max, protected_max, queues: Queues::new(blocks), sketch: Sketch::new(capacity) }
    }

    fn main(&self) -> usize {
        self.queues.len(PROBATION) + self.queues.len(PROTECTED)
    }

    fn hit(&mut self, block: u32) {
        if self.queues.is_in(WINDOW, block) {
            return self.queues.move_to_front(WINDOW, block);
        }
        self.queues.move_to_front(PROTECTED, block);
        if self.queues.len(PROTECTED) > self.protected_max
            && let Some(oldest) = self.queues.pop_back(PROTECTED)
        {
            self.queues.push_front(PROBATION, oldest);
        }
    }

    /// Moves the oldest block of the window into the main part, or evicts it.
    fn leave_window(&mut self) {
        let Some(candidate) = self.queues.pop_back(WINDOW) else { return };
        if self.main() >= self.main_max {
            let victim = self.queues.back(PROBATION).or(self.queues.back(PROTECTED));
            match victim {
                Some(victim) if self.sketch.count(candidate) > self.sketch.count(victim) => self.queues.remove(victim),
                _ => return,
            }
        }
        self.queues.push_front(PROBATION, candidate);
    }
}

impl Cache for WTinyLfu {
    fn access(&mut self, block: u32, _: u64) -> bool {
        self.sketch.add(block);
        let hit = (0..3).any(|list| self.queues.is_in(list, block));
        if hit {
            self.hit(block);
        } else {
            if self.queues.len(WINDOW) == self.window_max {
                self.leave_window();
            }
            self.queues.push_front(WINDOW, block);
        }
        hit
    }
}

/// Count-min sketch with conservative updates. All counts are halved after ten times as many additions as the cache
/// has blocks.
struct Sketch {
    counts: Vec<u8>,
    mask: u64,
    added: usize,
    period: usize,
}

impl Sketch {
    fn new(capacity: usize) -> Sketch {
        let width = (capacity.max(16) * 4).next_power_of_two();
        Sketch { counts: vec![0; width * ROWS], mask: width as u64 - 1, added: 0, period: capacity.max(1) * 10 }
    }

    fn places(&self, block: u32) -> [usize; ROWS] {
        let width = self.mask as usize + 1;
        std::array::from_fn(|row| {
            row * width + (super::sequence::mixed(u64::from(block), row as u64) & self.mask) as usize
        })
    }

    fn count(&self, block: u32) -> u8 {
        self.places(block).into_iter().map(|at| self.counts[at]).min().unwrap_or(0)
    }

    fn add(&mut self, block: u32) {
        let count = self.count(block);
        if count < COUNT_MAX {
            for at in self.places(block) {
                self.counts[at] = self.counts[at].max(count + 1);
            }
        }
        self.added += 1;
        if self.added >= self.period {
            self.added /= 2;
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
    }
}
