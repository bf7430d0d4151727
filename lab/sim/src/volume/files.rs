//! Files: layouts whose objects take space on targets.

use super::targets::Targets;
use policy::layout::{
    Mirror, MirrorState, Object, ObjectState, Segment, choose_replica_targets, choose_targets, object_len,
};
use policy::stripe::forks::Shape;
use policy::tier::Tier;
use policy::volume::{self, Lies, Purpose};
use policy::{ObjectId, TargetId};
use std::collections::BTreeMap;

/// State of a file.
#[derive(Clone, Debug)]
pub struct File {
    /// Size in bytes.
    pub bytes: u64,
    /// Whether any part of it was ever on a target that failed.
    pub was_hit: bool,
    /// Number of opens.
    pub users: u32,
    /// Mirrors with their purposes.
    pub mirrors: Vec<(Purpose, Mirror)>,
    /// Whether an external source has it, too.
    pub source: bool,
    /// Whether tiers may move its segments.
    pub tiered: bool,
}

/// An object with its length and its position in the mirror (segment, index).
pub type Placed = ((usize, usize), Object, u64);

impl File {
    /// Returns the layout in the machine's terms.
    pub fn lies(&self, targets: &Targets) -> Lies {
        let tier_of = |segment: &Segment| {
            let fast = segment.objects.iter().all(|object| targets.all[usize::from(object.target.0)].tier == 0);
            if fast { Tier::Fast } else { Tier::Slow }
        };
        let first = self.mirrors.first().filter(|_| self.tiered);
        Lies {
            bytes: self.bytes,
            users: self.users,
            segments: first.map_or_else(Vec::new, |(_, mirror)| mirror.segments.iter().map(tier_of).collect()),
            away: Vec::new(),
            mirrors: self.mirrors.iter().map(|(purpose, mirror)| in_words(*purpose, mirror, self.bytes)).collect(),
            asked_for: false,
            elsewhere: false,
        }
    }

    /// Returns the mirrors that can be read in full.
    pub fn intact(&self) -> impl Iterator<Item = usize> + '_ {
        let is_intact = |(_, (_, mirror)): &(usize, &(Purpose, Mirror))| !self.was_hit || is_intact(mirror);
        self.mirrors.iter().enumerate().filter(is_intact).map(|(at, _)| at)
    }

    /// Returns every object that takes space.
    pub fn objects(&self) -> impl Iterator<Item = (TargetId, u64)> + '_ {
        let placed = self.mirrors.iter().flat_map(|(_, mirror)| objects(mirror, self.bytes));
        placed
            .filter(|(_, object, _)| object.state == ObjectState::Complete)
            .map(|(_, object, len)| (object.target, len))
    }

    /// Returns the segments that a range touches, with the bytes in each.
    pub fn touched(&self, offset: u64, len: u64) -> Vec<(u64, u64)> {
        let within = |s: &Segment| s.end.min(offset + len).saturating_sub(s.start.max(offset));
        let all = self.mirrors[0].1.segments.iter().enumerate().map(|(n, segment)| (n as u64, within(segment)));
        all.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Returns the targets of the file.
    pub fn targets(&self) -> Vec<TargetId> {
        self.objects().map(|(target, _)| target).collect()
    }
}

/// Returns whether all of a mirror can be read.
pub fn is_intact(mirror: &Mirror) -> bool {
    mirror.segments.iter().flat_map(|segment| &segment.objects).all(|object| object.state == ObjectState::Complete)
}

/// Adds each object's bytes of a range of the file, summed over its stripes: a device serves them at once.
pub fn add_parts(parts: &mut Vec<(Object, u64)>, mirror: &Mirror, offset: u64, len: u64) {
    let from = mirror.segments.partition_point(|segment| segment.end <= offset);
    for segment in mirror.segments[from..].iter().take_while(|segment| segment.start < offset + len) {
        let (from, to) = (offset.max(segment.start) - segment.start, segment.end.min(offset + len) - segment.start);
        let (unit, count) = (segment.stripe_size, segment.objects.len() as u64);
        let (first, last) = (from / unit, (to - 1) / unit);
        let stripes = last - first + 1;
        let several = stripes > count;
        let ends = if several { (stripes - 1) % count } else { stripes - 1 };
        let mut at = first % count;
        for n in 0..stripes.min(count) {
            let whole = if several { (stripes - n).div_ceil(count) * unit } else { unit };
            let before = if n == 0 { from - first * unit } else { 0 };
            let behind = if n == ends { (last + 1) * unit - to } else { 0 };
            parts.push((segment.objects[at as usize], whole - before - behind));
            at = if at + 1 == count { 0 } else { at + 1 };
        }
    }
}

