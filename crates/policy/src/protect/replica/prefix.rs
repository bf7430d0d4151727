//! The waiting jobs in order and the end of the replication window among them, updated change by change.
//!
//! [`super::super::window::window`] defines the window. Here its end moves only as far as a change requires, so a long
//! queue costs no more than a short one.

use super::super::window::Reach;
use super::{JobId, Rank};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// Place of a job in the queue.
pub(super) type Place = (Rank, JobId);

/// The queue and its window.
#[derive(Debug, Default)]
pub(super) struct Prefix {
    nodes: BTreeMap<Place, u32>,
    /// Last job of the window, unless it is empty.
    last: Option<Place>,
    /// Nodes of the jobs up to and including `last`.
    sum: u64,
    length: usize,
    /// Jobs inserted between those of the window since the last `settle`.
    between: Vec<Place>,
}

impl Prefix {
    /// Inserts a job into the queue.
    pub(super) fn insert(&mut self, place: Place, nodes: u32) {
        self.nodes.insert(place, nodes);
        if self.last.is_some_and(|last| place < last) {
            (self.sum, self.length) = (self.sum + u64::from(nodes), self.length + 1);
            self.between.push(place);
        }
    }

    /// Removes a job from the queue.
    pub(super) fn remove(&mut self, place: Place) {
        let Some(nodes) = self.nodes.remove(&place) else { return };
        let Some(last) = self.last else { return };
        if place <= last {
            (self.sum, self.length) = (self.sum - u64::from(nodes), self.length - 1);
        }
        if place == last {
            self.last = self.nodes.range(..place).next_back().map(|(place, _)| *place);
        }
    }

    /// Moves the end of the window to its place; calls `entered` with the jobs that came into it since the last time.
    pub(super) fn settle(&mut self, reach: Reach, mut entered: impl FnMut(JobId)) {
        while let Some(last) = self.last {
            let nodes = u64::from(self.nodes[&last]);
            if !reach.exceeded_by(self.sum - nodes) {
                break;
            }
            (self.sum, self.length) = (self.sum - nodes, self.length - 1);
            self.last = self.nodes.range(..last).next_back().map(|(place, _)| *place);
        }
        while !reach.exceeded_by(self.sum) {
            let from = self.last.map_or(Unbounded, Excluded);
            let Some((place, nodes)) = self.nodes.range((from, Unbounded)).next() else { break };
            (self.last, self.sum, self.length) = (Some(*place), self.sum + u64::from(*nodes), self.length + 1);
            entered(place.1);
        }
        for place in std::mem::take(&mut self.between) {
            if self.holds(place) && self.nodes.contains_key(&place) {
                entered(place.1);
            }
        }
    }

    /// Returns the number of jobs in the window.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Whether a place is in the window.
    fn holds(&self, place: Place) -> bool {
        self.last.is_some_and(|last| place <= last)
    }

    /// Returns the nodes of the jobs in the order of the queue.
    pub(super) fn nodes(&self) -> impl Iterator<Item = u32> {
        self.nodes.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::window::{Share, window};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_same_as_the_window_reckoned_anew(
            steps in prop::collection::vec((0u8..4, 0u64..30, 1u32..300), 1..200),
            alpha in 0u64..2_000_000,
        ) {
            let (mut prefix, mut running) = (Prefix::default(), 0);
            let mut told: BTreeSet<JobId> = BTreeSet::new();
            for (what, at, nodes) in steps {
                let place = (Rank(at), JobId(at));
                match what {
                    0 | 1 if !prefix.nodes.contains_key(&place) => prefix.insert(place, nodes),
                    2 => {
                        prefix.remove(place);
                        told.remove(&place.1);
                    }
                    _ => running = nodes,
                }
                let reach = Reach::new(running, 1000, Share::millionths(alpha));
                let mut told_now = BTreeSet::new();
                prefix.settle(reach, |job| { told_now.insert(job); });
                told.extend(&told_now);
                let w = window(prefix.nodes(), reach);
                prop_assert_eq!(prefix.length(), w);
                let inside: BTreeSet<JobId> = prefix.nodes.keys().take(w).map(|(_, job)| *job).collect();
                told.retain(|job| inside.contains(job) || told_now.contains(job));
                prop_assert_eq!(&told, &inside);
            }
        }
    }
}
