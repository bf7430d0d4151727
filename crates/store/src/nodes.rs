//! The nodes that share a volume: driver of `policy::cluster::lease`, and what files ask about other nodes.
//!
//! ```text
//!   NAMESPACE/nodes   <── renew, look, expel ──  keeper  ── policy::cluster::lease
//!                                                  │ held until, who is over, who leads
//!   a write, before it is acknowledged ────────> Nodes
//!   a change that waits for a writer  ── bell ──> the store of the state ──> the writer's node: file::end_writing
//! ```
//! The lease is a file of the shared file system. The store of the state is only how one node wakes another: if it forgets, or is away,
//! changes that need another node to let go of a file wait, and fail in the end; what was written stays.

mod dead;
mod draining;
mod here;
mod inbox;
mod keeper;
mod leases;
mod letters;
mod locks;
mod past;
mod space;
mod still;

pub use draining::Draining;
pub use leases::Info;
pub use still::Still;

use crate::events::{Event, Events, Kind};
use crate::file::{Cluster, FileTable};
use crate::state::{State, Told};
use crate::volume::{Volume, ordered};
use crate::workers::Workers;
use crate::{Error, Result};
use inbox::Inbox;
use keeper::Keeper;
use leases::Leases;
use parking_lot::{Condvar, Mutex, MutexGuard};
use policy::cluster::lease::Membership;
use policy::cluster::{Node, Standing};
use policy::{FileId, Time};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long somebody waits for this node to have a lease.
const LEASE_WAIT: Duration = Duration::from_secs(20);
/// What is known of the others may be so old before a look is waited for, and how long that is. A node looks by itself at least so often
/// while somebody asks.
const KNOWN_FOR: Duration = Duration::from_secs(3);
/// With its number and its name: a node says to all that it leads.
const LEADS: &str = "leads";
/// After a failure to listen.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// The time that leases are measured in: it goes on while the machine sleeps.
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
    /// Somebody waits for another node, or asks about the others.
    asks: AtomicBool,
    /// The number is over, and there is no other yet.
    lost: AtomicBool,
    /// The number that is to be given up while the daemon goes on; 0 is none.
    gives_up: AtomicU32,
    /// The last that was.
    gave_up: AtomicU32,
    wish: draining::Wish,
    membership: Mutex<Membership>,
    changed: Condvar,
    end: Condvar,
    leases: Leases,
    volume: Weak<Volume>,
    state: Arc<dyn State>,
    info: Info,
    /// The node that leads, and its name, as last looked up.
    leader: Mutex<Option<(Node, String)>>,
    /// As which number it said that it leads; 0 if it did not.
    said: AtomicU32,
    events: Arc<Events>,
    inbox: Inbox,
    /// Orders of operators were told of that the state store could not be asked for.
    missed_orders: AtomicBool,
    letters: letters::Letters,
    reach: locks::Reach,
    workers: Workers,
}

/// One of the nodes, for people.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its number.
    pub node: Node,
    /// What it says of itself, if that could be read.
    pub info: Option<Info>,
    /// It is this one.
    pub is_self: bool,
    /// It leads.
    pub leads: bool,
    /// What it says of its end, if it is to be shut down.
    pub draining: Option<Draining>,
}

