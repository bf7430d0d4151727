//! Parallel reads and writes of the pieces of one request: one operation for each object, even for several stripes.
//!
//! ```text
//!   request      [ a0 | b0 | c0 | a1 | b1 | c1 | a2 ]     stripes of the objects a, b and c
//!   operations   a: 0..3 in one go   b: 0..2   c: 0..2    each on a worker of its target; then sorted into the request's buffer
//! ```
//! Stripes of one object that follow each other in the file do so in the object, too. So a device gets its part of a
//! large request once, whatever the striping unit is. The model of stripe widths relies on this.
//!
//! Where several nodes reach a target through a FUSE mount, the kernel splits an operation into requests of about 128
//! KiB. It sends each after the reply to the previous one. So a large part is read as a few concurrent operations: the
//! same requests in fewer round trips.

use super::paged::Paged;
use super::write::Missed;
use super::{File, Slot, View};
use policy::layout::{Piece, Position};

/// Size from which the pieces of a request go to the workers of their targets in parallel, even on fast targets. A
/// guess: below it, the hand-over costs more than it gains where operations take microseconds.
const PARALLEL_BYTES_MIN: usize = 128 << 10;

/// Size of the kernel's requests where it splits operations: the default of FUSE mounts.
const REQUEST_BYTES: usize = 128 << 10;

/// Alignment of split operations within the object, where the request is aligned.
const PAGE_BYTES: usize = 4096;

/// Least size of a split operation, where the kernel splits requests; `CUTS_MAX` limits their number. Measured with
/// GlusterFS 10.3 on one machine: reading 1 MiB in two takes 0.78 of the time of one operation, in four 0.68; in eight
/// it varies.
const CUT_BYTES_MIN: usize = 256 << 10;
const CUTS_MAX: usize = 4;

/// Part of a request on one object: one range of the object, in one or several stripes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Position of the object.
    pub at: Position,
    /// First byte in the object.
    pub object_offset: u64,
    /// Total number of bytes.
    pub len: usize,
    /// Destinations in the request's buffer, in order: first byte and length.
    pub pieces: Vec<(usize, usize)>,
}

/// Groups the pieces of a request that starts at `offset` by object, in the order of each object's first piece.
pub fn parts(offset: u64, pieces: impl Iterator<Item = Piece>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for piece in pieces {
        let (from, len) = ((piece.file_offset - offset) as usize, piece.len as usize);
        // Searched from the end: with a segment border within the request an object may occur twice.
        let before = parts.iter_mut().rev().find(|part| part.at == piece.at);
        match before.filter(|part| part.object_offset + part.len as u64 == piece.object_offset) {
            Some(part) => {
                part.len += len;
                part.pieces.push((from, len));
            }
            None => {
                let (at, object_offset) = (piece.at, piece.object_offset);
                parts.push(Part { at, object_offset, len, pieces: vec![(from, len)] });
            }
        }
    }
    parts
}

impl Part {
    /// Copies its bytes out of the request.
    pub fn gather(&self, data: &[u8]) -> Paged {
        let (mut bytes, mut at) = (Paged::zeroed(self.len), 0);
        for &(from, len) in &self.pieces {
            bytes[at..at + len].copy_from_slice(&data[from..from + len]);
            at += len;
        }
        bytes
    }

    /// Splits the part into several consecutive ones of about the same length.
    fn cut(self) -> Vec<Part> {
        let count = (self.len / CUT_BYTES_MIN).clamp(1, CUTS_MAX);
        let step = self.len.div_ceil(count).next_multiple_of(PAGE_BYTES);
        let mut cut: Vec<Part> = Vec::with_capacity(count);
        let mut begin = 0;
        for (mut from, mut left) in self.pieces {
            while left > 0 {
                let room = step - begin % step;
                let len = left.min(room);
                if begin.is_multiple_of(step) {
                    let object_offset = self.object_offset + begin as u64;
                    cut.push(Part { at: self.at, object_offset, len: 0, pieces: Vec::new() });
                }
                let part = cut.last_mut().expect("the first byte begins one");
                part.len += len;
                part.pieces.push((from, len));
                (from, left, begin) = (from + len, left - len, begin + len);
            }
        }
        cut
    }
}

