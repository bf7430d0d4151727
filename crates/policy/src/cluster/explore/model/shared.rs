//! The marks and layouts in the shared file system, as a node lists, reads and changes them.

use super::*;

pub(super) fn code(mark: Mark) -> (u8, u8, u8) {
    match mark {
        Mark::Layout(generation) => (0, generation as u8, 0),
        Mark::Change(generation) => (1, generation as u8, 0),
        Mark::Writer { node, entry } => (2, node.0 as u8, entry as u8),
        Mark::Grows { node, entry, generation } => (3, node.0 as u8, entry as u8 | (generation as u8) << 2),
        Mark::Cut(generation) => (4, generation as u8, 0),
    }
}

impl State {
    pub(super) fn listed(&self) -> BTreeSet<Mark> {
        let mut listed = BTreeSet::new();
        for generation in 1..GENERATIONS {
            if self.layouts[generation].by > 0 {
                listed.insert(Mark::Layout(generation as u64));
            }
            if self.claims[generation].0 > 0 {
                listed.insert(Mark::Change(generation as u64));
            }
        }
        for (number, entries) in self.writers.iter().enumerate().filter(|(_, entries)| **entries > 0) {
            for entry in (0..4).filter(|entry| entries & (1 << entry) != 0) {
                listed.insert(Mark::Writer { node: Node(number as u32), entry });
            }
        }
        for (number, mark) in self.grows.iter().enumerate().filter(|(_, mark)| **mark > 0) {
            let (entry, generation) = (u64::from(mark & 3), u64::from(mark >> 2));
            listed.insert(Mark::Grows { node: Node(number as u32), entry, generation });
        }
        let cuts = (1..GENERATIONS).filter(|generation| self.cuts & (1 << generation) != 0);
        listed.extend(cuts.map(|generation| Mark::Cut(generation as u64)));
        listed
    }

    pub(super) fn claim(&self, generation: u8) -> Option<Claim> {
        let (node, drains) = self.claims[generation as usize];
        let node = Node(u32::from(node));
        (node.0 > 0).then_some(Claim { node, generation: u64::from(generation), drains })
    }

    pub(super) fn marks(&self) -> Marks {
        let listed = self.listed();
        let claim = share::claimed(&listed).and_then(|generation| self.claim(generation as u8));
        Marks::new(&listed, claim)
    }

    pub(super) fn highest(&self) -> usize {
        (1..GENERATIONS).rev().find(|generation| self.layouts[*generation].by > 0).unwrap()
    }

    pub(super) fn remove(&mut self, mark: (u8, u8, u8)) {
        let at = mark.1 as usize;
        match mark.0 {
            0 => self.layouts[at] = Record::default(),
            1 => self.claims[at] = (0, false),
            2 => self.writers[at] &= !(1 << mark.2),
            3 if self.grows[at] == mark.2 => self.grows[at] = 0,
            3 => {}
            _ => self.cuts &= !(1 << at),
        }
    }

    /// Creates a layout record, and returns whether it exists now, or whose record exists.
    pub(super) fn publish(&mut self, generation: u8, record: Record) -> Created {
        let highest = self.highest();
        let there = &mut self.layouts[generation as usize];
        if there.by > 0 {
            return Created::Exists { mine: *there == record };
        }
        *there = record;
        if generation as usize > highest + 1 {
            self.broken = 4;
        }
        Created::Yes
    }
}
