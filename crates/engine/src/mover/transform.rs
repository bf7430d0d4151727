//! The one verb: from one layout to another while the file is in use.

use super::copy::Copy;
use super::mend::{Proof, Proven};
use super::progress::Active;
use super::slow_copy::{Keeps, Unwritten};
use super::{Mover, Pace, Phase, Step};
use crate::file::{ByteRanges, File, JournalNote, NewObjects, View};
use crate::stats::Metric;
use crate::{Error, Result};
use meta::state::JournalEntry;
use policy::layout::{Layout, Reason, Segment};
use policy::{FileId, ObjectId, TargetId};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum of restarts of a move because the layout changed (growth, a stale mark). Each change happens a few times
/// in a file's life.
const ATTEMPTS_MAX: usize = 4;
/// Longest file that is closed to writers on other nodes during the copy. A guess: seconds at the speed of one
/// device.
const HELD_BYTES_MAX: u64 = 256 << 20;

/// Maximum of passes over newly written bytes before writers are locked out.
const PASSES_MAX: usize = 4;

/// Maximum of bytes copied while writers are locked out. A guess: some milliseconds.
const REST_BYTES_MAX: u64 = 8 << 20;

/// Reason for the early end of a move.
pub(super) enum Stop {
    /// The move failed; its changes are undone.
    Failed(Error),
    /// The layout changed during the move.
    Changed,
    /// The daemon "died": nothing is undone.
    Died(Error),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Stop {
        Stop::Failed(e)
    }
}

/// Purpose and options of a move.
#[derive(Clone, Copy)]
pub(super) struct MoveOptions<'a> {
    /// Name of the move in reports.
    pub verb: &'static str,
    pub reason: Reason,
    /// Rate limiter of this move.
    pub pace: Option<&'a dyn Pace>,
    /// Treatment of slow copies.
    pub keeps: Keeps,
    /// Verifies bytes before they are copied, where not all mirrors have the right ones.
    pub proof: Option<&'a dyn Proof>,
}

impl MoveOptions<'_> {
    /// A move with default options.
    pub fn plainly(verb: &'static str, reason: Reason) -> MoveOptions<'static> {
        MoveOptions { verb, reason, pace: None, keeps: Keeps::Nothing, proof: None }
    }
}

/// One attempt of a move.
struct Move<'a> {
    how: MoveOptions<'a>,
    file: &'a Arc<File>,
    view: &'a Arc<View>,
    old: &'a Layout,
    active: &'a Active,
    watch: &'a ByteRanges,
    /// Whether the record was replaced.
    replaced: &'a Cell<bool>,
}

/// Result of an attempt.
struct Done {
    layout: Arc<Layout>,
    /// The new copy of a segment, if the move made one.
    copy: Option<Segment>,
}

/// Objects that a finished move leaves behind.
type Leftovers = Vec<(TargetId, ObjectId)>;

