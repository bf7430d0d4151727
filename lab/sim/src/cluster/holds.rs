//! Driver of the holds of each host: calls of the store one after the other, and steps of files at the namespace.
//!
//! As in `engine::file::held`, one thread per node sends requests and messages in order. Steps run beside it; their four
//! workers never limit a node at these loads, so they have no queue here.

use super::world::{Happens, HostId, World};
use crate::event::Rank;
use policy::Time;
use policy::cluster::share::Written;
use policy::cluster::{Node, Standing};
use policy::holders::node::{Action, Config, Event, Holder, Permit, Step, Use};
use policy::holders::table::{Caller, Request, Run, Table};
use policy::machine::Machine;
use std::collections::VecDeque;

/// Run of the store, which does not end.
const RUN: Run = Run(1);
/// Calls of the store that return its run.
const CALLS_OF_CONNECT: u64 = 4;
/// Calls to settle a size from the objects: the mark of a truncation, the size, the new size.
const CALLS_OF_SETTLEMENT: u32 = 3;
/// Pause before a step that could not end is tried again, as in the live driver.
const STEP_AGAIN: Time = Time::from_millis(10);

/// Holds of a host under its present number.
pub(super) struct Holds {
    pub machine: Holder,
    pub node: Node,
    outbox: VecDeque<Action>,
    sends: bool,
    /// Deadline of the machine.
    tick_at: Option<Time>,
}

/// A table in which these nodes have a session by their first connection, of an opened run that was checked.
pub(super) fn table(nodes: impl Iterator<Item = Node>) -> Table {
    let session = Config::default().session;
    let mut table = Table::new(session);
    let mut serve = |node, request| table.serve(Time::ZERO, Caller { node, run: RUN, link: 1 }, &request);
    for node in nodes {
        serve(node, Request::Begin);
        serve(node, Request::Register { not_after: session });
        serve(node, Request::Open { members: [node].into() });
        serve(node, Request::Trust);
    }
    table
}

impl World {
    pub fn start_holds(&mut self, host: HostId, node: Node) {
        let machine = Holder::new(Config::default(), node);
        self.host_of.insert(node, host);
        self.hosts[host].holds = Some(Holds { machine, node, outbox: VecDeque::new(), sends: false, tick_at: None });
        self.carry_holds(host);
    }

    fn holds_of(&mut self, host: HostId, node: Node) -> Option<&mut Holds> {
        self.hosts[host].holds.as_mut().filter(|holds| holds.node == node)
    }

    /// Sends an event to the machine of a number, if the host still has it.
    pub fn feed(&mut self, host: HostId, node: Node, event: Event) {
        let now = self.now();
        if let Some(holds) = self.holds_of(host, node) {
            holds.machine.handle(now, event);
            self.carry_holds(host);
        }
    }

    pub fn begin(&mut self, host: HostId, node: Node, key: u64, usage: Use) -> Option<Permit> {
        let now = self.now();
        self.holds_of(host, node)?.machine.begin(now, key, usage)
    }

    pub fn finish(&mut self, host: HostId, node: Node, key: u64, permit: &Permit) -> Written {
        let (now, standing) = (self.now(), self.standing(host, node));
        self.holds_of(host, node).map_or(Written::Again, |holds| holds.machine.finish(now, key, permit, standing))
    }

    pub fn holds_tick(&mut self, host: HostId) {
        let now = self.now();
        let Some(holds) = self.hosts[host].holds.as_mut().filter(|holds| holds.tick_at == Some(now)) else { return };
        holds.tick_at = None;
        holds.machine.handle(now, Event::Tick);
        self.carry_holds(host);
    }

    fn carry_holds(&mut self, host: HostId) {
        let Some(holds) = self.hosts[host].holds.as_mut() else { return };
        let (node, actions) = (holds.node, holds.machine.drain().collect::<Vec<_>>());
        actions.into_iter().for_each(|action| self.act(host, node, action));
        self.send(host);
        let now = self.now();
        let Some(holds) = self.hosts[host].holds.as_mut() else { return };
        let due = holds.machine.next_deadline().map(|at| at.max(now));
        if let Some(at) = due.filter(|_| holds.tick_at != due) {
            holds.tick_at = due;
            self.queue.push(at, Rank::Timer, Happens::HoldsTick(host));
        }
    }

