//! An operation of an application, counted when it is answered: how long it took, on whichever thread, and how it ended.

use crate::file::Usage;
use crate::stats::{Op, Stats};
use std::sync::Arc;
use std::time::Instant;

/// An operation that has begun. One that is dropped has failed.
pub struct Counted {
    stats: Arc<Stats>,
    op: Op,
    /// Whose it is, where that is known.
    user: Option<u32>,
    /// What is asked of the file, where it is one that is open.
    file: Option<Arc<Usage>>,
    began: Instant,
    moved: Option<u64>,
}

impl Counted {
    /// It begins, for a user if one is known.
    pub fn new(stats: Arc<Stats>, op: Op, user: Option<u32>) -> Counted {
        Counted { stats, op, user, file: None, began: Instant::now(), moved: None }
    }

    /// It is this user's, if none was known.
    pub fn is_of(&mut self, user: u32) {
        self.user.get_or_insert(user);
    }

    /// It reads or writes that file.
    pub fn is_on(&mut self, file: Arc<Usage>) {
        self.file = Some(file);
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
        let took = self.began.elapsed();
        let took_ns = took.as_nanos() as u64;
        self.stats.op(self.op, bytes, took, self.moved.is_none());
        if let Some(user) = self.user {
            self.stats.users().count(user, self.op, bytes, took_ns);
        }
        match &self.file {
            Some(file) if self.op == Op::Read => file.read(bytes, took_ns),
            Some(file) => file.write(bytes, took_ns),
            None => {}
        }
    }
}
