//! Recovery after a crash: settles half-done moves of the journal, and removes garbage from targets that came back.

use super::Mover;
use crate::Result;
use meta::state::JournalEntry;
use policy::layout::Layout;
use policy::{ObjectId, TargetId};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::Ordering;

/// Result of the recovery of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Number of moves settled.
    pub moves: usize,
    /// Number of objects removed or recorded as garbage.
    pub objects: usize,
    /// Number of moves whose file could not be searched; they stay in the journal, and their objects are not touched.
    pub unknown: usize,
    /// Number of moves left to the search for orphans.
    pub to_search: usize,
}

/// State of the file of an interrupted move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The file's current layout.
    Layout(Box<Layout>),
    /// The file's state cannot be determined now.
    Unknown,
    /// Neither a mark nor a recorded place leads to the file. A search for orphans removes the objects that no file
    /// names.
    Unseen,
}

/// Objects of garbage removed before the state store forgets them.
const GARBAGE_STEP: usize = 256;

impl Mover {
    /// Settles the moves that a crash interrupted. `find` finds a file by its number, first through its mark in the
    /// namespace's `open/`. Must be called before those marks are removed.
    pub fn recover_journal(&self, mut find: impl FnMut(&JournalEntry) -> Result<Found>) -> Result<Recovered> {
        let mut recovered = Recovered::default();
        for entry in self.state.journal()? {
            let named: HashSet<ObjectId> = match find(&entry)? {
                Found::Layout(layout) => layout.objects().map(|(_, o)| o.id).collect(),
                Found::Unseen => {
                    self.state.journal_finish(entry.file, &[])?;
                    recovered.to_search += 1;
                    continue;
                }
                Found::Unknown => {
                    tracing::warn!(
                        "a move of file {} was interrupted and the file cannot be looked for now; its objects stay until \
                         the next start",
                        entry.file
                    );
                    recovered.unknown += 1;
                    continue;
                }
            };
            let mut left = entry.objects.clone();
            left.retain(|(_, o)| !named.contains(o));
            self.state.journal_finish(entry.file, &left)?;
            self.remove_garbage(&left)?;
            recovered.moves += 1;
            recovered.objects += left.len();
        }
        Ok(recovered)
    }

    /// Drops garbage records of objects that a file names: namespace and state are from different times. With `None`
    /// the names are unknown, and no garbage is collected until the next start.
    pub fn spare_named(&self, named: Option<&HashSet<ObjectId>>) -> Result<usize> {
        let Some(named) = named else {
            self.collects.store(false, Ordering::Release);
            return Ok(0);
        };
        let spared: Vec<_> = self.garbage()?.into_iter().filter(|(_, object)| named.contains(object)).collect();
        self.state.garbage_removed(&spared)?;
        Ok(spared.len())
    }

    /// Removes the recorded garbage of a target; returns the number of objects. Stops at the first failure. Objects of
    /// other nodes are left to them: only they know which of these a late layout may name.
    pub fn collect_garbage(&self, target: TargetId) -> Result<usize> {
        if !self.collects.load(Ordering::Acquire) {
            return Ok(0);
        }
        let cluster = self.pool.cluster.get();
        let garbage = self.state.garbage_of(target, usize::MAX >> 1)?;
        let mut epochs: BTreeSet<u32> = garbage.iter().map(|object| object.epoch()).collect();
        epochs.retain(|epoch| cluster.is_none_or(|cluster| !cluster.may_be_used_by_another(*epoch)));
        let is_ours = |object: &ObjectId| epochs.contains(&object.epoch());
        let ours: Vec<_> = garbage.into_iter().filter(is_ours).map(|o| (target, o)).collect();
        let mut count = 0;
        for step in ours.chunks(GARBAGE_STEP) {
            let removed = self.remove_garbage(step)?;
            count += removed;
            if removed < step.len() {
                break;
            }
        }
        Ok(count)
    }

    /// Removes objects that no layout names: created by a daemon that died before it wrote the record. Returns their
    /// number.
    pub fn sweep(&self, orphans: &[(TargetId, ObjectId)]) -> Result<usize> {
        self.state.garbage_add(orphans)?;
        self.remove_garbage(orphans)
    }

    /// Objects that no layout names and that are not orphans: those of running moves, slow copies, and garbage. The
    /// order of the reads is that in which an object goes from one to the next.
    pub fn answered_for(&self) -> Result<HashSet<(TargetId, ObjectId)>> {
        let mut objects = self.under_way()?;
        objects.extend(self.garbage()?);
        Ok(objects)
    }

    /// Objects that moves on this node create or leave, and slow copies.
    pub fn under_way(&self) -> Result<HashSet<(TargetId, ObjectId)>> {
        let mut objects: HashSet<_> = self.state.journal()?.into_iter().flat_map(|entry| entry.objects).collect();
        objects.extend(self.pool.slow_copies.lies());
        Ok(objects)
    }

    /// Objects that wait for removal, of all nodes.
    pub fn garbage(&self) -> Result<HashSet<(TargetId, ObjectId)>> {
        let mut objects = HashSet::new();
        for target in self.pool.targets.all() {
            let garbage = self.state.garbage_of(target.id(), usize::MAX >> 1)?;
            objects.extend(garbage.into_iter().map(|object| (target.id(), object)));
        }
        Ok(objects)
    }

    /// Removes objects durably, and their garbage records; returns their number. The rest stays garbage.
    pub(super) fn remove_garbage(&self, objects: &[(TargetId, ObjectId)]) -> Result<usize> {
        let mut by_target: BTreeMap<TargetId, Vec<ObjectId>> = BTreeMap::new();
        let kept = self.pool.slow_copies.objects();
        let stays = |object: &ObjectId| kept.contains(object) || self.pool.making.is_doubtful(*object);
        for &(target, object) in objects.iter().filter(|(_, object)| !stays(object)) {
            by_target.entry(target).or_default().push(object);
        }
        let mut removed = Vec::new();
        for (id, objects) in by_target {
            let Some(target) = self.pool.targets.get(id) else { continue };
            let remove = |o: &ObjectId| {
                let object = *o;
                let removed = target.run(move |medium| medium.remove(object));
                tracing::trace!(%object, target = %id, ?removed, "garbage is removed");
                removed.is_ok()
            };
            let gone: Vec<ObjectId> = objects.into_iter().filter(remove).collect();
            gone.iter().for_each(|object| self.pool.lost.cut(object.0, 0));
            if target.run(|medium| medium.sync_names()).is_ok() {
                removed.extend(gone.into_iter().map(|o| (id, o)));
            }
        }
        self.state.garbage_removed(&removed)?;
        Ok(removed.len())
    }
}
