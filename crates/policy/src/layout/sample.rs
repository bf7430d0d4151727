//! Layouts for property tests: any shape that keeps the invariants.

use super::{History, Layout, Merged, Mirror, MirrorState, OPEN_END, Object, ObjectState, Reason, Segment};
use crate::ids::{FileId, ObjectId, TargetId};
use crate::time::Time;
use proptest::prelude::*;

/// A shape of a segment: stripe size in pages, length in pages, targets of its objects.
type Shape = (u64, u64, Vec<u16>);

fn shape() -> impl Strategy<Value = Shape> {
    let count = prop_oneof![4 => 1usize..6, 1 => 1usize..=256];
    let stripe_pages = prop_oneof![1u64..5, Just(256u64), 1u64..4096];
    let targets = count.prop_flat_map(|n| prop::collection::vec(any::<u16>(), n));
    (stripe_pages, prop_oneof![1u64..50, 1u64..1_000_000], targets)
}

fn reason() -> impl Strategy<Value = Reason> {
    (0usize..15, any::<u16>()).prop_map(|(n, t)| {
        let t = TargetId(t);
        [
            Reason::Grown,
            Reason::StagedIn,
            Reason::Requested,
            Reason::MirrorAdded,
            Reason::MirrorDropped,
            Reason::MirrorStale(t),
            Reason::Resynced,
            Reason::RecoveryStarted(t),
            Reason::Recovered,
            Reason::FailedOver(t),
            Reason::Drained(t),
            Reason::Moved,
            Reason::Restriped,
            Reason::Merged,
            Reason::Split,
        ][n]
    })
}

/// A mirror in sync with object numbers from `first_id` on, each `step` from the one before.
fn mirror(shapes: Vec<Shape>, open: bool, partial: bool, ids: &mut impl Iterator<Item = u64>) -> Mirror {
    let last = shapes.len() - 1;
    let mut start = 0;
    let mut segments = Vec::new();
    for (n, (stripe_pages, pages, targets)) in shapes.into_iter().enumerate() {
        let end = if n == last && open { OPEN_END } else { start + pages * 4096 };
        let state = if partial { ObjectState::Partial } else { ObjectState::Complete };
        let object = |(target, id): (u16, u64)| Object {
            id: ObjectId(id),
            target: TargetId(target),
            state,
            // Every fifth shape shares its objects, if permitted.
            merged: (!partial && stripe_pages % 5 == 0).then_some(Merged {
                unit_bytes: stripe_pages * 4096,
                slot: target % 3,
                of: 3,
            }),
        };
        let objects = targets.into_iter().zip(&mut *ids).map(object).collect();
        segments.push(Segment { start, end, stripe_size: stripe_pages * 4096, objects });
        start = end;
    }
    Mirror { state: MirrorState::InSync, segments }
}

/// Returns any layout that keeps the invariants.
pub(crate) fn layouts() -> impl Strategy<Value = Layout> {
    let mirrors = prop::collection::vec((prop::collection::vec(shape(), 1..5), any::<bool>(), any::<bool>()), 1..4);
    let stale = prop::collection::vec(any::<bool>(), 3);
    let history = prop::collection::vec((any::<u64>(), reason()), 0..12);
    let ids = (any::<u64>(), prop_oneof![Just(1u64), Just(u64::MAX), (1u64..1 << 40)]);
    (any::<u64>(), any::<u64>(), mirrors, stale, history, ids).prop_map(
        |(file, generation, shapes, stale, past, (first, step))| {
            let mut ids = (0u64..).map(|n| first.wrapping_add(step.wrapping_mul(n)));
            let mut mirrors: Vec<Mirror> =
                shapes.into_iter().map(|(shapes, open, partial)| mirror(shapes, open, partial, &mut ids)).collect();
            for (mirror, stale) in mirrors.iter_mut().skip(1).zip(stale) {
                mirror.state = if stale { MirrorState::Stale } else { MirrorState::InSync };
            }
            let mut history = History::default();
            past.into_iter().for_each(|(at, reason)| history.push(Time(at), reason));
            Layout { file: FileId(file), generation, mirrors, history }
        },
    )
}
