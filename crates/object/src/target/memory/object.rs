//! One object in memory: current content, durable content, and the changes between the two.

use super::content::{Content, PAGE_BYTES, by_page};
use super::faults::FaultPlan;

/// A change that a crash may lose.
enum Unsynced {
    Write(u64, Box<[u8]>),
    SetLen(u64),
    Punch(u64, u64),
    Allocate(u64, u64),
}

/// An object with its page cache.
#[derive(Default)]
pub struct Object {
    now: Content,
    durable: Content,
    unsynced: Vec<Unsynced>,
    /// Set when it is removed but still open: its pages no longer count.
    pub unlinked: bool,
}

impl Object {
    /// Current content, as readers see it.
    pub fn now(&self) -> &Content {
        &self.now
    }

    /// Content that survives a crash.
    pub fn durable(&self) -> &Content {
        &self.durable
    }

    /// Number of pages.
    pub fn pages(&self) -> u64 {
        self.now.pages()
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.now.write(offset, data);
        self.unsynced.push(Unsynced::Write(offset, data.into()));
    }

    pub fn set_len(&mut self, len: u64) {
        if len != self.now.len() {
            self.now.set_len(len);
            self.unsynced.push(Unsynced::SetLen(len));
        }
    }

    pub fn punch(&mut self, offset: u64, len: u64) {
        self.now.punch(offset, len);
        self.unsynced.push(Unsynced::Punch(offset, len));
    }

    pub fn allocate(&mut self, offset: u64, len: u64) {
        self.now.allocate(offset, len);
        self.unsynced.push(Unsynced::Allocate(offset, len));
    }

    /// Makes everything durable.
    pub fn sync(&mut self) {
        if !self.unsynced.is_empty() {
            self.durable = self.now.clone();
            self.unsynced.clear();
        }
    }

    /// Returns to the durable bytes; the length stays, as it does in a kernel.
    pub fn lose(&mut self) {
        let len = self.now.len();
        self.now = self.durable.clone();
        self.unsynced.clear();
        self.set_len(len);
    }

    /// Returns the object after a crash: the durable bytes and a random part of the unsynced changes. Each page of a
    /// write is kept or lost by itself; kept changes keep their order.
    pub fn after_crash(&self, plan: &mut FaultPlan) -> Object {
        let mut left = self.durable.clone();
        for change in &self.unsynced {
            match change {
                Unsynced::Write(offset, data) => {
                    for (page, inside, piece) in by_page(*offset, data.len() as u64) {
                        if plan.coin() {
                            let at = page * PAGE_BYTES + inside as u64;
                            let from = (at - offset) as usize;
                            left.write(at, &data[from..from + piece]);
                        }
                    }
                }
                Unsynced::SetLen(len) if plan.coin() => left.set_len(*len),
                Unsynced::Punch(offset, len) if plan.coin() => left.punch(*offset, *len),
                Unsynced::Allocate(offset, len) if plan.coin() => left.allocate(*offset, *len),
                Unsynced::SetLen(_) | Unsynced::Punch(..) | Unsynced::Allocate(..) => {}
            }
        }
        Object { now: left.clone(), durable: left, unsynced: Vec::new(), unlinked: false }
    }
}
