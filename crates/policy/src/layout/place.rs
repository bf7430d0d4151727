//! Placement of new segments: their width and targets.
//!
//! A file grows through three shapes, so that small files cost one object and large ones use every device:
//!
//! ```text
//! 0 ............ inline_bytes_max       bytes in the stub, no layout at all
//! 0 ............ single_bytes_max       one segment of one object
//! single_bytes_max ............ open    one segment striped over stripe_count targets
//! ```
//!
//! A size known in advance (stage-in) gives one segment, striped from 0 if it is larger than `single_bytes_max`. A
//! `stripe_count` of 1 gives one open-ended segment of one object.
//!
//! With `segment_bytes`, no segment is open-ended: its length is the larger of `segment_bytes` and 1/256 of its start
//! offset. So the longest file has a few thousand segments. Each has its own tier, and the width that suited the load
//! when it was created.

use super::OPEN_END;
use crate::ids::TargetId;

/// Shape of new segments, from the volume, the directory or the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Bytes of one stripe; a multiple of 4096.
    pub stripe_size: u64,
    /// Number of targets to stripe over; fewer if fewer are usable. At least 1.
    pub stripe_count: usize,
    /// Largest size of a file on one target.
    pub single_bytes_max: u64,
    /// Bytes of one segment, so that a long file can have several shapes; 0: the last is open-ended. See
    /// [`plan_growth`].
    pub segment_bytes: u64,
    /// Number of copies. At least 1.
    pub mirrors: usize,
    /// Number of the tier to use; `None` is any.
    pub tier: Option<u8>,
}

/// State of a target for the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetView {
    /// Number of the target.
    pub id: TargetId,
    /// Number of its tier.
    pub tier: u8,
    /// Whether new objects may be created on it (state ok).
    pub usable: bool,
    /// Free bytes; 0 also for a target that is full for other reasons.
    pub free_bytes: u64,
    /// Whether it is preferred, because it is near the writer.
    pub near: bool,
}

/// The shape of a new segment: its range and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentShape {
    /// First file offset.
    pub start: u64,
    /// One past the last, or [`OPEN_END`].
    pub end: u64,
    /// Number of objects wanted.
    pub stripe_count: usize,
}

/// Number of segments after which new ones grow with the file.
const SEGMENTS_BEFORE_GROWTH: u64 = 256;

/// Returns the segments to append so that a mirror that covers `[0, covered)` also covers `needed` bytes. `known_size`
/// is the final size, if known.
pub fn plan_growth(place: &Placement, covered: u64, needed: u64, known_size: Option<u64>) -> Vec<SegmentShape> {
    if needed <= covered {
        return Vec::new();
    }
    let wide = place.stripe_count.max(1);
    let single = place.single_bytes_max - place.single_bytes_max % place.stripe_size;
    let starts_wide = known_size.is_some_and(|size| size > place.single_bytes_max);
    let mut shapes = Vec::new();
    let mut start = covered;
    if covered == 0 && wide > 1 && !starts_wide && single > 0 {
        shapes.push(SegmentShape { start: 0, end: single, stripe_count: 1 });
        start = single;
    }
    // `u64::MAX` is no real demand: it stands for an unknown size.
    let needed = if needed == u64::MAX { start + 1 } else { needed };
    while start < needed {
        let end = segment_end(place, start);
        shapes.push(SegmentShape { start, end, stripe_count: wide });
        start = end;
    }
    shapes
}

/// Returns the end of a segment that starts at `start`.
fn segment_end(place: &Placement, start: u64) -> u64 {
    if place.segment_bytes == 0 {
        return OPEN_END;
    }
    let len = place.segment_bytes.max(start / SEGMENTS_BEFORE_GROWTH).max(place.stripe_size);
    start.checked_add(len - len % place.stripe_size).unwrap_or(OPEN_END)
}

/// Chooses targets for the objects of a replica of a segment, one for each of `originals`, in their order. Candidates
/// are usable and not in `avoid` (all targets of the file), those of the wanted tier first. Targets repeat if there are
/// fewer than objects. Empty without a candidate: a replica on the same target would protect nothing.
pub fn choose_replica_targets(
    targets: &[TargetView],
    tier: Option<u8>,
    originals: usize,
    avoid: &[TargetId],
    turn: u64,
) -> Vec<TargetId> {
    let disjoint: Vec<TargetView> = targets.iter().filter(|t| t.usable && !avoid.contains(&t.id)).copied().collect();
    let mut chosen =
        if disjoint.is_empty() { Vec::new() } else { choose_targets(&disjoint, tier, originals, &[], turn) };
    let rest: Vec<TargetView> = disjoint.into_iter().filter(|t| !chosen.contains(&t.id)).collect();
    if chosen.len() < originals && !rest.is_empty() {
        chosen.extend(choose_targets(&rest, None, originals - chosen.len(), &[], turn));
    }
    (0..originals).map_while(|n| chosen.get(n % chosen.len().max(1)).copied()).collect()
}

