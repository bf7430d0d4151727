//! Moves that leave a copy behind, copies that are made beside a segment that stays, and moves back to a copy.
//!
//! ```text
//! up     as any move; the old objects are kept, with a record                          [slow a] -> [fast b], a kept
//! below  new objects are filled and kept; the layout stays as it is                    [fast b]             a kept
//! down   the file's layout names the kept objects again, the fast ones are garbage     [fast b] -> [slow a]
//! ```
//! The first write to a segment ends the creation of its copy.
//!
//! A copy has a record only while the durable layout does not name its objects. The record is written after the new
//! layout is durable and before the journal ends. It is removed before the layout names the objects again, when the
//! journal has them. So after a crash every object is in the journal or in a record. The next start moves the records
//! to the journal and settles it as usual: objects that the layout does not name are removed.

use super::transform::{MoveOptions, Stop, new_entry};
use super::verbs::moved_segment;
use super::{Mover, Pace};
use crate::file::{ByteRanges, File, Lies, NewObjects, SlowCopy, lies};
use crate::{Error, Result};
use meta::records;
use meta::state::JournalEntry;
use policy::layout::{Layout, MirrorState, Placement, Reason, Segment};
use policy::{FileId, ObjectId, TargetId};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Kind of the records in the state store.
const RECORDS: &str = "kept-copies";

/// Treatment of copies by a move. The number is the index of a segment in the only mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeps {
    /// No copy is kept.
    Nothing,
    /// The old objects of this segment are kept.
    Old(usize),
    /// The new objects are kept as a copy of this segment, and nothing else changes.
    New(usize),
    /// This segment returns to its copy.
    Returns(usize),
}

impl Keeps {
    /// Whether the file's layout stays as it is.
    pub fn changes_nothing(self) -> bool {
        matches!(self, Keeps::New(_))
    }
}

fn moving<'a>(verb: &'static str, pace: Option<&'a dyn Pace>, keeps: Keeps) -> MoveOptions<'a> {
    MoveOptions { pace, keeps, ..MoveOptions::plainly(verb, Reason::Moved) }
}

/// Ends a copy as soon as its range is written.
pub(super) struct Unwritten<'a> {
    range: Range<u64>,
    written: Arc<ByteRanges>,
    /// Further rate limiter of the move.
    pace: Option<&'a dyn Pace>,
}

impl<'a> Unwritten<'a> {
    /// The guard of a copy under creation; `None` if its range may be written.
    pub fn of(
        layout: &Layout,
        keeps: Keeps,
        written: &Arc<ByteRanges>,
        pace: Option<&'a dyn Pace>,
    ) -> Option<Unwritten<'a>> {
        let Keeps::New(at) = keeps else { return None };
        let segment = layout.mirrors.first()?.segments.get(at)?;
        Some(Unwritten { range: segment.start..segment.end, written: written.clone(), pace })
    }
}

impl Pace for Unwritten<'_> {
    fn take(&self, bytes: u64) -> Result<()> {
        self.pace.map_or(Ok(()), |pace| pace.take(bytes))?;
        if self.written.touches(&self.range) {
            return Err(Error::Busy("the segment was written while it was copied".into()));
        }
        Ok(())
    }

    fn step_bytes(&self) -> Option<u64> {
        self.pace.and_then(|pace| pace.step_bytes())
    }
}

impl Mover {
    /// Number of kept copies.
    pub fn copies(&self) -> usize {
        self.pool.slow_copies.len()
    }

    /// Whether a segment has an equal copy.
    pub fn has_copy(&self, file: FileId, segment: &Segment) -> bool {
        !self.pool.slow_copies.is_empty() && self.pool.slow_copies.of(file, segment).is_some()
    }

    /// Moves a segment of a file with one mirror to other objects, and keeps the old ones as a copy.
    pub fn move_segment_keeping(
        &self,
        file: &Arc<File>,
        segment: usize,
        place: &Placement,
        pace: Option<&dyn Pace>,
    ) -> Result<Arc<Layout>> {
        let plan = |old: &Layout, made: &mut NewObjects<'_>| only_mirror_moved(old, made, segment, place);
        self.transform_as(file, moving("move segment", pace, Keeps::Old(segment)), plan)
    }

