//! An operation of an application, counted when it is answered: how long it took, on whichever thread, and how it ended.

use crate::stats::{Op, Stats};
use std::sync::Arc;
use std::time::Instant;

/// An operation that has begun. One that is dropped has failed.
pub struct Counted {
    stats: Arc<Stats>,
    op: Op,
    began: Instant,
    moved: Option<u64>,
}

impl Counted {
    /// It begins.
    pub fn new(stats: Arc<Stats>, op: Op) -> Counted {
        Counted { stats, op, began: Instant::now(), moved: None }
    }

    /// It ended well, with so many bytes of files read or written.
    pub fn went_well(mut self, bytes: u64) {
        self.moved = Some(bytes);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // A link is read as it is looked up, and has no bytes of a file.
        let moves = matches!(self.op, Op::Read | Op::Write | Op::Copy);
        let bytes = self.moved.filter(|_| moves).unwrap_or(0);
        self.stats.op(self.op, bytes, self.began.elapsed(), self.moved.is_none());
    }
}
