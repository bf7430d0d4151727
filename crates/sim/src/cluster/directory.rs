//! The lease files of the namespace: what a rename does, and what a listing shows.

use policy::Time;
use policy::cluster::Node;
use policy::cluster::lease::{Event, Seen};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    New,
    Beat(u64),
    Over,
}

/// One file per number, from 1 on.
#[derive(Debug, Default)]
pub struct Directory {
    files: Vec<Name>,
    lease: Time,
}

impl Directory {
    /// With numbers that are over.
    pub fn new(past: u32, lease: Time) -> Directory {
        Directory { files: vec![Name::Over; past as usize], lease }
    }

    /// Takes the next number.
    pub fn claim(&mut self) -> Node {
        self.files.push(Name::New);
        Node(self.files.len() as u32)
    }

    /// Whether there was a file of that name.
    pub fn rename(&mut self, node: Node, from: Name, to: Name) -> bool {
        let name = &mut self.files[node.0 as usize - 1];
        let found = *name == from;
        if found {
            *name = to;
        }
        found
    }

    #[cfg(test)]
    pub fn is_over(&self, node: Node) -> bool {
        self.files[node.0 as usize - 1] == Name::Over
    }

    /// A number has a file, and the name by which it was taken; then `join`.
    pub fn names(&self) -> u64 {
        2 * self.files.len() as u64 + 1
    }

    pub fn listing(&self) -> Event {
        let (mut leases, mut over) = (Vec::new(), Vec::new());
        for (node, name) in (1..).map(Node).zip(&self.files) {
            match name {
                Name::Beat(beat) => leases.push(Seen { node, beat: *beat, lease: self.lease, drains: false }),
                Name::Over => over.push(node),
                Name::New => {}
            }
        }
        Event::Seen { leases, over }
    }
}