impl Mover {
    /// Brings the file from its layout to the result of `plan`. New objects are filled; objects that the new layout
    /// no longer names are removed. An object that stays must keep its place in its segment.
    ///
    /// # Errors
    /// `Busy` if the file has no layout, is moved, recovered, or used by the kernel alone.
    pub(crate) fn transform(
        &self,
        file: &Arc<File>,
        verb: &'static str,
        reason: Reason,
        plan: impl Fn(&Layout, &mut NewObjects<'_>) -> Result<Layout>,
    ) -> Result<Arc<Layout>> {
        self.transform_as(file, MoveOptions::plainly(verb, reason), plan)
    }

    /// `transform` with all options: it may keep the old objects as a copy, return to a copy, and copy only verified
    /// bytes.
    pub(super) fn transform_as(
        &self,
        file: &Arc<File>,
        how: MoveOptions<'_>,
        plan: impl Fn(&Layout, &mut NewObjects<'_>) -> Result<Layout>,
    ) -> Result<Arc<Layout>> {
        file.begin_move()?;
        let Some(id) = file.id() else {
            file.end_move();
            return Err(Error::Busy("the file has no layout: its bytes are in its stub".into()));
        };
        let told = (how.verb, self.cause(how.reason));
        let (before, active) = (file.layout(), self.progress.begin(told, id, file.size()));
        let mut result = Err(Stop::Changed);
        for attempt in 0..ATTEMPTS_MAX {
            // During the copy of a shared file, writers on other nodes wait if earlier attempts failed. For a long file
            // the wait would be too long.
            if attempt > 0 && file.is_shared() && file.size() <= HELD_BYTES_MAX {
                file.keep_claim().inspect_err(|_| file.end_move())?;
            }
            result = self.attempt(file, how, &active, &plan);
            file.unwatch();
            file.end_kept_claim();
            if !matches!(result, Err(Stop::Changed)) {
                break;
            }
        }
        file.end_move();
        let result = match result {
            Ok(layout) => Ok(layout),
            Err(Stop::Changed) => Err(Error::Busy("the layout changed under every attempt; try again".into())),
            // The copy of removed objects fails in many ways.
            Err(Stop::Failed(_)) if file.is_removed() => Err(Error::Busy("the file has been removed".into())),
            Err(Stop::Failed(e) | Stop::Died(e)) => Err(e),
        };
        let phase = match &result {
            Ok(_) => Phase::Done,
            Err(Error::Busy(_)) => Phase::Busy,
            Err(e) => Phase::Failed(e.to_string()),
        };
        match phase {
            Phase::Done => self.stats.add(Metric::MoverChanges, 1),
            Phase::Failed(_) => self.stats.add(Metric::MoverFailures, 1),
            Phase::Busy | Phase::Copying => {}
        }
        self.progress.end(&active, phase);
        self.tell(id, (how.verb, how.reason), before.as_deref(), &result);
        result
    }

    fn attempt(
        &self,
        file: &Arc<File>,
        how: MoveOptions<'_>,
        active: &Active,
        plan: &impl Fn(&Layout, &mut NewObjects<'_>) -> Result<Layout>,
    ) -> Result<Arc<Layout>, Stop> {
        let watch = Arc::new(ByteRanges::default());
        file.watch(watch.clone())?;
        let view = file.view();
        let old = view.layout.clone().ok_or(Stop::Changed)?;
        if view.has_partial() {
            return Err(Error::Busy("a part of the file is being recovered".into()).into());
        }
        file.mark_in_use()?;
        self.step(Step::Marked)?;
        let (died, replaced) = (Cell::new(false), Cell::new(false));
        let journal = |noted: JournalNote<'_>| self.journal(&old, noted, &died);
        let mut made = NewObjects::journalled(&self.pool, &journal);
        // A copy of a range that is being written would be stale at its end.
        let keeps = how.keeps;
        let unwritten = Unwritten::of(&old, keeps, &watch, how.pace);
        let pace = unwritten.as_ref().map_or(how.pace, |unwritten| Some(unwritten as &dyn Pace));
        let how = MoveOptions { pace, ..how };
        let move_ = Move { how, file, view: &view, old: &old, active, watch: &watch, replaced: &replaced };
        let result = match self.carry_out(&move_, plan, &mut made) {
            Err(Stop::Failed(e)) if died.get() => Err(Stop::Died(e)),
            result => result,
        };
        match result {
            Ok(done) => self.tidy_up(file, &view, &done, keeps).map(|()| done.layout),
            // After a failure to make the new record durable, a crash may reveal either record: the objects of both
            // are kept. The same holds when this node lost its lease at that time.
            Err(stop) if matches!(stop, Stop::Died(_) | Stop::Failed(Error::Elsewhere(_))) || replaced.get() => {
                // Another node may have settled and forgotten the journal of this one.
                if !matches!(self.entry_of(old.file), Ok(Some(_))) {
                    self.pool.making.leave_behind();
                }
                made.leave();
                Err(stop)
            }
            Err(stop) => {
                drop(made); // removes the new objects
                self.settle_journal(file, &old)?;
                file.unmark_if_simple();
                Err(stop)
            }
        }
    }

    fn copy<'a>(&'a self, m: &Move<'a>, new: &'a Layout, made: &'a NewObjects<'a>) -> Copy<'a> {
        Copy { mover: self, pace: m.how.pace, file: m.file, view: m.view, new, made, active: m.active, proof: None }
    }

    /// Runs the steps up to and including the new record.
    fn carry_out(
        &self,
        m: &Move<'_>,
        plan: &impl Fn(&Layout, &mut NewObjects<'_>) -> Result<Layout>,
        made: &mut NewObjects<'_>,
    ) -> Result<Done, Stop> {
        let mut new = plan(m.old, made)?;
        let unchanged = || m.view.layout.clone().expect("it is where the old one comes from");
        if new.mirrors == m.old.mirrors {
            return Ok(Done { layout: unchanged(), copy: None });
        }
        new.generation = m.old.generation + 1;
        new.history.push((self.pool.clock)(), m.how.reason);
        check_kept(m.old, &new)?;
        if made.is_empty() {
            made.note(&[])?; // for the objects that go
        }
        self.step(Step::Created)?;
        if !made.is_empty() {
            let copy = self.copy(m, &new, made);
            // Only ranges on new objects are copied: the cost for a segment does not depend on the file's length.
            let proven = m.how.proof.map(|proof| Proven::new(m.file, m.view, proof));
            let first = Copy { proof: proven.as_ref(), ..self.copy(m, &new, made) };
            for range in copy.ranges().iter() {
                first.range(range, true, true)?;
            }
            for _ in 0..PASSES_MAX {
                if m.how.keeps.changes_nothing()
                    || m.how.proof.is_some()
                    || m.watch.bytes() <= REST_BYTES_MAX
                    || !m.file.same_view(m.view)
                {
                    break;
                }
                for range in m.file.take_written(m.watch) {
                    copy.range(range, false, true)?;
                }
            }
            // Most data becomes durable while writers still write.
            made.sync()?;
        }
        self.step(Step::Copied)?;
        if m.how.keeps.changes_nothing() {
            let copy = self.leave_copy(m, &new, made)?;
            return Ok(Done { layout: unchanged(), copy: Some(copy) });
        }
        let finish = |new: &Layout, made: &NewObjects<'_>| {
            // A write before this attempt is in no range of `watch`.
            if m.how.proof.is_some_and(|proof| m.watch.bytes() > 0 || !proof.is_current(m.file)) {
                let why = "the file was written before the end of the copy: its bytes can no longer be verified";
                return Err(Error::Busy(why.into()).into());
            }
            if !made.is_empty() {
                let copy = self.copy(m, new, made);
                for range in m.watch.take() {
                    copy.range(range, false, false)?;
                }
                copy.cut()?;
            }
            self.copy_still_equal(m.old, m.how.keeps)?;
            self.step(Step::CaughtUp)?;
            made.sync()?;
            self.step(Step::Synced)
        };
        let mut copy = None;
        let then = |new: &Layout| copy = self.keep_or_release(m.old, new, m.how.keeps);
        let layout = m.file.swap_layout(m.view, new, made, finish, then)?.ok_or(Stop::Changed)?;
        m.replaced.set(true);
        self.step(Step::Replaced)?;
        m.file.stub().sync()?;
        self.step(Step::Durable)?;
        Ok(Done { layout, copy })
    }

    /// Keeps the new objects as the copy of a segment that stays, unless the segment was written in between.
    fn leave_copy(&self, m: &Move<'_>, new: &Layout, made: &mut NewObjects<'_>) -> Result<Segment, Stop> {
        let finish = |made: &NewObjects<'_>| {
            m.how.pace.map_or(Ok(()), |pace| pace.take(0))?;
            self.copy(m, new, made).cut()?;
            self.step(Step::CaughtUp)?;
            made.sync()?;
            self.step(Step::Synced)
        };
        let mut copy = None;
        if !m.file.leave_beside(m.view, made, finish, || copy = self.keep_or_release(m.old, new, m.how.keeps))? {
            return Err(Stop::Changed);
        }
        m.replaced.set(true);
        self.step(Step::Replaced)?;
        Ok(copy.expect("it was kept just now"))
    }

