//! Growth: from the stub into objects, and on to more segments; also the layout of an empty file on request.
//!
//! Objects exist before the record names them, so a crash in between leaves objects that no layout names. Their numbers
//! carry the epoch of their daemon, by which `mover::sweep` finds them.

use super::overflow::Refused;
use super::{BeingMade, File, Happened, Pool, Slot, View, target_error};
use crate::{Error, Result};
use object::target::{Handle, Medium, TargetError};
use policy::layout::{
    Layout, Mirror, MirrorState, OPEN_END, Object, Placement, Reason, Segment, SegmentShape, choose_targets,
    plan_growth,
};
use policy::{FileId, ObjectId, TargetId};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes copied at once out of the stub.
const COPY_BYTES: u64 = 1 << 20;

/// Maximum number of draws after an object of the drawn number existed. A collision needs a volume that lost its state,
/// the epoch in its namespace and a target at the same time; a guess.
const COLLISIONS_MAX: usize = 1024;

/// Entry of a journal of new objects.
#[derive(Clone, Copy)]
pub enum JournalNote<'a> {
    /// Objects that are about to be created.
    Coming(&'a [Object]),
    /// An object existed already: it belongs to another creator, and stays.
    NotOurs(&'a Object),
}

/// Receives objects before they are created.
type Journal<'a> = dyn Fn(JournalNote<'_>) -> Result<()> + 'a;

/// Objects just made, with their open handles; removed again unless kept.
pub struct NewObjects<'a> {
    pub(super) pool: &'a Pool,
    made: Vec<Made>,
    /// Receives objects before they are created.
    journal: Option<&'a Journal<'a>>,
    /// Targets that get no object.
    never_on: Vec<TargetId>,
}

/// A created object.
struct Made {
    slot: Arc<Slot>,
    discard: bool,
    making: BeingMade,
}

