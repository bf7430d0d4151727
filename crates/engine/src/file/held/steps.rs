//! Steps of the machine for one file: search, settlement, publication.
//!
//! A step that cannot end now is tried again by the driver. Without a lease no step changes anything. A file whose inode
//! is gone has nothing to find and to settle.

use super::Holds;
use super::change::Stage;
use crate::file::{BeingMade, File, NewObjects, Slot, View, target_error};
use crate::{Error, Result};
use meta::stub::{Pointer, Record};
use object::target::{self, Pending, State, TargetError};
use policy::TargetId;
use policy::cluster::Node;
use policy::cluster::share::Created;
use policy::holders::node::{Event, Step};
use policy::layout::{Layout, OPEN_END, Object, Placement, Segment, SegmentShape};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for operations on a file before another step has its turn.
const DRAIN_MAX: Duration = Duration::from_millis(50);

/// Layout whose objects beyond the size are new, for the publication after a settlement. At the drop a record that was
/// not seen may name these, unless the publication took them.
pub(super) struct Sealed {
    /// Node and generation of the publication.
    by: (Node, u64),
    layout: Layout,
    new: Vec<BeingMade>,
    /// Objects that lie beyond the size as a whole.
    old: Vec<Object>,
}

impl Sealed {
    #[cfg(test)]
    pub fn new_objects(&self) -> impl Iterator<Item = policy::ObjectId> + '_ {
        self.new.iter().map(BeingMade::object)
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        self.new.iter().for_each(BeingMade::doubt);
    }
}

/// A publication by a number of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Publication {
    pub node: Node,
    pub generation: u64,
    pub changed: bool,
    pub sealed: bool,
}

/// End of a step.
pub(super) enum Stepped {
    Event(Event),
    /// The step is to be tried again.
    Again,
    /// The caller that changes the layout answers.
    Later,
}

/// Answer of an object about the bytes that it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Answered {
    #[default]
    Yes,
    /// The object is lost, or an operator failed its target.
    Lost,
    /// The object does not answer this node now: its target failed here, which may be a fault of the path to it.
    Failed(TargetId),
    /// The object may answer later.
    Later,
}

/// Size of a file as the objects of a mirror show it.
#[derive(Clone, Copy, Debug, Default)]
struct Reach {
    bytes: u64,
    /// The worst answer of the objects.
    answered: Answered,
}

impl Reach {
    /// The size, unless an object may have bytes beyond it.
    fn known(self) -> Result<Reach> {
        match self.answered {
            Answered::Yes | Answered::Lost => Ok(self),
            Answered::Failed(target) => Err(target_error(target, TargetError::Failed)),
            Answered::Later => Err(Error::Busy("an object that may show the size of the file does not answer".into())),
        }
    }
}

impl File {
    /// Carries out a step.
    pub(super) fn step(&self, holds: &Holds, node: Node, step: Step) -> Stepped {
        let key = self.key();
        // The record of an earlier attempt without an answer may exist.
        let tried = self.held.state.lock().change.publishing.is_some();
        let done = |done: Result<bool>| done.map(|done| Event::Done(key, done));
        let event = match step {
            Step::Pointer => self.find_pointer(node).map(|found| Event::Found(key, found)),
            Step::Look(generation) => self.find_record(node, generation).map(|found| Event::Found(key, found)),
            Step::List => {
                self.stub.listed_generation().map(|found| Event::Found(key, found.map(|generation| (generation, 0))))
            }
            Step::Whole => done(self.stub.cut_to().map(|cut| cut.is_none())),
            Step::Drain if self.io.try_write_for(DRAIN_MAX).is_none() => return Stepped::Again,
            Step::Drain => done(Ok(true)),
            Step::Settle => match self.settle_held(holds, node) {
                Ok(false) => return Stepped::Again,
                settled => done(settled),
            },
            Step::SettleFromObjects(generation) => match self.settle_from_objects(holds, node, generation) {
                Err(error) if !error.is_gone() => {
                    tracing::debug!("a file is left unsettled for now: {error}");
                    self.held.note_unsettled(&error);
                    done(Ok(false))
                }
                settled => done(settled.map(|()| true)),
            },
            Step::Change(generation) => {
                if self.grants(node, generation) {
                    return Stepped::Later;
                }
                done(Ok(false))
            }
            Step::Publish { generation, changed, sealed } => {
                let publication = Publication { node, generation, changed, sealed };
                self.publish_record(holds, publication).map(|made| Event::Published(key, made))
            }
            Step::Point(generation) => done(self.point_at(generation).map(|()| true)),
            Step::Tidy(generation) => done(self.stub.remove_records(generation).map(|()| true)),
        };
        match event {
            Ok(event) => Stepped::Event(event),
            Err(error) if self.is_gone(holds, &error) => {
                let surely = !tried || self.stub.is_removed();
                self.held.note_removal(matches!(step, Step::Publish { changed: true, .. }), surely);
                Stepped::Event(Event::Gone(key))
            }
            // Neither the pointer nor an old record is needed.
            Err(error) if matches!(step, Step::Point(_) | Step::Tidy(_)) => {
                tracing::debug!("older records stay on a stub for now: {error}");
                Stepped::Event(Event::Done(key, false))
            }
            Err(error) => {
                tracing::debug!(?step, "a step of a hold is repeated: {error}");
                Stepped::Again
            }
        }
    }

