//! Promises of all nodes of a volume, in one table that all of them read and change: no byte is promised by two.
//!
//! ```text
//!   own promises taken --> table read --> free space measured --> decided --> table put in the place of the one read
//!           ^                                                                          |
//!           '----------------------- another node was quicker: all of it again --------'
//! ```
//! The order makes it safe. A node withdraws its promise after the data are there. A node that still reads the
//! promise, and measures after that, counts the data as coming, as there or as both, never as neither. A table that
//! changed since it was read is not replaced ([`Table::turn`] differs). So of two nodes that decide at the same moment
//! one decides again, with the promises of the other, and one of them always succeeds. A decision counts if the server
//! is in the same life after all that. A server that restarted in between may have restored the table that was read.
//!
//! The table has one number for each node. A node writes its own again whenever it is not what it has promised, and looks
//! every few seconds. So the two ways in which the table can be wrong end by themselves, within [`Config::away_max`]:
//!
//! - **A node that is over** makes no more promises. Its old ones count for [`Config::away_max`] more: a restarted
//!   daemon resumes its transfers and finds their space.
//! - **The server of the state restarted** and may have lost its last writes. The table names the life of the server
//!   in which it was last known to be whole. In another life nothing is promised for [`Config::away_max`], in which
//!   every node writes its promises again.
//!
//! Not covered: a node that is over, or cannot reach a restarted server, for longer than that, and then returns with
//! data on their way. They count again from then on.

use crate::cluster::Node;
use crate::time::Time;
use std::collections::BTreeMap;

/// Spans of [`Reader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Longest interval between a node's looks at the table.
    pub look_every: Time,
    /// A node that was over or did not reach the server for no longer than this finds what it had promised.
    pub away_max: Time,
}

impl Default for Config {
    /// Guesses: a few small requests every five seconds are no load for the server, even from a thousand nodes. A
    /// daemon restarts within seconds, on a busy host within half a minute.
    fn default() -> Config {
        Config { look_every: Time::from_secs(5), away_max: Time::from_secs(30) }
    }
}

/// Promises of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number when it wrote that.
    pub node: Node,
    /// Bytes promised and not there yet.
    pub bytes: u64,
}

/// Promises of all nodes, by the name that a node keeps for life. A node without promises has no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The life of the server in which this was last known to be whole.
    pub life: String,
    /// Another for each change.
    pub turn: u64,
    /// Entries by name of the node.
    pub nodes: BTreeMap<String, Entry>,
}

/// View of the table from one of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Bytes promised by other nodes.
    pub elsewhere: u64,
    /// Time for which the table may be incomplete: until then nothing is to be promised.
    pub settles_in: Time,
    read: Table,
    next: Table,
}

impl Seen {
    /// Table to replace the one read, with this node's new entry; none if nothing changes. After something was
    /// `granted` it is written even so: only the replacement proves that no other node changed the table.
    pub fn with(self, own: &str, entry: Entry, granted: bool) -> Option<Table> {
        let Seen { read, mut next, .. } = self;
        match entry.bytes {
            0 => drop(next.nodes.remove(own)),
            _ => drop(next.nodes.insert(own.to_owned(), entry)),
        }
        (granted || next != read).then(|| Table { turn: read.turn + 1, ..next })
    }
}

/// How one node reads the table. Its time only ever grows.
#[derive(Clone, Debug)]
pub struct Reader {
    config: Config,
    own: String,
    /// The life of the server, and since when it is known.
    life: Option<(String, Time)>,
    /// Since when nodes in the table are known to be over.
    over: BTreeMap<Node, Time>,
}

impl Reader {
    /// For the node of that name.
    pub fn new(config: Config, own: &str) -> Reader {
        Reader { config, own: own.to_owned(), life: None, over: BTreeMap::new() }
    }

    /// Reads a table, of a server that is in that life.
    pub fn read(&mut self, now: Time, read: Table, life: &str, is_over: impl Fn(Node) -> bool) -> Seen {
        let (mut next, mut over) = (read.clone(), BTreeMap::new());
        next.nodes.retain(|name, entry| {
            if *name == self.own || !is_over(entry.node) {
                return true;
            }
            let since = self.over.get(&entry.node).copied().unwrap_or(now);
            over.insert(entry.node, since);
            now.since(since) < self.config.away_max
        });
        self.over = over;
        let elsewhere = next.nodes.iter().filter(|(name, _)| **name != self.own);
        let elsewhere = elsewhere.fold(0, |sum: u64, (_, entry)| sum.saturating_add(entry.bytes));
        Seen { elsewhere, settles_in: self.settles_in(now, &mut next, life), read, next }
    }

    /// Time for which the table may still be incomplete. Once it is complete, the table records the new life for all.
    fn settles_in(&mut self, now: Time, table: &mut Table, life: &str) -> Time {
        let since = match &self.life {
            Some((known, since)) if known == life => *since,
            _ => {
                self.life = Some((life.to_owned(), now));
                now
            }
        };
        if table.life == life {
            return Time::ZERO;
        }
        let left = self.config.away_max.since(now.since(since));
        if left == Time::ZERO {
            life.clone_into(&mut table.life);
        }
        left
    }
}

#[cfg(test)]
mod tests;
