//! The fast tier as a cache with LRU eviction.

use std::collections::BTreeMap;

/// Order of use of at most `capacity` locations.
#[derive(Debug, Default)]
pub(super) struct Lru {
    capacity: usize,
    /// Whether a write that misses goes around the cache.
    around: bool,
    used: u64,
    /// Last use and dirty flag by location; and locations by last use.
    held: BTreeMap<u32, (u64, bool)>,
    order: BTreeMap<u64, u32>,
}

impl Lru {
    pub(super) fn new(capacity: usize, around: bool) -> Lru {
        Lru { capacity, around, ..Lru::default() }
    }

    /// Records an access; returns whether it hit, and the evicted location with its dirty flag. `None`: the access
    /// goes around the cache.
    pub(super) fn access(&mut self, at: u32, write: bool) -> Option<(bool, Option<(u32, bool)>)> {
        if self.capacity == 0 || self.around && write && !self.held.contains_key(&at) {
            return None;
        }
        self.used += 1;
        let before = self.held.insert(at, (self.used, write));
        self.order.insert(self.used, at);
        if let Some((used, dirty)) = before {
            self.order.remove(&used);
            self.held.insert(at, (self.used, write || dirty));
            return Some((true, None));
        }
        if self.held.len() <= self.capacity {
            return Some((false, None));
        }
        let victim = self.order.pop_first().map(|(_, victim)| victim);
        let left = victim.and_then(|victim| self.held.remove(&victim).map(|(_, dirty)| (victim, dirty)));
        Some((false, left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_leaves_and_says_whether_it_is_dirty() {
        let mut lru = Lru::new(2, false);
        assert_eq!(lru.access(1, true), Some((false, None)));
        assert_eq!(lru.access(2, false), Some((false, None)));
        assert_eq!(lru.access(1, false), Some((true, None)));
        assert_eq!(lru.access(3, false), Some((false, Some((2, false)))));
        assert_eq!(lru.access(4, false), Some((false, Some((1, true)))), "written once, dirty until it leaves");
    }

    #[test]
    fn a_write_goes_around_unless_it_hits() {
        let mut lru = Lru::new(1, true);
        assert_eq!(lru.access(1, true), None);
        assert_eq!(lru.access(1, false), Some((false, None)));
        assert_eq!(lru.access(1, true), Some((true, None)));
        assert_eq!(lru.access(2, false), Some((false, Some((1, true)))));
    }
}
