//! Translation of file offsets to object offsets and back.

use super::{Mirror, OPEN_END, Position, Segment};

/// A contiguous range of one object, and the file range it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Position of the object.
    pub at: Position,
    /// First byte in the file.
    pub file_offset: u64,
    /// First byte in the object.
    pub object_offset: u64,
    /// Length in bytes. Crosses no segment boundary, and a stripe boundary only where the segment has one object.
    pub len: u64,
}

/// The pieces of a file range, in file order. See [`Mirror::pieces`].
pub struct Pieces<'a> {
    mirror: &'a Mirror,
    mirror_index: usize,
    segment: usize,
    offset: u64,
    end: u64,
}

impl Mirror {
    /// Cuts `[offset, offset+len)` into pieces, in file order. Bytes beyond the covered range yield no piece.
    pub fn pieces(&self, mirror_index: usize, offset: u64, len: u64) -> Pieces<'_> {
        let segment = self.segments.partition_point(|s| s.end <= offset);
        Pieces { mirror: self, mirror_index, segment, offset, end: offset.saturating_add(len) }
    }
}

impl Segment {
    /// Returns the object index and object offset of a file offset inside this segment.
    pub fn locate(&self, file_offset: u64) -> (usize, u64) {
        debug_assert!(file_offset >= self.start && file_offset < self.end);
        let inside = file_offset - self.start;
        let stripe = inside / self.stripe_size;
        let count = self.objects.len() as u64;
        let object_offset = (stripe / count) * self.stripe_size + inside % self.stripe_size;
        ((stripe % count) as usize, object_offset)
    }

    /// Returns the file offset of byte `object_offset` of object `index`. The inverse of [`Segment::locate`].
    pub fn file_offset(&self, index: usize, object_offset: u64) -> u64 {
        let row = object_offset / self.stripe_size;
        let stripe = row * self.objects.len() as u64 + index as u64;
        self.start + stripe * self.stripe_size + object_offset % self.stripe_size
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.offset >= self.end {
            return None;
        }
        let segment = self.mirror.segments.get(self.segment)?;
        let (index, object_offset) = segment.locate(self.offset);
        let left_in_stripe = if segment.objects.len() == 1 {
            u64::MAX // one object: stripes are contiguous in it
        } else {
            segment.stripe_size - (self.offset - segment.start) % segment.stripe_size
        };
        let left_in_segment = if segment.end == OPEN_END { u64::MAX } else { segment.end - self.offset };
        let len = left_in_stripe.min(left_in_segment).min(self.end - self.offset);
        let piece = Piece {
            at: Position { mirror: self.mirror_index, segment: self.segment, index },
            file_offset: self.offset,
            object_offset,
            len,
        };
        self.offset += len;
        if self.offset >= segment.end {
            self.segment += 1;
        }
        Some(piece)
    }
}
