//! Invariants of a layout, checked whenever a layout is read from disk or made.

use super::{Layout, MirrorState, OPEN_END, ObjectState};
use crate::ids::ObjectId;
use std::collections::BTreeSet;
use std::fmt;

/// Broken invariant of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// The layout has no mirror.
    NoMirror,
    /// No mirror is in sync, so reads are impossible.
    NoneInSync,
    /// A mirror has no segment, or its segments have a gap, overlap, or do not start at 0.
    Segments {
        /// The mirror's index.
        mirror: usize,
    },
    /// A segment has no object or a stripe size that is not a positive multiple of 4096.
    Stripe {
        /// The mirror's index.
        mirror: usize,
        /// The segment's index.
        segment: usize,
    },
    /// An object occurs twice.
    Twice(ObjectId),
    /// A shared object is not complete, or its turns are invalid.
    Merged(ObjectId),
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::NoMirror => write!(f, "the layout has no mirror"),
            LayoutError::NoneInSync => write!(f, "no mirror of the layout is in sync"),
            LayoutError::Segments { mirror } => {
                write!(f, "the segments of mirror {mirror} do not follow each other from offset 0")
            }
            LayoutError::Stripe { mirror, segment } => {
                write!(f, "segment {segment} of mirror {mirror} has no object or a bad stripe size")
            }
            LayoutError::Twice(id) => write!(f, "object {id} occurs twice"),
            LayoutError::Merged(id) => write!(f, "object {id} is shared in a way that cannot be"),
        }
    }
}

impl std::error::Error for LayoutError {}

impl Layout {
    /// Checks the invariants; returns the broken one.
    pub fn check(&self) -> Result<(), LayoutError> {
        if self.mirrors.is_empty() {
            return Err(LayoutError::NoMirror);
        }
        if !self.mirrors.iter().any(|m| m.state == MirrorState::InSync) {
            return Err(LayoutError::NoneInSync);
        }
        for (mirror, m) in self.mirrors.iter().enumerate() {
            let mut next = 0;
            for (segment, s) in m.segments.iter().enumerate() {
                if s.start != next || s.end <= s.start {
                    return Err(LayoutError::Segments { mirror });
                }
                if s.objects.is_empty() || s.stripe_size == 0 || s.stripe_size % 4096 != 0 {
                    return Err(LayoutError::Stripe { mirror, segment });
                }
                next = s.end;
            }
            let closed_early = m.segments.iter().rev().skip(1).any(|s| s.end == OPEN_END);
            if m.segments.is_empty() || closed_early {
                return Err(LayoutError::Segments { mirror });
            }
        }
        let mut seen = BTreeSet::new();
        for (_, object) in self.objects() {
            if !seen.insert(object.id) {
                return Err(LayoutError::Twice(object.id));
            }
            if object.merged.is_some_and(|merged| !merged.is_valid() || object.state != ObjectState::Complete) {
                return Err(LayoutError::Merged(object.id));
            }
        }
        Ok(())
    }
}
