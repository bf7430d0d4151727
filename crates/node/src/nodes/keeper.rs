//! Keeps the lease: runs `policy::cluster::lease`. Each kind of call to the shared file system has a thread of its own,
//! so that one that hangs delays no other.

use super::leases::Info;
use super::{Nodes, now};
use policy::cluster::Node;
use policy::cluster::lease::{Action, Event, Membership};
use policy::machine::Machine;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Timeout for giving up the lease at the end.
const LEAVE_WAIT: Duration = Duration::from_secs(3);

pub(super) struct Keeper {
    nodes: Arc<Nodes>,
    /// Results of actions, with the node number that requested them. Results of old numbers are dropped.
    told: Receiver<(Node, Event)>,
    tell: Sender<(Node, Event)>,
    renew: Sender<(Node, u64)>,
    look: Sender<(Node, KeeperTask)>,
    leaving: bool,
    /// Last number that was given up while the daemon goes on.
    gave_up: Option<Node>,
}

enum KeeperTask {
    List,
    /// Merge the names of nodes that are over, if this node leads.
    Fold,
    Expel(Node, Option<u64>),
    Rejoin,
}

impl Keeper {
    pub fn start(nodes: &Arc<Nodes>) {
        let (tell, told) = channel();
        let renew = serve(nodes, "lease-renew", &tell, |nodes, node, beat| {
            let asked = now();
            Some(match nodes.leases.renew(node, beat) {
                Ok(true) => Event::Renewed { beat: beat + 1, asked },
                Ok(false) => Event::Gone,
                Err(_) => Event::RenewFailed,
            })
        });
        let look = serve(nodes, "lease-look", &tell, |nodes, _, task| look_at(nodes, task));
        let keeper = Keeper { nodes: nodes.clone(), told, tell, renew, look, leaving: false, gave_up: None };
        nodes.workers.start("lease", move || keeper.run());
    }

    fn run(mut self) {
        self.carry();
        loop {
            let at = self.nodes.membership.lock().next_deadline();
            let rest = at.map_or(Duration::from_secs(1), |at| Duration::from_nanos(at.since(now()).0));
            let event = match self.told.recv_timeout(rest.min(Duration::from_millis(500))) {
                Ok((node, event)) if node == self.nodes.me_now() => event,
                Ok(_) => continue,
                Err(RecvTimeoutError::Timeout) => Event::Tick,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if self.nodes.ends.load(Ordering::Acquire) && !std::mem::replace(&mut self.leaving, true) {
                drop(self.tell.send((self.nodes.me_now(), Event::Leave)));
            }
            // Done once for each number.
            let me = self.nodes.me_now();
            if self.nodes.gives_up.load(Ordering::Acquire) == me.0 && self.gave_up != Some(me) {
                self.gave_up = Some(me);
                drop(self.tell.send((me, Event::Leave)));
            }
            let mut membership = self.nodes.membership.lock();
            let asked = self.nodes.asks.swap(false, Ordering::AcqRel).then_some(Event::Asked);
            asked.into_iter().chain([event]).for_each(|event| membership.handle(now(), event));
            // From here on, a lease being given up protects nothing, even before other nodes see its end.
            publish(&self.nodes, &membership);
            drop(membership);
            if self.carry() {
                return;
            }
        }
    }

    /// Executes the actions of the state machine. Returns whether the machine is over.
    fn carry(&mut self) -> bool {
        let mut over = false;
        let nodes = self.nodes.clone();
        let mut membership = nodes.membership.lock();
        while let Some(action) = membership.poll() {
            let node = membership.node();
            match action {
                Action::Renew { beat } => drop(self.renew.send((node, beat))),
                Action::Look => {
                    [KeeperTask::List, KeeperTask::Fold]
                        .into_iter()
                        .for_each(|task| drop(self.look.send((node, task))));
                }
                Action::Expel { node: other, beat, silent } => {
                    if other != node {
                        tracing::warn!("{other} has been silent for {} ms: it is over", silent.0 / 1_000_000);
                    }
                    drop(self.look.send((node, KeeperTask::Expel(other, beat))));
                }
                Action::Lead => nodes.tell(format!("{node} leads the nodes of the volume")),
                Action::Follow { leader } => {
                    let shown = leader.map_or_else(|| "an unknown node".into(), |leader| leader.to_string());
                    nodes.tell(format!("{shown} leads the nodes of the volume"));
                }
                Action::Lost if self.leaving => over = true,
                Action::Lost => {
                    nodes.lost.store(true, Ordering::Release);
                    if nodes.gives_up.swap(0, Ordering::AcqRel) == node.0 {
                        nodes.gave_up.store(node.0, Ordering::Release);
                        tracing::info!("{node} has given its number up: it joins again under another");
                    } else {
                        tracing::error!(
                            "{node} was expelled by another node, since it did not renew its lease in time: it joins \
                             again. Writes wait until then; no acknowledged write is lost"
                        );
                    }
                    drop(self.look.send((node, KeeperTask::Rejoin)));
                }
                Action::Came { node } => nodes.tell(format!("{node} has joined")),
                Action::Left { node } => {
                    nodes.tell(format!("{node} is over"));
                    nodes.holds().iter().for_each(|holds| holds.over(node));
                }
            }
        }
        publish(&nodes, &membership);
        drop(membership);
        over
    }

    /// Gives the lease up, and waits up to `LEAVE_WAIT` for that.
    pub fn leave(nodes: &Nodes) {
        let until = Instant::now() + LEAVE_WAIT;
        let mut membership = nodes.membership.lock();
        nodes.ends.store(true, Ordering::Release);
        while membership.members().contains(&membership.node()) {
            if nodes.changed.wait_until(&mut membership, until).timed_out() {
                tracing::warn!("the lease could not be given up: other nodes wait until it ends");
                return;
            }
        }
    }
}

/// Starts a thread that does tasks in their order and sends their results, with the node number of the request.
fn serve<T: Send + 'static>(
    nodes: &Arc<Nodes>,
    name: &str,
    tell: &Sender<(Node, Event)>,
    work: impl Fn(&Nodes, Node, T) -> Option<Event> + Send + 'static,
) -> Sender<(Node, T)> {
    let (todo, tasks) = channel();
    let (keeper, tell) = (nodes.clone(), tell.clone());
    nodes.workers.start(name, move || {
        for (node, task) in tasks {
            if work(&keeper, node, task).is_some_and(|done| tell.send((node, done)).is_err()) {
                return;
            }
        }
    });
    todo
}

