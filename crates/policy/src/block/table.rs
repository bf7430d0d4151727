//! Flat open-addressing table from the keys of a slab's nodes to their slots, with linear probing and no tombstones.
//!
//! A place takes eight bytes, so a cache line holds eight: the slot, and the upper half of the key's hash. The
//! hash gives the home of the place, and differs for nearly all other keys. Equal hashes are resolved in the slab,
//! whose node is needed next anyway.
//!
//! The order of the places depends on the keys alone, so nothing random enters a decision. The table doubles when more
//! than three quarters of it are taken, and never shrinks. Once it has seen its largest population it allocates no
//! more.

use super::slab::{NIL, Slab};

/// 2^64 divided by the golden ratio: neighbouring numbers end up far apart, and runs spread evenly.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the upper half of the hash of `key`.
#[inline]
fn hash(key: u64) -> u32 {
    (key.wrapping_mul(GOLDEN) >> 32) as u32
}

#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u32,
    /// [`NIL`]: a free place.
    slot: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    places: Box<[Place]>,
    shift: u32,
    len: usize,
}

impl Table {
    /// Creates an empty table.
    pub(crate) fn new() -> Table {
        Table::with_bits(4)
    }

    fn with_bits(bits: u32) -> Table {
        let places = vec![Place { hash: 0, slot: NIL }; 1 << bits].into_boxed_slice();
        Table { places, shift: 32 - bits, len: 0 }
    }

    /// Number of keys.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn home(&self, hash: u32) -> usize {
        (hash >> self.shift) as usize
    }

    /// Returns the slot at the first place probed for a key, [`NIL`] if that is free: a guess that costs one access.
    #[inline]
    pub(crate) fn guess(&self, key: u64) -> u32 {
        self.places[self.home(hash(key))].slot
    }

    /// Returns the slot of `key`, one of the keys in `slab`.
    #[inline]
    pub(crate) fn get(&self, slab: &Slab, key: u64) -> Option<u32> {
        let mask = self.places.len() - 1;
        let hash = hash(key);
        let mut at = self.home(hash);
        loop {
            let place = self.places[at & mask];
            if place.slot == NIL {
                return None;
            }
            if place.hash == hash && slab.node(place.slot).key == key {
                return Some(place.slot);
            }
            at += 1;
        }
    }

    /// Adds a new key.
    #[inline]
    pub(crate) fn insert(&mut self, key: u64, slot: u32) {
        debug_assert!(slot != NIL);
        if (self.len + 1) * 4 > self.places.len() * 3 {
            self.grow();
        }
        self.put(Place { hash: hash(key), slot });
        self.len += 1;
    }

    #[inline]
    fn put(&mut self, place: Place) {
        let mask = self.places.len() - 1;
        let mut at = self.home(place.hash) & mask;
        while self.places[at].slot != NIL {
            at = (at + 1) & mask;
        }
        self.places[at] = place;
    }

    #[cold]
    fn grow(&mut self) {
        let bits = 32 - self.shift + 1;
        let old = std::mem::replace(self, Table::with_bits(bits));
        self.len = old.len;
        for place in old.places.iter().filter(|place| place.slot != NIL) {
            self.put(*place);
        }
    }

    /// Removes the key with this slot. Returns whether it existed. Keys that probed past it move up.
    #[inline]
    pub(crate) fn remove(&mut self, key: u64, slot: u32) -> bool {
        let mask = self.places.len() - 1;
        let mut at = self.home(hash(key)) & mask;
        while self.places[at].slot != slot {
            if self.places[at].slot == NIL {
                return false;
            }
            at = (at + 1) & mask;
        }
        let mut hole = at;
        loop {
            at = (at + 1) & mask;
            let place = self.places[at];
            if place.slot == NIL {
                break;
            }
            let probed = at.wrapping_sub(self.home(place.hash)) & mask;
            if probed >= (at.wrapping_sub(hole) & mask) {
                self.places[hole] = place;
                hole = at;
            }
        }
        self.places[hole].slot = NIL;
        self.len -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Finds two keys with the same upper half of the hash; some hundred thousand keys contain such pairs.
    fn twins() -> (u64, u64) {
        let mut seen = BTreeMap::new();
        let keys = (0u64..).map(|n| ((n * n) << 8) | (n & 0xff));
        let mut twins =
            keys.filter_map(|key| seen.insert(hash(key), key).filter(|other| *other != key).map(|other| (other, key)));
        twins.next().unwrap()
    }

    #[test]
    fn keys_of_one_hash_are_told_apart_by_the_slab() {
        let (a, b) = twins();
        assert!(a != b && hash(a) == hash(b));
        let (mut slab, mut table) = (Slab::new(), Table::new());
        let slots = [a, b].map(|key| {
            let slot = slab.take(key);
            table.insert(key, slot);
            slot
        });
        assert_eq!([a, b].map(|key| table.get(&slab, key)), slots.map(Some));
        assert!(table.remove(a, slots[0]));
        assert_eq!([a, b].map(|key| table.get(&slab, key)), [None, Some(slots[1])]);
    }

    proptest! {
        /// The table behaves like a map, with colliding keys: they are few and close.
        #[test]
        fn agrees_with_a_map(steps in prop::collection::vec((0u64..200, any::<bool>()), 0..600)) {
            let (mut slab, mut table) = (Slab::new(), Table::new());
            let mut map = BTreeMap::new();
            for (key, remove) in steps {
                let key = key << 40 | key;
                if remove {
                    if let Some(slot) = map.remove(&key) {
                        prop_assert!(table.remove(key, slot));
                        slab.give(slot);
                    }
                } else if let std::collections::btree_map::Entry::Vacant(place) = map.entry(key) {
                    let slot = slab.take(key);
                    table.insert(key, slot);
                    place.insert(slot);
                }
                prop_assert_eq!(table.len(), map.len());
                prop_assert_eq!(table.get(&slab, key), map.get(&key).copied());
                for (key, slot) in &map {
                    prop_assert_eq!(table.get(&slab, *key), Some(*slot));
                }
            }
        }
    }
}