impl<'a> NewObjects<'a> {
    /// An empty set.
    pub fn new(pool: &'a Pool) -> NewObjects<'a> {
        NewObjects { pool, made: Vec::new(), journal: None, never_on: Vec::new() }
    }

    /// An empty set; each object is sent to `journal` before it is created.
    pub fn journalled(pool: &'a Pool, journal: &'a Journal<'a>) -> NewObjects<'a> {
        NewObjects { pool, made: Vec::new(), journal: Some(journal), never_on: Vec::new() }
    }

    /// Excludes targets from the choice for all later segments.
    pub fn never_on(&mut self, targets: &[TargetId]) {
        self.never_on.extend_from_slice(targets);
    }

    /// Whether a target may be chosen.
    pub fn may_lie_on(&self, target: TargetId) -> bool {
        !self.never_on.contains(&target)
    }

    /// Creates one object.
    pub fn make(&mut self, object: &Object) -> Result<(), TargetError> {
        let id = object.id;
        self.make_by(object, move |medium| medium.create(id))
    }

    /// Creates several, which the journal receives first.
    pub fn make_all(&mut self, objects: &[Object]) -> Result<()> {
        self.note(objects)?;
        objects.iter().try_for_each(|object| self.make(object).map_err(|error| target_error(object.target, error)))
    }

    /// Creates one object with `make`.
    pub(super) fn make_by(
        &mut self,
        object: &Object,
        make: impl FnOnce(&dyn Medium) -> Result<Arc<dyn Handle>, Errno> + Send + 'static,
    ) -> Result<(), TargetError> {
        let slot = Arc::new(Slot::new(object));
        let making = self.pool.making.begin(object.id);
        let made = slot.target(self.pool)?.run(make);
        tracing::trace!(object = %object.id, target = %object.target, made = ?made.as_ref().map(drop), "an object is made");
        if matches!(made, Err(TargetError::Io(Errno::EXIST))) {
            if let Some(Err(error)) = self.journal.map(|journal| journal(JournalNote::NotOurs(object))) {
                tracing::error!("object {} is not part of this move, and stays in its journal: {error}", object.id);
            }
            return made.map(drop);
        }
        // The object may exist even after a missed deadline, so it is recorded before the result is known.
        self.made.push(Made { slot: slot.clone(), discard: true, making });
        slot.set_handle(made?);
        slot.set_durable(false);
        Ok(())
    }

    /// Sends coming objects to the journal.
    pub fn note(&self, objects: &[Object]) -> Result<()> {
        self.journal.map_or(Ok(()), |journal| journal(JournalNote::Coming(objects)))
    }

    /// A segment of that shape on targets chosen now; skips targets that cannot take an object.
    pub fn segment(&mut self, shape: &SegmentShape, place: &Placement, avoid: &[TargetId]) -> Result<Segment> {
        let mut refused: Vec<(TargetId, TargetError)> = Vec::new();
        let mut collisions = 0;
        loop {
            let mut views = self.pool.targets.views_of_writer();
            views.retain(|v| self.may_lie_on(v.id) && refused.iter().all(|(t, _)| *t != v.id));
            let chosen = choose_targets(&views, place.tier, shape.stripe_count, avoid, self.pool.next_turn(place.tier));
            if chosen.is_empty() {
                return Err(
                    match refused.into_iter().find(|(_, e)| !matches!(e, TargetError::Failed | TargetError::Elsewhere))
                    {
                        Some((target, error)) => Error::Target { target, error },
                        None => self.pool.targets.none_usable(),
                    },
                );
            }
            let fresh = |&target: &TargetId| Object::whole(self.pool.next_object(), target);
            let objects: Vec<Object> = chosen.iter().map(fresh).collect();
            self.note(&objects)?;
            let start = self.made.len();
            let failed = objects.iter().find_map(|o| self.make(o).err().map(|e| (o.target, e)));
            match failed {
                None => {
                    return Ok(Segment { start: shape.start, end: shape.end, stripe_size: place.stripe_size, objects });
                }
                Some((_, TargetError::Io(Errno::EXIST))) if collisions < COLLISIONS_MAX => {
                    self.discard(start);
                    collisions += 1;
                }
                Some(refusal) => {
                    self.discard(start);
                    refused.push(refusal);
                }
            }
        }
    }

    /// A segment cut like `like`, its objects on exactly these targets, in this order.
    pub fn segment_on(&mut self, like: &Segment, targets: &[TargetId]) -> Result<Segment> {
        let fresh = |&target: &TargetId| Object::whole(self.pool.next_object(), target);
        let objects: Vec<Object> = targets.iter().map(fresh).collect();
        self.make_all(&objects)?;
        Ok(Segment { objects, ..*like })
    }

    /// Keeps the objects: gives their open handles to the view's slots.
    pub fn keep(&mut self, view: &View) {
        self.lend_handles(view);
        self.made.iter_mut().for_each(|made| made.discard = false);
    }

    /// Gives the open handles to a view.
    fn lend_handles(&self, view: &View) {
        for Made { slot, .. } in &self.made {
            if let (Some(there), Some(handle)) = (view.all().find(|s| s.id == slot.id), slot.handle()) {
                there.set_handle(handle);
                there.set_durable(false);
            }
        }
    }

    /// The slot of an object made here.
    pub fn slot(&self, object: &Object) -> Option<&Arc<Slot>> {
        self.made.iter().map(|made| &made.slot).find(|s| s.id == object.id)
    }

    /// Whether an object was made here.
    pub fn was_made(&self, id: ObjectId) -> bool {
        self.made.iter().any(|made| made.slot.id == id)
    }

    /// Makes the objects and their names durable.
    pub fn sync(&self) -> Result<()> {
        let mut targets = BTreeSet::new();
        let error = |target| move |error| Error::Target { target, error };
        for Made { slot, .. } in &self.made {
            slot.run(self.pool, |h| h.sync()).map_err(error(slot.target_id))?;
            targets.insert(slot.target_id);
        }
        targets.into_iter().try_for_each(|id| self.pool.sync_names(id).map_err(error(id)))
    }

    fn len(&self) -> usize {
        self.made.len()
    }

    /// Whether no object was made.
    pub fn is_empty(&self) -> bool {
        self.made.is_empty()
    }

    /// Leaves the objects in place: another owner is responsible for them. Until the result is dropped they count as
    /// under construction.
    pub fn leave(&mut self) -> Vec<BeingMade> {
        self.made.drain(..).map(|made| made.making).collect()
    }

    fn discard(&mut self, from: usize) {
        for made in self.made.drain(from..) {
            if !made.discard {
                continue;
            }
            if File::may_discard(self.pool, made.slot.id) {
                made.slot.remove(self.pool);
            } else {
                self.pool.making.leave_behind();
            }
        }
    }
}

impl Drop for NewObjects<'_> {
    fn drop(&mut self) {
        self.discard(0);
    }
}

impl Pool {
    /// A new mirror of those shapes, on other targets than `avoid` where there are enough.
    pub(crate) fn new_mirror(
        &self,
        made: &mut NewObjects<'_>,
        shapes: &[SegmentShape],
        place: &Placement,
        avoid: &[TargetId],
    ) -> Result<Mirror> {
        let segments = shapes.iter().map(|s| made.segment(s, place, avoid)).collect::<Result<Vec<Segment>>>()?;
        Ok(Mirror { state: MirrorState::InSync, segments })
    }
}

/// The targets that a mirror uses.
pub fn targets_of(mirror: &Mirror) -> impl Iterator<Item = TargetId> + '_ {
    mirror.segments.iter().flat_map(|s| &s.objects).map(|o| o.target)
}

