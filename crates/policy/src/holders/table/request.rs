//! Requests to the table, one script each, and its answers.

use super::{Hold, Mode};
use crate::cluster::Node;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Request of a node. `key` is the inode number of a stub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// The running store is the one that the caller names; holds of other runs end.
    Begin,
    /// Registers a hold and a claim (number, generation) that the node has. Repeated for each file before `Register`.
    Reclaim {
        /// Inode number of the stub.
        key: u64,
        /// Hold of the node; `None`: it has none.
        hold: Option<Hold>,
        /// Claim of the node.
        claim: Option<(u64, u64)>,
    },
    /// All holds and claims of the node are registered: its session begins, unless the request arrives late.
    Register {
        /// Last time on the store's clock at which the session may begin.
        not_after: Time,
    },
    /// Renews the session, unless the request arrives late.
    Renew {
        /// Last time on the store's clock at which the renewal may happen.
        not_after: Time,
    },
    /// Opens the run.
    Open {
        /// Nodes that were not over in a listing that began after the node had seen this run.
        members: BTreeSet<Node>,
    },
    /// The lease of a node is over for ever.
    Over {
        /// Number of the node.
        node: Node,
    },
    /// A check of the volume has settled all files.
    Trust,
    /// Admits the node as a holder.
    Admit {
        /// Inode number of the stub.
        key: u64,
        /// Number of the new hold.
        number: u64,
        /// Whether the node writes.
        writes: bool,
    },
    /// Lowers a hold to a mode; `None` releases it. The size of the stub is settled.
    Lower {
        /// Inode number of the stub.
        key: u64,
        /// Number of the hold.
        number: u64,
        /// Mode that remains.
        mode: Option<Mode>,
        /// Generation that the node used, if it found the newest.
        generation: Option<u64>,
    },
    /// Claims a generation, or looks for remaining holders. Generation 0 takes an exclusive hold.
    Claim {
        /// Inode number of the stub.
        key: u64,
        /// Number of the claim.
        number: u64,
        /// Generation to be published.
        generation: u64,
    },
    /// The generation of the claim exists, made by this node or by another.
    Finish {
        /// Inode number of the stub.
        key: u64,
        /// Number of the claim.
        number: u64,
        /// The newest generation.
        generation: u64,
        /// Whether the stub has its right size, and no node publishes the generation later.
        settled: bool,
        /// Whether the node holds the file from now on, under the number of the claim.
        keeps: bool,
    },
    /// Looks for other nodes that hold the file: `Done` if none does. A recall to `Exclusive` ends only unused holds.
    OtherHolders {
        /// Inode number of the stub.
        key: u64,
    },
    /// Removes what nodes that are over have left in a part of the table.
    Sweep {
        /// Number of the part, below [`super::PARTS`].
        part: u64,
    },
}

impl Answer {
    /// The member that the caller waits for.
    pub fn waits_for(&self) -> Option<Node> {
        match self {
            Answer::Lapsed(node) | Answer::Claimed(node) => Some(*node),
            Answer::Session { lapsed, .. } => *lapsed,
            _ => None,
        }
    }
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// The request was carried out, now or before.
    Done,
    /// The caller takes another store for the running one: it begins and registers again.
    OtherRun,
    /// The caller has no session, or not this hold: it registers again.
    Unregistered,
    /// Members have not registered in this run yet: nothing new is admitted.
    Closed,
    /// The session of the caller, or the state of the run.
    Session {
        /// Time on the store's clock.
        at: Time,
        /// Whether the run is opened.
        opened: bool,
        /// A member without a session.
        lapsed: Option<Node>,
        /// Whether files without an entry count as unsettled.
        suspect: bool,
    },
    /// This member has no session, so the request has to wait for it.
    Lapsed(Node),
    /// This node has a claim.
    Claimed(Node),
    /// The caller has to settle the file under a claim before.
    Unsettled,
    /// These holds, by number, have to be lowered to `mode` before.
    Recall {
        /// Holders and the numbers of their holds.
        nodes: BTreeMap<Node, u64>,
        /// Mode that does not conflict.
        mode: Mode,
    },
    /// The node holds the file.
    Granted {
        /// Rights of the node.
        mode: Mode,
        /// Generation that was published last; 0 if unknown.
        generation: u64,
        /// Whether it is known, and its layout is the newest.
        newest: bool,
        /// Whether no node has held the file for the duration of a session, for certain.
        unheld: bool,
    },
    /// The claim excludes all others.
    Drained {
        /// Whether the size must be settled from the objects.
        unsettled: bool,
    },
}
