//! Events and actions of a membership, and lease files as a listing shows them.

use crate::cluster::Node;
use crate::time::Time;

/// A lease file in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Node that the file belongs to.
    pub node: Node,
    /// Number of renewals so far.
    pub beat: u64,
    /// Duration of that node's lease, from the file.
    pub lease: Time,
    /// Whether the node must not lead, from the file.
    pub drains: bool,
}

/// Events of [`super::Membership`]: answers to its actions, and the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The lease file has its new name.
    Renewed {
        /// The beat in the new name.
        beat: u64,
        /// Time just before the rename request.
        asked: Time,
    },
    /// No file had the old name: expelled, or an earlier rename succeeded and its answer was lost.
    Gone,
    /// The rename could not be tried, or its outcome is unknown.
    RenewFailed,
    /// A listing of the lease files.
    Seen {
        /// Lease files, in any order; a node may be missing or appear twice.
        leases: Vec<Seen>,
        /// Nodes that are over; their files are never renamed again.
        over: Vec<Node>,
    },
    /// The files could not be listed.
    LookFailed,
    /// The node's lease file was renamed to that of a node that is over.
    Expelled {
        /// The node that is over.
        node: Node,
    },
    /// The file had another name already.
    Survived {
        /// A node that renewed its lease, or that another watcher expelled.
        node: Node,
    },
    /// The rename could not be tried, or its outcome is unknown.
    ExpelFailed {
        /// The node that was to be expelled.
        node: Node,
    },
    /// The node ends and gives its lease up, so that other nodes need not wait for it.
    Leave,
    /// A caller waits for another node, or requests the members: for a while this node lists at the rate of the lowest.
    Asked,
    /// Time passed; to be sent at [`crate::machine::Machine::next_deadline`].
    Tick,
}

/// Output of [`super::Membership`], to be carried out by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Rename the own lease file from this beat to the next.
    Renew {
        /// The beat in the present name.
        beat: u64,
    },
    /// List the lease files.
    Look,
    /// Rename exactly this lease file to that of a node that is over.
    Expel {
        /// The node to expel; this node itself when it leaves.
        node: Node,
        /// Beat of the file; `None` for a file never seen, which the number's symlink points to.
        beat: Option<u64>,
        /// Time since the beat last changed.
        silent: Time,
    },
    /// This node leads from now on.
    Lead,
    /// This node does not lead, or no longer.
    Follow {
        /// Node that leads, if known.
        leader: Option<Node>,
    },
    /// This node's number is over; join again under a new one.
    Lost,
    /// A new node appeared in a listing.
    Came {
        /// The new member.
        node: Node,
    },
    /// A member's number is over.
    Left {
        /// Node that was a member.
        node: Node,
    },
}