impl Nodes {
    /// Joins the nodes of a volume.
    pub fn join(volume: &Arc<Volume>, mount_point: &std::path::Path, events: Arc<Events>) -> Result<Arc<Nodes>> {
        let leases = Leases::open(&volume.config().namespace)?;
        let info = Info::of_this(mount_point, volume.node_name()?, volume.epoch());
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
            wish: draining::Wish::default(),
            membership: Mutex::new(membership),
            changed: Condvar::new(),
            end: Condvar::new(),
            leases,
            volume: Arc::downgrade(volume),
            state: volume.state().clone(),
            info,
            leader: Mutex::default(),
            said: AtomicU32::new(0),
            events,
            inbox: Inbox::default(),
            missed_orders: AtomicBool::new(false),
            letters: letters::Letters::default(),
            reach: locks::Reach::default(),
            workers: Workers::of("nodes"),
        });
        nodes.show_lock();
        Keeper::start(&nodes);
        nodes.say_here(node);
        Ok(nodes)
    }

    /// Something about nodes, for everybody.
    fn tell(&self, what: String) {
        tracing::info!("{what}");
        self.events.record(Event::for_all(Kind::Node, what));
    }

    /// Hears from now on what other nodes ask of files here.
    pub fn listen(self: &Arc<Nodes>, files: &Arc<FileTable>) {
        let (nodes, files) = (self.clone(), Arc::downgrade(files));
        self.workers.start("bell", move || {
            while !nodes.ends.load(Ordering::Acquire) {
                let mut hear = |told: Told<'_>| nodes.heard(told, &files);
                let goes_on = || {
                    nodes.catch_up_with_orders();
                    !nodes.ends.load(Ordering::Acquire)
                };
                if let Err(error) = nodes.state.listen(&goes_on, &mut hear) {
                    tracing::debug!("other nodes are not heard for now: {error}");
                    std::thread::sleep(LISTEN_AGAIN);
                }
            }
        });
    }

    fn heard(&self, told: Told<'_>, files: &Weak<FileTable>) {
        let text = match told {
            Told::One(text) | Told::All(text) if self.letters.read(text) => return,
            Told::All(text) => text,
            Told::Listening => {
                self.say_here(self.me_now());
                return self.follow_orders(Volume::follow_missed_orders);
            }
            Told::One(text) => return self.inbox.put(text),
        };
        if let Some(targets) = ordered(text) {
            return self.follow_orders(|volume| volume.follow_orders(&targets));
        }
        if self.is_asked_to_drain(text) {
            return;
        }
        if let Some((node, name)) = text.strip_prefix(LEADS).and_then(|text| text.trim_start().split_once(' ')) {
            return node.parse().map_or((), |node| self.follow(Node(node), name));
        }
        let mut words = text.split(' ');
        let Some(file) = words.next().and_then(|word| u64::from_str_radix(word, 16).ok()).map(FileId) else { return };
        let me = self.node.load(Ordering::Acquire);
        if words.all(|word| word.parse() != Ok(me)) {
            return;
        }
        let Some(files) = files.upgrade() else { return };
        let let_go = files.find(file).map_or(Ok(()), |file| file.let_go(Node(me)));
        if let Err(error) = let_go {
            tracing::warn!("another node waits for a file that this one cannot let go of: {error}");
        }
    }

    /// Other nodes hear of orders that were given here while the state store was away, and this one of those that it could not ask for when it
    /// was told of them: a store that hung breaks no connection, so nobody says later that something may have been missed.
    fn catch_up_with_orders(&self) {
        let volume = self.volume.upgrade();
        let volume =
            volume.filter(|volume| volume.orders_kept() > 0 || self.missed_orders.swap(false, Ordering::AcqRel));
        if let Some(Err(error)) = volume.map(|volume| volume.follow_missed_orders()) {
            self.missed_orders.store(true, Ordering::Release);
            tracing::debug!("orders are kept here, or not known here, for now: {error}");
        }
    }

    fn follow_orders(&self, follow: impl FnOnce(&Volume) -> Result<()>) {
        if let Err(error) = self.volume.upgrade().map_or(Ok(()), |volume| follow(&volume)) {
            self.missed_orders.store(true, Ordering::Release);
            tracing::warn!("what operators ordered elsewhere is not known here for now: {error}");
        }
    }

    /// The name under which the node that leads listens.
    fn name_of_leader(&self) -> Option<String> {
        let seen = self.membership.lock().leader();
        let mut known = self.leader.lock();
        // The higher one came later.
        if let Some(seen) = seen.filter(|seen| known.as_ref().is_none_or(|(node, _)| node < seen)) {
            *known = Some((seen, self.leases.info(seen)?.own));
        }
        known.as_ref().map(|(_, name)| name.clone())
    }

    /// A node says that it leads: others may not look who does for minutes.
    fn follow(&self, node: Node, name: &str) {
        let mut known = self.leader.lock();
        if known.as_ref().is_none_or(|(known, _)| *known < node) {
            *known = Some((node, name.to_owned()));
        }
    }

    /// Tells the others once that this node leads.
    fn say_so(&self) {
        let me = self.me_now().0;
        if self.said.swap(me, Ordering::AcqRel) != me
            && let Err(error) = self.state.ring(&format!("{LEADS} {me} {}", self.info.own))
        {
            tracing::debug!("others do not hear that this node leads: {error}");
            self.said.store(0, Ordering::Release);
        }
    }

    /// Whether it has the lease by which it acts.
    pub fn has_lease(&self) -> bool {
        self.standing(self.me_now()) == Standing::Held
    }

    fn me_now(&self) -> Node {
        Node(self.node.load(Ordering::Acquire))
    }

    /// What is known of the others, no older than [`KNOWN_FOR`] if the namespace answers.
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

    /// Whether no other node is there. Waits until that is known; if it does not become known, others are there.
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

    /// The others, for people.
    pub fn others(&self) -> String {
        let others = self.shown().into_iter().filter(|shown| !shown.is_self);
        let name =
            |shown: Shown| shown.info.map_or(shown.node.to_string(), |info| format!("{} on {}", shown.node, info.host));
        others.map(name).collect::<Vec<_>>().join(", ")
    }

    /// How many are there.
    pub fn count(&self) -> usize {
        self.known().members().len()
    }

    /// All that are there.
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

    /// A thread that goes on until [`Nodes::ends`].
    pub(crate) fn start_worker(&self, name: &str, work: impl FnOnce() + Send + 'static) {
        self.workers.start(name, work);
    }

    /// Whether the daemon is about to end.
    pub(crate) fn ends(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    /// Waits for so long, or until the daemon is about to end; whether it goes on.
    pub(crate) fn goes_on_after(&self, span: Duration) -> bool {
        let until = Instant::now() + span;
        let mut membership = self.membership.lock();
        while !self.ends() && !self.end.wait_until(&mut membership, until).timed_out() {}
        !self.ends()
    }

    /// The number that it has now.
    pub fn number(&self) -> Node {
        self.me_now()
    }

    /// Leaves the others, at once, and ends.
    pub fn leave(&self) {
        Keeper::leave(self);
        if let Err(error) = self.say_left().and_then(|()| self.see_off(self.me_now())) {
            tracing::debug!("another node looks for what this one left, which is nothing: {error}");
        }
        self.workers.stop();
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
        let (members, me) = {
            let membership = self.known();
            (membership.members(), membership.node())
        };
        let epochs = |node: &Node| self.leases.info(*node).map(|info| info.epoch);
        let others: Vec<Option<u32>> = members.iter().filter(|node| **node != me).map(epochs).collect();
        let own = self.epoch();
        let last = others.iter().flatten().copied().max().unwrap_or(0).max(own);
        // One that just came may not have been seen, and one whose text could not be read may have any.
        epoch != own && (epoch > last || others.iter().any(|other| other.is_none_or(|other| other == epoch)))
    }

    fn report(&self, text: &str) {
        let told = self.name_of_leader().map_or(Ok(()), |name| self.state.tell(&name, text));
        if let Err(error) = told {
            tracing::debug!("the node that leads does not hear what happens here: {error}");
        }
    }

    fn reports(&self) -> Vec<String> {
        self.say_so();
        self.inbox.take()
    }

    fn ring(&self, nodes: &BTreeSet<Node>, file: FileId) {
        let numbers: Vec<String> = nodes.iter().map(|node| node.0.to_string()).collect();
        if let Err(error) = self.state.ring(&format!("{file} {}", numbers.join(" "))) {
            tracing::debug!("other nodes cannot be asked for a file: {error}");
        }
    }
}
