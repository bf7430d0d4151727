//! The nodes that share a volume: driver of `policy::cluster::lease`, and queries of files about other nodes.
//!
//! ```text
//!   NAMESPACE/nodes   <── renew, look, expel ──  keeper  ── policy::cluster::lease
//!                                                  │ held until, who is over, who leads
//!   an operation, before it is acknowledged ──> Nodes
//!   a file that another node holds  ── recall ──> the store of the state ──> that node: `holds`
//!   a call to another node  ── links ──> that node
//! ```
//! The lease is a file of the shared file system. The state store has the table of holders, and lets one node wake
//! another. Calls take connections between the nodes.

mod dead;
mod dispatch;
mod draining;
mod here;
mod holds;
mod keeper;
mod keys;
mod leases;
mod links;
mod locks;
mod past;
mod space;
mod still;

pub use draining::Draining;
pub use leases::Info;
pub use still::Still;

use crate::{Error, Result};
use engine::events::{Event, Events, Kind};
use engine::file::Cluster;
use engine::volume::Volume;
use keeper::Keeper;
use keys::Keys;
use leases::Leases;
use links::{Links, Socket};
use meta::messages::Message;
use meta::state::State;
use object::workers::Workers;
use parking_lot::{Condvar, Mutex, MutexGuard};
use policy::Time;
use policy::cluster::lease::Membership;
use policy::cluster::{Node, Standing};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Timeout for a caller that needs this node's lease.
const LEASE_WAIT: Duration = Duration::from_secs(20);
/// Age limit of the membership before a scan is awaited, and timeout of that wait. Also the interval of scans while it
/// is being queried.
const KNOWN_FOR: Duration = Duration::from_secs(3);

/// Kind of records of nodes: current only, and in no backup.
const RECORDS: &str = "state";

/// Clock of leases: it goes on while the machine sleeps.
fn now() -> Time {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Time(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// This node among those of its volume.
pub struct Nodes {
    node: AtomicU32,
    epoch: AtomicU32,
    held_until: AtomicU64,
    leads: AtomicBool,
    ends: AtomicBool,
    /// A caller waits for another node, or queries the membership.
    asks: AtomicBool,
    /// The lease of this number ended, and there is no other yet.
    lost: AtomicBool,
    /// Number to give up while the daemon goes on; 0: none.
    gives_up: AtomicU32,
    /// Number that was given up last.
    gave_up: AtomicU32,
    /// Whether this node was ordered to drain.
    is_to_drain: AtomicBool,
    membership: Mutex<Membership>,
    changed: Condvar,
    leases: Leases,
    volume: Weak<Volume>,
    state: Arc<dyn State>,
    info: Info,
    /// The node that leads, and its name, as last looked up.
    leader: Mutex<Option<(Node, String)>>,
    /// Node number under which leadership was announced; 0: never.
    said: AtomicU32,
    events: Arc<Events>,
    /// Orders of operators were announced while the state store could not be read.
    missed_orders: AtomicBool,
    readers: dispatch::Readers,
    reach: locks::Reach,
    holding: holds::Holding,
    links: Arc<Links>,
    /// The links' socket, until they start.
    socket: Mutex<Option<Socket>>,
    workers: Workers,
}

/// A node, for display.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Number of the node in this session.
    pub node: Node,
    /// Contents of its lease file, if readable.
    pub info: Option<Info>,
    /// Set for this node.
    pub is_self: bool,
    /// Set for the leader.
    pub leads: bool,
    /// State of its drain, if it is to be shut down.
    pub draining: Option<Draining>,
}

impl Nodes {
    /// Joins the nodes of a volume.
    pub fn join(volume: &Arc<Volume>, mount_point: &std::path::Path, events: Arc<Events>) -> Result<Arc<Nodes>> {
        let leases = Leases::open(&volume.config().namespace)?;
        let keys = Keys::new()?;
        let (socket, contact) = links::listen(&keys, volume.config().nodes_listen)?;
        let info = Info::of_this(mount_point, volume.node_name()?, volume.epoch(), contact);
        let asked = now();
        let (node, config) = leases.claim(&info)?;
        let membership = Membership::new(config, now(), node, asked);
        let nodes = Arc::new(Nodes {
            node: AtomicU32::new(node.0),
            epoch: AtomicU32::new(info.epoch),
            held_until: AtomicU64::new(membership.held_until().0),
            leads: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            asks: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            gives_up: AtomicU32::new(0),
            gave_up: AtomicU32::new(0),
            is_to_drain: AtomicBool::new(false),
            membership: Mutex::new(membership),
            changed: Condvar::new(),
            leases,
            volume: Arc::downgrade(volume),
            state: volume.state().clone(),
            info,
            leader: Mutex::default(),
            said: AtomicU32::new(0),
            events,
            missed_orders: AtomicBool::new(false),
            readers: dispatch::Readers::default(),
            reach: locks::Reach::default(),
            holding: holds::Holding::default(),
            links: Links::new(keys),
            socket: Mutex::new(Some(socket)),
            workers: Workers::of("nodes"),
        });
        nodes.show_lock();
        Keeper::start(&nodes);
        nodes.say_here(node);
        Ok(nodes)
    }

    /// Logs and records an event that concerns all users.
    fn tell(&self, what: String) {
        tracing::info!("{what}");
        self.events.record(Event::for_all(Kind::Node, what));
    }

    /// Address of the leader.
    fn name_of_leader(&self) -> Option<String> {
        let seen = self.membership.lock().leader();
        let mut known = self.leader.lock();
        // The higher one came later.
        if let Some(seen) = seen.filter(|seen| known.as_ref().is_none_or(|(node, _)| node < seen)) {
            *known = Some((seen, self.leases.info(seen)?.own));
        }
        known.as_ref().map(|(_, name)| name.clone())
    }

    /// Records a leader's announcement: the next scan may be minutes away.
    fn follow(&self, node: Node, name: &str) {
        let mut known = self.leader.lock();
        if known.as_ref().is_none_or(|(known, _)| *known < node) {
            *known = Some((node, name.to_owned()));
        }
    }

    /// Announces once that this node leads.
    fn say_so(&self) {
        let me = self.me_now().0;
        if self.said.swap(me, Ordering::AcqRel) != me
            && let Err(error) = (Message::Leads { node: me, own: self.info.own.clone() }).send(&*self.state, None)
        {
            tracing::debug!("the leadership of this node could not be published: {error}");
            self.said.store(0, Ordering::Release);
        }
    }

    /// Its current number.
    pub fn me_now(&self) -> Node {
        Node(self.node.load(Ordering::Acquire))
    }

    /// Returns the membership, no older than [`KNOWN_FOR`] if the namespace answers.
    fn known(&self) -> MutexGuard<'_, Membership> {
        let until = Instant::now() + KNOWN_FOR;
        let span = Time(KNOWN_FOR.as_nanos() as u64);
        let mut membership = self.membership.lock();
        while membership.known_at().is_none_or(|at| now().since(at) > span) {
            self.asks.store(true, Ordering::Release);
            if self.changed.wait_until(&mut membership, until).timed_out() {
                break;
            }
        }
        membership
    }

    /// Whether this is the only node. Waits until that is known; if it stays unknown, returns false.
    pub fn is_alone(&self) -> bool {
        let until = Instant::now() + LEASE_WAIT;
        let mut membership = self.membership.lock();
        while membership.leader().is_none() {
            if self.changed.wait_until(&mut membership, until).timed_out() {
                return false;
            }
        }
        drop(membership);
        self.known().members().len() <= 1
    }

    /// The other live nodes.
    fn others(&self) -> BTreeSet<Node> {
        let membership = self.known();
        let mut members = membership.members();
        members.remove(&membership.node());
        members
    }

    /// Number of live nodes.
    pub fn count(&self) -> usize {
        self.known().members().len()
    }

    /// All live nodes.
    pub fn shown(&self) -> Vec<Shown> {
        let (members, leader, me) = {
            let membership = self.known();
            (membership.members(), membership.leader(), membership.node())
        };
        let show = |node| {
            let info = self.leases.info(node);
            let draining = info.as_ref().filter(|info| info.drains).map(|info| self.draining_of(node, info));
            Shown { node, info, is_self: node == me, leads: Some(node) == leader, draining }
        };
        members.into_iter().map(show).collect()
    }

    /// Leaves the membership at once, and ends.
    pub fn leave(&self) {
        self.holds().iter().for_each(|holds| holds.stop());
        // Before the number is over: another node would list this one as dead.
        let left = self.say_left();
        Keeper::leave(self);
        if let Err(error) = left.and_then(|()| self.see_off(self.me_now())) {
            tracing::debug!("another node will search for objects of this node, which left none: {error}");
        }
        self.links.stop();
        self.workers.stop();
        self.reach.file.lock().take();
    }
}

