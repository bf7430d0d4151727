//! Finding data and holes across the objects of a file.
//!
//! Each object of a segment returns its next data (or hole), from its first byte at or after the offset. The answer is
//! the one nearest in the file.

use super::range::object_range;
use super::{File, View, target_error};
use crate::{Error, Result};
use policy::layout::{OPEN_END, ObjectState, Position, Segment};
use rustix::io::Errno;
use std::sync::Arc;

/// Target of a seek.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seek {
    Data,
    Hole,
}

impl File {
    /// First data at or after `offset`; `NXIO` as an error when there is none.
    pub fn seek_data(self: &Arc<Self>, offset: u64) -> Result<u64> {
        self.seek(offset, Seek::Data)
    }

    /// First hole at or after `offset` (the end of the file counts as one); `NXIO` as an error beyond the end.
    pub fn seek_hole(self: &Arc<Self>, offset: u64) -> Result<u64> {
        self.seek(offset, Seek::Hole)
    }

    fn seek(self: &Arc<Self>, offset: u64, what: Seek) -> Result<u64> {
        loop {
            let snapshot = self.snapshot();
            let size = snapshot.size;
            let found = if offset >= size {
                Err(Error::Namespace(Errno::NXIO))
            } else {
                self.seek_in(&snapshot.view, offset, size, what)
            };
            if self.is_current(&snapshot) {
                return found;
            }
        }
    }

    fn seek_in(&self, view: &View, offset: u64, size: u64, what: Seek) -> Result<u64> {
        if view.layout.is_none() {
            return match what {
                Seek::Data => self.stub.seek_data(offset),
                Seek::Hole => self.stub.seek_hole(offset),
            };
        }
        let mut error = Error::NoTarget;
        for mirror in view.in_sync() {
            match self.seek_mirror(view, mirror, offset..size, what, false) {
                Ok(Some(found)) => return Ok(found),
                Ok(None) if what == Seek::Hole => return Ok(size),
                Ok(None) => return Err(Error::Namespace(Errno::NXIO)),
                Err(e) => error = e,
            }
        }
        Err(error)
    }

    /// Nearest data or hole in one mirror. With `lenient`, an object that doesn't respond counts as data.
    pub(crate) fn seek_mirror(
        &self,
        view: &View,
        mirror: usize,
        range: std::ops::Range<u64>,
        what: Seek,
        lenient: bool,
    ) -> Result<Option<u64>> {
        let layout = view.layout.as_ref().expect("only called with a layout");
        let segments = &layout.mirrors[mirror].segments;
        for (s, segment) in segments.iter().enumerate().filter(|(_, s)| s.end > range.start && s.start < range.end) {
            let start = range.start.max(segment.start);
            let end = if segment.end == OPEN_END { range.end } else { range.end.min(segment.end) };
            let mut nearest: Option<u64> = None;
            for index in 0..segment.objects.len() {
                let at = Position { mirror, segment: s, index };
                let found = self.seek_object(view, segment, at, start..end, what, lenient)?;
                nearest = nearest.into_iter().chain(found).min();
            }
            if nearest.is_some() {
                return Ok(nearest);
            }
        }
        let covered = layout.mirrors[mirror].covered();
        Ok((what == Seek::Hole && covered < range.end).then(|| covered.max(range.start)))
    }

    fn seek_object(
        &self,
        view: &View,
        segment: &Segment,
        at: Position,
        range: std::ops::Range<u64>,
        what: Seek,
        lenient: bool,
    ) -> Result<Option<u64>> {
        let part = object_range(segment, at.index, &range);
        if part.is_empty() {
            return Ok(None);
        }
        let all_data = || if what == Seek::Data { Some(segment.file_offset(at.index, part.start)) } else { None };
        if segment.objects[at.index].state == ObjectState::Partial {
            return Ok(all_data());
        }
        let slot = view.slot(at);
        let from = part.start;
        let ask = move |h: &dyn object::target::Handle| {
            let found = match what {
                Seek::Data => h.seek_data(from),
                Seek::Hole => h.seek_hole(from),
            };
            match found {
                Ok(found) => Ok(Some(found)),
                Err(Errno::NXIO) if what == Seek::Data => Ok(None),
                Err(Errno::NXIO) => Ok(Some(from)), // beyond the object's end: a hole
                Err(e) => Err(e),
            }
        };
        match slot.run(&self.pool, ask) {
            Ok(found) => Ok(found.filter(|f| *f < part.end).map(|f| segment.file_offset(at.index, f))),
            Err(_) if lenient => Ok(all_data()),
            Err(e) => Err(target_error(slot.target_id, e)),
        }
    }
}
