//! Choice of the mirror that serves a piece of a file: the order of attempts.

use super::{Layout, MirrorState, ObjectState, Piece};
use crate::ids::TargetId;
use crate::protect::health::State;

/// A mirror's way to serve the beginning of a file range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The piece, on the object that would be read.
    pub piece: Piece,
    /// Target of that object.
    pub target: TargetId,
    /// Rank among candidates.
    pub standing: Standing,
}

/// Rank of a candidate, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Complete, on a target that is ok.
    Ok,
    /// Complete, on a target that is being drained or can only be read.
    Draining,
    /// Complete, on a target in doubt.
    Suspect,
    /// Being recovered: readable only where the recovery has patched it.
    Partial,
    /// Its target is failed: lost until recovered or restored.
    Failed,
}

impl Layout {
    /// Returns the mirrors in sync that cover `offset`, best first (by standing, then by order in the layout), each
    /// with its piece of `[offset, offset+len)`. Empty if none covers it. `state` returns the state of a target.
    ///
    /// The pieces of different mirrors may have different lengths; read one and go on from its end. Among equal
    /// mirrors, `preferred` comes first.
    pub fn candidates(
        &self,
        preferred: usize,
        offset: u64,
        len: u64,
        state: impl Fn(TargetId) -> State,
    ) -> Vec<Candidate> {
        let mut found: Vec<Candidate> = self.serving(offset, len, &state).collect();
        // The sort is stable: equal candidates keep the order of the layout.
        found.sort_by_key(|c| (c.standing, c.piece.at.mirror != preferred));
        found
    }

    /// Returns the first of [`Layout::candidates`], without allocating.
    pub fn best_candidate(
        &self,
        preferred: usize,
        offset: u64,
        len: u64,
        state: impl Fn(TargetId) -> State,
    ) -> Option<Candidate> {
        self.serving(offset, len, &state).min_by_key(|c| (c.standing, c.piece.at.mirror != preferred))
    }

    fn serving(&self, offset: u64, len: u64, state: &impl Fn(TargetId) -> State) -> impl Iterator<Item = Candidate> {
        self.mirrors.iter().enumerate().filter(|(_, m)| m.state == MirrorState::InSync).filter_map(move |(index, m)| {
            let piece = m.pieces(index, offset, len).next()?;
            let object = self.object(piece.at)?;
            let standing = match (state(object.target), object.state) {
                (State::Failed, _) => Standing::Failed,
                (_, ObjectState::Partial) => Standing::Partial,
                (State::Ok, ObjectState::Complete) => Standing::Ok,
                (State::Draining | State::ReadOnly, ObjectState::Complete) => Standing::Draining,
                (State::Suspect, ObjectState::Complete) => Standing::Suspect,
            };
            Some(Candidate { piece, target: object.target, standing })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{FileId, ObjectId};
    use crate::layout::{History, Mirror, OPEN_END, Object, Segment};

    /// A file with one mirror for each target given, of one object.
    fn mirrored(targets: &[(u16, MirrorState, ObjectState)]) -> Layout {
        let mirror = |(n, &(target, state, object_state)): (usize, &(u16, MirrorState, ObjectState))| {
            let object = Object { state: object_state, ..Object::whole(ObjectId(n as u64), TargetId(target)) };
            Mirror {
                state,
                segments: vec![Segment { start: 0, end: OPEN_END, stripe_size: 4096, objects: vec![object] }],
            }
        };
        let mirrors = targets.iter().enumerate().map(mirror).collect();
        Layout { file: FileId(1), generation: 1, mirrors, history: History::default() }
    }

    #[test]
    fn ok_before_draining_before_suspect_before_partial_before_failed() {
        use MirrorState::{InSync, Stale};
        use ObjectState::{Complete, Partial};
        let layout = mirrored(&[
            (4, InSync, Complete),
            (3, InSync, Complete),
            (0, Stale, Complete),
            (1, InSync, Partial),
            (2, InSync, Complete),
            (1, InSync, Complete),
            (0, InSync, Complete),
        ]);
        let state = |t: TargetId| [State::Ok, State::Ok, State::Draining, State::Suspect, State::Failed][t.0 as usize];
        let got: Vec<_> = layout.candidates(0, 10, 20, state).iter().map(|c| (c.piece.at.mirror, c.standing)).collect();
        let expect = [
            (5, Standing::Ok),
            (6, Standing::Ok),
            (4, Standing::Draining),
            (1, Standing::Suspect),
            (3, Standing::Partial),
            (0, Standing::Failed),
        ];
        assert_eq!(got, expect);
        assert_eq!(layout.best_candidate(0, 10, 20, state).map(|c| c.piece.at.mirror), Some(5));
        // The preferred mirror comes first among equal ones, but not before better ones.
        assert_eq!(
            [6, 1].map(|n| layout.best_candidate(n, 10, 20, state).map(|c| c.piece.at.mirror)),
            [Some(6), Some(5)]
        );
        assert_eq!(layout.candidates(6, 10, 20, state)[1].piece.at.mirror, 5);
    }

    #[test]
    fn a_mirror_that_does_not_cover_the_offset_is_no_candidate() {
        let both = [(0, MirrorState::InSync, ObjectState::Complete), (1, MirrorState::InSync, ObjectState::Complete)];
        let mut layout = mirrored(&both);
        layout.mirrors[0].segments[0].end = 8192;
        let at =
            |offset| layout.candidates(0, offset, 9000, |_| State::Ok).iter().map(|c| c.piece.len).collect::<Vec<_>>();
        assert_eq!(at(4096), [4096, 9000]);
        assert_eq!(at(8192), [9000]);
    }
}