    /// Copies a segment of a file with one mirror to other objects; the segment stays where it is.
    ///
    /// # Errors
    /// `Busy` if the segment is written during the copy: then no copy is kept.
    pub fn copy_segment_below(
        &self,
        file: &Arc<File>,
        segment: usize,
        place: &Placement,
        pace: Option<&dyn Pace>,
    ) -> Result<()> {
        let plan = |old: &Layout, made: &mut NewObjects<'_>| only_mirror_moved(old, made, segment, place);
        let done = self.transform_as(file, moving("copy segment", pace, Keeps::New(segment)), plan);
        done.map(drop)
    }

    /// Returns a segment to its copy: no byte is copied.
    ///
    /// # Errors
    /// `Busy` if there is no equal copy: the segment was written. After any error the copy is given up.
    pub fn return_segment(&self, file: &Arc<File>, segment: usize) -> Result<Arc<Layout>> {
        let plan = |old: &Layout, made: &mut NewObjects<'_>| {
            let copy = self.copy_of(old, segment)?;
            made.note(&copy.objects)?;
            self.state.record_remove(RECORDS, &key(old.file, &copy))?;
            self.make_durable(&copy)?;
            let mut new = old.clone();
            new.mirrors[0].segments[segment] = copy;
            Ok(new)
        };
        let done = self.transform_as(file, moving("return segment", None, Keeps::Returns(segment)), plan);
        if done.is_err()
            && let Some(layout) = file.layout()
            && let Some(there) = layout.mirrors[0].segments.get(segment)
        {
            self.forget_copy(layout.file, there.start);
        }
        done
    }

    fn copy_of(&self, layout: &Layout, segment: usize) -> Result<Segment> {
        let [mirror] = layout.mirrors.as_slice() else { return Err(no_copy()) };
        let there = mirror.segments.get(segment).filter(|_| mirror.state == MirrorState::InSync);
        there.and_then(|there| self.pool.slow_copies.of(layout.file, there)).ok_or_else(no_copy)
    }

    /// A sync of the file made only the fast objects durable.
    fn make_durable(&self, copy: &Segment) -> Result<()> {
        for object in &copy.objects {
            let (id, target) = (object.id, object.target);
            let on = self.pool.targets.get(target).ok_or(Error::NoTarget)?;
            let sync = move |medium: &dyn object::target::Medium| {
                medium.open(id)?.sync()?;
                medium.sync_names()
            };
            on.run(sync).map_err(|error| Error::Target { target, error })?;
        }
        Ok(())
    }

    /// Whether the copy is still equal, while writers are locked out.
    pub(super) fn copy_still_equal(&self, old: &Layout, keeps: Keeps) -> Result<(), Stop> {
        match keeps {
            Keeps::Returns(segment) => Ok(self.copy_of(old, segment).map(drop)?),
            Keeps::Nothing | Keeps::Old(_) | Keeps::New(_) => Ok(()),
        }
    }

    /// Returns the copy to keep from now on. Called once the new objects are complete and no write came since.
    pub(super) fn keep_or_release(&self, old: &Layout, new: &Layout, keeps: Keeps) -> Option<Segment> {
        let (used, copy) = match keeps {
            Keeps::Nothing => return None,
            Keeps::Returns(at) => {
                self.pool.slow_copies.release(old.file, new.mirrors[0].segments[at].start);
                return None;
            }
            Keeps::Old(at) => (&new.mirrors[0].segments[at], &old.mirrors[0].segments[at]),
            Keeps::New(at) => (&old.mirrors[0].segments[at], &new.mirrors[0].segments[at]),
        };
        let fast = used.objects.iter().map(|o| o.id).collect();
        self.pool.slow_copies.keep(old.file, SlowCopy { fast, segment: copy.clone() });
        Some(copy.clone())
    }

    /// Records a copy, once its objects are durable: from now on a crash leaves the copy.
    pub(super) fn record_copy(&self, file: FileId, segment: &Segment) -> Result<()> {
        let objects: Vec<(u16, u64)> = segment.objects.iter().map(|o| (o.target.0, o.id.0)).collect();
        records::put(&*self.state, RECORDS, &key(file, segment), &objects)?;
        // A write may have removed the copy before its record existed. The journal still covers its objects.
        if segment.objects.first().is_some_and(|object| !self.pool.slow_copies.objects_of(file).contains(&object.id)) {
            self.state.record_remove(RECORDS, &key(file, segment))?;
        }
        Ok(())
    }

    /// Takes the segments that lost their copy since the last call: files, and the starts of the segments.
    pub fn take_copies_gone(&self) -> Vec<(FileId, u64)> {
        self.pool.slow_copies.take_gone()
    }

    /// Removes stale copies. Returns the number of objects.
    pub fn remove_stale_copies(&self) -> Result<usize> {
        let stale = self.pool.slow_copies.stale();
        if stale.is_empty() {
            return Ok(0);
        }
        let objects: Vec<Lies> = stale.iter().flat_map(|(_, _, copy)| lies(&copy.segment)).collect();
        self.state.garbage_add(&objects)?;
        self.pool.slow_copies.forget_stale(&stale);
        for (file, _, copy) in &stale {
            self.state.record_remove(RECORDS, &key(*file, &copy.segment))?;
        }
        self.remove_garbage(&objects)
    }

    /// Drops the copies of a removed file.
    pub fn forget_copies_of(&self, file: FileId) {
        if !self.pool.slow_copies.is_empty() {
            self.pool.slow_copies.forget(|(of, _), _| *of == file);
        }
    }

    /// Drops the copy of the segment that starts at `start`.
    pub fn forget_copy(&self, file: FileId, start: u64) {
        self.pool.slow_copies.forget(|at, _| *at == (file, start));
    }

    /// Drops copies with a part on a target. Returns the bytes of these parts.
    pub fn forget_copies_on(&self, target: TargetId) -> u64 {
        let freed = Cell::new(0u64);
        self.pool.slow_copies.forget(|_, copy| {
            let part = bytes_on(&copy.segment, target);
            freed.set(freed.get().saturating_add(part));
            part > 0
        });
        freed.get()
    }

    /// Bytes of the copy of a segment on a target; 0 without a copy.
    pub fn copy_bytes_on(&self, file: FileId, segment: &Segment, target: TargetId) -> u64 {
        self.pool.slow_copies.of(file, segment).map_or(0, |copy| bytes_on(&copy, target))
    }

    /// Drops and removes all copies.
    pub fn forget_copies(&self) -> Result<usize> {
        self.pool.slow_copies.forget(|_, _| true);
        self.remove_stale_copies()
    }

    /// Moves the records of copies to the journal, at the start and before the journal is settled. It is unknown
    /// whether the segments were written after the copies were made, so the copies of the last run become garbage.
    /// Returns the number of copies.
    pub fn journal_copies_of_last_run(&self) -> Result<usize> {
        let records = self.state.records(RECORDS)?;
        let mut copies: BTreeMap<FileId, Vec<Lies>> = BTreeMap::new();
        for (key, bytes) in &records {
            let objects: Vec<(u16, u64)> = serde_json::from_slice(bytes).unwrap_or_default();
            let objects = objects.into_iter().map(|(target, object)| (TargetId(target), ObjectId(object)));
            if let Some(file) = key.split('-').next().and_then(|file| file.parse().ok()).map(FileId) {
                copies.entry(file).or_default().extend(objects);
            }
        }
        let journal = if copies.is_empty() { Vec::new() } else { self.state.journal()? };
        let mut moves: BTreeMap<FileId, JournalEntry> = journal.into_iter().map(|entry| (entry.file, entry)).collect();
        for (file, objects) in copies {
            let mut entry = moves.remove(&file).unwrap_or_else(|| new_entry(file));
            entry.objects.extend(objects);
            self.state.journal_put(&entry)?;
        }
        for (key, _) in &records {
            self.state.record_remove(RECORDS, key)?;
        }
        Ok(records.len())
    }
}

/// A key for each copy: a new copy of a segment may be recorded before the stale one is forgotten.
fn key(file: FileId, copy: &Segment) -> String {
    let first = copy.objects.first().map_or(0, |object| object.id.0);
    format!("{}-{}-{first}", file.0, copy.start)
}

/// The layout with a segment of the only mirror on other objects.
fn only_mirror_moved(old: &Layout, made: &mut NewObjects<'_>, segment: usize, place: &Placement) -> Result<Layout> {
    if old.mirrors.len() > 1 {
        return Err(Error::Busy("it has several mirrors now, and none needs another copy".into()));
    }
    moved_segment(old, made, (0, segment), place)
}

fn bytes_on(segment: &Segment, target: TargetId) -> u64 {
    let parts = segment.objects.iter().filter(|object| object.target == target).count() as u64;
    (segment.end - segment.start) / segment.objects.len().max(1) as u64 * parts
}

fn no_copy() -> Error {
    Error::Busy("the segment has no equal copy".into())
}
