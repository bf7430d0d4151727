//! Bounded map that drops the least recently touched key: for PFC's block numbers, and the state of streams.

use super::slab::{List, Slab};
use super::table::Table;

/// Bounded map of keys. Values live at the index that [`Recent::enter`] returns.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    table: Table,
    slab: Slab,
    list: List,
    max: u32,
}

/// Position of an entered key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    /// Index of its value.
    pub(crate) at: usize,
    /// Whether the key is new: the value at the index is another key's, or none.
    pub(crate) fresh: bool,
}

impl Recent {
    /// Creates an empty map of up to `max` keys, at least 1.
    pub(crate) fn new(max: u32) -> Recent {
        Recent { table: Table::new(), slab: Slab::new(), list: List::new(), max: max.max(1) }
    }

    /// Returns the index of an existing key without touching it.
    pub(crate) fn find(&self, key: u64) -> Option<usize> {
        self.table.get(&self.slab, key).map(|slot| slot as usize)
    }

    /// Touches an existing key. Returns whether it exists.
    pub(crate) fn touch(&mut self, key: u64) -> bool {
        let Some(slot) = self.table.get(&self.slab, key) else { return false };
        self.list.refresh(&mut self.slab, slot);
        true
    }

    /// Touches a key, adding it if needed; in a full map the least recently touched key is removed.
    pub(crate) fn enter(&mut self, key: u64) -> Entered {
        if let Some(slot) = self.table.get(&self.slab, key) {
            self.list.refresh(&mut self.slab, slot);
            return Entered { at: slot as usize, fresh: false };
        }
        if self.slab.used() == self.max {
            let oldest = self.list.tail;
            let key = self.slab.node(oldest).key;
            self.list.remove(&mut self.slab, oldest);
            self.table.remove(key, oldest);
            self.slab.give(oldest);
        }
        let slot = self.slab.take(key);
        self.table.insert(key, slot);
        self.list.push_front(&mut self.slab, slot);
        Entered { at: slot as usize, fresh: true }
    }

    /// Removes a key.
    pub(crate) fn forget(&mut self, key: u64) {
        if let Some(slot) = self.table.get(&self.slab, key) {
            self.table.remove(key, slot);
            self.list.remove(&mut self.slab, slot);
            self.slab.give(slot);
        }
    }

    /// Iterates over keys and their indices, most recently touched first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.list.iter(&self.slab).map(|slot| (self.slab.node(slot).key, slot as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_touched_longest_ago_goes() {
        let mut recent = Recent::new(2);
        recent.enter(1);
        recent.enter(2);
        assert!(recent.touch(1));
        let three = recent.enter(3);
        assert!(three.fresh);
        assert_eq!(recent.find(2), None);
        assert_eq!(recent.enter(3), Entered { at: three.at, fresh: false });
        assert_eq!(recent.iter().map(|(key, _)| key).collect::<Vec<_>>(), [3, 1]);
        recent.forget(3);
        assert!(!recent.touch(3));
    }
}
