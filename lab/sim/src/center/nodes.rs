//! Sets of I/O nodes, and placement of the stripes of an input file and of its copy.

/// Maximum of simulated I/O nodes.
pub const NODES_MAX: usize = 256;

/// A set of I/O nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSet([u64; NODES_MAX / 64]);

impl NodeSet {
    /// Returns whether the set contains a node.
    pub fn has(&self, node: u16) -> bool {
        self.0[usize::from(node) / 64] >> (node % 64) & 1 == 1
    }

    /// Adds a node.
    pub fn insert(&mut self, node: u16) {
        self.0[usize::from(node) / 64] |= 1 << (node % 64);
    }

    /// Removes a node.
    pub fn remove(&mut self, node: u16) {
        self.0[usize::from(node) / 64] &= !(1 << (node % 64));
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; NODES_MAX / 64]
    }

    /// Number of nodes in the set.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Intersection of two sets.
    pub fn and(&self, other: &NodeSet) -> NodeSet {
        NodeSet(std::array::from_fn(|n| self.0[n] & other.0[n]))
    }

    /// Nodes of the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..NODES_MAX as u16).filter(|node| self.has(*node))
    }
}

/// Returns the nodes of a file with `stripes` stripes: nodes that are up, in cyclic order from `first`. If fewer are
/// up, all of these.
///
/// A file with fewer stripes uses a subset of the nodes of one with more, so that runs with different counts differ
/// in nothing else.
pub fn lay_out(first: u16, stripes: u32, nodes: u16, down: &NodeSet) -> NodeSet {
    let mut set = NodeSet::default();
    let up = (0..nodes).map(|k| (first + k) % nodes).filter(|node| !down.has(*node));
    up.take(stripes as usize).for_each(|node| set.insert(node));
    set
}

/// Returns a node to replace `lost`: the next one in cyclic order that is up, preferably one that holds nothing of
/// the file.
pub fn substitute(lost: u16, file: &NodeSet, nodes: u16, down: &NodeSet) -> Option<u16> {
    let up = || (1..nodes).map(|k| (lost + k) % nodes).filter(|node| !down.has(*node));
    up().find(|node| !file.has(*node)).or_else(|| up().next())
}

/// Returns the placement of a file's copy: for each node of the file the node of its counterpart. Nodes that hold
/// nothing of the file are used if there are enough, otherwise each counterpart is on another node of the file.
/// `None` if that is impossible.
pub fn counterparts(file: &NodeSet, nodes: u16, down: &NodeSet) -> Option<Vec<(u16, u16)>> {
    let last = file.iter().last()?;
    let free = (1..=nodes).map(|k| (last + k) % nodes).filter(|node| !down.has(*node) && !file.has(*node));
    let others: Vec<u16> = free.take(file.len() as usize).collect();
    if others.len() == file.len() as usize {
        return Some(file.iter().zip(others).collect());
    }
    let own: Vec<u16> = file.iter().collect();
    (own.len() > 1).then(|| own.iter().copied().zip(own.iter().copied().cycle().skip(1)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(nodes: &[u16]) -> NodeSet {
        let mut set = NodeSet::default();
        nodes.iter().for_each(|node| set.insert(*node));
        set
    }

    #[test]
    fn layouts_go_round_and_are_nested() {
        let down = set(&[6]);
        assert_eq!(lay_out(5, 4, 8, &down), set(&[5, 7, 0, 1]));
        assert_eq!(lay_out(5, 99, 8, &down).len(), 7);
        let (small, large) = (lay_out(200, 8, 256, &down), lay_out(200, 100, 256, &down));
        assert_eq!(small.and(&large), small);
    }

    #[test]
    fn a_substitute_is_elsewhere_if_it_can_be() {
        assert_eq!(substitute(1, &set(&[1, 2]), 4, &set(&[1, 3])), Some(0));
        assert_eq!(substitute(1, &set(&[0, 1, 2, 3]), 4, &set(&[1])), Some(2));
        assert_eq!(substitute(1, &set(&[0, 1]), 2, &set(&[0, 1])), None);
    }

    #[test]
    fn counterparts_are_disjoint_if_they_can_be_and_never_on_their_own_node() {
        assert_eq!(counterparts(&set(&[0, 1]), 8, &set(&[2])), Some(vec![(0, 3), (1, 4)]));
        assert_eq!(counterparts(&set(&[0, 1, 2]), 4, &NodeSet::default()), Some(vec![(0, 1), (1, 2), (2, 0)]));
        assert_eq!(counterparts(&set(&[0]), 1, &NodeSet::default()), None);
        for stripes in 1..=64 {
            let file = lay_out(60, stripes, 64, &NodeSet::default());
            let Some(counterparts) = counterparts(&file, 64, &NodeSet::default()) else { continue };
            assert!(counterparts.iter().all(|(own, other)| own != other && (stripes > 32 || !file.has(*other))));
        }
    }
}
