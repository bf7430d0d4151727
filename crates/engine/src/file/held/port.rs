//! Access of the driver of holds to the state store and to the other nodes.

use crate::Result;
use policy::Time;
use policy::cluster::Node;
use policy::holders::table::{Answer, Caller, Mode, Request, Run};
use std::collections::BTreeSet;

/// Access to the store and to other nodes.
pub trait Port: Send + Sync {
    /// Clock that runs on while the machine sleeps.
    fn now(&self) -> Time;
    /// Sends a request to the table of holders.
    fn ask(&self, caller: Caller, request: &Request) -> Result<Answer>;
    /// Connects to the store, and returns its run.
    fn connect(&self) -> Result<Run>;
    /// Lists the nodes that are not over. The list begins after the call.
    fn members(&self) -> Result<BTreeSet<Node>>;
    /// Whether a listing so far has shown that a node is over. Lists nothing: with many nodes, few of them list often.
    fn was_over(&self, node: Node) -> bool;
    /// Whether the shared file system shows all names. One of its servers may be away; then it hides names without an
    /// error.
    fn shows_all_names(&self) -> Result<bool>;
    /// Requests another node to lower a hold. The message may get lost.
    fn recall(&self, node: Node, key: u64, number: u64, mode: Mode);
}