    /// Removes the old objects, after the new record.
    fn tidy_up(&self, file: &Arc<File>, was: &View, done: &Done, keeps: Keeps) -> Result<(), Stop> {
        let Done { layout, copy } = done;
        if let Some(copy) = copy {
            self.record_copy(layout.file, copy)?;
        }
        if keeps.changes_nothing() {
            self.step(Step::Durable)?;
        }
        let shared = was.all().filter(|slot| slot.merged.is_some());
        for left in shared.filter(|slot| layout.objects().all(|(_, object)| object.id != slot.id)) {
            left.vacate(&self.pool);
        }
        // Only a new record was made durable just now.
        if was.layout.as_ref().is_some_and(|was| Arc::ptr_eq(was, layout)) {
            self.sync_record(file, layout.file)?;
        }
        let left = self.finish_journal(layout)?;
        self.step(Step::Finished)?;
        self.remove_garbage(&left)?;
        self.step(Step::Removed)?;
        file.unmark_if_simple();
        Ok(())
    }

    /// Ends the journal of a file with the layout `layout`: removes the objects that the layout does not name.
    fn settle_journal(&self, file: &File, layout: &Layout) -> Result<()> {
        self.sync_record(file, layout.file)?;
        let left = self.finish_journal(layout)?;
        self.remove_garbage(&left).map(|_| ())
    }

