//! Receives all messages of other nodes, and sends those of this one.

use super::links::{Contact, Peers};
use super::{Info, Nodes};
use crate::Result;
use engine::file::Cluster;
use engine::volume::{Followed, Volume};
use meta::messages::{Member, Message, Packet, Talk};
use meta::state::Told;
use object::workers::Pool;
use parking_lot::{Mutex, RwLock};
use policy::TargetId;
use policy::cluster::Node;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Pause after a failure to listen.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// Reader of messages; it must not block for long.
type Reader = Box<dyn Fn(&Message) + Send + Sync>;

/// Readers of messages that concern more than the nodes.
#[derive(Default)]
pub(super) struct Readers(RwLock<Vec<Reader>>);

impl Nodes {
    /// Registers a reader of messages, which ignores those of other purposes.
    pub(crate) fn read(&self, reader: impl Fn(&Message) + Send + Sync + 'static) {
        self.readers.0.write().push(Box::new(reader));
    }

    /// Starts to receive messages of other nodes.
    pub fn listen(self: &Arc<Nodes>) {
        let nodes = self.clone();
        self.workers.start("bell", move || {
            while !nodes.ends.load(Ordering::Acquire) {
                let mut hear = |told: Told<'_>| nodes.receive(told);
                let goes_on = || {
                    nodes.catch_up_with_orders();
                    if Talk::leads(&*nodes) {
                        nodes.say_so();
                    }
                    !nodes.ends.load(Ordering::Acquire)
                };
                if let Err(error) = nodes.state.listen(&goes_on, &mut hear) {
                    tracing::debug!("requests of other nodes are not received for now: {error}");
                    std::thread::sleep(LISTEN_AGAIN);
                }
            }
        });
    }

    fn receive(&self, told: Told<'_>) {
        let text = match told {
            Told::Message(text) => text,
            Told::Listening => {
                self.say_here(self.me_now());
                return self.follow_orders(Volume::follow_missed_orders);
            }
        };
        match Message::parse(text) {
            None => {}
            Some(Message::Leads { node, own }) => self.follow(Node(node), &own),
            Some(Message::Recall { node, key, number, writes }) => self.recalled(Node(node), key, number, writes),
            Some(Message::Drain { own, drains }) if own == self.info.own => self.set_drains(drains),
            Some(Message::Drain { .. }) => {}
            Some(Message::Targets(ids)) => {
                let ids: Vec<TargetId> = ids.into_iter().map(TargetId).collect();
                self.follow_orders(|volume| volume.follow_orders(&ids));
            }
            Some(Message::Space(seen)) => {
                self.volume.upgrade().iter().for_each(|volume| super::space::apply(volume.targets(), &seen));
            }
            Some(message) => self.readers.0.read().iter().for_each(|reader| reader(&message)),
        }
    }

    /// Sends orders that were given here while the state store was away, and reads those that could not be read when
    /// they were announced. A store that hung breaks no connection, so no error reports later that something was
    /// missed.
    fn catch_up_with_orders(&self) {
        let volume = self.volume.upgrade();
        let volume =
            volume.filter(|volume| volume.orders_kept() > 0 || self.missed_orders.swap(false, Ordering::AcqRel));
        match volume.map(|volume| volume.follow_missed_orders()) {
            Some(Ok(Followed::Waiting)) => self.missed_orders.store(true, Ordering::Release),
            Some(Err(error)) => {
                self.missed_orders.store(true, Ordering::Release);
                tracing::debug!("orders are not exchanged with the state store for now: {error}");
            }
            _ => {}
        }
    }

    fn follow_orders(&self, follow: impl FnOnce(&Volume) -> Result<Followed>) {
        let followed = self.volume.upgrade().map_or(Ok(Followed::All), |volume| follow(&volume));
        if !matches!(followed, Ok(Followed::All | Followed::Partly)) {
            self.missed_orders.store(true, Ordering::Release);
        }
        if let Err(error) = followed {
            tracing::warn!("orders given on other nodes are not received for now: {error}");
        }
    }
}

/// Interval of scans for clients with unknown keys. Any process that reaches the port can be such a client, and a scan
/// loads the shared file system for some seconds.
const STRANGERS_EVERY: Duration = Duration::from_secs(120);

/// The nodes that this one knows by their leases, for its links.
struct Known<R> {
    nodes: Weak<Nodes>,
    receive: R,
    /// Time of the last scan for a client with an unknown key.
    stranger_at: Mutex<Option<Instant>>,
}

impl<R> Known<R> {
    /// The node of which this holds. If its lease was not read yet, a scan begins where `may_scan` allows it.
    fn find(&self, holds: impl Fn(&Info) -> bool, may_scan: impl FnOnce() -> bool) -> Option<Info> {
        let nodes = self.nodes.upgrade()?;
        let found = nodes.leases.find(holds);
        if found.is_none() && may_scan() {
            nodes.asks.store(true, Ordering::Release);
        }
        found
    }

    fn may_scan_for_stranger(&self) -> bool {
        let mut at = self.stranger_at.lock();
        let is_due = at.is_none_or(|at| at.elapsed() >= STRANGERS_EVERY);
        if is_due {
            *at = Some(Instant::now());
        }
        is_due
    }
}

impl<R: Fn(&str, Packet) + Send + Sync> Peers for Known<R> {
    fn contact(&self, name: &str) -> Option<Contact> {
        self.find(|info| info.own == name, || true).map(|info| info.contact)
    }

    fn name_of(&self, key: &str) -> Option<String> {
        self.find(|info| info.contact.key == key, || self.may_scan_for_stranger()).map(|info| info.own)
    }

    fn receive(&self, from: &str, packet: Packet) {
        (self.receive)(from, packet);
    }
}

impl Nodes {
    /// Connects to other nodes from now on, on one of `threads`. Their packets go to `receive`, which must not block.
    pub(crate) fn connect(
        self: &Arc<Nodes>,
        threads: &Pool,
        receive: impl Fn(&str, Packet) + Send + Sync + 'static,
    ) -> Result<()> {
        let Some(socket) = self.socket.lock().take() else { return Ok(()) };
        let known = Known { nodes: Arc::downgrade(self), receive, stranger_at: Mutex::default() };
        self.links.start(socket, Arc::new(known), threads)
    }
}

impl Talk for Nodes {
    fn me(&self) -> Node {
        self.me_now()
    }

    fn own(&self) -> &str {
        &self.info.own
    }

    fn leads(&self) -> bool {
        Cluster::leads(self)
    }

    fn leader(&self) -> Option<String> {
        self.name_of_leader()
    }

    fn is_over(&self, node: Node) -> bool {
        Cluster::is_over(self, node)
    }

    fn members(&self) -> Vec<Member> {
        let member = |node| {
            let (own, host) = self.leases.info(node).map(|info| (info.own, info.host)).unzip();
            Member { node, own, host: host.unwrap_or_else(|| "?".into()) }
        };
        let members = self.known().members();
        members.into_iter().map(member).collect()
    }

    fn send(&self, to: Option<&str>, message: &Message) {
        if let Err(error) = message.send(&*self.state, to) {
            tracing::debug!("other nodes do not get a message: {error}");
        }
    }

    fn call(&self, to: &str, packet: Packet) {
        self.links.send(to, &packet);
    }

    fn unreachable(&self, to: &str) -> Option<String> {
        self.links.unreachable(to)
    }
}
