//! Which nodes reach a target: all, or some, and whether this one is among them.
//!
//! A target that this node does not reach is to this node as one that is failed: nothing is read from it or put on it. But it is not lost,
//! so nothing is made anew in its place, unless an operator fails it.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Who reaches a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All nodes.
    All,
    /// Some, and this one.
    Here,
    /// Some, and not this one.
    Elsewhere,
}

/// The same, with what is known of the target besides.
#[derive(Default)]
pub struct Whereabouts {
    reach: AtomicU8,
    near: AtomicBool,
    /// The operator failed it.
    lost: AtomicBool,
}

impl Whereabouts {
    pub fn set(&self, reach: Reach, near: bool) {
        self.reach.store(reach as u8, Ordering::Relaxed);
        self.near.store(near, Ordering::Relaxed);
    }

    pub fn set_lost(&self, lost: bool) {
        self.lost.store(lost, Ordering::Relaxed);
    }

    pub fn reach(&self) -> Reach {
        match self.reach.load(Ordering::Relaxed) {
            0 => Reach::All,
            1 => Reach::Here,
            _ => Reach::Elsewhere,
        }
    }

    pub fn is_near(&self) -> bool {
        self.near.load(Ordering::Relaxed)
    }

    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}
