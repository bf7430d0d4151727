//! Doubly linked lists of numbered blocks in arrays. A block is in at most one list.

const NONE: u32 = u32::MAX;

/// Lists that share the links of all blocks.
pub struct Queues<const LISTS: usize> {
    links: Vec<Link>,
    ends: [End; LISTS],
}

#[derive(Clone, Copy)]
struct Link {
    /// Neighbour towards the front.
    ahead: u32,
    /// Neighbour towards the back.
    behind: u32,
    /// Number of the list, or `LISTS` for none.
    list: u8,
}

#[derive(Clone, Copy)]
struct End {
    front: u32,
    back: u32,
    len: usize,
}

impl<const LISTS: usize> Queues<LISTS> {
    /// Empty lists for `blocks` blocks.
    pub fn new(blocks: usize) -> Self {
        let free = Link { ahead: NONE, behind: NONE, list: LISTS as u8 };
        Queues { links: vec![free; blocks], ends: [End { front: NONE, back: NONE, len: 0 }; LISTS] }
    }

    /// Length of a list.
    pub fn len(&self, list: usize) -> usize {
        self.ends[list].len
    }

    /// Whether a block is in a list.
    pub fn is_in(&self, list: usize, block: u32) -> bool {
        usize::from(self.links[block as usize].list) == list
    }

    /// The last block of a list.
    pub fn back(&self, list: usize) -> Option<u32> {
        some(self.ends[list].back)
    }

    /// The neighbour of a block towards the front.
    pub fn ahead(&self, block: u32) -> Option<u32> {
        some(self.links[block as usize].ahead)
    }

    /// Inserts a block that is in no list at the front of one.
    pub fn push_front(&mut self, list: usize, block: u32) {
        let end = &mut self.ends[list];
        let front = std::mem::replace(&mut end.front, block);
        end.len += 1;
        if front == NONE {
            end.back = block;
        } else {
            self.links[front as usize].ahead = block;
        }
        self.links[block as usize] = Link { ahead: NONE, behind: front, list: list as u8 };
    }

    /// Does the same in a list of at most `max` blocks; returns the block that leaves.
    pub fn push_within(&mut self, list: usize, block: u32, max: usize) -> Option<u32> {
        self.push_front(list, block);
        (self.len(list) > max).then(|| self.pop_back(list)).flatten()
    }

    /// Removes a block from the list that it is in, if any.
    pub fn remove(&mut self, block: u32) {
        let Link { ahead, behind, list } = self.links[block as usize];
        if usize::from(list) == LISTS {
            return;
        }
        let end = &mut self.ends[usize::from(list)];
        end.len -= 1;
        match some(ahead) {
            Some(ahead) => self.links[ahead as usize].behind = behind,
            None => end.front = behind,
        }
        match some(behind) {
            Some(behind) => self.links[behind as usize].ahead = ahead,
            None => end.back = ahead,
        }
        self.links[block as usize] = Link { ahead: NONE, behind: NONE, list: LISTS as u8 };
    }

    /// Removes and returns the last block of a list.
    pub fn pop_back(&mut self, list: usize) -> Option<u32> {
        let block = self.back(list)?;
        self.remove(block);
        Some(block)
    }

    /// Moves a block to the front of a list.
    pub fn move_to_front(&mut self, list: usize, block: u32) {
        self.remove(block);
        self.push_front(list, block);
    }
}

fn some(block: u32) -> Option<u32> {
    (block != NONE).then_some(block)
}
