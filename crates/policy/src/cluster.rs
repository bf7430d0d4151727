//! Several nodes share one volume: who is there and leads, and what a node may do to a file that others use, too.
//!
//! ```text
//!   lease files in the namespace --> [ lease ] -- I hold my lease until --> acknowledgements, publications
//!                                        |
//!                                        | nodes that are over
//!                                        v
//!   attributes of a stub ----------> [ share ] -- write, wait, drain, copy, publish, end a dead node's claim
//! ```
//! All that safety needs is in the shared file system. A message between nodes only makes things faster.
//!
//! - [`lease`]: a node's own lease, those of the others, the leader.
//! - [`share`]: writers and changers of one file, over what its stub says.
//! - [`look`]: a look through the volume by all nodes together.
//! - [`past`]: numbers that are over, of which there may be many.
//! - [`locks`]: when a call for a user's lock is asked of the shared file system.
//! - [`idle`]: which node looks at the space of targets that are idle.

#[cfg(test)]
mod explore;
pub mod idle;
pub mod lease;
pub mod locks;
pub mod look;
pub mod past;
pub mod share;

use std::fmt;

/// A node of the cluster, for one life of its daemon: numbers begin with 1, leave none out, and are never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u32);

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// How a node stands with its lease, when it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// It holds it: it may acknowledge and publish.
    Held,
    /// Its time is over, or it is in doubt; it may be renewed yet.
    Lapsed,
    /// This number is over for ever, or given up.
    Lost,
}