/// Publishes the state that data threads read.
fn publish(nodes: &Nodes, membership: &Membership) {
    // A lease of the old number must not count for the new one.
    if nodes.node.load(Ordering::Acquire) != membership.node().0 {
        nodes.held_until.store(0, Ordering::Release);
        nodes.node.store(membership.node().0, Ordering::Release);
        nodes.lost.store(false, Ordering::Release);
    }
    nodes.held_until.store(membership.held_until().0, Ordering::Release);
    nodes.leads.store(membership.leads(now()), Ordering::Release);
    nodes.changed.notify_all();
}

fn look_at(nodes: &Nodes, task: KeeperTask) -> Option<Event> {
    let leases = &nodes.leases;
    match task {
        KeeperTask::List => Some(match leases.list() {
            Ok(listing) => Event::Seen { leases: listing.leases, over: listing.over },
            Err(_) => Event::LookFailed,
        }),
        KeeperTask::Fold => {
            if nodes.leads.load(Ordering::Acquire)
                && let Err(error) = leases.fold()
            {
                tracing::debug!("names of nodes that are over stay for now: {error}");
            }
            None
        }
        KeeperTask::Expel(node, beat) => Some(match leases.expel(node, beat) {
            Ok(true) => Event::Expelled { node },
            Ok(false) => Event::Survived { node },
            Err(_) => Event::ExpelFailed { node },
        }),
        KeeperTask::Rejoin => {
            rejoin(nodes);
            None
        }
    }
}

/// Joins under another number. Retries until that succeeds.
fn rejoin(nodes: &Nodes) {
    while !nodes.ends.load(Ordering::Acquire) {
        let Some(volume) = nodes.volume.upgrade() else { return };
        let asked = now();
        let joined = volume.new_epoch().and_then(|epoch| {
            let info = Info { epoch, drains: nodes.drains(), ..nodes.info.clone() };
            let before = nodes.me_now();
            if nodes.gave_up.load(Ordering::Acquire) == before.0 {
                nodes.see_off(before)?;
            }
            let (node, config) = nodes.leases.claim(&info)?;
            nodes.say_here(node);
            Ok((node, config, epoch, info.drains))
        });
        match joined {
            Ok((node, config, epoch, drains)) => {
                tracing::info!("this node has joined again, as {node}");
                nodes.epoch.store(epoch, Ordering::Release);
                let mut membership = nodes.membership.lock();
                let new = Membership::new(config, now(), node, asked);
                *membership = if drains { new.draining() } else { new };
                publish(nodes, &membership);
                return;
            }
            Err(error) => {
                tracing::warn!("this node cannot join again yet: {error}");
                std::thread::sleep(Duration::from_secs(1));
            }
        }
    }
}
