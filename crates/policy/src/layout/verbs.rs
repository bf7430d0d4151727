//! The verbs on a layout: functions from the old layout to the new, which the mover carries out.
//!
//! Each returns a layout of the next generation with its reason in the history, or an error. None touches an object.

use super::{Layout, MirrorState, Object, ObjectState, Position, Reason, Segment};
use crate::time::Time;

/// Result of a verb; the error says for people why the layout cannot be changed.
pub type Verb = Result<Layout, String>;

const LAST_IN_SYNC: &str = "it is the last mirror in sync, so the file would be lost; add or resync another one first";

fn none_at(at: Position) -> String {
    format!("the layout has no object {}.{}.{} (mirror.segment.index)", at.mirror, at.segment, at.index)
}

fn none_in(mirror: usize) -> String {
    none_at(Position { mirror, segment: 0, index: 0 })
}

impl Layout {
    /// Sets whether a copy is in sync. Refuses to make the last one stale.
    pub fn set_mirror_state(&self, mirror: usize, state: MirrorState, at: Time, reason: Reason) -> Verb {
        let old = self.mirrors.get(mirror).ok_or_else(|| none_in(mirror))?;
        if state == MirrorState::Stale && old.state == MirrorState::InSync && self.in_sync_count() == 1 {
            return Err(LAST_IN_SYNC.into());
        }
        self.changed(at, reason, |new| {
            new.mirrors[mirror].state = state;
            Ok(())
        })
    }

    /// Replaces an object: by a copy on another target, or by an empty `Partial` one to recover into.
    pub fn replace_object(&self, position: Position, object: Object, at: Time, reason: Reason) -> Verb {
        self.changed(at, reason, |new| {
            *new.object_mut(position).ok_or_else(|| none_at(position))? = object;
            Ok(())
        })
    }

    /// Swaps an object of one mirror with the object of another that has the same bytes. Only the record changes, so
    /// the cost does not depend on the size. Refuses unless both segments have the same shape.
    pub fn swap_objects(&self, a: Position, b: usize, at: Time, reason: Reason) -> Verb {
        let b = Position { mirror: b, ..a };
        let shape = |p: Position| {
            let segment = self.mirrors.get(p.mirror).and_then(|m| m.segments.get(p.segment));
            segment.map(|of| (of.start, of.end, of.stripe_size, of.objects.len())).ok_or_else(|| none_at(p))
        };
        if shape(a)? != shape(b)? {
            return Err(format!("mirrors {} and {} are not striped alike", a.mirror, b.mirror));
        }
        let (first, second) = (self.object(a), self.object(b));
        let first = *first.ok_or_else(|| none_at(a))?;
        let second = *second.ok_or_else(|| none_at(b))?;
        self.changed(at, reason, |new| {
            *new.object_mut(a).ok_or_else(|| none_at(a))? = second;
            *new.object_mut(b).ok_or_else(|| none_at(b))? = first;
            Ok(())
        })
    }

    /// Marks a recovered object as complete.
    pub fn complete_object(&self, position: Position, at: Time, reason: Reason) -> Verb {
        self.changed(at, reason, |new| {
            new.object_mut(position).ok_or_else(|| none_at(position))?.state = ObjectState::Complete;
            Ok(())
        })
    }

    /// Returns the part of a mirror from `size` on, with the shape of its segment there. `None` if no segment reaches
    /// beyond.
    pub fn part_beyond(&self, mirror: usize, size: u64) -> Option<Segment> {
        let segment = self.mirrors.get(mirror)?.segments.iter().find(|segment| segment.end > size)?;
        Some(Segment { start: size.max(segment.start), ..segment.clone() })
    }

    /// Replaces all that mirrors have from the start of these segments on, by number of the mirror. Late writes beyond
    /// the end then land in objects that no layout names. The reasons stay.
    pub fn seal(&self, parts: Vec<(usize, Segment)>) -> Verb {
        let mut new = self.clone();
        for (mirror, part) in parts {
            let segments = &mut new.mirrors.get_mut(mirror).ok_or_else(|| none_in(mirror))?.segments;
            segments.retain(|segment| segment.start < part.start);
            segments.iter_mut().for_each(|segment| segment.end = segment.end.min(part.start));
            segments.push(part);
        }
        new.next()
    }

    /// Returns the number of mirrors in sync.
    pub fn in_sync_count(&self) -> usize {
        self.mirrors.iter().filter(|m| m.state == MirrorState::InSync).count()
    }

    fn changed(&self, at: Time, reason: Reason, change: impl FnOnce(&mut Layout) -> Result<(), String>) -> Verb {
        let mut new = self.clone();
        change(&mut new)?;
        new.history.push(at, reason);
        new.next()
    }

    /// Completes a change, unless it breaks an invariant.
    fn next(mut self) -> Verb {
        self.generation = self.generation.saturating_add(1);
        self.check().map_err(|why| format!("the changed layout would be invalid: {why}"))?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ObjectId, TargetId};
    use crate::layout::{Mirror, OPEN_END, sample};
    use proptest::prelude::*;

    const AT: Time = Time(77);

    /// A segment with objects that the layout does not use.
    fn fresh(layout: &Layout, count: u64) -> Segment {
        let used: Vec<ObjectId> = layout.objects().map(|(_, o)| o.id).collect();
        let ids = (0..).map(ObjectId).filter(|id| !used.contains(id)).take(count as usize);
        let object = |id| Object::whole(id, TargetId(9));
        Segment { start: 0, end: OPEN_END, stripe_size: 8192, objects: ids.map(object).collect() }
    }

