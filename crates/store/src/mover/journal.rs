//! After a crash: what the journal says was half done, and garbage on targets that came back.

use super::Mover;
use crate::Result;
use crate::state::JournalEntry;
use policy::layout::Layout;
use policy::{FileId, ObjectId, TargetId};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;

/// What recovery of the journal did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Moves that were settled.
    pub moves: usize,
    /// Objects removed or noted as garbage.
    pub objects: usize,
    /// Moves whose file could not be looked for; they stay in the journal and nothing of them is touched.
    pub unknown: usize,
}

/// What is known of the file of a move that was interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its layout.
    Layout(Box<Layout>),
    /// There is no such file any more.
    Gone,
    /// It cannot be said now.
    Unknown,
}

/// Garbage removed per question to the state store.
const GARBAGE_STEP: usize = 256;

impl Mover {
    /// Settles the moves that a crash interrupted. `find` finds a file by its number, first through its mark in the
    /// namespace's `open/`. To be called before those marks are removed.
    pub fn recover_journal(&self, mut find: impl FnMut(&JournalEntry) -> Result<Found>) -> Result<Recovered> {
        let mut recovered = Recovered::default();
        for entry in self.state.journal()? {
            let named: HashSet<ObjectId> = match find(&entry)? {
                Found::Layout(layout) => layout.objects().map(|(_, o)| o.id).collect(),
                Found::Gone => HashSet::new(),
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

    /// The files in the journal.
    pub fn journal_files(&self) -> Result<HashSet<FileId>> {
        Ok(self.state.journal()?.into_iter().map(|entry| entry.file).collect())
    }

    /// What is noted as garbage and is named by a file all the same is no garbage: namespace and state are of different times. With `None`
    /// nobody knows what is named, and nothing is collected until the next start.
    pub fn spare_named(&self, named: Option<&HashSet<ObjectId>>) -> Result<usize> {
        let Some(named) = named else {
            self.collects.store(false, Ordering::Release);
            return Ok(0);
        };
        let mut spared = Vec::new();
        for target in self.pool.targets.all() {
            let garbage = self.state.garbage_of(target.id(), usize::MAX >> 1)?;
            spared.extend(garbage.into_iter().filter(|o| named.contains(o)).map(|o| (target.id(), o)));
        }
        self.state.garbage_removed(&spared)?;
        Ok(spared.len())
    }

    /// Removes what is noted as garbage on a target; gives how many objects. Stops at the first that fails.
    pub fn collect_garbage(&self, target: TargetId) -> Result<usize> {
        if !self.collects.load(Ordering::Acquire) {
            return Ok(0);
        }
        let mut count = 0;
        loop {
            let step = self.state.garbage_of(target, GARBAGE_STEP)?;
            let objects: Vec<_> = step.iter().map(|o| (target, *o)).collect();
            let removed = self.remove_garbage(&objects)?;
            count += removed;
            if removed < objects.len() || objects.is_empty() {
                return Ok(count);
            }
        }
    }

    /// Removes objects that no layout names: made by a daemon that died before it wrote the record. Gives how many.
    pub fn sweep(&self, orphans: &[(TargetId, ObjectId)]) -> Result<usize> {
        self.state.garbage_add(orphans)?;
        self.remove_garbage(orphans)
    }

    /// The objects that no layout names and that are accounted for all the same: what moves under way make or leave, slow copies, and
    /// garbage. Asked in the order in which an object goes from one to the next.
    pub fn answered_for(&self) -> Result<HashSet<(TargetId, ObjectId)>> {
        let mut objects = self.under_way()?;
        objects.extend(self.garbage()?);
        Ok(objects)
    }

    /// What moves under way here make or leave, and slow copies.
    pub fn under_way(&self) -> Result<HashSet<(TargetId, ObjectId)>> {
        let mut objects: HashSet<_> = self.state.journal()?.into_iter().flat_map(|entry| entry.objects).collect();
        objects.extend(self.pool.slow_copies.lies());
        Ok(objects)
    }

    /// What waits to be removed, whichever node left it.
    pub fn garbage(&self) -> Result<HashSet<(TargetId, ObjectId)>> {
        let mut objects = HashSet::new();
        for target in self.pool.targets.all() {
            let garbage = self.state.garbage_of(target.id(), usize::MAX >> 1)?;
            objects.extend(garbage.into_iter().map(|object| (target.id(), object)));
        }
        Ok(objects)
    }

    /// Removes objects, durably, and forgets them as garbage; gives how many. The rest stays garbage.
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
                target.run(move |medium| medium.remove(object)).is_ok()
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