/// The targets that the mirrors beside one use.
pub fn targets_of_others(layout: &Layout, mirror: usize) -> Vec<TargetId> {
    let others = layout.mirrors.iter().enumerate().filter(|(other, _)| *other != mirror);
    others.flat_map(|(_, other)| targets_of(other)).collect()
}

impl File {
    /// Moves the bytes from the stub into objects, with room for `needed` bytes.
    pub(super) fn convert(self: &Arc<Self>, needed: u64) -> Result<()> {
        let Some(_alone) = self.exclusive_if(|view| view.layout.is_none())? else { return Ok(()) };
        if self.view().layout.is_some() {
            return Ok(());
        }
        let size = self.size.load(Ordering::Acquire);
        drop(self.first_layout(needed.max(size), None, &self.placement(), Reason::Grown)?);
        if size > self.pool.inline_bytes_ever() {
            drop(self.stub.mark_inline(false)); // a mark that stays is ignored once there is a layout
        }
        // Other nodes may still read the bytes there.
        if self.pool.stub_bytes_stay() || self.is_shared() {
            return Ok(());
        }
        self.stub.punch(0, size.max(1)).or_else(|e| match e.errno() {
            // The bytes then stay in the stub, which has no effect: they are never read again.
            Errno::OPNOTSUPP | Errno::NOSPC | Errno::IO => Ok(()),
            _ => Err(e),
        })
    }

    /// Lays out an empty file on request (the virtual attribute): one segment, striped from the start.
    pub fn set_layout_request(self: &Arc<Self>, placement: &Placement) -> Result<()> {
        self.lay_out(u64::MAX, placement, Reason::Requested).map(|_| ())
    }

    /// Lays out an empty file whose final size is known (stage-in).
    ///
    /// # Errors
    /// `Busy` unless the file is empty and never was laid out.
    pub fn lay_out(self: &Arc<Self>, size: u64, placement: &Placement, reason: Reason) -> Result<Arc<Layout>> {
        if placement.stripe_size == 0 || !placement.stripe_size.is_multiple_of(4096) {
            return Err(Error::Invalid("a stripe size must be a positive multiple of 4096".into()));
        }
        let _alone = self.exclusive()?;
        if self.size() != 0 || self.view().layout.is_some() {
            return Err(Error::Busy("only an empty file that was never written can be laid out".into()));
        }
        self.set_placement(placement.clone());
        self.first_layout(size.max(1), Some(size), placement, reason)
    }

    /// Gives the file its first layout and copies the stub's bytes; skips targets that refuse bytes. The caller holds
    /// `io` exclusively.
    fn first_layout(
        self: &Arc<Self>,
        needed: u64,
        known_size: Option<u64>,
        place: &Placement,
        reason: Reason,
    ) -> Result<Arc<Layout>> {
        let mut refused = Refused::default();
        loop {
            let mut made = NewObjects::new(&self.pool);
            made.never_on(&refused.targets);
            match self.first_layout_of(made, needed, known_size, place, reason) {
                Err(error) if refused.add(&error) && self.others_left(place, &refused) => {}
                done => return done,
            }
        }
    }

    fn first_layout_of(
        self: &Arc<Self>,
        mut made: NewObjects<'_>,
        needed: u64,
        known_size: Option<u64>,
        place: &Placement,
        reason: Reason,
    ) -> Result<Arc<Layout>> {
        let mut mirrors: Vec<Mirror> = Vec::new();
        // A layout that a user requested is used unchanged.
        let advised = reason != Reason::Requested;
        // The largest number means that the size is unknown.
        let needed = if needed == u64::MAX { 1 } else { needed };
        for _ in 0..place.mirrors.max(1) {
            let avoid: Vec<TargetId> = mirrors.iter().flat_map(targets_of).collect();
            let place = |at| if advised { self.advised(at, place.clone()) } else { place.clone() };
            let segments = self.segments_over(0..needed, known_size, &mut made, &avoid, place)?;
            mirrors.push(Mirror { state: MirrorState::InSync, segments });
        }
        let mut layout =
            Layout { file: FileId((self.pool.next_id)()), generation: 1, mirrors, history: Default::default() };
        layout.history.push((self.pool.clock)(), reason);
        self.copy_out_of_stub(&layout, &made)?;
        // Another node may have synced the bytes in the stub.
        let elsewhere = self.is_shared() && self.size.load(Ordering::Acquire) > 0;
        let promised = elsewhere || self.promised.load(Ordering::Acquire);
        let staging = View::new(Some(layout.clone()), None);
        made.lend_handles(&staging);
        if promised {
            self.sync_objects(&staging)?;
        }
        let record = self.record.lock();
        let layout = self.replace(&record, &staging, layout)?;
        made.keep(&self.view());
        if promised {
            for slot in self.view().all() {
                slot.set_durable(true);
            }
            self.stub.sync()?; // before the stub's bytes go
        }
        self.tail_clean.store(true, Ordering::Release);
        self.has_number(layout.file);
        self.tell(Happened::LaidOut);
        Ok(layout)
    }

