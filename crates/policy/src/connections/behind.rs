//! Write-behind: decides which writes of a file are acknowledged before the server has them, and which are sent next.
//!
//! A writer that waits for the server after each write leaves the connection idle, and waits while the bytes travel. So
//! its bytes are kept, acknowledged, and sent in the background. Several pieces are under way at once, and small
//! consecutive ones are joined. The driver keeps the bytes until the server has them. So a connection that breaks loses
//! none: they are sent again.
//!
//! ```text
//!   put(offset, bytes) -> Fresh | Joined -> waiting -- start() --> under way -- done(ok) --> gone
//!                      -> Wait: too much is kept,                           -- done(error) --> sync or close fails
//!                         or bytes overlap
//! ```
//! Pieces never overlap, so their order of arrival does not matter. A read waits for the pieces that
//! [`Behind::touches`].

use std::collections::VecDeque;
use std::ops::Range;

/// Limits for one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Acknowledged bytes that the server does not have.
    pub window_bytes: u64,
    /// Size up to which small writes are joined.
    pub piece_bytes: u64,
    /// Number of pieces sent at once.
    pub under_way_max: usize,
}

impl Config {
    /// Limits with which each connection has one request under way and one that follows, if all serve the file.
    pub fn for_connections(connections: u16, piece_bytes: u64) -> Config {
        let pieces = (2 * u64::from(connections)).clamp(4, 32);
        Config { window_bytes: pieces * piece_bytes, piece_bytes, under_way_max: pieces as usize }
    }
}

/// Number of a kept piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceId(u64);

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The bytes are a new piece.
    Fresh(PieceId),
    /// The bytes were appended to this piece.
    Joined(PieceId),
    /// The caller must wait until a piece is done.
    Wait,
}

#[derive(Clone, Debug)]
struct Piece {
    id: PieceId,
    range: Range<u64>,
    under_way: bool,
}

/// Writes of one file that the server does not have. `E` is the type of their errors.
#[derive(Clone, Debug)]
pub struct Behind<E> {
    config: Config,
    pieces: VecDeque<Piece>,
    bytes: u64,
    under_way: usize,
    next: u64,
    failures: u64,
    latest: Option<E>,
}

impl<E: Copy> Behind<E> {
    /// Begins without any pieces.
    pub fn new(config: Config) -> Behind<E> {
        Behind { config, pieces: VecDeque::new(), bytes: 0, under_way: 0, next: 0, failures: 0, latest: None }
    }

    /// Adds a write of `bytes` at `offset`.
    pub fn put(&mut self, offset: u64, bytes: u64) -> Put {
        let full = self.bytes > 0 && self.bytes + bytes > self.config.window_bytes;
        if full || self.touches(&(offset..offset.saturating_add(bytes))) {
            return Put::Wait;
        }
        self.bytes += bytes;
        if let Some(last) = self.pieces.back_mut()
            && !last.under_way
            && last.range.end == offset
            && offset + bytes - last.range.start <= self.config.piece_bytes
        {
            last.range.end += bytes;
            return Put::Joined(last.id);
        }
        let id = PieceId(self.next);
        self.next += 1;
        self.pieces.push_back(Piece { id, range: offset..offset + bytes, under_way: false });
        Put::Fresh(id)
    }

    /// Returns the piece to be sent now, with its range; `None` if enough are under way or none waits.
    pub fn start(&mut self) -> Option<(PieceId, Range<u64>)> {
        if self.under_way >= self.config.under_way_max {
            return None;
        }
        let piece = self.pieces.iter_mut().find(|piece| !piece.under_way)?;
        piece.under_way = true;
        self.under_way += 1;
        Some((piece.id, piece.range.clone()))
    }

    /// Ends a piece that was under way: sent or failed.
    pub fn done(&mut self, id: PieceId, sent: Result<(), E>) {
        let Some(at) = self.pieces.iter().position(|piece| piece.id == id && piece.under_way) else { return };
        if let Some(piece) = self.pieces.remove(at) {
            self.bytes -= piece.range.end - piece.range.start;
            self.under_way -= 1;
        }
        if let Err(error) = sent {
            self.failures += 1;
            self.latest = Some(error);
        }
    }

