//! Checks the promises: acknowledged data persist, space is counted to the byte, and no two mechanisms undo each
//! other's changes for ever.

use super::world::World;
use policy::FileId;
use policy::tier::Tier;
use policy::volume::ownership::Mechanism;
use policy::volume::{Change, Purpose, Verb};
use std::collections::BTreeMap;

/// Most changes of a file that another mechanism may undo: one, since a file may change its owner.
pub(super) const UNDONE_MAX: u32 = 1;

/// The changed part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Segment(u64),
    Mirror(Option<u8>),
}

/// Latest change of each part of each file.
#[derive(Debug, Default)]
pub(super) struct Watch {
    latest: BTreeMap<(FileId, Part), (Mechanism, Verb)>,
    undone: BTreeMap<FileId, u32>,
}

impl Watch {
    /// Records the start of a change of a mirror with that purpose, and whether it undoes the previous one.
    pub(super) fn begun(&mut self, change: &Change, purpose: Option<Purpose>) {
        let what = match change.verb {
            Verb::MoveSegment { segment, .. } => Part::Segment(segment),
            _ => Part::Mirror(purpose.map(|purpose| purpose as u8)),
        };
        let before = self.latest.insert((change.file, what), (change.by, change.verb));
        if before.is_some_and(|(by, verb)| by != change.by && takes_back(verb, change.verb)) {
            *self.undone.entry(change.file).or_default() += 1;
        }
    }

    pub(super) fn undone(&self) -> u64 {
        self.undone.values().map(|n| u64::from(*n)).sum()
    }
}

fn takes_back(before: Verb, after: Verb) -> bool {
    match (before, after) {
        (Verb::MoveSegment { to: Tier::Fast, .. }, Verb::MoveSegment { to: Tier::Slow, .. })
        | (Verb::MoveSegment { to: Tier::Slow, .. }, Verb::MoveSegment { to: Tier::Fast, .. })
        | (Verb::AddMirror { .. }, Verb::DropMirror { .. })
        | (Verb::DropMirror { .. }, Verb::AddMirror { .. }) => true,
        (Verb::Restripe { mirror: a, .. }, Verb::Restripe { mirror: b, .. }) => a == b,
        _ => false,
    }
}

impl World<'_> {
    /// Panics if a promise is broken.
    pub(super) fn check(&mut self) {
        if let Some(admission) = self.volume.admission() {
            admission.buffer().check();
        }
        // A buffer on one device has no targets to check.
        if self.doing.is_some() {
            return;
        }
        let mut used = vec![0; self.targets.all.len()];
        for file in self.files.values() {
            file.objects().for_each(|(target, len)| used[usize::from(target.0)] += len);
        }
        self.copies.objects().for_each(|(target, len)| used[usize::from(target.0)] += len);
        let known = self.volume.tiers().map_or(0, |tiers| tiers.copies().0);
        assert_eq!(self.copies.count(), known, "a slow copy that only one knows of");
        for (target, len, failures) in self.carries.values().flat_map(|carry| &carry.taken) {
            if self.targets.all[usize::from(target.0)].failures == *failures {
                used[usize::from(target.0)] += len;
            }
        }
        for (at, (target, counted)) in self.targets.all.iter().zip(&used).enumerate() {
            assert_eq!(target.used, *counted, "target {at}: its room is not what its objects take");
            assert!(target.used <= target.bytes, "target {at} holds more than it can");
        }
        for id in &self.acknowledged {
            let file = self.files.get(id);
            let kept = file.is_some_and(|file| file.source || file.intact().next().is_some());
            assert!(kept, "file {id}: no mirror and no source has what was acknowledged");
        }
        for (file, times) in &self.watch.undone {
            assert!(*times <= UNDONE_MAX, "file {file}: mechanisms took back each other's changes {times} times");
        }
    }

    /// Panics if an operation never ends: to be called after a period without new work.
    pub(super) fn check_end(&mut self) {
        self.check();
        assert_eq!(self.held.len(), 0, "writes are held though nobody writes any more");
        assert_eq!(self.volume.pending(), (0, 0), "changes wait or are under way though nobody does anything");
        let damaged = self.files.values().filter(|file| file.intact().count() < file.mirrors.len()).count();
        assert_eq!(damaged, 0, "files are damaged though all targets work");
    }
}