    /// Whether an error shows that the inode is gone, and not only hidden while a server of the shared file system is
    /// away. A descriptor that was lost with a server is renewed.
    pub(super) fn is_gone(&self, holds: &Holds, error: &Error) -> bool {
        let is_gone = |done: Result<()>| {
            let Err(error) = done else { return false };
            // GlusterFS refuses to open some removed files in this way, too.
            let is_refused = error.errno() == Errno::BADFD && self.is_settled();
            (error.is_gone() || is_refused) && holds.shows_all_names()
        };
        match error.errno() {
            Errno::BADFD => is_gone(self.stub.renew()),
            _ if error.is_gone() => self.stub.is_removed() || is_gone(self.stub.size().map(drop)),
            _ => false,
        }
    }

    fn find_pointer(&self, node: Node) -> Result<Option<(u64, u64)>> {
        let pointer = match self.stub.pointer() {
            Err(error) if error.is_gone() && self.stub.is_removed() => return self.pointer_of_removed(node, error),
            pointer => pointer?,
        };
        let mut state = self.held.state.lock();
        (state.searched, state.plain, state.looked) = (true, None, None);
        Ok(match pointer {
            Pointer::None => None,
            Pointer::To { generation, stamp } => Some((generation, stamp)),
            Pointer::Plain(layout) => {
                let generation = layout.generation;
                state.plain = Some(*layout);
                Some((generation, 0))
            }
        })
    }

    /// A removed file has the layout in memory. It has no objects any more if this node was over since.
    fn pointer_of_removed(&self, node: Node, gone: Error) -> Result<Option<(u64, u64)>> {
        let mut state = self.held.state.lock();
        let loaded = state.loaded.filter(|_| state.was_used_by(node)).ok_or(gone)?;
        state.removed = true;
        Ok(Some(loaded).filter(|(generation, _)| *generation > 0))
    }

    /// As `pointer_of_removed`, for the record of a generation. One after the loaded one is absent, unless the table names
    /// it, from a change before the removal.
    fn record_of_removed(&self, node: Node, generation: u64, gone: Error) -> Result<Option<Record>> {
        let record = self.loaded_record(generation);
        let mut state = self.held.state.lock();
        if !state.was_used_by(node) {
            return Err(gone);
        }
        let is_absent = state.removed && state.loaded.is_some_and(|(of, _)| of < generation);
        state.removed |= record.is_some();
        if record.is_some() || is_absent { Ok(record) } else { Err(gone) }
    }

    fn find_record(&self, node: Node, generation: u64) -> Result<Option<(u64, u64)>> {
        let plain = self.held.state.lock().plain.clone().filter(|layout| layout.generation == generation);
        let record = match plain {
            Some(layout) => Some(Record { stamp: 0, layout: Some(layout) }),
            None => match self.stub.record(generation) {
                Err(error) if error.is_gone() && self.stub.is_removed() => {
                    self.record_of_removed(node, generation, error)?
                }
                record => record?,
            },
        };
        let mut state = self.held.state.lock();
        state.searched = true;
        Ok(record.map(|record| {
            let stamp = record.stamp;
            state.looked = Some((generation, record));
            (generation, stamp)
        }))
    }

    /// Lets a waiting caller change the layout. Returns false if none waits. A layout that was settled under this claim
    /// is published first.
    fn grants(&self, node: Node, generation: u64) -> bool {
        let mut state = self.held.state.lock();
        let granted = state.change.stage == Stage::Wanted && state.change.settled != Some(generation);
        if granted {
            state.change.stage = Stage::Granted(node, generation);
        }
        drop(state);
        self.held.wake();
        granted
    }

