//! What the nodes of a volume have promised, in one table that all of them read and change: no byte is promised by two.
//!
//! ```text
//!   own promises taken --> table read --> free space measured --> decided --> table put in the place of the one read
//!           ^                                                                          |
//!           '----------------------- another node was quicker: all of it again --------'
//! ```
//! The order is what holds it together. A node takes its promise back after the data are there, so whoever still reads it
//! in the table and measures after that counts the data as coming, or as there, or as both, but never as neither. A table
//! that changed since it was read is not replaced ([`Table::turn`] tells), so of two nodes that decide in the same moment
//! one decides again, with what the other promised. One of them always gets through. What was decided counts if the
//! server is in the same life after all that: one that forgot in between may have put the table back that was read.
//!
//! The table has one number for each node. A node writes its own again whenever it is not what it has promised, and looks
//! every few seconds. So the two ways in which the table can be wrong end by themselves, within [`Config::away_max`]:
//!
//! - **A node that is over** promises nothing any more. What it had promised counts for so long yet: a daemon that is
//!   started anew takes up what comes already, and finds its space.
//! - **The server of the state was started anew** and may have forgotten the last that it was told. The table names the
//!   life of the server in which it was last known to be whole. In another life nothing is promised for so long, in which
//!   every node writes what it has promised.
//!
//! What this does not hold: a node that is over, or that cannot reach a server that forgot, for longer than that, and then
//! comes back with data on their way. They count again from then on.

use crate::cluster::Node;
use crate::time::Time;
use std::collections::BTreeMap;

/// Spans of [`Reader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Every node looks at the table at least so often.
    pub look_every: Time,
    /// A node that was over or did not reach the server for no longer than this finds what it had promised.
    pub away_max: Time,
}

impl Default for Config {
    /// Guesses: a few small questions every five seconds are nothing for the server, even from a thousand nodes. A daemon is
    /// started anew within seconds, on a busy host within half a minute.
    fn default() -> Config {
        Config { look_every: Time::from_secs(5), away_max: Time::from_secs(30) }
    }
}

/// What one node has promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number when it wrote that.
    pub node: Node,
    /// Bytes promised and not there yet.
    pub bytes: u64,
}

/// What all have promised, by the name that a node keeps for life. Who promised nothing has no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The life of the server in which this was last known to be whole.
    pub life: String,
    /// Another for each change.
    pub turn: u64,
    /// By name.
    pub nodes: BTreeMap<String, Entry>,
}

/// What a table says to one of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What other nodes have promised.
    pub elsewhere: u64,
    /// The table may lack something, for so long yet: nothing is to be promised.
    pub settles_in: Time,
    read: Table,
    next: Table,
}

impl Seen {
    /// The table to put in the place of the one read, once this node has promised so much. None where that says nothing
    /// new; after something was `granted` it is put back all the same, for only that shows that no other did so meanwhile.
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

    /// How long the table may lack something yet. When it does no more it says so to all.
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
