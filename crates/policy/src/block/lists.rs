//! Replacement: one LRU list, or SARC's two, behind one interface.

use super::page::SEQUENTIAL;
use super::slab::{List, NIL, Slab};
use super::two_lists::{Sarc, TwoLists};

/// Choice of the resident block to evict when a frame is needed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Replacement {
    /// The least recently used block.
    Lru,
    /// SARC's two lists, sequential and random, sized by their marginal utilities.
    Sarc(TwoLists),
}

/// Lists of resident blocks. Blocks in flight are in none.
#[derive(Clone, Debug)]
pub(crate) enum Lists {
    Lru(List),
    Sarc(Box<Sarc>),
}

impl Lists {
    pub(crate) fn new(replacement: Replacement, capacity: u32) -> Lists {
        match replacement {
            Replacement::Lru => Lists::Lru(List::new()),
            Replacement::Sarc(config) => Lists::Sarc(Box::new(Sarc::new(config, capacity))),
        }
    }

    /// Inserts a new resident block as the most recently used of its list.
    #[inline]
    pub(crate) fn insert(&mut self, slab: &mut Slab, slot: u32) {
        match self {
            Lists::Lru(list) => list.push_front(slab, slot),
            Lists::Sarc(sarc) => sarc.insert(slab, slot),
        }
    }

    /// Records a read of a resident block. `adapt` is false for mere prefetches of an upper level.
    #[inline]
    pub(crate) fn hit(&mut self, slab: &mut Slab, slot: u32, adapt: bool) {
        match self {
            Lists::Lru(list) => list.refresh(slab, slot),
            Lists::Sarc(sarc) => sarc.hit(slab, slot, adapt),
        }
    }

    /// Moves a resident block to the most recently used end without counting a hit.
    pub(crate) fn renew(&mut self, slab: &mut Slab, slot: u32) {
        match self {
            Lists::Lru(list) => list.refresh(slab, slot),
            Lists::Sarc(sarc) => sarc.renew(slab, slot),
        }
    }

    /// Makes a resident block the next victim.
    pub(crate) fn demote(&mut self, slab: &mut Slab, slot: u32) {
        match self {
            Lists::Lru(list) => {
                list.remove(slab, slot);
                list.push_back(slab, slot);
            }
            Lists::Sarc(sarc) => sarc.demote(slab, slot),
        }
    }

    /// Removes a resident block.
    #[inline]
    pub(crate) fn remove(&mut self, slab: &mut Slab, slot: u32) {
        match self {
            Lists::Lru(list) => list.remove(slab, slot),
            Lists::Sarc(sarc) => sarc.remove(slab, slot),
        }
    }

    /// Returns the block to evict next.
    #[inline]
    pub(crate) fn victim(&self) -> Option<u32> {
        let slot = match self {
            Lists::Lru(list) => list.tail,
            Lists::Sarc(sarc) => sarc.victim(),
        };
        (slot != NIL).then_some(slot)
    }

    /// Records that the victim was evicted.
    #[inline]
    pub(crate) fn evicted(&mut self) {
        if let Lists::Sarc(sarc) = self {
            sarc.evicted();
        }
    }

    /// Records a missing block; `sequential` if it continues a run.
    #[inline]
    pub(crate) fn missed(&mut self, sequential: bool) {
        if let Lists::Sarc(sarc) = self {
            sarc.missed(sequential);
        }
    }

    /// Number of resident blocks.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Lists::Lru(list) => list.len,
            Lists::Sarc(sarc) => sarc.len(),
        }
    }

    /// Returns the first inconsistency of the lists.
    pub(crate) fn check(&self, slab: &Slab) -> Result<(), String> {
        let lists: &[(&List, Option<bool>)] = match self {
            Lists::Lru(list) => &[(list, None)],
            Lists::Sarc(sarc) => {
                sarc.check(slab)?;
                &[(sarc.list(true), Some(true)), (sarc.list(false), Some(false))]
            }
        };
        for (list, sequential) in lists {
            let mut count = 0;
            for slot in list.iter(slab) {
                count += 1;
                if count > list.len {
                    return Err(format!("a list is longer than its length {}", list.len));
                }
                if sequential.is_some_and(|sequential| (slab.node(slot).flags & SEQUENTIAL != 0) != sequential) {
                    return Err(format!("slot {slot} is in the wrong one of SARC's lists"));
                }
            }
            if count != list.len {
                return Err(format!("a list has {count} nodes and says {}", list.len));
            }
        }
        Ok(())
    }
}
