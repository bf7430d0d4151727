//! An operation of an application, counted when it is answered: its duration, on any thread, and its result.

use engine::file::Usage;
use engine::stats::{Op, Position, Recorded, Stats};
use std::sync::Arc;
use std::time::Instant;

/// An operation under way. It has failed if it is dropped.
pub struct Counted {
    stats: Arc<Stats>,
    op: Op,
    /// User of the operation, if known.
    user: Option<u32>,
    /// Usage record of the file, for an operation on an open one.
    file: Option<Arc<Usage>>,
    /// Position of a read or write, if it is recorded.
    position: Option<Position>,
    began: Instant,
    moved: Option<u64>,
}

impl Counted {
    /// Begins an operation, for a user if one is known.
    pub fn new(stats: Arc<Stats>, op: Op, user: Option<u32>) -> Counted {
        Counted { stats, op, user, file: None, position: None, began: Instant::now(), moved: None }
    }

    /// Sets the user, if none was known.
    pub fn is_of(&mut self, user: u32) {
        self.user.get_or_insert(user);
    }

    /// Sets the file that the operation reads or writes.
    pub fn is_on(&mut self, file: Arc<Usage>) {
        self.file = Some(file);
    }

    /// Sets the position of the operation, if a recording runs.
    pub fn is_at(&mut self, position: Position) {
        self.position = self.stats.recorder().is_on().then_some(position);
    }

    /// Ends the operation with success, and the bytes of files that were read or written.
    pub fn went_well(mut self, bytes: u64) {
        self.moved = Some(bytes);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // A symbolic link is read as it is looked up, and has no bytes of a file.
        let moves = matches!(self.op, Op::Read | Op::Write | Op::Copy);
        let bytes = self.moved.filter(|_| moves).unwrap_or(0);
        let took = self.began.elapsed();
        let took_ns = took.as_nanos() as u64;
        self.stats.op(self.op, bytes, took, self.moved.is_none());
        if let Some(user) = self.user {
            self.stats.users().count(user, self.op, bytes, took_ns);
        }
        if let Some(position) = self.position.filter(|_| bytes > 0) {
            let (began, write) = (self.began, self.op == Op::Write);
            self.stats.recorder().add(Recorded { began, took, position, bytes, write });
        }
        match &self.file {
            Some(file) if self.op == Op::Read => file.read(bytes, took_ns),
            Some(file) => file.write(bytes, took_ns),
            None => {}
        }
    }
}
