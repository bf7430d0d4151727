//! W-TinyLFU: a small LRU window in front of a segmented LRU; a block enters the main part only if it was used more
//! often than the block that it would replace.

use super::Cache;
use super::queues::Queues;

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// Hits per block of the main part after which all counts are halved.
const HITS_PER_AGE: usize = 32;

/// W-TinyLFU with a window of 1 % and 80 % of the rest protected.
pub struct WTinyLfu {
    capacity: usize,
    main_max: usize,
    probation_max: usize,
    protected_max: usize,
    queues: Queues<3>,
    counts: Counts,
    /// Hits in the main part since the last ageing.
    hits: usize,
}

impl WTinyLfu {
    pub fn new(capacity: usize, blocks: usize) -> WTinyLfu {
        let main_max = capacity - ((capacity as f64 * 0.01) as usize).max(1).min(capacity);
        let (probation_max, protected_max) = ((main_max / 5).max(1), main_max * 4 / 5);
        let (queues, counts) = (Queues::new(blocks), Counts::new(main_max));
        WTinyLfu { capacity, main_max, probation_max, protected_max, queues, counts, hits: 0 }
    }

    fn main(&self) -> usize {
        self.queues.len(PROBATION) + self.queues.len(PROTECTED)
    }

    fn hit_main(&mut self, block: u32) {
        self.queues.move_to_front(PROTECTED, block);
        if self.queues.len(PROTECTED) > self.protected_max
            && let Some(oldest) = self.queues.pop_back(PROTECTED)
        {
            self.queues.push_within(PROBATION, oldest, self.probation_max);
        }
        self.counts.add(block);
        self.hits += 1;
        if self.hits >= HITS_PER_AGE * self.main_max {
            self.hits = 0;
            self.counts.halve();
        }
    }

    /// Inserts a block into the main part, which has room for it. The first blocks fill the protected segment, too.
    fn insert_main(&mut self, block: u32) {
        let is_protected =
            self.queues.len(PROBATION) >= self.probation_max && self.queues.len(PROTECTED) < self.protected_max;
        self.queues.push_front(if is_protected { PROTECTED } else { PROBATION }, block);
    }

    /// Moves the oldest blocks of the window into the main part until that is full; then evicts one block.
    fn evict(&mut self) {
        while let Some(candidate) = self.queues.pop_back(WINDOW) {
            let has_room = self.main() < self.main_max;
            let victim = self.queues.back(PROBATION).or(self.queues.back(PROTECTED));
            if has_room {
                self.insert_main(candidate);
            } else if let Some(victim) = victim
                && self.counts.of(candidate) > self.counts.of(victim)
            {
                self.queues.remove(victim);
                self.insert_main(candidate);
            }
            self.counts.add(candidate);
            if !has_room {
                return;
            }
        }
        if self.queues.pop_back(PROBATION).is_none() {
            self.queues.pop_back(PROTECTED);
        }
    }
}

impl Cache for WTinyLfu {
    fn access(&mut self, block: u32, _: u64) -> bool {
        if self.queues.is_in(WINDOW, block) {
            self.queues.move_to_front(WINDOW, block);
            return true;
        }
        if self.queues.is_in(PROBATION, block) || self.queues.is_in(PROTECTED, block) {
            self.hit_main(block);
            return true;
        }
        if self.queues.len(WINDOW) + self.main() >= self.capacity {
            self.evict();
        }
        self.queues.push_front(WINDOW, block);
        self.counts.add(block);
        false
    }
}

/// Places of a block in the table of counts: a Bloom filter with 0.1 % of false positives has ten per entry.
const PLACES: u32 = 10;
/// Counts for each block of the main part: `ln 1000 / (ln 2)^2`, the size of that filter.
const COUNTS_PER_BLOCK: f64 = 14.377_587_566_051_17;
/// Seeds of the two hashes of a block, those of libCacheSim.
const SEEDS: [u64; 2] = [0x1234_5678, 0x1234_4321];

/// Counting Bloom filter of accesses; the count of a block is the smallest of its places.
struct Counts(Vec<u32>);

impl Counts {
    fn new(entries: usize) -> Counts {
        let len = (entries as f64 * COUNTS_PER_BLOCK).ceil() as usize;
        Counts(vec![0; if len < PLACES as usize { 2 * PLACES as usize } else { len }])
    }

    fn places(&self, block: u32) -> impl Iterator<Item = usize> + use<> {
        let ([first, step], len) = (SEEDS.map(|seed| xxh64(u64::from(block), seed) as u32), self.0.len());
        (0..PLACES).map(move |n| first.wrapping_add(n.wrapping_mul(step)) as usize % len)
    }

    fn of(&self, block: u32) -> u32 {
        self.places(block).map(|at| self.0[at]).min().unwrap_or(0)
    }

    fn add(&mut self, block: u32) {
        self.places(block).for_each(|at| self.0[at] += 1);
    }

    fn halve(&mut self) {
        self.0.iter_mut().for_each(|count| *count /= 2);
    }
}

/// XXH64 of the eight bytes of a number (the specification of xxHash, section 64-bit).
fn xxh64(number: u64, seed: u64) -> u64 {
    const PRIMES: [u64; 5] = [
        0x9e37_79b1_85eb_ca87,
        0xc2b2_ae3d_27d4_eb4f,
        0x1656_67b1_9e37_79f9,
        0x85eb_ca77_c2b2_ae63,
        0x27d4_eb2f_1656_67c5,
    ];
    let [p1, p2, p3, p4, p5] = PRIMES;
    let lane = number.wrapping_mul(p2).rotate_left(31).wrapping_mul(p1);
    let mut hash = seed.wrapping_add(p5).wrapping_add(8) ^ lane;
    hash = hash.rotate_left(27).wrapping_mul(p1).wrapping_add(p4);
    hash = (hash ^ hash >> 33).wrapping_mul(p2);
    hash = (hash ^ hash >> 29).wrapping_mul(p3);
    hash ^ hash >> 32
}