    fn act(&mut self, host: HostId, node: Node, action: Action) {
        let Some(holds) = self.hosts[host].holds.as_mut() else { return };
        let at = match &action {
            Action::Connect => {
                holds.outbox.clear();
                return holds.outbox.push_back(action);
            }
            Action::Ask { key: None, .. } => return holds.outbox.push_front(action),
            Action::Ask { .. } | Action::Recall { .. } => return holds.outbox.push_back(action),
            Action::Members => self.list(),
            Action::Step { key, step } => self.begin_step(host, *key, *step),
            Action::Ready { key, usage } => return self.ready(host, *key, *usage),
        };
        self.push(at, Happens::Acted { host, node, action });
    }

    /// Sends the next call to the store, if none is under way.
    fn send(&mut self, host: HostId) {
        let Some(holds) = self.hosts[host].holds.as_mut().filter(|holds| !holds.sends) else { return };
        let Some(action) = holds.outbox.pop_front() else { return };
        (holds.sends, self.counts.sent) = (true, self.counts.sent + 1);
        let (node, costs) = (holds.node, &self.setup.costs);
        let cost = match &action {
            Action::Recall { .. } => costs.store + costs.delivery,
            Action::Ask { key, .. } => {
                let holders = key.map_or(0, |key| self.table.holders(key));
                costs.request + Time(costs.holder.0 * holders as u64)
            }
            _ => Time(costs.store.0 * CALLS_OF_CONNECT),
        };
        match &action {
            Action::Recall { .. } => self.counts.recalls += 1,
            Action::Ask { key, .. } => self.counts.requests += u64::from(key.is_some()),
            _ => {}
        }
        let at = self.store.take(self.queue.now(), cost) + self.setup.costs.round_trip;
        self.push(at, Happens::Acted { host, node, action });
    }

    /// Handles the end of an action. A request that a dead node has sent is served, too.
    pub fn acted(&mut self, host: HostId, node: Node, action: Action) {
        let calls = !matches!(action, Action::Members | Action::Step { .. });
        let holds = self.holds_of(host, node).filter(|_| calls);
        holds.into_iter().for_each(|holds| holds.sends = false);
        match action {
            Action::Connect => self.feed(host, node, Event::Connected(RUN)),
            Action::Ask { key, caller, request } => {
                let answer = self.table.serve(self.queue.now(), caller, &request);
                if let Some(other) = answer.waits_for().filter(|other| self.over(host, *other)) {
                    self.feed(host, node, Event::Over(other));
                }
                self.feed(host, node, Event::Answered(key, answer));
            }
            Action::Recall { node: other, key, number, mode } => {
                let of = self.host_of.get(&other).copied();
                of.into_iter().for_each(|of| self.feed(of, other, Event::Recalled { key, number, mode }));
            }
            Action::Members => {
                let members = self.directory.members();
                self.feed(host, node, Event::Members(members));
            }
            Action::Step { key, step } => self.end_step(host, node, key, step),
            Action::Ready { .. } => {}
        }
        if self.holds_of(host, node).is_some() {
            self.send(host);
        }
    }

    /// Makes the calls of a step; returns its end.
    fn begin_step(&mut self, host: HostId, key: u64, step: Step) -> Time {
        let calls = match step {
            Step::Drain => 0,
            Step::Settle => u32::from(self.files.is_behind(host, key)),
            Step::SettleFromObjects(_) => {
                self.counts.settlements += 1;
                CALLS_OF_SETTLEMENT
            }
            Step::Change(_) => return self.now() + self.copy_under_claim(host, key),
            _ => 1,
        };
        self.counts.steps += u64::from(calls);
        self.attributes(key, calls)
    }

    fn end_step(&mut self, host: HostId, node: Node, key: u64, step: Step) {
        let held = self.standing(host, node) == Standing::Held;
        let files = &mut self.files;
        let again = match step {
            Step::Drain => files.is_written(host, key),
            Step::Settle => files.is_behind(host, key) && !held,
            _ => false,
        };
        if again {
            let action = Action::Step { key, step };
            return self.push(self.now() + STEP_AGAIN, Happens::Acted { host, node, action });
        }
        let event = match step {
            Step::Pointer | Step::Look(_) | Step::List => Event::Found(key, files.found(key, step)),
            Step::Publish { generation, .. } => Event::Published(key, files.publish(key, generation)),
            Step::Point(generation) => Event::Done(key, files.point(key, generation)),
            Step::Tidy(generation) => Event::Done(key, files.tidy(key, generation)),
            Step::Settle => {
                files.settle(host, key);
                Event::Done(key, true)
            }
            Step::SettleFromObjects(_) => Event::Done(key, held),
            Step::Change(_) => Event::Done(key, self.is_copied(host, node, key)),
            Step::Whole | Step::Drain => Event::Done(key, true),
        };
        self.feed(host, node, event);
    }
}
