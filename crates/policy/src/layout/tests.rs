//! Tests of the arithmetic of layouts: the values of the reference, and properties at any size.

use super::*;
use crate::time::Time;
use proptest::prelude::*;

const MB: u64 = 1 << 20;
const HALF: u64 = MB / 2;

fn segment(stripe_size: u64, count: usize) -> Segment {
    let object = |n: usize| Object::whole(ObjectId(n as u64), TargetId(n as u16));
    Segment { start: 0, end: OPEN_END, stripe_size, objects: (0..count).map(object).collect() }
}

/// The chunks of an object, in halves of a megabyte: file offset, object offset, length.
fn halves(stripe_mb: u64, count: usize, index: usize, size: u64) -> Vec<(u64, u64, u64)> {
    let chunks = missing_chunks(&segment(stripe_mb * MB, count), index, size);
    chunks.map(|c| (c.file_offset / HALF, c.object_offset / HALF, c.len / HALF)).collect()
}

/// The check values of the reference, section 6.4 (group G), count 4.
#[test]
fn missing_chunks_as_in_the_reference() {
    let whole = 16 * MB;
    assert_eq!(halves(1, 4, 2, whole), [(4, 0, 2), (12, 2, 2), (20, 4, 2), (28, 6, 2)]);
    assert_eq!(halves(2, 4, 2, whole), [(8, 0, 4), (24, 4, 4)]);
    assert_eq!(halves(4, 4, 2, whole), [(16, 0, 8)]);
    let odd = 27 * HALF; // 13.5 MB
    assert_eq!(halves(1, 4, 0, odd), [(0, 0, 2), (8, 2, 2), (16, 4, 2), (24, 6, 2)]);
    assert_eq!(halves(1, 4, 1, odd), [(2, 0, 2), (10, 2, 2), (18, 4, 2), (26, 6, 1)]);
    assert_eq!(halves(1, 4, 2, odd), [(4, 0, 2), (12, 2, 2), (20, 4, 2)]);
    assert_eq!(halves(1, 4, 3, odd), [(6, 0, 2), (14, 2, 2), (22, 4, 2)]);
    assert_eq!(halves(4, 4, 0, odd), [(0, 0, 8)]);
    assert_eq!(halves(4, 4, 1, odd), [(8, 0, 8)]);
    assert_eq!(halves(4, 4, 2, odd), [(16, 0, 8)]);
    assert_eq!(halves(4, 4, 3, odd), [(24, 0, 3)]);
    assert_eq!(halves(1, 4, 0, HALF), [(0, 0, 1)]);
    assert_eq!(halves(1, 4, 1, HALF), []);
    assert_eq!(halves(1, 4, 0, 0), []);
}

#[test]
fn a_read_across_segments_is_cut_at_their_boundary() {
    let mut first = segment(MB, 1);
    first.end = MB;
    let mut second = segment(4096, 2);
    second.start = MB;
    second.objects.iter_mut().for_each(|o| o.id.0 += 10);
    let mirror = Mirror { state: MirrorState::InSync, segments: vec![first, second] };
    let got: Vec<_> = mirror
        .pieces(3, MB - 100, 4096 + 200)
        .map(|p| (p.at.mirror, p.at.segment, p.at.index, p.object_offset, p.len))
        .collect();
    assert_eq!(got, [(3, 0, 0, MB - 100, 100), (3, 1, 0, 0, 4096), (3, 1, 1, 0, 100)]);
    assert_eq!(mirror.pieces(0, 5, 0).count(), 0);
}

#[test]
fn one_object_is_one_piece_and_the_last_byte_of_all_can_be_named() {
    let mirror = Mirror { state: MirrorState::InSync, segments: vec![segment(4096, 1)] };
    assert_eq!(mirror.pieces(0, 1, 1 << 40).map(|p| p.len).collect::<Vec<_>>(), [1 << 40]);
    assert_eq!(mirror.pieces(0, u64::MAX - 5, 100).map(|p| p.len).collect::<Vec<_>>(), [5]);
}