    /// Makes the record of a file durable, if the journal has objects of it. After an earlier move with a failed sync,
    /// a loss of power may bring back a record that names objects which only the journal keeps.
    fn sync_record(&self, file: &File, id: FileId) -> Result<()> {
        let needed = !file.is_removed() && self.entry_of(id)?.is_some();
        if needed { file.stub().sync() } else { Ok(()) }
    }

    /// Ends the journal of a file; returns the new garbage.
    fn finish_journal(&self, layout: &Layout) -> Result<Leftovers> {
        let Some(entry) = self.entry_of(layout.file)? else { return Ok(Leftovers::new()) };
        let named: BTreeSet<ObjectId> = layout.objects().map(|(_, o)| o.id).collect();
        // Kept objects have their own record now.
        let kept = self.pool.slow_copies.objects_of(layout.file);
        let left: Leftovers =
            entry.objects.into_iter().filter(|(_, o)| !named.contains(o) && !kept.contains(o)).collect();
        self.state.journal_finish(layout.file, &left)?;
        Ok(left)
    }

    fn entry_of(&self, file: FileId) -> Result<Option<JournalEntry>> {
        Ok(self.state.journal()?.into_iter().find(|entry| entry.file == file))
    }

    /// Writes the objects to be created to the journal, together with those of the file.
    fn journal(&self, old: &Layout, noted: JournalNote<'_>, died: &Cell<bool>) -> Result<()> {
        let mut entry = self.entry_of(old.file)?.unwrap_or_else(|| new_entry(old.file));
        let objects = match noted {
            JournalNote::Coming(objects) => objects,
            JournalNote::NotOurs(object) => {
                entry.objects.retain(|o| *o != (object.target, object.id));
                return self.state.journal_put(&entry);
            }
        };
        let now = old.objects().map(|(_, o)| o).chain(objects).map(|o| (o.target, o.id));
        let fresh: Leftovers = now.filter(|o| !entry.objects.contains(o)).collect();
        entry.objects.extend(fresh);
        self.state.journal_put(&entry)?;
        match self.step(Step::Journalled) {
            Err(Stop::Died(e)) => {
                died.set(true);
                Err(e)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn step(&self, step: Step) -> Result<(), Stop> {
        match &self.crash {
            Some(hook) => hook(step).map_err(Stop::Died),
            None => Ok(()),
        }
    }
}

/// A journal entry without objects. The file is found again by its mark in `open/`.
pub(super) fn new_entry(file: FileId) -> JournalEntry {
    JournalEntry { file, path: Default::default(), inode: 0, objects: Vec::new() }
}

/// Checks that an object in both layouts holds the same bytes of the file.
fn check_kept(old: &Layout, new: &Layout) -> Result<()> {
    new.check().map_err(Error::BadLayout)?;
    for (at, object) in new.objects() {
        let Some((was, before)) = old.objects().find(|(_, o)| o.id == object.id) else { continue };
        let (a, b) = (&old.mirrors[was.mirror], &new.mirrors[at.mirror]);
        let (s, t) = (&a.segments[was.segment], &b.segments[at.segment]);
        let same_place = s.start == t.start && s.stripe_size == t.stripe_size && was.index == at.index;
        let same_state = (before.state, before.merged) == (object.state, object.merged) && a.state == b.state;
        if !same_place || !same_state || s.objects.len() != t.objects.len() || before.target != object.target {
            return Err(Error::Invalid(format!("object {} would change its place in the file", object.id)));
        }
    }
    Ok(())
}
