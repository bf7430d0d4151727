//! Hot data on the fast devices: the tier of each location, and moves while the devices are idle.
//!
//! ```text
//!   access --> table (read region, write region: location -> hotness, last access; a sliding window)
//!   end of a pane --> reorganize (the paper's Algorithm 2)  or  tuned (ours: expected gain against cost)  --> moves
//!   idle devices, budget --> machine --> Action::Move, one after the other
//! ```
//! Source: J. Chen, J. Liu, P. C. Roth, Y. Chen, "Using Working Set Reorganization to Manage Storage Systems with Hard
//! and Solid State Disks" (WS-ROS); the reference, section 11.

pub mod cost;
pub mod frequency;
pub mod ghosts;
pub mod hit_rate;
pub mod machine;
pub mod reorganize;
pub mod room;
pub mod split;
pub mod table;
pub mod tuned;
pub mod yielding;

use crate::named;
use std::fmt;

named! {
    /// One of two groups of devices.
    #[derive(PartialOrd, Ord, Hash)]
    Tier {
        /// The few, fast devices: flash.
        Fast = "fast",
        /// The many, slow ones: disks.
        Slow = "slow",
    }
}

impl Tier {
    /// Returns the other tier.
    pub fn other(self) -> Tier {
        match self {
            Tier::Fast => Tier::Slow,
            Tier::Slow => Tier::Fast,
        }
    }
}

/// A unit of movement: a stripe or a segment of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The file, as the driver numbers it.
    pub file: u64,
    /// Number of the piece in the file, from 0.
    pub segment: u64,
}

/// Region of the working set that an access belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Region {
    /// Accesses that read.
    Read,
    /// Accesses that write.
    Write,
}

/// Reason for a move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// Read more than `threshold` times in the window.
    ReadHot {
        /// Reads in the window.
        hotness: u32,
        /// The threshold H that it exceeds.
        threshold: u32,
    },
    /// Written more than `threshold` times in the window: it moves to the tier where writes need no erasing (the
    /// paper's rule).
    WriteHot {
        /// Writes in the window.
        hotness: u32,
        /// The threshold H that it exceeds.
        threshold: u32,
    },
    /// Read less than `threshold` times in the window, and the fast tier is short of space.
    Cold {
        /// Reads in the window.
        hotness: u32,
        /// The threshold L that it falls short of.
        threshold: u32,
    },
    /// The expected saving of time exceeds the cost of the move.
    Gain {
        /// Device time saved by the accesses to come, in nanoseconds.
        saves_ns: u64,
        /// Device time of the move, in nanoseconds.
        costs_ns: u64,
    },
    /// The location was just accessed, so moving it is cheap, and enough further accesses are expected.
    AtHand {
        /// Device time saved by the accesses to come, in nanoseconds.
        saves_ns: u64,
        /// Device time of the move, in nanoseconds.
        costs_ns: u64,
    },
    /// It makes room for a more valuable location.
    Room {
        /// Its remaining value on the fast tier, with the cost of writing it back if needed, in nanoseconds.
        worth_ns: u64,
    },
    /// It uses more of the fast tier than its share.
    OverShare,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: &u64| format!("{:.3} ms", *ns as f64 / 1e6);
        match self {
            Reason::ReadHot { hotness, threshold } => {
                write!(f, "read {hotness} times in the window, more than H = {threshold}")
            }
            Reason::WriteHot { hotness, threshold } => {
                write!(f, "written {hotness} times in the window, more than H = {threshold}")
            }
            Reason::Cold { hotness, threshold } => {
                write!(f, "read {hotness} times in the window, less than L = {threshold}, ")?;
                f.write_str("and the fast tier is short of space")
            }
            Reason::Gain { saves_ns, costs_ns } => {
                write!(f, "saves {} of device time, costs {}", ms(saves_ns), ms(costs_ns))
            }
            Reason::AtHand { saves_ns, costs_ns } => {
                let (saves, costs) = (ms(saves_ns), ms(costs_ns));
                write!(f, "was at hand: is expected to save {saves} of device time, costs {costs}")
            }
            Reason::Room { worth_ns } => {
                write!(f, "makes room on the fast tier, where it was worth {}", ms(worth_ns))
            }
            Reason::OverShare => f.write_str("the fast tier's share for hot data is exceeded"),
        }
    }
}

/// A move of one location to the other tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// The location to move.
    pub location: Location,
    /// The destination tier.
    pub to: Tier,
    /// Reason for the move.
    pub reason: Reason,
}
