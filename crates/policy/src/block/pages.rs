//! Blocks that a level holds or waits for: keeps table, slab and lists in step.

use super::Block;
use super::lists::{Lists, Replacement};
use super::page::{DOOMED, FLYING, PLANNED, TRIGGER};
use super::slab::Slab;
use super::table::Table;

/// Pages of a level. Prefetchers look blocks up here and set marks on them; only the level adds and removes.
#[derive(Clone, Debug)]
pub struct Pages {
    pub(crate) table: Table,
    pub(crate) slab: Slab,
    pub(crate) lists: Lists,
    pub(crate) capacity: u32,
}

impl Pages {
    pub(crate) fn new(capacity: u32, replacement: Replacement) -> Pages {
        Pages { table: Table::new(), slab: Slab::new(), lists: Lists::new(replacement, capacity), capacity }
    }

    /// Returns the slot of a block that is resident or in flight.
    #[inline]
    pub fn find(&self, block: Block) -> Option<u32> {
        self.table.get(&self.slab, block.0)
    }

    /// Whether a block is resident or in flight.
    pub fn contains(&self, block: Block) -> bool {
        self.find(block).is_some()
    }

    /// Returns the slot of the block before, if that is in the same file and here.
    pub fn find_before(&self, block: Block) -> Option<u32> {
        block.before().and_then(|before| self.find(before))
    }

    /// Returns the block at a slot.
    pub fn block(&self, slot: u32) -> Block {
        Block(self.slab.node(slot).key)
    }

    /// Returns the marks of a page ([`super::page`]).
    #[inline]
    pub fn flags(&self, slot: u32) -> u32 {
        self.slab.node(slot).flags
    }

    /// Returns the marks of a page for a change.
    #[inline]
    pub fn flags_mut(&mut self, slot: u32) -> &mut u32 {
        &mut self.slab.node_mut(slot).flags
    }

    /// Removes the trigger from a page. Returns whether it had one.
    pub fn take_trigger(&mut self, slot: u32) -> bool {
        let flags = self.flags_mut(slot);
        let was = *flags & TRIGGER != 0;
        *flags &= !TRIGGER;
        was
    }

    /// Sets the trigger on a block if it is here.
    pub fn set_trigger(&mut self, block: Block) {
        if let Some(slot) = self.find(block) {
            *self.flags_mut(slot) |= TRIGGER;
        }
    }

    /// Sets the trigger on a block if the present request has placed it.
    pub(crate) fn set_trigger_if_new(&mut self, block: Block) {
        if let Some(slot) = self.find(block).filter(|&slot| self.flags(slot) & PLANNED != 0) {
            *self.flags_mut(slot) |= TRIGGER;
        }
    }

    /// Iterates over the slots of all blocks, resident or in flight.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        let live = |(slot, node): (usize, &super::slab::Node)| (node.key != u64::MAX).then_some(slot as u32);
        self.slab.nodes.iter().enumerate().filter_map(live)
    }

    /// Moves a page to the most recently used end if it is resident.
    pub fn renew(&mut self, slot: u32) {
        if self.flags(slot) & FLYING == 0 {
            self.lists.renew(&mut self.slab, slot);
        }
    }

    /// Makes a page the next victim if it is resident.
    pub(crate) fn demote(&mut self, slot: u32) {
        if self.flags(slot) & FLYING == 0 {
            self.lists.demote(&mut self.slab, slot);
        }
    }

    /// Number of frames in use, including those in flight and the doomed.
    #[inline]
    pub(crate) fn used(&self) -> u32 {
        self.slab.used()
    }

    /// Loads the state of these blocks into the processor's cache: their places in the table, then the nodes, then the
    /// nodes' neighbours. No step waits for another block's, and none branches on the result.
    #[inline]
    pub(crate) fn foresee(&self, blocks: &[Block]) {
        const GROUP: usize = 32;
        let nodes = &self.slab.nodes[..];
        let Some(last) = nodes.len().checked_sub(1) else { return };
        for group in blocks.chunks(GROUP) {
            let mut guesses = [0; GROUP];
            for (guess, block) in guesses.iter_mut().zip(group) {
                *guess = (self.table.guess(block.0) as usize).min(last);
            }
            let mut neighbours = [(0, 0); GROUP];
            for (neighbours, &guess) in neighbours.iter_mut().zip(&guesses) {
                let node = &nodes[guess];
                *neighbours = ((node.prev as usize).min(last), (node.next as usize).min(last));
            }
            let seen = |sum: u32, &(prev, next): &(usize, usize)| sum ^ nodes[prev].flags ^ nodes[next].flags;
            std::hint::black_box(neighbours[..group.len()].iter().fold(0, seen));
        }
    }

    /// Gives the victim's frame to a new block, as the most recently used. A victim exists: nothing is in flight.
    #[inline]
    pub(crate) fn reuse_victim(&mut self, block: Block, flags: u32) {
        let Some(slot) = self.lists.victim() else { return };
        self.table.remove(self.slab.node(slot).key, slot);
        self.table.insert(block.0, slot);
        self.lists.remove(&mut self.slab, slot);
        let node = self.slab.node_mut(slot);
        node.key = block.0;
        node.flags = flags;
        self.lists.evicted();
        if let Some(next) = self.lists.victim() {
            // Preloads the next victim's place in the table, which no caller can foresee.
            std::hint::black_box(self.table.guess(self.slab.node(next).key));
        }
        self.lists.insert(&mut self.slab, slot);
    }

    /// Checks that the table, the slab and the lists agree, and that `used` frames do not exceed the capacity.
    pub(crate) fn check(&self, used: u32) -> Result<(), String> {
        if used > self.capacity {
            return Err(format!("{used} blocks in a cache of {}", self.capacity));
        }
        self.lists.check(&self.slab)?;
        let mut listed = 0;
        for (slot, node) in self.slab.nodes.iter().enumerate() {
            if node.key == u64::MAX {
                continue;
            }
            let found = self.table.get(&self.slab, node.key) == Some(slot as u32);
            if found == (node.flags & DOOMED != 0) {
                return Err(format!("{:?} at slot {slot} is found: {found}", Block(node.key)));
            }
            listed += u32::from(node.flags & FLYING == 0);
        }
        if listed != self.lists.len() {
            return Err(format!("{listed} blocks are resident and {} are listed", self.lists.len()));
        }
        Ok(())
    }
}