    /// New segments of a mirror that cover at least a range. The placement is requested for each segment: one write may
    /// need several, and each may get another one.
    fn segments_over(
        &self,
        range: Range<u64>,
        known_size: Option<u64>,
        made: &mut NewObjects<'_>,
        avoid: &[TargetId],
        place: impl Fn(u64) -> Placement,
    ) -> Result<Vec<Segment>> {
        let (mut segments, mut end) = (Vec::new(), range.start);
        while end < range.end {
            let place = place(end);
            let shapes = plan_growth(&place, end, end.saturating_add(1), known_size);
            self.admit_objects(made.len() + shapes.iter().map(|shape| shape.stripe_count).sum::<usize>())?;
            let added = self.pool.new_mirror(made, &shapes, &place, avoid)?;
            end = added.covered();
            segments.extend(added.segments);
        }
        Ok(segments)
    }

    fn copy_out_of_stub(&self, layout: &Layout, made: &NewObjects<'_>) -> Result<()> {
        let size = self.size.load(Ordering::Acquire);
        let mut at = 0;
        while at < size {
            at = match self.stub.seek_data(at) {
                Ok(data) => data,
                Err(e) if e.errno() == Errno::NXIO => return Ok(()),
                Err(e) => return Err(e),
            };
            // Holes stay holes.
            let hole = self.stub.seek_hole(at)?.clamp(at + 1, size.max(at + 1));
            let mut buf = vec![0; COPY_BYTES.min(hole - at) as usize];
            let read = self.stub.read_at(at, &mut buf)?;
            if read == 0 {
                return Ok(());
            }
            buf.truncate(read);
            let bytes: Arc<[u8]> = Arc::from(buf);
            for (m, mirror) in layout.mirrors.iter().enumerate() {
                for piece in mirror.pieces(m, at, read as u64) {
                    let object = layout.object(piece.at).expect("a piece lies on an object");
                    let slot = made.slot(object).expect("every object of a first layout is new");
                    let (from, len, bytes) = ((piece.file_offset - at) as usize, piece.len as usize, bytes.clone());
                    slot.run(&self.pool, move |h| h.write_at(piece.object_offset, &bytes[from..from + len]))
                        .map_err(|error| Error::Target { target: slot.target_id, error })?;
                }
            }
            at += read as u64;
        }
        Ok(())
    }

    /// Appends segments to the mirrors in sync so that they cover `needed` bytes.
    pub(super) fn grow(self: &Arc<Self>, needed: u64) -> Result<()> {
        let is_short = |view: &View| {
            let of = |layout: &Layout| view.in_sync().any(|m| layout.mirrors[m].covered() < needed);
            view.layout.as_deref().is_some_and(of)
        };
        let Some(_alone) = self.exclusive_if(is_short)? else { return Ok(()) };
        let view = self.view();
        let Some(old) = &view.layout else { return Ok(()) };
        let pinned = self.check_unpinned().is_err();
        let mut made = NewObjects::new(&self.pool);
        let mut new = Layout::clone(old);
        for m in view.in_sync() {
            let covered = old.mirrors[m].covered();
            if covered >= needed {
                continue;
            }
            let last = old.mirrors[m].segments.last().expect("a checked mirror has a segment");
            if pinned || !(covered - last.start).is_multiple_of(last.stripe_size) {
                // The kernel does I/O on this object by itself, so the file keeps this single object.
                new.mirrors[m].segments.last_mut().expect("as above").end = OPEN_END;
                continue;
            }
            let avoid = targets_of_others(&new, m);
            let place = |at| self.advised(at, self.placement());
            let added = self.segments_over(covered..needed, None, &mut made, &avoid, place)?;
            new.mirrors[m].segments.extend(added);
        }
        if new == **old {
            return Ok(());
        }
        if view.in_sync().any(|m| old.mirrors[m].covered() < self.size()) {
            made.sync()?; // zeros that may have been made durable must not depend on objects that are not
        }
        self.replace_with(&view, new, Reason::Grown, &mut made)?;
        self.tell(Happened::LaidOut);
        Ok(())
    }
}