impl Cluster for Nodes {
    fn me(&self) -> Result<Node> {
        if self.has_lease() {
            return Ok(self.me_now());
        }
        let until = Instant::now() + LEASE_WAIT;
        let mut membership = self.membership.lock();
        while !self.has_lease() {
            if self.changed.wait_until(&mut membership, until).timed_out() {
                return Err(Error::Elsewhere("this node has no lease, since the namespace does not answer".into()));
            }
        }
        Ok(self.me_now())
    }

    fn has_lease(&self) -> bool {
        self.standing(self.me_now()) == Standing::Held
    }

    fn standing(&self, node: Node) -> Standing {
        let until = self.held_until.load(Ordering::Acquire);
        // The number last: the end of a lease is set to the past before another number comes.
        match node == self.me_now() {
            false => Standing::Lost,
            true if now().0 < until => Standing::Held,
            true if self.lost.load(Ordering::Acquire) => Standing::Lost,
            true => Standing::Lapsed,
        }
    }

    fn is_over(&self, node: Node) -> bool {
        let membership = self.membership.lock();
        let is_over = membership.is_over(node);
        if !is_over && node != membership.node() {
            self.asks.store(true, Ordering::Release);
        }
        is_over
    }

    fn leads(&self) -> bool {
        self.leads.load(Ordering::Acquire) && !self.drains() && self.has_lease()
    }

    fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    fn locks_reach(&self) -> bool {
        self.sees_locks()
    }

    fn node_of(&self, epoch: u32) -> Option<Node> {
        let members = self.known().members();
        members.into_iter().find(|node| self.leases.info(*node).is_some_and(|info| info.epoch == epoch))
    }

    fn may_be_used_by_another(&self, epoch: u32) -> bool {
        let epoch_of = |node: Node| self.leases.info(node).map(|info| info.epoch);
        let others: Vec<Option<u32>> = self.others().into_iter().map(epoch_of).collect();
        let own = self.epoch();
        let last = others.iter().flatten().copied().max().unwrap_or(0).max(own);
        // A node that just joined may not have been seen, and one with an unreadable text may have any epoch.
        let may_be_new = || epoch > last && !self.leases.is_of_over(epoch);
        epoch != own && (others.iter().any(|other| other.is_none_or(|other| other == epoch)) || may_be_new())
    }
}