    /// Settles the size after a node that is over, and prepares new objects beyond it. Fails if an object that may have
    /// bytes does not answer this node now.
    fn settle_from_objects(&self, holds: &Holds, node: Node, generation: u64) -> Result<()> {
        let Some(layout) = self.base(generation - 1)?.layout else {
            self.held.state.lock().change.settled = Some(generation);
            return Ok(());
        };
        if !holds.has_lease(node) {
            return Err(Error::Elsewhere("this node has no lease now".into()));
        }
        let view = View::new(Some(layout), Some(&self.view()));
        let whole;
        let size = match self.stub.cut_to()? {
            Some(size) => {
                if self.stub.size()? > size {
                    self.stub.set_size(size)?;
                }
                // The mark stays where an object cannot be cut: it is cut before the file grows.
                whole = self.cut(&view, size, size).is_empty();
                if whole {
                    self.stub.set_cut_to(None)?;
                }
                self.stub.size()?
            }
            None => {
                let reach = self.reach(holds, &view).known()?;
                let known = self.stub.size()?;
                let size = known.max(reach.bytes);
                // Growth sets the time of the stub.
                if size > known {
                    self.stub.grow_to(size)?;
                }
                whole = reach.answered == Answered::Yes;
                size
            }
        };
        self.stub_changed();
        // Objects that did not answer stay: they may have bytes that no other object shows.
        let sealed = if whole { self.seal(&view, (node, generation), size)? } else { None };
        let mut state = self.held.state.lock();
        state.sealed = sealed;
        (state.change.settled, state.change.publishing) = (Some(generation), None);
        Ok(())
    }

    /// Size of the file as its objects show it.
    pub(super) fn size_of_objects(&self, holds: &Holds) -> Result<u64> {
        Ok(self.reach(holds, &self.view()).known()?.bytes)
    }

    /// Largest end of the bytes that objects of a view hold, with the answers of the mirror that answers best.
    fn reach(&self, holds: &Holds, view: &View) -> Reach {
        let both = |one: Reach, other: Reach| Reach {
            bytes: one.bytes.max(other.bytes),
            answered: one.answered.min(other.answered),
        };
        view.in_sync().map(|mirror| self.reach_of(holds, view, mirror)).reduce(both).unwrap_or_default()
    }

    fn reach_of(&self, holds: &Holds, view: &View, m: usize) -> Reach {
        let mut reach = Reach::default();
        let submit = |(segment, index, slot)| (segment, index, slot, Slot::submit(slot, &self.pool, |h| h.len()));
        let pending: Vec<(&Segment, usize, &Arc<Slot>, _)> = view.placed(m).map(submit).collect();
        for (segment, index, slot, asked) in pending {
            match asked.and_then(Pending::wait) {
                Ok(0) => {}
                Ok(len) => {
                    let end = segment.file_offset(index, len - 1).saturating_add(1);
                    let end = if segment.end == OPEN_END { end } else { end.min(segment.end) };
                    reach.bytes = reach.bytes.max(end);
                }
                Err(error) => {
                    tracing::debug!("the size of a file is not fully known: {error}");
                    reach.answered = reach.answered.max(self.answered(holds, slot, &error));
                }
            }
        }
        reach
    }

    /// An object that is not found may be there while its target is in doubt, or the shared file system hides names.
    fn answered(&self, holds: &Holds, slot: &Arc<Slot>, error: &TargetError) -> Answered {
        let Ok(target) = slot.target(&self.pool) else { return Answered::Lost };
        match (target.state(), error) {
            // The stub got the size of such a file at once.
            _ if target.reach() == target::Reach::Elsewhere => Answered::Lost,
            (State::Failed, _) if target.is_failed_by_operator() => Answered::Lost,
            (State::Failed, _) => Answered::Failed(slot.target_id),
            (State::Ok, TargetError::Io(Errno::NOENT)) if !target.in_doubt() && holds.shows_all_names() => {
                // The name may have been hidden when it was not found.
                match slot.run(&self.pool, |h| h.len()) {
                    Err(TargetError::Io(Errno::NOENT)) => Answered::Lost,
                    _ => Answered::Later,
                }
            }
            _ => Answered::Later,
        }
    }

