//! The lease files of the namespace: effects of a rename, and contents of a listing.

use policy::Time;
use policy::cluster::lease::{Event, Seen};
use policy::cluster::{Node, past};
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    New,
    Beat(u64),
    Over,
    /// Over, and without names of its own.
    Folded,
}

/// One file per number, from 1 on.
#[derive(Debug, Default)]
pub struct Directory {
    files: Vec<(Name, Time)>,
    beats: usize,
    folded: usize,
}

impl Directory {
    /// Creates a directory with `past` numbers that are over; `named`: each still has its names.
    pub fn new(past: u32, named: bool) -> Directory {
        let name = if named { Name::Over } else { Name::Folded };
        let folded = if named { 0 } else { past as usize };
        Directory { files: vec![(name, Time::ZERO); past as usize], beats: 0, folded }
    }

    /// Takes the next number, for a lease of that length.
    pub fn claim(&mut self, lease: Time) -> Node {
        self.files.push((Name::New, lease));
        Node(self.files.len() as u32)
    }

    /// Renames a file; returns whether it had the name `from`.
    pub fn rename(&mut self, node: Node, from: Name, to: Name) -> bool {
        let (name, _) = &mut self.files[node.0 as usize - 1];
        let found = *name == from;
        if found {
            *name = to;
            let is_beat = |name| usize::from(matches!(name, Name::Beat(_)));
            self.beats = self.beats + is_beat(to) - is_beat(from);
        }
        found
    }

    /// Nodes that are not over.
    pub fn members(&self) -> BTreeSet<Node> {
        let alive = |(name, _): &(Name, Time)| !matches!(name, Name::Over | Name::Folded);
        (1..).map(Node).zip(&self.files).filter(|(_, file)| alive(file)).map(|(node, _)| node).collect()
    }

    /// Number of leases.
    pub fn leases(&self) -> usize {
        self.beats
    }

    /// Folds nodes that are over if there are many; returns the number.
    pub fn fold(&mut self) -> usize {
        let named: Vec<&mut Name> =
            self.files.iter_mut().map(|(name, _)| name).filter(|name| **name == Name::Over).collect();
        let count = past::to_fold(named.len());
        named.into_iter().take(count).for_each(|name| *name = Name::Folded);
        self.folded += count;
        count
    }

    #[cfg(test)]
    pub fn is_over(&self, node: Node) -> bool {
        matches!(self.files[node.0 as usize - 1].0, Name::Over | Name::Folded)
    }

    /// Names in the directory: a file and a claim per number, `join`, and two names of the folded ones.
    pub fn names(&self) -> u64 {
        2 * (self.files.len() - self.folded) as u64 + if self.folded > 0 { 3 } else { 1 }
    }

    pub fn listing(&self) -> Event {
        let (mut leases, mut over) = (Vec::with_capacity(self.beats), Vec::new());
        for (node, (name, lease)) in (1..).map(Node).zip(&self.files) {
            match name {
                Name::Beat(beat) => leases.push(Seen { node, beat: *beat, lease: *lease, drains: false }),
                Name::Over | Name::Folded => over.push(node),
                Name::New => {}
            }
        }
        Event::Seen { leases, over }
    }
}
