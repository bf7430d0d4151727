//! Contents of a lost object: the ranges of the file that must be fetched again.
//!
//! Source: the reference, section 6.4 (the rule printed in the paper has two errors, its register entry A-15).

use super::{OPEN_END, Segment};

/// A range of the file and its place in the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// First byte in the file.
    pub file_offset: u64,
    /// First byte in the object.
    pub object_offset: u64,
    /// Length in bytes, at most one stripe.
    pub len: u64,
}

/// Returns the chunks that object `index` of `segment` holds of a file of `size` bytes, ascending.
pub fn missing_chunks(segment: &Segment, index: usize, size: u64) -> impl Iterator<Item = Chunk> + use<> {
    let bytes = segment_len(segment, size);
    let (start, stripe_size, count) = (segment.start, segment.stripe_size, segment.objects.len() as u64);
    let stripes = bytes.div_ceil(stripe_size);
    (0..).map(move |row| (row, row * count + index as u64)).take_while(move |&(_, k)| k < stripes).map(
        move |(row, k)| Chunk {
            file_offset: start + k * stripe_size,
            object_offset: row * stripe_size,
            len: stripe_size.min(bytes - k * stripe_size),
        },
    )
}

/// Returns the length of object `index` for a file of `size` bytes without holes.
pub fn object_len(segment: &Segment, index: usize, size: u64) -> u64 {
    let bytes = segment_len(segment, size);
    let count = segment.objects.len() as u64;
    let (full, rest) = (bytes / segment.stripe_size, bytes % segment.stripe_size);
    let rows = full / count + u64::from((index as u64) < full % count);
    rows * segment.stripe_size + if index as u64 == full % count { rest } else { 0 }
}

/// Returns the number of the file's bytes in the segment.
fn segment_len(segment: &Segment, size: u64) -> u64 {
    let end = if segment.end == OPEN_END { size } else { size.min(segment.end) };
    end.saturating_sub(segment.start)
}