/// Chooses up to `count` different targets for one segment, among usable ones of the wanted tier (any tier if that has
/// none). Targets in `avoid` are used only if no others are left, those of the wanted tier first. Full ones are used
/// last. Near targets come first, then those with most free space. `turn` rotates among targets with free space within
/// an eighth of the best, so that equal targets take turns. Empty if no target is usable.
pub fn choose_targets(
    targets: &[TargetView],
    tier: Option<u8>,
    count: usize,
    avoid: &[TargetId],
    turn: u64,
) -> Vec<TargetId> {
    let usable = |t: &&TargetView| t.usable;
    let in_tier = |t: &&TargetView| tier.is_none_or(|wanted| t.tier == wanted);
    let fresh = |t: &&TargetView| !avoid.contains(&t.id);
    let mut candidates: Vec<TargetView> =
        targets.iter().filter(usable).filter(in_tier).filter(fresh).copied().collect();
    if candidates.is_empty() {
        candidates = targets.iter().filter(usable).filter(fresh).copied().collect();
    }
    if candidates.is_empty() {
        candidates = targets.iter().filter(usable).filter(in_tier).copied().collect();
    }
    if candidates.is_empty() {
        candidates = targets.iter().filter(usable).copied().collect();
    }
    if candidates.iter().any(|t| t.free_bytes > 0) {
        candidates.retain(|t| t.free_bytes > 0);
    }
    let (near, far): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|t| t.near);
    let in_order = in_turn(near, turn).chain(in_turn(far, turn));
    in_order.take(count.max(1)).map(|t| t.id).collect()
}

/// Most free space first; targets with about as much as the best take turns.
fn in_turn(candidates: Vec<TargetView>, turn: u64) -> impl Iterator<Item = TargetView> {
    let best = candidates.iter().map(|t| t.free_bytes).max().unwrap_or(0);
    let as_good = |t: &TargetView| t.free_bytes >= best - best / 8;
    let (mut equal, mut rest): (Vec<_>, Vec<_>) = candidates.into_iter().partition(as_good);
    equal.sort_by_key(|t| t.id);
    rest.sort_by_key(|t| (u64::MAX - t.free_bytes, t.id));
    if !equal.is_empty() {
        let shift = (turn % equal.len() as u64) as usize;
        equal.rotate_left(shift);
    }
    equal.into_iter().chain(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(id: u16, tier: u8, usable: bool) -> TargetView {
        TargetView { id: TargetId(id), tier, usable, free_bytes: 1000, near: false }
    }

    fn replica(targets: &[TargetView], tier: Option<u8>, count: usize, avoid: &[u16]) -> Vec<u16> {
        let avoid: Vec<TargetId> = avoid.iter().map(|id| TargetId(*id)).collect();
        choose_replica_targets(targets, tier, count, &avoid, 0).into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn replicas_lie_on_none_of_the_file_s_targets() {
        let nine: Vec<TargetView> = (0..9).map(|id| view(id, 0, true)).collect();
        assert_eq!(replica(&nine, Some(0), 4, &[0, 1, 2, 3]), [4, 5, 6, 7]);
        let six = &nine[..6];
        assert_eq!(replica(six, None, 4, &[0, 1, 2, 3]), [4, 5, 4, 5], "too few targets: some hold two");
        assert!(replica(&nine[..4], None, 4, &[0, 1, 2, 3]).is_empty(), "none that would protect");
    }

    #[test]
    fn a_full_target_is_passed_over_unless_all_are() {
        let full = |id| TargetView { free_bytes: 0, ..view(id, 0, true) };
        let choose = |targets: &[TargetView]| {
            choose_targets(targets, Some(0), 3, &[], 0).into_iter().map(|id| id.0).collect::<Vec<_>>()
        };
        assert_eq!(choose(&[view(0, 0, true), full(1), view(2, 0, true)]), [0, 2]);
        assert_eq!(choose(&[full(0), full(1), view(2, 1, true)]), [0, 1], "the tier counts more");
    }

    #[test]
    fn another_tier_before_two_on_a_target_and_no_failed_one() {
        let targets = [view(0, 0, true), view(1, 0, true), view(2, 1, true), view(3, 0, false)];
        assert_eq!(replica(&targets, Some(0), 2, &[0]), [1, 2]);
    }

    #[test]
    fn those_that_are_near_come_first_as_long_as_they_have_room_and_are_usable() {
        let near = |id, free_bytes| TargetView { free_bytes, near: true, ..view(id, 0, true) };
        let mut targets = vec![view(0, 0, true), near(1, 10), view(2, 0, true), near(3, 5)];
        let chosen = |targets: &[TargetView], tier, count| -> Vec<u16> {
            choose_targets(targets, tier, count, &[], 0).into_iter().map(|id| id.0).collect()
        };
        assert_eq!(chosen(&targets, None, 1), [1]);
        assert_eq!(chosen(&targets, None, 3), [1, 3, 0]);
        targets[1].free_bytes = 0;
        assert_eq!(chosen(&targets, None, 2), [3, 0]);
        targets[3].usable = false;
        assert_eq!(chosen(&targets, None, 2), [0, 2]);
        targets.push(TargetView { tier: 1, ..near(4, 9) });
        assert_eq!(chosen(&targets, Some(0), 1), [0], "of the tier that is wanted");
        let avoided = choose_targets(&targets, None, 1, &[TargetId(4)], 0);
        assert_eq!(avoided, [TargetId(0)], "mirrors lie apart");
        let all: Vec<TargetId> = (0..5).map(TargetId).collect();
        for turn in 0..4 {
            assert_eq!(choose_targets(&targets, Some(1), 1, &all, turn), [TargetId(4)], "none is left to avoid");
        }
    }
}
