//! The verbs on a layout: functions from the old layout to the new, which the mover carries out.
//!
//! Each gives a layout of the next generation with its reason in the history, or says why not. None touches an object.

use super::{Layout, LayoutError, Mirror, MirrorState, Object, ObjectState, Position, Reason, Segment};
use crate::time::Time;
use std::fmt;

/// Why a layout cannot be changed that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerbError {
    /// There is no such mirror, segment or object.
    NoSuchPosition(Position),
    /// It is the last mirror in sync; without it the file could not be read.
    LastInSync,
    /// The result would break an invariant.
    Invalid(LayoutError),
}

impl fmt::Display for VerbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerbError::NoSuchPosition(p) => {
                write!(f, "the layout has no object {}.{}.{} (mirror.segment.index)", p.mirror, p.segment, p.index)
            }
            VerbError::LastInSync => {
                write!(f, "it is the last mirror in sync, so the file would be lost; add or resync another one first")
            }
            VerbError::Invalid(e) => write!(f, "the changed layout would be invalid: {e}"),
        }
    }
}

impl std::error::Error for VerbError {}

/// The result of a verb.
pub type Verb = Result<Layout, VerbError>;

impl Layout {
    /// Takes on another complete copy.
    pub fn add_mirror(&self, mirror: Mirror, at: Time, reason: Reason) -> Verb {
        self.changed(at, reason, |new| {
            new.mirrors.push(mirror);
            Ok(())
        })
    }

    /// Gives up a copy. Refuses the last one in sync.
    pub fn drop_mirror(&self, mirror: usize, at: Time, reason: Reason) -> Verb {
        let gone = self.mirrors.get(mirror).ok_or(VerbError::NoSuchPosition(place(mirror, 0, 0)))?;
        if gone.state == MirrorState::InSync && self.in_sync_count() == 1 {
            return Err(VerbError::LastInSync);
        }
        self.changed(at, reason, |new| {
            new.mirrors.remove(mirror);
            Ok(())
        })
    }

    /// Says whether a copy is in sync. Refuses to make the last one stale.
    pub fn set_mirror_state(&self, mirror: usize, state: MirrorState, at: Time, reason: Reason) -> Verb {
        let old = self.mirrors.get(mirror).ok_or(VerbError::NoSuchPosition(place(mirror, 0, 0)))?;
        if state == MirrorState::Stale && old.state == MirrorState::InSync && self.in_sync_count() == 1 {
            return Err(VerbError::LastInSync);
        }
        self.changed(at, reason, |new| {
            new.mirrors[mirror].state = state;
            Ok(())
        })
    }

    /// Puts another object in the place of one: a copy on another target, or an empty `Partial` one to recover into.
    pub fn replace_object(&self, position: Position, object: Object, at: Time, reason: Reason) -> Verb {
        self.changed(at, reason, |new| {
            *new.object_mut(position).ok_or(VerbError::NoSuchPosition(position))? = object;
            Ok(())
        })
    }

    /// Says that a recovered object is complete.
    pub fn complete_object(&self, position: Position, at: Time, reason: Reason) -> Verb {
        self.changed(at, reason, |new| {
            new.object_mut(position).ok_or(VerbError::NoSuchPosition(position))?.state = ObjectState::Complete;
            Ok(())
        })
    }

    /// Puts other objects, and if wanted another stripe size and count, in the place of a segment. Its range stays.
    pub fn move_segment(&self, mirror: usize, segment: usize, to: Segment, at: Time, reason: Reason) -> Verb {
        self.changed(at, reason, |new| {
            let old = new.mirrors.get_mut(mirror).and_then(|m| m.segments.get_mut(segment));
            *old.ok_or(VerbError::NoSuchPosition(place(mirror, segment, 0)))? = to;
            Ok(())
        })
    }

    /// Appends segments to a mirror.
    pub fn append_segments(&self, mirror: usize, segments: Vec<Segment>, at: Time, reason: Reason) -> Verb {
        self.changed(at, reason, |new| {
            let old = new.mirrors.get_mut(mirror).ok_or(VerbError::NoSuchPosition(place(mirror, 0, 0)))?;
            old.segments.extend(segments);
            Ok(())
        })
    }

    /// How many mirrors are in sync.
    pub fn in_sync_count(&self) -> usize {
        self.mirrors.iter().filter(|m| m.state == MirrorState::InSync).count()
    }

    fn changed(&self, at: Time, reason: Reason, change: impl FnOnce(&mut Layout) -> Result<(), VerbError>) -> Verb {
        let mut new = self.clone();
        change(&mut new)?;
        new.generation += 1;
        new.history.push(at, reason);
        new.check().map_err(VerbError::Invalid)?;
        Ok(new)
    }
}

fn place(mirror: usize, segment: usize, index: usize) -> Position {
    Position { mirror, segment, index }
}
