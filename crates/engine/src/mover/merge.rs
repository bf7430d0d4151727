//! Merged files: files that are always read together are interleaved in shared objects.
//!
//! ```text
//! first file    copy into new objects, every n-th unit of them          | its record names them
//! each other    give these objects a name of its own, copy into its turns | its record names those
//! ```
//! Each file is changed by a move of its own, so a crash leaves each file as it was or merged. A file that is left
//! alone in its objects has gaps on its device, and no other harm. An object is removed with the last of its names.

use super::Mover;
use crate::file::File;
use crate::{Error, Result};
use policy::layout::{Layout, Merged, Mirror, MirrorState, Placement, Reason, Segment};
use std::sync::Arc;

impl Mover {
    /// Merges files, in turns of a stripe, over the number of targets in `place`.
    ///
    /// # Errors
    /// The error has the index of the file that could not be merged; files before it are merged, later ones are
    /// unchanged. `Invalid` if the files cannot be merged at all: then nothing was changed.
    pub fn merge(&self, files: &[Arc<File>], place: &Placement) -> Result<(), (usize, Error)> {
        let turn = |slot: usize| Merged { unit_bytes: place.stripe_size, slot: slot as u16, of: files.len() as u16 };
        if !(2..=Merged::FILES_MAX).contains(&files.len()) || !turn(0).is_valid() {
            let cause = format!("from 2 to {} files can be merged, not {}", Merged::FILES_MAX, files.len());
            return Err((0, Error::Invalid(cause)));
        }
        let mut own_bytes = u64::MAX;
        for (number, file) in files.iter().enumerate() {
            self.can_merge(file, &files[..number]).map_err(|e| (number, e))?;
            own_bytes = own_bytes.min(file.seek_hole(0).unwrap_or(0));
        }
        let mut first: Option<Segment> = None;
        for (number, file) in files.iter().enumerate() {
            let layout = self.transform(file, "merge", Reason::Merged, |old, made| {
                let merged = turn(number);
                let segment = match &first {
                    None => made.shared_segment(place, merged, own_bytes),
                    Some(first) => made.joined_segment(first, merged),
                }?;
                only_mirror(old)?;
                let mirrors = vec![Mirror { state: MirrorState::InSync, segments: vec![segment] }];
                Ok(Layout { mirrors, ..old.clone() })
            });
            let layout = layout.map_err(|e| (number, e))?;
            first.get_or_insert_with(|| layout.mirrors[0].segments[0].clone());
        }
        Ok(())
    }

    fn can_merge(&self, file: &Arc<File>, before: &[Arc<File>]) -> Result<()> {
        if before.iter().any(|other| Arc::ptr_eq(other, file)) {
            return Err(Error::Invalid("it is named twice".into()));
        }
        let Some(layout) = file.layout() else {
            let cause = "it is so small that its bytes lie in its stub: it has no objects to merge";
            return Err(Error::Invalid(cause.into()));
        };
        only_mirror(&layout)
    }

    /// Gives a merged file objects of its own again, with the same width and striping.
    pub fn split(&self, file: &Arc<File>) -> Result<Arc<Layout>> {
        self.transform(file, "split", Reason::Split, |old, made| {
            let mut new = old.clone();
            let is_shared = |s: &Segment| s.objects.iter().any(|object| object.merged.is_some());
            for (mirror, new) in old.mirrors.iter().zip(&mut new.mirrors) {
                let Some(shared) = mirror.segments.iter().find(|s| is_shared(s)) else { continue };
                let tier = self.pool.targets.tier_of(shared);
                let (stripe_size, stripe_count) = (shared.stripe_size, shared.objects.len());
                let place = Placement { stripe_size, stripe_count, tier, ..self.pool.placement.clone() };
                *new = Mirror { state: mirror.state, ..self.striped(file, old, &place, made, &[])? };
            }
            if new == *old {
                return Err(Error::Invalid("it shares no object with another file".into()));
            }
            Ok(new)
        })
    }
}

/// Refuses a file with several mirrors: they protect it, and a merged file has only one.
fn only_mirror(layout: &Layout) -> Result<()> {
    match layout.mirrors.as_slice() {
        [mirror] if mirror.state == MirrorState::InSync => Ok(()),
        _ => Err(Error::Invalid("it has several mirrors; drop all but one first".into())),
    }
}
