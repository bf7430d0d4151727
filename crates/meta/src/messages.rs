//! Messages between the nodes of a volume, as JSON. Each may get lost.
//!
//! A [`Message`] wakes one node or all, through the state store; `nodes::dispatch` receives it. A [`Packet`] is part
//! of a call and takes a connection between the two nodes (`nodes::links`); `calls` repeats what must arrive.

use crate::Result;
use crate::state::State;
use policy::TargetId;
use policy::cluster::Node;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Message between nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// Announces the leader.
    Leads {
        /// Number of the leader.
        node: u32,
        /// Name of the leader's own messages.
        own: String,
    },
    /// Requests a node to lower its hold of a file.
    Recall {
        /// Number of the node.
        node: u32,
        /// Inode number of the stub.
        key: u64,
        /// Number of the hold.
        number: u64,
        /// Whether the node may go on writing beside others.
        writes: bool,
    },
    /// Orders the node of that name to drain, or to cease to.
    Drain {
        /// Name of the node's own messages.
        own: String,
        /// Whether the node drains from now on.
        drains: bool,
    },
    /// Reports that an operator changed these targets.
    Targets(Vec<u16>),
    /// Reports the space of targets: number, total bytes, free bytes.
    Space(Vec<(u16, u64, u64)>),
    /// Reports that an operator changed the limits of quotas.
    Limits,
}

/// Part of a call, see `calls`. A call is named by its caller and the number that the caller gave to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Packet {
    /// Requests a service, which answers.
    Ask {
        /// Number of the call.
        number: u64,
        /// User of the call, as the calling node saw it on its socket.
        uid: u32,
        /// Primary group of the user.
        gid: u32,
        /// Name of the service.
        name: String,
        /// Arguments of the service.
        args: Value,
    },
    /// Requests service without an answer.
    Notice {
        /// Name of the service.
        name: String,
        /// Arguments of the service.
        args: Value,
    },
    /// Requests the end of the service; an answer is no longer needed.
    Stop {
        /// Number of the call.
        number: u64,
    },
    /// Confirms that the call is being served.
    Serves {
        /// Number of the call.
        number: u64,
        /// State of the work, if the service reports any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress: Option<Value>,
    },
    /// Ends the call.
    Answer {
        /// Number of the call.
        number: u64,
        /// The answer as JSON.
        text: String,
    },
}

impl Message {
    /// Returns the report of changed targets.
    pub fn targets(ids: &[TargetId]) -> Message {
        Message::Targets(ids.iter().map(|id| id.0).collect())
    }

    /// Parses a message. A node of another version may send one that is unknown here; it is ignored.
    pub fn parse(text: &str) -> Option<Message> {
        serde_json::from_str(text)
            .inspect_err(|error| tracing::debug!("a message of another node is ignored: {error}"))
            .ok()
    }

    /// Sends the message to the node of that name, or to all nodes. It may get lost.
    pub fn send(&self, state: &dyn State, to: Option<&str>) -> Result<()> {
        let text = serde_json::to_string(self).expect("numbers and texts");
        match to {
            Some(name) => state.tell(name, &text),
            None => state.ring(&text),
        }
    }
}

/// Live node of the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Number of the node.
    pub node: Node,
    /// Name under which the node receives messages, if known.
    pub own: Option<String>,
    /// Name of its host, or `?`.
    pub host: String,
}

/// The nodes of a volume, for senders of messages. The name of a node stays when its number changes.
pub trait Talk: Send + Sync {
    /// Present number of this node.
    fn me(&self) -> Node;
    /// Returns the name under which this node receives messages.
    fn own(&self) -> &str;
    /// Whether this node leads.
    fn leads(&self) -> bool;
    /// Name of the leader, if known.
    fn leader(&self) -> Option<String>;
    /// Whether a node is known to be over.
    fn is_over(&self, node: Node) -> bool;
    /// Returns all live nodes, including this one. May wait some seconds for the list.
    fn members(&self) -> Vec<Member>;
    /// Wakes the node of that name, or all nodes. The message may get lost.
    fn send(&self, to: Option<&str>, message: &Message);
    /// Sends a part of a call to the node of that name. It may get lost.
    fn call(&self, to: &str, packet: Packet);
    /// Reason why no connection to the node of that name can be made; `None` if one was made, or none was tried.
    fn unreachable(&self, _to: &str) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_travels_and_an_unknown_one_is_ignored() {
        let messages = [
            Message::Drain { own: "a \"b\" ü".into(), drains: true },
            Message::Space(vec![(65535, u64::MAX, 0)]),
            Message::Limits,
        ];
        for message in messages {
            let text = serde_json::to_string(&message).expect("numbers and texts");
            assert_eq!(Message::parse(&text), Some(message));
        }
        for text in ["{", "targets 1 2", "leads 3 a", "{\"Newer\":{}}", "{\"Space\":[[65536,1,1]]}"] {
            assert_eq!(Message::parse(text), None);
        }
    }
}
