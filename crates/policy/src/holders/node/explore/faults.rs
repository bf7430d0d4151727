//! Faults of nodes, of messages, and of the store; and time, which passes at each node by itself.

use super::scenario::{Guilt, NODES, Scenario};
use super::world::STORE;
use super::world::{Next, World, label};
use crate::cluster::Node;
use crate::holders::node::Event;
use crate::holders::table::{Mode, Run};

impl World {
    /// Time passes at a node: its cache ends, its session ends, and that is sure at last.
    pub fn time(&self, scenario: &Scenario, i: usize, out: &mut Next) {
        let host = &self.hosts[i];
        let trouble = self.hosts.iter().any(|host| host.apart || host.crashed || host.over)
            || self.hosts.iter().any(|host| !self.table.has_session(STORE, host.node));
        if host.phase == 0 && host.lapses > 0 && trouble && !self.rests(i) {
            let mut next = self.clone();
            next.hosts[i].phase = 1;
            next.hosts[i].lapses -= 1;
            next.send(scenario, i, Event::Tick);
            out.push((label(i, "time passes without a confirmation".into(), false), next));
        }
        if host.phase == 1 && host.apart {
            let lapsed = !self.table.has_session(STORE, host.node) || self.server != host.machine.run();
            let sure = lapsed && (0..NODES).all(|other| other == i || self.has_stopped_caching(other));
            if sure || scenario.guilt == Guilt::ProvisionalEarly {
                let mut next = self.clone();
                next.hosts[i].phase = 2;
                next.send(scenario, i, Event::Tick);
                out.push((label(i, "its session has surely lapsed".into(), false), next));
            }
        }
        if host.apart {
            let mut next = self.clone();
            next.hosts[i].apart = false;
            out.push((label(i, "reaches the store again".into(), false), next));
        }
    }

    pub fn deliver(&self, scenario: &Scenario, message: (Node, u64, u64, Mode), out: &mut Next) {
        let (node, key, number, mode) = message;
        let to = self.hosts.iter().position(|host| host.node == node && !host.crashed && !host.over);
        let mut next = self.clone();
        next.messages.remove(&message);
        if self.faults.lost > 0 {
            let mut lost = next.clone();
            lost.faults.lost -= 1;
            out.push((label(NODES, format!("the message to {node} is lost"), true), lost));
        }
        let Some(i) = to else {
            out.push((label(NODES, format!("nothing receives the message to {node}"), false), next));
            return;
        };
        next.send(scenario, i, Event::Recalled { key, number, mode });
        if self.faults.repeated > 0 {
            let mut again = next.clone();
            again.faults.repeated -= 1;
            again.messages.insert(message);
            out.push((label(i, format!("receives a recall to {mode:?}, which is repeated"), true), again));
        }
        out.push((label(i, format!("receives a recall to {mode:?}"), false), next));
    }

    /// Sessions end, and the store restarts.
    pub fn store(&self, scenario: &Scenario, out: &mut Next) {
        for host in self.hosts.iter().filter(|_| scenario.faults.partitions > 0) {
            let gone = host.crashed || host.over || (host.apart && host.phase > 0);
            if gone && self.table.has_session(STORE, host.node) {
                let mut next = self.clone();
                next.table.lapse(host.node);
                if scenario.guilt == Guilt::ForgetsLapsed {
                    next.table.forget(host.node);
                }
                out.push((label(NODES, format!("the session of {} ends", host.node), false), next));
            }
        }
        if self.faults.restarts > 0 {
            let mut next = self.clone();
            next.faults.restarts -= 1;
            next.server = Run(self.server.0 + 1);
            out.push((label(NODES, "the store restarts".into(), true), next));
        }
        if let (Some(copy), true) = (&self.copy, self.faults.returns > 0) {
            let mut next = self.clone();
            next.faults.returns -= 1;
            next.server = Run(self.server.0 + 1);
            next.table = (**copy).clone();
            out.push((label(NODES, "the store returns to an old copy".into(), true), next));
        }
    }

    /// Faults of a node.
    pub fn fates(&self, scenario: &Scenario, i: usize, out: &mut Next) {
        let host = &self.hosts[i];
        if host.crashed {
            return;
        }
        if host.over {
            let mut next = self.clone();
            next.join_again(scenario, i);
            out.push((label(i, "joins again".into(), false), next));
            return;
        }
        if self.faults.crashes > 0 {
            let mut next = self.clone();
            next.faults.crashes -= 1;
            next.expel(scenario, i);
            next.hosts[i].crashed = true;
            next.late = self.late.clone();
            out.push((label(i, "crashes, and is expelled".into(), true), next));
        }
        if self.faults.freezes > 0 {
            let mut next = self.clone();
            next.faults.freezes -= 1;
            next.expel(scenario, i);
            out.push((label(i, "freezes, and is expelled".into(), true), next));
        }
        if self.faults.partitions > 0 && !host.apart {
            let mut next = self.clone();
            next.faults.partitions -= 1;
            next.hosts[i].apart = true;
            out.push((label(i, "does not reach the store any more".into(), true), next));
        }
    }
}
