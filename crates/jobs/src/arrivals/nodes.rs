//! Promises of all nodes of the volume: a shared table, read and replaced in the state store.
//! `policy::schedule::just_in_time::nodes` interprets it.

use super::queue_view::span;
use meta::state::{PROMISED as KIND, State};
use parking_lot::Mutex;
use policy::Time;
use policy::cluster::Node;
use policy::schedule::just_in_time::nodes::{Config, Entry, Reader, Seen, Table};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Key of the single record.
const KEY: &str = "nodes";

/// The nodes of the volume, as the promises need them.
pub trait Peers: Send + Sync {
    /// Key of this node in the table.
    fn own(&self) -> String;
    /// Number of this node, while it has its lease.
    fn number(&self) -> Option<Node>;
    /// Whether a node is known to be over.
    fn is_over(&self, node: Node) -> bool;
}

/// The stored table: for each node its number and its promised bytes.
#[derive(Default, Serialize, Deserialize)]
struct Written {
    life: String,
    turn: u64,
    nodes: BTreeMap<String, (u32, u64)>,
}

impl Written {
    fn of(table: &Table) -> Written {
        let nodes = table.nodes.iter().map(|(name, entry)| (name.clone(), (entry.node.0, entry.bytes)));
        Written { life: table.life.clone(), turn: table.turn, nodes: nodes.collect() }
    }

    fn table(self) -> Table {
        let entry = |(name, (node, bytes))| (name, Entry { node: Node(node), bytes });
        Table { life: self.life, turn: self.turn, nodes: self.nodes.into_iter().map(entry).collect() }
    }
}

/// One reading of the table.
pub struct TableView {
    seen: Seen,
    node: Node,
    life: String,
    /// Bytes of the record as read, for the compare-and-replace.
    read: Option<Vec<u8>>,
}

impl TableView {
    /// Bytes promised by other nodes, or the reason why nothing may be promised now.
    pub fn elsewhere(&self) -> Result<u64, String> {
        match self.seen.settles_in {
            Time::ZERO => Ok(self.seen.elsewhere),
            left => Err(format!(
                "space is promised again in {}: the server of the state was restarted, and all nodes first report \
                 their promises",
                span(left + Time::from_millis(999))
            )),
        }
    }
}

/// This node's access to the table.
pub struct Nodes {
    state: Arc<dyn State>,
    peers: Arc<dyn Peers>,
    own: String,
    reader: Mutex<Reader>,
    began: Instant,
}

impl Nodes {
    pub fn new(state: Arc<dyn State>, peers: Arc<dyn Peers>) -> Nodes {
        let own = peers.own();
        let reader = Mutex::new(Reader::new(Config::default(), &own));
        Nodes { state, peers, own, reader, began: Instant::now() }
    }

    /// Maximum interval between two readings.
    pub fn look_every() -> Duration {
        Duration::from_nanos(Config::default().look_every.0)
    }

    /// Reads the table. Call it before the free space is measured.
    pub fn look(&self) -> Result<TableView, String> {
        let node = self.peers.number().ok_or("this node has no lease now, so nothing is promised here")?;
        let life = self.life().map_err(away)?;
        let read = self.state.record_get(KIND, KEY).map_err(away)?;
        let written = read.as_deref().map(serde_json::from_slice::<Written>).transpose();
        // A table that cannot be parsed counts as empty, and every node writes its own promises into it.
        let not_read =
            |error: &serde_json::Error| tracing::error!("{KIND} cannot be read and is written again: {error}");
        let table = written.inspect_err(not_read).ok().flatten().unwrap_or_default().table();
        let now = Time(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let seen = self.reader.lock().read(now, table, &life, |node| self.peers.is_over(node));
        Ok(TableView { seen, node, life, read })
    }

    /// Publishes this node's promises; `granted`: some of them are new. Returns false if another node replaced the
    /// table since this reading. Then, or after an error, decisions based on the reading are dropped.
    pub fn put(&self, look: TableView, bytes: u64, granted: bool) -> Result<bool, String> {
        let entry = Entry { node: look.node, bytes };
        let Some(table) = look.seen.with(&self.own, entry, granted) else { return Ok(true) };
        let value = serde_json::to_vec(&Written::of(&table)).expect("numbers and texts");
        let done = self.state.record_swap(KIND, KEY, look.read.as_deref(), &value).map_err(away)?;
        Ok(done && self.life().map_err(away)? == look.life)
    }

    fn life(&self) -> object::Result<String> {
        self.state.life().map(Option::unwrap_or_default)
    }
}

fn away(error: object::Error) -> String {
    format!("no space can be promised now, since the state is away: {error}")
}
