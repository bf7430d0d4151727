//! A layout with its opened objects: readers take it as a snapshot, and changes replace it as a whole.
//!
//! Objects keep their slots (open handle, unsynced changes) from one view to the next, by object number.

use super::Pool;
use meta::unsynced::Unsynced;
use object::target::{Handle, InlineError, Medium, OnDeadline, Pending, State, Target, TargetError, own_part};
use parking_lot::RwLock;
use policy::layout::{Layout, Merged, MirrorState, Object, ObjectState, Position, Segment};
use policy::precedence::Class;
use policy::{ObjectId, TargetId};
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Units of a shared object that are freed in one operation, to stay far from the deadline. A guess.
const VACATED_UNITS: u64 = 512;

/// An object in use.
pub struct Slot {
    pub id: ObjectId,
    pub target_id: TargetId,
    /// This file's part of a shared object.
    pub merged: Option<Merged>,
    target: OnceLock<Arc<Target>>,
    handle: RwLock<Option<Arc<dyn Handle>>>,
    /// Changes since the last sync.
    pub unsynced: Unsynced<TargetError>,
    /// The object may have been created since the names of its target were last synced.
    pub unnamed: AtomicBool,
}

impl Slot {
    /// A new slot. An earlier opening may have left the object unsynced.
    pub fn new(object: &Object) -> Slot {
        Slot {
            id: object.id,
            target_id: object.target,
            merged: object.merged,
            target: OnceLock::new(),
            handle: RwLock::new(None),
            unsynced: Unsynced::unknown(),
            unnamed: AtomicBool::new(true),
        }
    }

    /// Target of the object; `Failed` if it is not in the volume.
    pub fn target(&self, pool: &Pool) -> Result<&Arc<Target>, TargetError> {
        if let Some(target) = self.target.get() {
            return Ok(target);
        }
        let target = pool.targets.get(self.target_id).ok_or(TargetError::Failed)?;
        Ok(self.target.get_or_init(|| target))
    }

    /// The handle, if it is open.
    pub fn handle(&self) -> Option<Arc<dyn Handle>> {
        self.handle.read().clone()
    }

    /// Sets the handle of an object just created.
    pub fn set_handle(&self, handle: Arc<dyn Handle>) {
        *self.handle.write() = Some(handle);
    }

    /// Creates a missing object, or empties an existing one; durable.
    pub fn make_empty(&self, pool: &Pool) -> Result<(), TargetError> {
        let (id, merged) = (self.id, self.merged);
        let made = self.target(pool)?.run(move |medium| {
            let made = match medium.open(id) {
                Ok(there) => {
                    let own = own_part(there, merged); // the other parts of a shared object belong to other files
                    own.set_len(0).map(|()| own)
                }
                Err(Errno::NOENT) => medium.create(id).map(|made| own_part(made, merged)),
                Err(errno) => Err(errno),
            }?;
            made.sync().map(|()| made)
        })?;
        self.set_handle(made);
        pool.lost.cut(self.id.0, 0);
        self.unnamed.store(true, Ordering::Release);
        self.unsynced.changed();
        Ok(())
    }

    /// Frees this file's part of a shared object before its name is removed; an object without other names is removed
    /// as a whole. A part that cannot be freed takes space until the last file leaves the object.
    pub fn vacate(self: &Arc<Self>, pool: &Pool) {
        let Some(merged) = self.merged else { return };
        let step = merged.unit_bytes.saturating_mul(VACATED_UNITS);
        let mut next = Some(0);
        while let Some(at) = next {
            let freed = self.run(pool, move |h| match h.seek_data(at) {
                Ok(_) if h.names()? < 2 => Ok(None),
                Ok(data) => h.punch(data, step).map(|()| Some(data.saturating_add(step))),
                Err(Errno::NXIO) => Ok(None),
                Err(errno) => Err(errno),
            });
            next = freed.unwrap_or_else(|error| {
                tracing::debug!(object = %self.id, "its part of a shared object takes space until the other files \
                    leave it: {error}");
                None
            });
        }
    }

    /// Records that the object was just created, or made durable while nothing could change it.
    pub fn set_durable(&self, durable: bool) {
        self.unnamed.store(!durable, Ordering::Release);
        if durable { self.unsynced.all_durable() } else { self.unsynced.changed() }
    }

    /// Removes the object from this file: frees the file's part, and the object itself with its last name.
    pub fn remove(self: &Arc<Self>, pool: &Pool) {
        self.vacate(pool);
        pool.remove_object(self.target_id, self.id);
    }

    /// Returns the handle, opening the object if needed. Runs where operations on the target may run.
    fn open(&self, medium: &dyn Medium) -> Result<Arc<dyn Handle>, Errno> {
        // A handle from a read-only phase of the target is reopened when that phase is over.
        let outdated =
            |h: &Arc<dyn Handle>| h.is_read_only() && self.target.get().is_some_and(|t| t.state() == State::Ok);
        if let Some(handle) = self.handle().filter(|handle| !outdated(handle)) {
            return Ok(handle);
        }
        let handle = own_part(medium.open(self.id)?, self.merged);
        *self.handle.write() = Some(handle.clone());
        Ok(handle)
    }