    /// A layout with new objects beyond the size; `None` if no segment reaches beyond.
    fn seal(&self, view: &View, by: (Node, u64), size: u64) -> Result<Option<Sealed>> {
        let Some(layout) = &view.layout else { return Ok(None) };
        let mut made = NewObjects::new(&self.pool);
        let mut parts = Vec::new();
        for mirror in view.in_sync() {
            let Some(part) = layout.part_beyond(mirror, size) else { continue };
            let place = Placement { stripe_size: part.stripe_size, ..self.placement() };
            let shape = SegmentShape { start: part.start, end: part.end, stripe_count: part.objects.len() };
            let others = parts.iter().flat_map(|(_, part): &(usize, Segment)| &part.objects);
            let avoid: Vec<_> = others.map(|object| object.target).collect();
            parts.push((mirror, made.segment(&shape, &place, &avoid)?));
        }
        if parts.is_empty() {
            return Ok(None);
        }
        let sealed = layout.seal(parts).map_err(Error::Invalid)?;
        let stays = |object: &Object| sealed.objects().any(|(_, of)| of.id == object.id);
        let old = layout.objects().map(|(_, object)| *object).filter(|object| !stays(object)).collect();
        made.sync()?;
        Ok(Some(Sealed { by, layout: sealed, new: made.leave(), old }))
    }

    /// Creates the record of a generation.
    fn publish_record(&self, holds: &Holds, publication: Publication) -> Result<Created> {
        let Publication { node, generation, changed, .. } = publication;
        let outdated = Ok(Created::Exists { mine: false });
        if !holds.is_under(node) {
            return outdated;
        }
        let record = self.record_to_publish(holds, publication)?;
        // The creation is the fence, so it needs no lease. Its result counts only for the present number.
        let created = match self.stub.create_record(generation, &record)? {
            true => Some(Created::Yes),
            false => self.stub.record(generation)?.map(|there| Created::Exists { mine: there.stamp == record.stamp }),
        };
        if !holds.is_under(node) {
            return outdated;
        }
        let mut state = self.held.state.lock();
        if state.change.publishing.take_if(|(of, _)| *of == publication).is_none() {
            return outdated;
        }
        let made = !matches!(created, None | Some(Created::Exists { mine: false }));
        let sealed = state.sealed.take();
        if made {
            let unchanged = !changed && sealed.is_none();
            if unchanged && let Some((_, stamp)) = state.loaded.filter(|(of, _)| of + 1 == generation) {
                // A stamp of zero stands for a tail that may not be clean.
                state.loaded = Some((generation, if stamp == 0 { 0 } else { record.stamp }));
                state.basis.iter_mut().for_each(|basis| basis.generation = generation);
            }
            state.looked = Some((generation, record));
        }
        if changed {
            state.change.outcome = Some(created.map(|created| if made { Created::Yes } else { created }));
        }
        drop(state);
        self.held.wake();
        // No other node holds the file under the claim.
        if let Some(mut sealed) = sealed.filter(|_| made) {
            sealed.new.clear();
            sealed.old.iter().for_each(|object| self.pool.remove_object(object.target, object.id));
        }
        Ok(created.unwrap_or(Created::Exists { mine: false }))
    }

    /// The record of a publication: each attempt has the same. Nothing that an earlier publication left belongs to it.
    fn record_to_publish(&self, holds: &Holds, publication: Publication) -> Result<Record> {
        let Publication { node, generation, changed, sealed } = publication;
        let mut state = self.held.state.lock();
        if let Some((of, record)) = &state.change.publishing
            && *of == publication
        {
            return Ok(record.clone());
        }
        let next = state.change.next.take().filter(|_| changed);
        drop(state.sealed.take_if(|of| !sealed || of.by != (node, generation)));
        let prepared = next.or_else(|| state.sealed.as_ref().map(|of| of.layout.clone()));
        drop(state);
        let layout = match prepared {
            None => self.base(generation - 1)?.layout,
            layout => layout,
        };
        let layout = layout.map(|layout| Layout { generation, ..layout });
        let record = Record { stamp: u64::from(node.0) << 32 | u64::from(holds.next_record()), layout };
        let mut state = self.held.state.lock();
        state.change.publishing = Some((publication, record.clone()));
        Ok(record)
    }

    fn point_at(&self, generation: u64) -> Result<()> {
        let stamp = self.held.state.lock().looked.as_ref().filter(|(of, _)| *of == generation).map(|(_, of)| of.stamp);
        match stamp {
            Some(stamp) => self.stub.point(generation, stamp),
            None => Ok(()),
        }
    }
}
