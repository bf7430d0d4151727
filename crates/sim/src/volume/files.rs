//! Files: layouts whose objects take room on targets.

use super::targets::Targets;
use policy::layout::{
    Mirror, MirrorState, Object, ObjectState, Piece, Segment, choose_replica_targets, choose_targets, object_len,
};
use policy::stripe::forks::Shape;
use policy::tier::Tier;
use policy::volume::{self, Lies, Purpose};
use policy::{ObjectId, TargetId};

/// A file.
#[derive(Clone, Debug)]
pub struct File {
    /// Its size.
    pub bytes: u64,
    /// How many have it open.
    pub users: u32,
    /// Its mirrors, and what each is there for.
    pub mirrors: Vec<(Purpose, Mirror)>,
    /// Whether a source outside has it too.
    pub source: bool,
    /// Whether tiers may move its segments.
    pub tiered: bool,
}

/// An object, where it stands in its mirror, and its length.
pub type Placed = ((usize, usize), Object, u64);

impl File {
    /// How it lies, in the machine's words.
    pub fn lies(&self, targets: &Targets) -> Lies {
        let tier_of = |segment: &Segment| {
            let fast = segment.objects.iter().all(|object| targets.0[usize::from(object.target.0)].tier == 0);
            if fast { Tier::Fast } else { Tier::Slow }
        };
        let first = self.mirrors.first().filter(|_| self.tiered);
        Lies {
            bytes: self.bytes,
            users: self.users,
            segments: first.map_or_else(Vec::new, |(_, mirror)| mirror.segments.iter().map(tier_of).collect()),
            mirrors: self.mirrors.iter().map(|(purpose, mirror)| in_words(*purpose, mirror, self.bytes)).collect(),
            asked_for: false,
            elsewhere: false,
        }
    }

    /// Mirrors that can be read in full.
    pub fn intact(&self) -> impl Iterator<Item = usize> + '_ {
        self.mirrors.iter().enumerate().filter(|(_, (_, mirror))| is_intact(mirror)).map(|(at, _)| at)
    }

    /// Every object that takes room.
    pub fn objects(&self) -> impl Iterator<Item = (TargetId, u64)> + '_ {
        let placed = self.mirrors.iter().flat_map(|(_, mirror)| objects(mirror, self.bytes));
        placed
            .filter(|(_, object, _)| object.state == ObjectState::Complete)
            .map(|(_, object, len)| (object.target, len))
    }

    /// Targets that any of it lies on.
    pub fn targets(&self) -> Vec<TargetId> {
        self.objects().map(|(target, _)| target).collect()
    }
}

/// Whether all of a mirror can be read.
pub fn is_intact(mirror: &Mirror) -> bool {
    mirror.segments.iter().flat_map(|segment| &segment.objects).all(|object| object.state == ObjectState::Complete)
}

/// The target that has a piece of a mirror.
pub fn target_of(mirror: &Mirror, piece: &Piece) -> TargetId {
    mirror.object(piece.at).expect("a piece is of an object").target
}

/// The objects of a mirror of a file of so many bytes.
pub fn objects(mirror: &Mirror, bytes: u64) -> impl Iterator<Item = Placed> + '_ {
    mirror.segments.iter().enumerate().flat_map(move |(s, segment)| {
        let of = move |(at, object): (usize, &Object)| ((s, at), *object, object_len(segment, at, bytes));
        segment.objects.iter().enumerate().map(of)
    })
}

fn in_words(purpose: Purpose, mirror: &Mirror, bytes: u64) -> volume::Mirror {
    volume::Mirror { purpose, shape: Shape::of(mirror, bytes), intact: is_intact(mirror) }
}

/// Makes new objects where there is room.
#[derive(Debug, Default)]
pub struct Maker {
    objects: u64,
}

impl Maker {
    /// A new object, its room not taken yet.
    pub fn object(&mut self, target: TargetId) -> Object {
        self.objects += 1;
        Object::whole(ObjectId(self.objects), target)
    }

    /// A segment like that on so many targets of a tier, on none of `avoid`; `None` if they do not give the width or
    /// the room.
    pub fn segment(
        &mut self,
        targets: &mut Targets,
        (start, end): (u64, u64),
        shape: Shape,
        tier: u8,
        avoid: &[TargetId],
    ) -> Option<Segment> {
        let (views, count) = (targets.views(), shape.devices.max(1) as usize);
        let chosen = if avoid.is_empty() {
            choose_targets(&views, Some(tier), count, &[], self.objects)
        } else {
            choose_replica_targets(&views, Some(tier), count, avoid, self.objects)
        };
        let wrong = chosen.is_empty() || avoid.is_empty() && chosen.iter().any(|id| targets.of(*id).tier != tier);
        if wrong {
            return None;
        }
        let objects = chosen.into_iter().map(|target| self.object(target)).collect();
        Some(Segment { start, end, stripe_size: shape.unit_bytes.max(4096), objects })
    }

    /// A whole mirror, cut into segments as said, each on its tier.
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