    /// Runs `op`. After an error that may come from the handle itself, the next operation reopens the object.
    fn with<T>(&self, medium: &dyn Medium, op: impl FnOnce(&dyn Handle) -> Result<T, Errno>) -> Result<T, Errno> {
        let handle = self.open(medium)?;
        let result = op(&*handle);
        if matches!(result, Err(Errno::IO | Errno::STALE | Errno::BADF | Errno::NOTCONN | Errno::NODEV)) {
            *self.handle.write() = None;
        }
        result
    }

    /// Submits an operation to a worker of the target.
    pub fn submit<T, F>(self: &Arc<Self>, pool: &Pool, op: F) -> Result<Pending<T>, TargetError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Handle) -> Result<T, Errno> + Send + 'static,
    {
        let slot = self.clone();
        Ok(self.target(pool)?.submit(move |medium| slot.with(medium, op)))
    }

    /// Submits an operation to a worker of the target, unless its queue is full. A prefetch goes behind awaited
    /// operations.
    pub fn try_submit<T, F>(self: &Arc<Self>, pool: &Pool, class: Class, op: F) -> Result<Pending<T>, TargetError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Handle) -> Result<T, Errno> + Send + 'static,
    {
        let slot = self.clone();
        self.target(pool)?.try_submit(class, move |medium| slot.with(medium, op))
    }

    /// Runs an operation on a worker of the target and waits.
    pub fn run<T, F>(self: &Arc<Self>, pool: &Pool, op: F) -> Result<T, TargetError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Handle) -> Result<T, Errno> + Send + 'static,
    {
        self.submit(pool, op)?.wait()
    }

    /// Runs an operation on this thread under a watchdog: on a missed deadline `on_deadline` handles the request.
    pub fn run_inline<T>(
        &self,
        pool: &Pool,
        op: impl FnOnce(&dyn Handle) -> Result<T, Errno>,
        on_deadline: &Arc<dyn OnDeadline>,
    ) -> Result<T, InlineError> {
        self.target(pool)?.run_inline(|medium| self.with(medium, op), Some(on_deadline))
    }
}

/// A layout with its slots, `slots[mirror][segment][index]`. Without a layout the bytes are in the stub.
pub struct View {
    pub layout: Option<Arc<Layout>>,
    pub slots: Vec<Vec<Vec<Arc<Slot>>>>,
}

impl View {
    /// A view of a layout, with the slots of `old` for the objects that both have.
    pub fn new(layout: Option<Layout>, old: Option<&View>) -> View {
        let mut kept: HashMap<ObjectId, Arc<Slot>> =
            old.into_iter().flat_map(|v| v.all()).map(|s| (s.id, s.clone())).collect();
        let mut slot = |o: &Object| match kept.remove(&o.id) {
            Some(slot) if (slot.target_id, slot.merged) == (o.target, o.merged) => slot,
            _ => Arc::new(Slot::new(o)),
        };
        let mut slots = Vec::new();
        for mirror in layout.iter().flat_map(|l| &l.mirrors) {
            slots.push(mirror.segments.iter().map(|s| s.objects.iter().map(&mut slot).collect()).collect());
        }
        View { layout: layout.map(Arc::new), slots }
    }

    /// The slot at a position of this view's own layout.
    pub fn slot(&self, at: Position) -> &Arc<Slot> {
        &self.slots[at.mirror][at.segment][at.index]
    }

    /// All slots of the view.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.slots.iter().flatten().flatten()
    }

    /// Slots of one mirror.
    pub fn of_mirror(&self, mirror: usize) -> impl Iterator<Item = &Arc<Slot>> {
        self.slots[mirror].iter().flatten()
    }

    /// Slots of one mirror, each with its segment and its index there.
    pub fn placed(&self, mirror: usize) -> impl Iterator<Item = (&Segment, usize, &Arc<Slot>)> {
        let segments = self.layout.iter().flat_map(move |layout| &layout.mirrors[mirror].segments);
        let slots = segments.zip(&self.slots[mirror]);
        slots.flat_map(|(segment, slots)| slots.iter().enumerate().map(move |(index, slot)| (segment, index, slot)))
    }

    /// The mirrors that hold every acknowledged byte.
    pub fn in_sync(&self) -> impl Iterator<Item = usize> + '_ {
        let mirrors = self.layout.iter().flat_map(|l| &l.mirrors).enumerate();
        mirrors.filter(|(_, m)| m.state == MirrorState::InSync).map(|(i, _)| i)
    }

    /// Whether any object is being recovered.
    pub fn has_partial(&self) -> bool {
        self.layout.iter().any(|l| l.objects().any(|(_, o)| o.state == ObjectState::Partial))
    }

    /// Marks the object at a position as changed.
    pub fn written(&self, at: Position) {
        self.slot(at).unsynced.changed();
    }
}
