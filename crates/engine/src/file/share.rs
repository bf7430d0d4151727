//! Objects that several files share: the first file creates them, the others link them under their own names.

use super::NewObjects;
use crate::{Error, Result};
use object::target::own_part;
use policy::TargetId;
use policy::layout::{Merged, OPEN_END, Object, Placement, Segment, choose_targets, object_len};
use rustix::io::Errno;

impl NewObjects<'_> {
    /// The segment of the first file: objects with room for as many turns as files of `own_bytes` each fill without a
    /// gap. So the files lie in order on the device, whatever the order of their writes.
    pub(crate) fn shared_segment(&mut self, place: &Placement, merged: Merged, own_bytes: u64) -> Result<Segment> {
        let views = self.pool.targets.views();
        let targets = choose_targets(&views, place.tier, place.stripe_count, &[], self.pool.next_turn(place.tier));
        if targets.is_empty() {
            return Err(self.pool.targets.none_usable());
        }
        let segment = self.turns_on(targets, place.stripe_size, merged);
        self.note(&segment.objects)?;
        for (index, object) in segment.objects.iter().enumerate() {
            let (id, room) = (object.id, merged.full_bytes(object_len(&segment, index, own_bytes)));
            let made = self.make_by(object, move |medium| {
                let made = medium.create(id)?;
                match made.allocate(0, room) {
                    Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(own_part(made, Some(merged))),
                    Err(errno) => Err(errno),
                }
            });
            made.map_err(|error| Error::Target { target: object.target, error })?;
        }
        Ok(segment)
    }

    /// The segment of a further file: its part of the objects of `first`.
    pub(crate) fn joined_segment(&mut self, first: &Segment, merged: Merged) -> Result<Segment> {
        let targets = first.objects.iter().map(|object| object.target).collect();
        let segment = self.turns_on(targets, first.stripe_size, merged);
        self.note(&segment.objects)?;
        for (object, shared) in segment.objects.iter().zip(&first.objects) {
            let (id, shared) = (object.id, shared.id);
            let made = self
                .make_by(object, move |medium| medium.link(shared, id).map(|handle| own_part(handle, Some(merged))));
            made.map_err(|error| Error::Target { target: object.target, error })?;
        }
        Ok(segment)
    }

    fn turns_on(&self, targets: Vec<TargetId>, stripe_size: u64, merged: Merged) -> Segment {
        let fresh = |target| Object { merged: Some(merged), ..Object::whole(self.pool.next_object(), target) };
        Segment { start: 0, end: OPEN_END, stripe_size, objects: targets.into_iter().map(fresh).collect() }
    }
}
