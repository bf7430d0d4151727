//! Which mirror serves a piece of a file: the order in which to try them.

use super::{Layout, Piece};
use crate::ids::TargetId;
use crate::protect::health::State;

/// A mirror's way to serve the beginning of a file range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The piece, on the object that would be read.
    pub piece: Piece,
    /// Where that object lies.
    pub target: TargetId,
    /// What can be said for it.
    pub standing: Standing,
}

/// What can be said for a candidate, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Complete, on a target that is ok.
    Ok,
    /// Complete, on a target that is being drained.
    Draining,
    /// Complete, on a target in doubt.
    Suspect,
    /// Being recovered: readable only where its recovery says so.
    Partial,
    /// Its target is failed: lost until recovered or restored.
    Failed,
}

impl Layout {
    /// The mirrors in sync that cover `offset`, best first (by standing, then by their order in the layout), each with
    /// its piece of `[offset, offset+len)`. Empty if none covers it. `state` says how a target is.
    ///
    /// The pieces of different mirrors may have different lengths; read one and go on from its end.
    pub fn candidates(&self, _offset: u64, _len: u64, _state: impl Fn(TargetId) -> State) -> Vec<Candidate> {
        todo!()
    }
}
