//! Reach of a target: all nodes or some, and whether this one is among them.
//!
//! For a node that does not reach a target, it is like a failed one: not read and not written. But it is not lost, so
//! it is not rebuilt, unless an operator fails it.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Nodes that reach a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Every node reaches the target.
    All,
    /// Some nodes, including this one.
    Here,
    /// Some nodes, but not this one.
    Elsewhere,
}

/// Reach of a target, and its other properties for this node.
#[derive(Default)]
pub struct Whereabouts {
    reach: AtomicU8,
    near: AtomicBool,
    /// Set if the operator failed it.
    lost: AtomicBool,
}

impl Whereabouts {
    pub fn set_reach(&self, reach: Reach, near: bool) {
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