    /// Whether any kept piece overlaps the range.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        self.pieces.iter().any(|piece| piece.range.start < range.end && range.start < piece.range.end)
    }

    /// Mark after the pieces kept now: [`Behind::has_older`] becomes false once the server has them all.
    pub fn mark(&self) -> PieceId {
        PieceId(self.next)
    }

    /// Whether a piece from before the mark is still kept.
    pub fn has_older(&self, mark: PieceId) -> bool {
        self.pieces.front().is_some_and(|piece| piece.id < mark)
    }

    /// Whether the server has everything.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Number of bytes kept.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of failed writes so far. Each opener remembers it for [`Behind::failed_since`].
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Latest error, if any occurred after `seen` failures.
    pub fn failed_since(&self, seen: u64) -> Option<E> {
        self.latest.filter(|_| self.failures > seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn behind() -> Behind<i32> {
        Behind::new(Config { window_bytes: 100, piece_bytes: 40, under_way_max: 2 })
    }

    #[test]
    fn small_writes_that_follow_each_other_become_one_while_they_wait() {
        let mut file = behind();
        let Put::Fresh(first) = file.put(0, 10) else { panic!("nothing is kept yet") };
        assert_eq!(file.put(10, 10), Put::Joined(first));
        assert_eq!(file.start(), Some((first, 0..20)));
        let Put::Fresh(second) = file.put(20, 10) else { panic!("what is under way does not grow") };
        assert_eq!(file.put(30, 30), Put::Joined(second));
        assert!(matches!(file.put(60, 10), Put::Fresh(_)), "a piece has 40 bytes at most");
    }

    #[test]
    fn what_is_too_much_or_touches_waits() {
        let mut file = behind();
        file.put(0, 60);
        assert_eq!(file.put(60, 41), Put::Wait, "the window has 100");
        assert_eq!(file.put(59, 2), Put::Wait, "a byte of it is kept already");
        let (id, _) = file.start().unwrap();
        file.done(id, Ok(()));
        assert!(matches!(file.put(0, 1000), Put::Fresh(_)), "what is larger than the window goes alone");
    }

    #[test]
    fn each_open_hears_of_a_failure_once() {
        let mut file = behind();
        let (early, _) = (file.failures(), file.put(0, 1));
        let (id, _) = file.start().unwrap();
        file.done(id, Err(28));
        assert_eq!(file.failed_since(early), Some(28));
        assert_eq!(file.failed_since(file.failures()), None, "who opens later, or was told, hears nothing");
    }

    proptest! {
        /// Pieces sent in any order leave the same bytes as writes that each waited for the server.
        #[test]
        fn any_order_of_sending_gives_the_file_that_was_written(
            writes in prop::collection::vec((0u64..200, 1u64..50), 1..60),
            turns in prop::collection::vec(0usize..8, 1..400),
        ) {
            let (mut file, mut turns) = (behind(), turns.into_iter().cycle());
            let (mut wanted, mut server) = (vec![0u8; 256], vec![0u8; 256]);
            let mut kept: Vec<(PieceId, u64, Vec<u8>)> = Vec::new();
            let mut under_way: Vec<PieceId> = Vec::new();
            let mut work = |file: &mut Behind<i32>, kept: &mut Vec<(PieceId, u64, Vec<u8>)>, must: bool| {
                while let Some((id, range)) = file.start() {
                    let piece = kept.iter().find(|piece| piece.0 == id).unwrap();
                    assert_eq!((piece.1, piece.2.len() as u64), (range.start, range.end - range.start));
                    under_way.push(id);
                }
                let turn = turns.next().unwrap();
                if !under_way.is_empty() && (must || turn > 3) {
                    let id = under_way.remove(turn % under_way.len());
                    let at = kept.iter().position(|piece| piece.0 == id).unwrap();
                    let (_, offset, bytes) = kept.remove(at);
                    server[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
                    file.done(id, Ok(()));
                }
            };
            for (number, (offset, bytes)) in writes.into_iter().enumerate() {
                let data = vec![number as u8 + 1; bytes as usize];
                wanted[offset as usize..][..data.len()].copy_from_slice(&data);
                loop {
                    match file.put(offset, bytes) {
                        Put::Fresh(id) => break kept.push((id, offset, data)),
                        Put::Joined(id) => break kept.iter_mut().find(|p| p.0 == id).unwrap().2.extend(&data),
                        Put::Wait => work(&mut file, &mut kept, true),
                    }
                }
                work(&mut file, &mut kept, false);
                prop_assert!(file.bytes() <= 100);
            }
            while !file.is_empty() {
                work(&mut file, &mut kept, true);
            }
            prop_assert_eq!(server, wanted);
        }
    }
}