impl File {
    /// Whether a read of `len` bytes is split into several operations on a target.
    pub(super) fn is_cut(&self, slot: &Slot, len: usize) -> bool {
        len >= 2 * CUT_BYTES_MIN && self.is_shared() && self.cuts(slot)
    }

    /// Whether a write of `len` bytes fills whole requests of a FUSE mount.
    pub(super) fn is_sent_on_by_pages(&self, slot: &Slot, len: usize) -> bool {
        len >= REQUEST_BYTES && self.cuts(slot)
    }

    fn cuts(&self, slot: &Slot) -> bool {
        slot.target(&self.pool).is_ok_and(|target| target.cuts_requests())
    }

    /// Whether several workers should serve a request: it is large, the chooser among forks assumes it, or its first
    /// target is so slow that the hand-over is negligible.
    pub(super) fn is_parallel(&self, view: &View, mirror: usize, offset: u64, len: usize) -> bool {
        if len >= PARALLEL_BYTES_MIN || self.load.chooses() {
            return true;
        }
        let layout = view.layout.as_ref();
        let first = layout.and_then(|layout| layout.mirrors.get(mirror)?.pieces(mirror, offset, len as u64).next());
        first.filter(|piece| piece.len < len as u64).is_some_and(|piece| {
            let target = view.slot(piece.at).target(&self.pool);
            target.is_ok_and(|target| target.counters().is_slow())
        })
    }

    /// Writes to every mirror in sync in parallel; returns the mirrors that missed it. A slot is marked written after the
    /// write: a sync in between would otherwise clear the mark before the bytes are there.
    pub(super) fn write_mirrors(&self, view: &View, offset: u64, data: &[u8]) -> Vec<Missed> {
        let layout = view.layout.as_ref().expect("only called with a layout");
        let mut missed = Vec::new();
        let mut miss = |mirror, target, error| {
            if missed.iter().all(|m: &Missed| m.mirror != mirror) {
                missed.push(Missed { mirror, target, error });
            }
        };
        let mut pending = Vec::new();
        let lost = self.pool.lost.noted();
        let pieces = |mirror: usize| layout.mirrors[mirror].pieces(mirror, offset, data.len() as u64);
        for part in view.in_sync().flat_map(|mirror| parts(offset, pieces(mirror))) {
            let (slot, bytes, to) = (view.slot(part.at), part.gather(data), part.object_offset);
            match slot.submit(&self.pool, move |h| h.write_at(to, &bytes)) {
                Ok(p) => pending.push((part, slot, p)),
                Err(e) => miss(part.at.mirror, slot.target_id, e),
            }
        }
        for (part, slot, p) in pending {
            let written = p.wait();
            view.written(part.at);
            match written {
                Ok(()) => self.pool.lost.written(slot.id.0, part.object_offset, part.len as u64, lost),
                Err(e) => miss(part.at.mirror, slot.target_id, e),
            }
        }
        missed
    }

