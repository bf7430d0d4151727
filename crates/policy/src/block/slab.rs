//! Nodes in one array with lists threaded through them: nothing is allocated once the array has grown to its size.

pub(crate) const NIL: u32 = u32::MAX;

/// Node of a list: a key, two links, flags and an owner. The user of the slab defines the flags and the owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) key: u64,
    pub(crate) prev: u32,
    pub(crate) next: u32,
    pub(crate) flags: u32,
    pub(crate) owner: u32,
}

/// Array of nodes. Free nodes are a list through `next`.
#[derive(Clone, Debug)]
pub(crate) struct Slab {
    pub(crate) nodes: Vec<Node>,
    free: u32,
    used: u32,
}

impl Slab {
    pub(crate) fn new() -> Slab {
        Slab { nodes: Vec::new(), free: NIL, used: 0 }
    }

    /// Number of nodes in use.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// Takes a node into use, in no list.
    #[inline]
    pub(crate) fn take(&mut self, key: u64) -> u32 {
        self.used += 1;
        let node = Node { key, prev: NIL, next: NIL, flags: 0, owner: 0 };
        if self.free == NIL {
            self.nodes.push(node);
            return (self.nodes.len() - 1) as u32;
        }
        let slot = self.free;
        self.free = self.nodes[slot as usize].next;
        self.nodes[slot as usize] = node;
        slot
    }

    /// Frees a node that is in no list.
    #[inline]
    pub(crate) fn give(&mut self, slot: u32) {
        self.nodes[slot as usize].next = self.free;
        self.nodes[slot as usize].key = u64::MAX;
        self.free = slot;
        self.used -= 1;
    }

    #[inline]
    pub(crate) fn node(&self, slot: u32) -> &Node {
        &self.nodes[slot as usize]
    }

    #[inline]
    pub(crate) fn node_mut(&mut self, slot: u32) -> &mut Node {
        &mut self.nodes[slot as usize]
    }
}

/// List of nodes of one slab, most recently used first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) len: u32,
}

impl List {
    pub(crate) fn new() -> List {
        List { head: NIL, tail: NIL, len: 0 }
    }

    /// Puts a node that is in no list at the most recently used end.
    #[inline]
    pub(crate) fn push_front(&mut self, slab: &mut Slab, slot: u32) {
        let head = self.head;
        let node = slab.node_mut(slot);
        node.prev = NIL;
        node.next = head;
        match head {
            NIL => self.tail = slot,
            head => slab.node_mut(head).prev = slot,
        }
        self.head = slot;
        self.len += 1;
    }

    /// Puts a node that is in no list at the least recently used end.
    pub(crate) fn push_back(&mut self, slab: &mut Slab, slot: u32) {
        let tail = self.tail;
        let node = slab.node_mut(slot);
        node.next = NIL;
        node.prev = tail;
        match tail {
            NIL => self.head = slot,
            tail => slab.node_mut(tail).next = slot,
        }
        self.tail = slot;
        self.len += 1;
    }

    /// Removes a node from this list.
    #[inline]
    pub(crate) fn remove(&mut self, slab: &mut Slab, slot: u32) {
        let Node { prev, next, .. } = *slab.node(slot);
        match prev {
            NIL => self.head = next,
            prev => slab.node_mut(prev).next = next,
        }
        match next {
            NIL => self.tail = prev,
            next => slab.node_mut(next).prev = prev,
        }
        self.len -= 1;
    }

    /// Moves a node to the most recently used end.
    #[inline]
    pub(crate) fn refresh(&mut self, slab: &mut Slab, slot: u32) {
        if self.head != slot {
            self.remove(slab, slot);
            self.push_front(slab, slot);
        }
    }

    /// Iterates over its nodes, most recently used first.
    pub(crate) fn iter<'a>(&self, slab: &'a Slab) -> impl Iterator<Item = u32> + 'a {
        let step = |slot: u32| (slot != NIL).then_some(slot);
        std::iter::successors(step(self.head), move |&slot| step(slab.node(slot).next))
    }
}
