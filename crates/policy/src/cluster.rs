//! Cluster membership of a shared volume, and the rules for files that several nodes use.
//!
//! ```text
//!   lease files in the namespace --> [ lease ] -- I hold my lease until --> acknowledgements, publications
//!                                        |
//!                                        | nodes that are over
//!                                        v
//!                        an operation, a publication -- [ share ] -- acknowledged, repeated, unknown
//! ```
//! All that membership needs is in the shared file system. Holders of files are in [`crate::holders`].
//!
//! - [`lease`]: a node's own lease, the leases of the others, the leader.
//! - [`share`]: results of operations and publications, by the lease afterwards.
//! - [`look`]: a scan of the volume by all nodes together.
//! - [`past`]: the set of node numbers that are over; there may be many.
//! - [`locks`]: schedule of the tries for users' locks at the shared file system.
//! - [`names`]: names that other nodes replace, and the stay of objects of removed files.
//! - [`idle`]: choice of the node that measures the space of an idle target.

pub mod idle;
pub mod lease;
pub mod locks;
pub mod look;
pub mod names;
pub mod past;
#[cfg(test)]
pub(crate) mod random;
pub mod share;

use std::fmt;

/// One life of a daemon. Numbers begin with 1, without gaps, and are never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u32);

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// State of a node's own lease at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// The lease is valid: the node may acknowledge and publish.
    Held,
    /// The lease expired or is in doubt; a renewal may still succeed.
    Lapsed,
    /// The number is over for ever, or was given up.
    Lost,
}