/// Returns the objects of a mirror of a file of `bytes` bytes.
pub fn objects(mirror: &Mirror, bytes: u64) -> impl Iterator<Item = Placed> + '_ {
    mirror.segments.iter().enumerate().flat_map(move |(s, segment)| {
        let of = move |(at, object): (usize, &Object)| ((s, at), *object, object_len(segment, at, bytes));
        segment.objects.iter().enumerate().map(of)
    })
}

/// Returns the objects of one segment.
pub fn objects_of_segment(mirror: &Mirror, bytes: u64, segment: usize) -> Vec<Placed> {
    objects(mirror, bytes).filter(|((of, _), ..)| *of == segment).collect()
}

fn in_words(purpose: Purpose, mirror: &Mirror, bytes: u64) -> volume::Mirror {
    volume::Mirror { purpose, shape: Shape::of(mirror, bytes), intact: is_intact(mirror) }
}

/// Creates objects on targets with space.
#[derive(Debug, Default)]
pub struct Maker {
    objects: u64,
    /// Counters that rotate the choice among equal targets, one for each tier, as in the live system.
    turns: BTreeMap<u8, u64>,
}

impl Maker {
    /// Creates an object; its space is not taken yet.
    pub fn object(&mut self, target: TargetId) -> Object {
        self.objects += 1;
        Object::whole(ObjectId(self.objects), target)
    }

    /// Creates a segment of that shape on targets of a tier, excluding `avoid`; `None` if there are too few targets
    /// or too little space.
    pub fn segment(
        &mut self,
        targets: &mut Targets,
        (start, end): (u64, u64),
        shape: Shape,
        tier: u8,
        avoid: &[TargetId],
    ) -> Option<Segment> {
        let (views, count) = (targets.views(), shape.devices.max(1) as usize);
        let turn = self.turns.entry(tier).or_default();
        *turn += 1;
        let chosen = if avoid.is_empty() {
            choose_targets(&views, Some(tier), count, &[], *turn - 1)
        } else {
            choose_replica_targets(&views, Some(tier), count, avoid, *turn - 1)
        };
        let wrong = chosen.is_empty() || avoid.is_empty() && chosen.iter().any(|id| targets.of(*id).tier != tier);
        if wrong {
            return None;
        }
        let objects = chosen.into_iter().map(|target| self.object(target)).collect();
        Some(Segment { start, end, stripe_size: shape.unit_bytes.max(1), objects })
    }

    /// Creates a mirror with the segments `cuts`, each on its tier.
    pub fn mirror(
        &mut self,
        targets: &mut Targets,
        cuts: &[(u64, u64, u8)],
        shape: Shape,
        avoid: &[TargetId],
    ) -> Option<Mirror> {
        let segments = cuts.iter().map(|(start, end, tier)| self.segment(targets, (*start, *end), shape, *tier, avoid));
        Some(Mirror { state: MirrorState::InSync, segments: segments.collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Oracle: the sums of the layout's pieces, object by object.
        #[test]
        fn the_parts_of_a_range_are_its_pieces_put_together(
            shapes in prop::collection::vec((1u32..6, 1u64..40), 1..4),
            (offset, len) in (0u64..500, 1u64..300),
        ) {
            let (mut maker, mut segments) = (Maker::default(), Vec::new());
            for (n, (devices, stripe_size)) in shapes.into_iter().enumerate() {
                let objects = (0..devices).map(|target| maker.object(TargetId(target as u16))).collect();
                segments.push(Segment { start: 200 * n as u64, end: 200 * (n as u64 + 1), stripe_size, objects });
            }
            let mirror = Mirror { state: MirrorState::InSync, segments };
            let mut pieces: BTreeMap<ObjectId, u64> = BTreeMap::new();
            for piece in mirror.pieces(0, offset, len) {
                *pieces.entry(mirror.object(piece.at).unwrap().id).or_default() += piece.len;
            }
            let mut parts = Vec::new();
            add_parts(&mut parts, &mirror, offset, len);
            let parts: Vec<_> = parts.into_iter().map(|(object, bytes)| (object.id, bytes)).collect();
            prop_assert_eq!(parts.len(), pieces.len());
            prop_assert_eq!(parts.into_iter().collect::<BTreeMap<_, _>>(), pieces);
        }
    }
}