#[test]
fn the_history_forgets_the_oldest() {
    let mut history = History::default();
    (0..20).for_each(|n| history.push(Time(n), Reason::Grown));
    let times: Vec<u64> = history.iter().map(|(at, _)| at.0).collect();
    assert_eq!(times, (12..20).collect::<Vec<_>>());
}

fn mirrors() -> impl Strategy<Value = Mirror> {
    sample::layouts().prop_map(|mut l| l.mirrors.swap_remove(0))
}

/// Finds the place of a byte by counting stripes one after the other.
fn slowly(segment: &Segment, offset: u64) -> (usize, u64) {
    let mut rows = vec![0u64; segment.objects.len()];
    let (mut at, mut index) = (segment.start, 0);
    while at + segment.stripe_size <= offset {
        at += segment.stripe_size;
        rows[index] += 1;
        index = (index + 1) % rows.len();
    }
    (index, rows[index] * segment.stripe_size + (offset - at))
}

proptest! {
    #[test]
    fn pieces_cover_the_range_once_in_order(mirror in mirrors(), offset in 0u64..1 << 32, len in 0u64..1 << 24) {
        let end = (offset + len).min(mirror.covered());
        let mut next = offset;
        for piece in mirror.pieces(0, offset, len).take(5_000) {
            prop_assert_eq!(piece.file_offset, next);
            prop_assert!(piece.len > 0);
            let s = &mirror.segments[piece.at.segment];
            prop_assert!(piece.file_offset >= s.start && piece.file_offset + piece.len <= s.end);
            for inside in [0, piece.len / 2, piece.len - 1] {
                let at = s.locate(piece.file_offset + inside);
                prop_assert_eq!(at, (piece.at.index, piece.object_offset + inside), "contiguous in one object");
            }
            next += piece.len;
        }
        let cut_short = mirror.pieces(0, offset, len).nth(5_000).is_some();
        prop_assert!(cut_short || next == end.max(offset));
    }

    #[test]
    fn locate_and_file_offset_are_inverse(mirror in mirrors(), pick in any::<prop::sample::Index>(), at in any::<u64>()) {
        let s = pick.get(&mirror.segments);
        let span = s.end - s.start;
        let offset = s.start + at % span.min(1 << 60);
        let (index, object_offset) = s.locate(offset);
        prop_assert!(index < s.objects.len());
        prop_assert_eq!(s.file_offset(index, object_offset), offset);
    }

    #[test]
    fn locate_agrees_with_counting(count in 1usize..=256, pages in 1u64..4, at in 0u64..1 << 23) {
        let s = segment(pages * 4096, count);
        prop_assert_eq!(s.locate(at), slowly(&s, at));
    }

    #[test]
    fn what_all_objects_miss_is_the_file(mirror in mirrors(), size in 0u64..1 << 26) {
        let mut ranges = Vec::new();
        for s in &mirror.segments {
            for index in 0..s.objects.len() {
                let mut len = 0;
                for chunk in missing_chunks(s, index, size) {
                    prop_assert_eq!(s.locate(chunk.file_offset), (index, chunk.object_offset));
                    prop_assert!(chunk.len > 0 && chunk.len <= s.stripe_size);
                    len = chunk.object_offset + chunk.len;
                    ranges.push((chunk.file_offset, chunk.len));
                }
                prop_assert_eq!(object_len(s, index, size), len, "the last chunk ends the object");
            }
        }
        ranges.sort_unstable();
        let mut next = 0;
        for (offset, len) in ranges {
            prop_assert_eq!(offset, next);
            next += len;
        }
        prop_assert_eq!(next, size.min(mirror.covered()));
    }

    #[test]
    fn growth_covers_what_is_needed(
        stripe_pages in 1u64..1024,
        stripe_count in 0usize..300,
        single in 0u64..1 << 26,
        segment_bytes in prop_oneof![Just(0u64), 1u64..1 << 36],
        steps in prop::collection::vec(prop_oneof![1u64..1 << 40, 1u64..1 << 62], 1..5),
        known in prop::option::of(0u64..1 << 40),
    ) {
        let stripe_size = stripe_pages * 4096;
        let place = Placement { stripe_size, stripe_count, single_bytes_max: single, segment_bytes, mirrors: 1, tier: None };
        let mut covered = 0;
        let mut count = 0;
        for needed in steps {
            for shape in plan_growth(&place, covered, needed, known) {
                count += 1;
                prop_assert_eq!(shape.start, covered, "without gap");
                prop_assert!(shape.end > shape.start && shape.stripe_count >= 1);
                prop_assert!(shape.end == OPEN_END || shape.end % stripe_size == 0);
                covered = shape.end;
            }
            prop_assert!(covered >= needed);
        }
        prop_assert!(count < 16_384, "{count} segments, whatever the size");
    }

    #[test]
    fn chosen_targets_are_usable_different_and_as_asked(
        views in prop::collection::vec((0u8..3, any::<bool>(), 0u64..1_000), 0..=256),
        tier in prop::option::of(0u8..4),
        count in 0usize..300,
        avoid in prop::collection::vec(0u16..256, 0..300),
        turn in any::<u64>(),
    ) {
        let views: Vec<TargetView> = views
            .into_iter()
            .enumerate()
            .map(|(n, (tier, usable, free_bytes))| TargetView { id: TargetId(n as u16), tier, usable, free_bytes, near: false })
            .collect();
        let avoid: Vec<TargetId> = avoid.into_iter().map(TargetId).collect();
        let chosen = choose_targets(&views, tier, count, &avoid, turn);
        let mut sorted = chosen.clone();
        sorted.sort_unstable();
        sorted.dedup();
        prop_assert_eq!(sorted.len(), chosen.len(), "no target twice");
        prop_assert!(chosen.len() <= count.max(1));
        let view = |id: &TargetId| views[usize::from(id.0)];
        prop_assert!(chosen.iter().all(|id| view(id).usable));
        let usable: Vec<&TargetView> = views.iter().filter(|v| v.usable).collect();
        prop_assert_eq!(chosen.is_empty(), usable.is_empty());
        let fresh: Vec<&&TargetView> = usable.iter().filter(|v| !avoid.contains(&v.id)).collect();
        if !fresh.is_empty() {
            prop_assert!(chosen.iter().all(|id| !avoid.contains(id)), "avoided while there are others");
            let wanted: Vec<_> = fresh.iter().filter(|v| tier.is_none_or(|t| v.tier == t)).collect();
            if !wanted.is_empty() {
                prop_assert!(chosen.iter().all(|id| tier.is_none_or(|t| view(id).tier == t)));
                let room = wanted.iter().filter(|v| v.free_bytes > 0).count();
                prop_assert!(room == 0 || chosen.iter().all(|id| view(id).free_bytes > 0), "full ones are passed over");
                prop_assert_eq!(chosen.len(), (if room > 0 { room } else { wanted.len() }).min(count.max(1)));
            }
        }
    }
}

#[test]
fn equal_targets_take_turns() {
    let view = |n: u16, free_bytes| TargetView { id: TargetId(n), tier: 0, usable: true, free_bytes, near: false };
    let views = [view(0, 100), view(1, 95), view(2, 90), view(3, 10)];
    let firsts: Vec<u16> = (0..4).map(|turn| choose_targets(&views, None, 1, &[], turn)[0].0).collect();
    assert_eq!(firsts, [0, 1, 2, 0]);
    assert_eq!(choose_targets(&views, None, 4, &[], 1).iter().map(|t| t.0).collect::<Vec<_>>(), [1, 2, 0, 3]);
}
