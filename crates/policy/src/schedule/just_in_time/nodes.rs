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
    /// Longest absence of a node or of its connection after which it still finds its promises.
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
    /// Number of the node when it wrote the entry.
    pub node: Node,
    /// Bytes promised and not there yet.
    pub bytes: u64,
}

/// Promises of all nodes, by the name that a node keeps for life. A node without promises has no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Life of the server in which the table was last known to be complete.
    pub life: String,
    /// Number that differs after each change.
    pub turn: u64,
    /// Entries by name of the node.
    pub nodes: BTreeMap<String, Entry>,
}

/// View of the table from one of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Bytes promised by other nodes.
    pub elsewhere: u64,
    /// Time for which the table may be incomplete, so that nothing may be promised.
    pub settles_in: Time,
    read: Table,
    next: Table,
}

impl Seen {
    /// Table with this node's new entry, to replace the one read; `None` if nothing changes. After a promise was
    /// `granted` it is always written: only the replacement proves that no other node changed the table.
    pub fn with(self, own: &str, entry: Entry, granted: bool) -> Option<Table> {
        let Seen { read, mut next, .. } = self;
        match entry.bytes {
            0 => drop(next.nodes.remove(own)),
            _ => drop(next.nodes.insert(own.to_owned(), entry)),
        }
        (granted || next != read).then(|| Table { turn: read.turn + 1, ..next })
    }
}

/// One node's reader of the table. Its time never goes back.
#[derive(Clone, Debug)]
pub struct Reader {
    config: Config,
    own: String,
    /// Life of the server, and the time at which it was first seen.
    life: Option<(String, Time)>,
    /// Time at which nodes in the table were first known to be over.
    over: BTreeMap<Node, Time>,
}

impl Reader {
    /// Reader for the node of that name.
    pub fn new(config: Config, own: &str) -> Reader {
        Reader { config, own: own.to_owned(), life: None, over: BTreeMap::new() }
    }

    /// Reads a table from a server in that life.
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