    /// Checks the effect that all verbs have on the record.
    fn is_next(old: &Layout, new: &Layout, reason: Reason) {
        assert_eq!(new.check(), Ok(()));
        assert_eq!((new.file, new.generation), (old.file, old.generation.saturating_add(1)));
        assert_eq!(new.history.iter().next_back(), Some(&(AT, reason)));
    }

    proptest! {
        #[test]
        fn the_last_mirror_in_sync_stays(layout in sample::layouts()) {
            let mut layout = layout;
            let reason = Reason::MirrorStale(TargetId(1));
            while let Some(n) = layout.mirrors.iter().rposition(|m| m.state == MirrorState::InSync) {
                let stale = layout.set_mirror_state(n, MirrorState::Stale, AT, reason);
                if layout.in_sync_count() == 1 {
                    prop_assert_eq!(stale, Err(LAST_IN_SYNC.to_owned()));
                    break;
                }
                let stale = stale.expect("another is in sync");
                is_next(&layout, &stale, reason);
                layout = stale;
            }
        }

        #[test]
        fn replacing_an_object_changes_that_object_alone(layout in sample::layouts(), pick in any::<prop::sample::Index>()) {
            let positions: Vec<Position> = layout.objects().map(|(at, _)| at).collect();
            let position = *pick.get(&positions);
            let spare = Object { state: ObjectState::Partial, merged: None, ..fresh(&layout, 1).objects[0] };
            let reason = Reason::RecoveryStarted(TargetId(3));
            let new = layout.replace_object(position, spare, AT, reason).expect("valid");
            is_next(&layout, &new, reason);
            for (at, object) in layout.objects() {
                prop_assert_eq!(new.object(at), Some(if at == position { &spare } else { object }));
            }
            let done = new.complete_object(position, AT, Reason::Recovered).expect("valid");
            prop_assert_eq!(done.object(position), Some(&Object { state: ObjectState::Complete, ..spare }));
        }

        #[test]
        fn objects_change_places_and_nothing_else_does(layout in sample::layouts(), pick in any::<prop::sample::Index>()) {
            let mut segments = layout.mirrors[0].segments.clone();
            let ids = layout.objects().map(|(_, o)| o.id.0).max().unwrap_or(0) + 1;
            for (n, object) in segments.iter_mut().flat_map(|s| &mut s.objects).enumerate() {
                object.id = ObjectId(ids + n as u64);
            }
            let mut layout = layout;
            layout.mirrors.push(Mirror { state: MirrorState::InSync, segments });
            let b = layout.mirrors.len() - 1;
            let of_first: Vec<Position> = layout.objects().map(|(at, _)| at).filter(|at| at.mirror == 0).collect();
            let a = *pick.get(&of_first);
            let reason = Reason::FailedOver(TargetId(1));
            let new = layout.swap_objects(a, b, AT, reason).expect("alike");
            is_next(&layout, &new, reason);
            let back = Position { mirror: b, ..a };
            prop_assert_eq!((new.object(a), new.object(back)), (layout.object(back), layout.object(a)));
            for (at, object) in layout.objects().filter(|(at, _)| *at != a && *at != back) {
                prop_assert_eq!(new.object(at), Some(object));
            }
            let again = new.swap_objects(a, b, AT, reason).expect("still alike");
            prop_assert_eq!(again.mirrors, layout.mirrors);
        }

        #[test]
        fn a_seal_keeps_all_before_the_end_and_nothing_beyond(layout in sample::layouts(), size in 0u64..1 << 32) {
            let Some(part) = layout.part_beyond(0, size) else { return Ok(()) };
            let part = Segment { objects: fresh(&layout, 1).objects, ..part };
            let new = layout.seal(vec![(0, part.clone())]).expect("valid");
            prop_assert_eq!(new.mirrors[0].segments.last(), Some(&part));
            let object = |of: &Layout, at: u64| {
                let piece = of.mirrors[0].pieces(0, at, 1).next()?;
                Some((of.object(piece.at).copied()?, piece.object_offset))
            };
            for at in [0, size / 2, size.saturating_sub(1)].into_iter().filter(|at| *at < size) {
                prop_assert_eq!(object(&layout, at), object(&new, at));
            }
            prop_assert!(object(&new, size).is_some_and(|(object, _)| part.objects.contains(&object)));
        }

        #[test]
        fn what_is_not_there_or_would_be_invalid_is_refused(layout in sample::layouts()) {
            let nowhere = Position { mirror: layout.mirrors.len(), segment: 0, index: 0 };
            let object = *layout.objects().next().expect("every layout has one").1;
            let none = Err(none_at(nowhere));
            prop_assert_eq!(&layout.set_mirror_state(nowhere.mirror, MirrorState::InSync, AT, Reason::MirrorAdded), &none);
            prop_assert_eq!(&layout.replace_object(nowhere, object, AT, Reason::Moved), &none);
            let mut twice = layout;
            twice.mirrors.push(twice.mirrors[0].clone());
            let twice = twice.set_mirror_state(0, MirrorState::InSync, AT, Reason::MirrorAdded);
            let why = format!("the changed layout would be invalid: object {} occurs twice", object.id);
            prop_assert_eq!(twice, Err(why));
        }
    }
}
