//! Daemons of the hosts: each holds its lease by the state machine of the policy.

use super::{Happens, HostId, World};
use crate::cluster::directory::Name;
use crate::event::Rank;
use policy::Time;
use policy::cluster::lease::{Action, Event, Membership};
use policy::cluster::{Node, Standing};
use policy::holders;
use policy::machine::Machine;

/// Calls for the text of a lease file that a node sees for the first time.
const CALLS_OF_TEXT: u32 = 3;

impl World {
    pub(super) fn renamed(&mut self, host: HostId, node: Node, beat: u64, asked: Time) {
        let done = self.directory.rename(node, Name::Beat(beat), Name::Beat(beat + 1));
        self.counts.renewals += 1;
        let now = self.now();
        let of = &mut self.hosts[host];
        if done && of.machine.as_ref().is_some_and(|machine| machine.node() == node) {
            self.counts.lapses += u64::from(now > of.until);
            of.until = asked + of.lease.lease;
        }
        let event = if done { Event::Renewed { beat: beat + 1, asked } } else { Event::Gone };
        self.hears(host, node, event);
    }

    pub(super) fn joined(&mut self, host: HostId, node: Node) {
        let now = self.now();
        // A node that is up from the start has the other leases in its state.
        let is_first = !std::mem::replace(&mut self.hosts[host].joined, true);
        let lease = self.hosts[host].lease.clone();
        self.hosts[host].until = now + lease.lease;
        let mut machine = Membership::new(lease, now, node, now);
        if is_first {
            while machine.poll().is_some() {}
            let listing = self.directory.listing();
            machine.handle(now, listing);
        }
        self.hosts[host].machine = Some(machine);
        self.start_holds(host, node);
        self.carry(host, is_first);
    }

    /// Starts a daemon: it lists, takes a number, and renames its file.
    pub(super) fn comes(&mut self, host: HostId) {
        let listed = self.list();
        let lease = self.setup.lease_beside(self.directory.leases());
        let node = self.directory.claim(lease.lease);
        self.hosts[host].lease = lease;
        let at = (0..3).map(|_| self.rename(node)).max().unwrap_or(listed);
        self.directory.rename(node, Name::New, Name::Beat(0));
        self.push(at.max(listed), Happens::Joined(host, node));
    }

    pub fn fail(&mut self, host: HostId) {
        let of = &mut self.hosts[host];
        (of.machine, of.holds, of.tick_at) = (None, None, None);
        self.files.forget(host);
        if self.leads == Some(host) {
            self.leads = None;
        }
    }

    pub(super) fn hears(&mut self, host: HostId, node: Node, event: Event) {
        let now = self.now();
        let Some(machine) = self.hosts[host].machine.as_mut().filter(|machine| machine.node() == node) else { return };
        machine.handle(now, event);
        self.carry(host, false);
    }

    pub(super) fn carry(&mut self, host: HostId, knows: bool) {
        let Some(machine) = self.hosts[host].machine.as_mut() else { return };
        let (node, actions) = (machine.node(), machine.drain().collect::<Vec<_>>());
        for action in actions {
            match action {
                Action::Renew { beat } => {
                    let (asked, at) = (self.now(), self.rename(node));
                    self.push(at, Happens::Renamed { host, node, beat, asked });
                }
                Action::Look => {
                    self.counts.looks += 1;
                    let at = self.list();
                    self.push(at, Happens::Listed { host, node });
                }
                Action::Expel { node: whom, beat, .. } => {
                    let at = self.rename(whom);
                    self.push(at, Happens::Expel { host, node, whom, beat });
                }
                Action::Lead => self.leads = Some(host),
                Action::Follow { .. } => {
                    self.leads = self.leads.filter(|leader| *leader != host);
                }
                Action::Lost => {
                    self.fail(host);
                    return self.comes(host);
                }
                Action::Came { node: other } if !knows => {
                    let server = other.0 as usize % self.servers.len();
                    let cost = Time(self.setup.costs.attribute.0 * u64::from(CALLS_OF_TEXT));
                    self.lease_call(server, cost);
                }
                Action::Came { .. } => {}
                Action::Left { node: other } => self.feed(host, node, holders::node::Event::Over(other)),
            }
        }
        let now = self.now();
        let of = &mut self.hosts[host];
        let due = of.machine.as_ref().and_then(Membership::next_deadline).map(|at| at.max(now));
        if let Some(at) = due.filter(|_| of.tick_at != due) {
            of.tick_at = Some(at);
            self.queue.push(at, Rank::Timer, Happens::Tick(host));
        }
    }

    /// Whether a node is over, by a host's state.
    pub fn over(&self, host: HostId, node: Node) -> bool {
        self.hosts[host].machine.as_ref().is_some_and(|machine| machine.is_over(node))
    }

    pub fn standing(&self, host: HostId, node: Node) -> Standing {
        let machine = self.hosts[host].machine.as_ref().filter(|machine| machine.node() == node);
        machine.map_or(Standing::Lost, |machine| machine.standing(self.now()))
    }
}
