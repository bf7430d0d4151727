//! A flat open-addressing table from a number to a slot: linear probing, at most half full, deletion without tombstones.
//!
//! The order of its places depends on the keys alone, so nothing random enters a decision. It grows by doubling and never
//! shrinks: once it has seen its largest population it allocates no more.

/// Marks a free place; no block, stream or client has this number.
const FREE: u64 = u64::MAX;

/// 2^64 divided by the golden ratio: neighbours in number end up far apart, and runs spread evenly.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Clone, Copy, Debug)]
struct Place {
    key: u64,
    slot: u32,
}

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    places: Box<[Place]>,
    shift: u32,
    len: usize,
}

impl Table {
    /// An empty table.
    pub(crate) fn new() -> Table {
        Table::with_bits(4)
    }

    fn with_bits(bits: u32) -> Table {
        let places = vec![Place { key: FREE, slot: 0 }; 1 << bits].into_boxed_slice();
        Table { places, shift: 64 - bits, len: 0 }
    }

    /// How many keys it holds.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(GOLDEN) >> self.shift) as usize
    }

    /// The slot of `key`.
    #[inline]
    pub(crate) fn get(&self, key: u64) -> Option<u32> {
        let mask = self.places.len() - 1;
        let mut at = self.home(key);
        loop {
            let place = self.places[at & mask];
            if place.key == key {
                return Some(place.slot);
            }
            if place.key == FREE {
                return None;
            }
            at += 1;
        }
    }

    /// Adds a key that is not in it.
    #[inline]
    pub(crate) fn insert(&mut self, key: u64, slot: u32) {
        debug_assert!(key != FREE && self.get(key).is_none());
        if (self.len + 1) * 2 > self.places.len() {
            self.grow();
        }
        self.put(key, slot);
        self.len += 1;
    }

    fn put(&mut self, key: u64, slot: u32) {
        let mask = self.places.len() - 1;
        let mut at = self.home(key) & mask;
        while self.places[at].key != FREE {
            at = (at + 1) & mask;
        }
        self.places[at] = Place { key, slot };
    }

    #[cold]
    fn grow(&mut self) {
        let bits = 64 - self.shift + 1;
        let old = std::mem::replace(self, Table::with_bits(bits));
        self.len = old.len;
        for place in old.places.iter().filter(|place| place.key != FREE) {
            self.put(place.key, place.slot);
        }
    }

    /// Removes a key and says its slot. What probed past it moves up, so that no tombstone is needed.
    #[inline]
    pub(crate) fn remove(&mut self, key: u64) -> Option<u32> {
        let mask = self.places.len() - 1;
        let mut at = self.home(key) & mask;
        while self.places[at].key != key {
            if self.places[at].key == FREE {
                return None;
            }
            at = (at + 1) & mask;
        }
        let slot = self.places[at].slot;
        let mut hole = at;
        loop {
            at = (at + 1) & mask;
            let place = self.places[at];
            if place.key == FREE {
                break;
            }
            let probed = at.wrapping_sub(self.home(place.key)) & mask;
            if probed >= (at.wrapping_sub(hole) & mask) {
                self.places[hole] = place;
                hole = at;
            }
        }
        self.places[hole].key = FREE;
        self.len -= 1;
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The same answers as a map, with keys that collide: they are few and close.
        #[test]
        fn agrees_with_a_map(steps in prop::collection::vec((0u64..200, 0u32..1000, any::<bool>()), 0..600)) {
            let mut table = Table::new();
            let mut map = BTreeMap::new();
            for (key, slot, remove) in steps {
                let key = key << 40 | key;
                if remove {
                    prop_assert_eq!(table.remove(key), map.remove(&key));
                } else if let std::collections::btree_map::Entry::Vacant(place) = map.entry(key) {
                    table.insert(key, slot);
                    place.insert(slot);
                }
                prop_assert_eq!(table.len(), map.len());
                for (key, slot) in &map {
                    prop_assert_eq!(table.get(*key), Some(*slot));
                }
            }
        }
    }
}