    /// Reads all pieces from the best mirror in parallel. `None` if that is not possible or one failed: then the pieces
    /// are read one by one.
    pub(super) fn read_parallel(&self, view: &View, preferred: usize, offset: u64, buf: &mut [u8]) -> Option<()> {
        let layout = view.layout.as_ref().expect("only called with a layout");
        let candidates = layout.candidates(preferred, offset, 1, |t| self.target_state(t));
        let mirror = candidates.first().map(|c| c.piece.at.mirror)?;
        let pieces: Vec<Piece> = layout.mirrors[mirror].pieces(mirror, offset, buf.len() as u64).collect();
        let covered: u64 = pieces.iter().map(|p| p.len).sum();
        if covered != buf.len() as u64 || !pieces.iter().all(|p| self.is_readable(view, p)) {
            return None;
        }
        let several = pieces.len() > 1;
        let cut = |part: Part| if self.is_cut(view.slot(part.at), part.len) { part.cut() } else { vec![part] };
        let parts: Vec<Part> = parts(offset, pieces.into_iter()).into_iter().flat_map(cut).collect();
        if !several && parts.len() < 2 {
            return None;
        }
        let advice = self.advice();
        let mut pending = Vec::with_capacity(parts.len());
        for part in &parts {
            let (at, len) = (part.object_offset, part.len);
            let submitted = view.slot(part.at).submit(&self.pool, move |h| {
                h.advise(advice);
                let mut bytes = Paged::zeroed(len);
                h.read_at(at, &mut bytes).map(|read| {
                    bytes[read..].fill(0);
                    bytes
                })
            });
            match submitted {
                Ok(p) => pending.push(p),
                Err(_) => return None,
            }
        }
        for (part, p) in parts.iter().zip(pending) {
            let bytes = p.wait().ok()?;
            let mut rest = &bytes[..];
            for &(from, len) in &part.pieces {
                let (head, tail) = rest.split_at(len);
                buf[from..from + len].copy_from_slice(head);
                rest = tail;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(index: usize, file_offset: u64, object_offset: u64, len: u64) -> Piece {
        Piece { at: Position { mirror: 0, segment: 0, index }, file_offset, object_offset, len }
    }

    proptest::proptest! {
        #[test]
        fn what_is_cut_has_the_same_bytes_in_the_same_order(
            at in 0u64..10_000_000,
            lens in proptest::collection::vec(1usize..600_000, 1..8),
        ) {
            // Between two pieces lies a byte of another object.
            let mut from = 0;
            let pieces: Vec<(usize, usize)> = lens.iter().map(|len| { from += len + 1; (from - len, *len) }).collect();
            let len = lens.iter().sum();
            let whole = Part { at: piece(0, 0, 0, 1).at, object_offset: at, len, pieces: pieces.clone() };
            let cut = whole.clone().cut();
            let bytes = |part: &Part| -> Vec<(usize, usize)> { part.pieces.clone() };
            let mut next = at;
            for part in &cut {
                proptest::prop_assert_eq!(part.object_offset, next);
                proptest::prop_assert_eq!(part.len, part.pieces.iter().map(|(_, len)| len).sum::<usize>());
                next += part.len as u64;
            }
            proptest::prop_assert_eq!(next, at + len as u64);
            // Joins ranges that were split.
            let mut joined: Vec<(usize, usize)> = Vec::new();
            for (from, len) in cut.iter().flat_map(bytes) {
                match joined.last_mut().filter(|(before, had)| before + *had == from) {
                    Some((_, had)) => *had += len,
                    None => joined.push((from, len)),
                }
            }
            proptest::prop_assert_eq!(joined, pieces);
            let least = if len < 2 * CUT_BYTES_MIN { 1 } else { 2 };
            proptest::prop_assert!((least..=CUTS_MAX).contains(&cut.len()));
        }
    }

    #[test]
    fn the_stripes_of_an_object_are_one_operation() {
        // Two objects with stripes of 10, from the middle of the third stripe on.
        let all = [piece(0, 25, 15, 5), piece(1, 30, 10, 10), piece(0, 40, 20, 10), piece(1, 50, 20, 3)];
        let found = parts(25, all.into_iter());
        let of = |n: usize| (found[n].at.index, found[n].object_offset, found[n].len, found[n].pieces.clone());
        assert_eq!(of(0), (0, 15, 15, vec![(0, 5), (15, 10)]));
        assert_eq!(of(1), (1, 10, 13, vec![(5, 10), (25, 3)]));
        assert_eq!(found.len(), 2);
        let apart = [piece(0, 0, 0, 5), piece(0, 5, 100, 5)];
        assert_eq!(parts(0, apart.into_iter()).len(), 2, "what does not follow is read by itself");
    }
}
