//! A layout records where the bytes of a file lie: mirrors, each a complete copy, consist of segments; each segment is
//! striped round-robin over objects.
//!
//! ```text
//! file        0         1 MiB        4 MiB                                          size
//!             |----------------------|-------------------------------------------------|
//! mirror 0    | segment 0: 1 object  | segment 1: 3 objects, stripe_size 1 MiB         |
//!             |  [ object a        ] | [b0][c0][d0][b1][c1][d1][b2][c2][d2] ...        |
//! mirror 1    | segment 0: 2 objects, other stripe_size, other targets                 |
//! ```
//!
//! Inside a segment that starts at file offset `start`, with `m` objects, stripe `k` covers `[start + k*stripe_size,
//! start + (k+1)*stripe_size)`. It lies on object `k mod m` at object offset `(k div m) * stripe_size`.
//!
//! Invariants (`Layout::check`): at least one mirror, at least one of them in sync; the segments of a mirror start at
//! 0, follow each other without gap, and only the last may be open-ended; every segment has at least one object and a
//! stripe size that is a positive multiple of 4096; no object occurs twice; a shared object ([`Merged`]) is complete.
//! Offsets in an object are those of the file's own part, also in a shared object.
//!
//! This module has no file sizes, which belong to stubs, and no state of targets.

mod check;
mod codec;
mod map;
mod merged;
mod missing;
mod place;
mod reason;
#[cfg(test)]
mod sample;
mod select;
mod verbs;

pub use codec::CodecError;
pub use map::{Piece, Pieces};
pub use merged::{Merged, Run};
pub use missing::{Chunk, missing_chunks, object_len};
pub use place::{Placement, SegmentShape, TargetView, choose_replica_targets, choose_targets, plan_growth};
pub use reason::{History, Reason};
pub use select::{Candidate, Standing};
pub use verbs::Verb;

use crate::ids::{FileId, ObjectId, TargetId};

/// End of a segment without an upper bound.
pub const OPEN_END: u64 = u64::MAX;

/// Places of the bytes of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The file's own number, the key of its records in the state store and of its side files.
    pub file: FileId,
    /// Counter of changes of the record. After an error, a reader checks whether it grew.
    pub generation: u64,
    /// The copies. Reads use the first in-sync one on healthy targets.
    pub mirrors: Vec<Mirror>,
    /// Reasons for the last few changes, oldest first.
    pub history: History,
}

/// One complete copy of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Whether its bytes may be read.
    pub state: MirrorState,
    /// Consecutive pieces of the file, from offset 0.
    pub segments: Vec<Segment>,
}

/// Whether the bytes of a mirror may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorState {
    /// Holds every acknowledged byte.
    InSync,
    /// Missed a write; waits for the mover to resync it. Never read, not written.
    Stale,
}

/// A range of the file striped round-robin over objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First file offset, in bytes.
    pub start: u64,
    /// One past the last file offset, in bytes; [`OPEN_END`] when open.
    pub end: u64,
    /// Bytes of one stripe.
    pub stripe_size: u64,
    /// The objects, in round-robin order.
    pub objects: Vec<Object>,
}

/// One object of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name on the target.
    pub id: ObjectId,
    /// Target that holds it.
    pub target: TargetId,
    /// Whether a hole in it is data.
    pub state: ObjectState,
    /// This file's part of the object, if files that are read together share it.
    pub merged: Option<Merged>,
}

/// Whether the contents of an object are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectState {
    /// Every stripe is valid; holes read as zeros.
    Complete,
    /// Being recovered from a source: a stripe may be read only after its recovery.
    Partial,
}

/// Position of one object in a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Index into [`Layout::mirrors`].
    pub mirror: usize,
    /// Index into [`Mirror::segments`].
    pub segment: usize,
    /// Index into [`Segment::objects`].
    pub index: usize,
}

impl Layout {
    /// Returns the object at a position.
    pub fn object(&self, at: Position) -> Option<&Object> {
        self.mirrors.get(at.mirror)?.object(at)
    }

    /// Returns the object at a position, for changes.
    pub fn object_mut(&mut self, at: Position) -> Option<&mut Object> {
        self.mirrors.get_mut(at.mirror)?.segments.get_mut(at.segment)?.objects.get_mut(at.index)
    }

    /// Returns every object with its position, mirror by mirror, segment by segment.
    pub fn objects(&self) -> impl Iterator<Item = (Position, &Object)> {
        self.mirrors.iter().enumerate().flat_map(|(mirror, m)| {
            m.segments.iter().enumerate().flat_map(move |(segment, s)| {
                s.objects.iter().enumerate().map(move |(index, o)| (Position { mirror, segment, index }, o))
            })
        })
    }

    /// Whether the file shares objects with others.
    pub fn is_merged(&self) -> bool {
        self.objects().any(|(_, o)| o.merged.is_some())
    }

    /// Returns the one object that holds the whole file and nothing else, if the layout is that simple.
    pub fn single_object(&self) -> Option<&Object> {
        let [mirror] = self.mirrors.as_slice() else { return None };
        let [segment] = mirror.segments.as_slice() else { return None };
        let [object] = segment.objects.as_slice() else { return None };
        object.merged.is_none().then_some(object)
    }
}

impl Object {
    /// Makes a complete object of this file alone.
    pub fn whole(id: ObjectId, target: TargetId) -> Object {
        Object { id, target, state: ObjectState::Complete, merged: None }
    }
}

impl Mirror {
    /// Returns the object at a position in this mirror.
    pub fn object(&self, at: Position) -> Option<&Object> {
        self.segments.get(at.segment)?.objects.get(at.index)
    }

    /// Returns one past the last file offset that the segments cover.
    pub fn covered(&self) -> u64 {
        self.segments.last().map_or(0, |s| s.end)
    }
}

#[cfg(test)]
mod tests;
