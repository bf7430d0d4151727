//! Faults of a node: leases that end, expulsions, crashes, doorbells, and steps that go wrong.

use super::*;

impl State {
    /// Possible next states after a fault of a node.
    pub(super) fn fates(&self, scenario: &Scenario, i: usize, out: &mut Vec<(Label, State)>) {
        let host = &self.hosts[i];
        let over = self.is_over(Node(u32::from(host.number)));
        let mut push = |what, fault, change: &dyn Fn(&mut State)| {
            let mut next = *self;
            change(&mut next);
            out.push((Label { node: i as u8, what, fault }, next));
        };
        if (host.lapsed || host.crashed) && !over {
            push("is expelled", false, &|s| s.over |= 1 << host.number);
        }
        if host.crashed || (host.at == At::Done && !host.registered) {
            return;
        }
        if host.lapsed && !over {
            push("renews its lease after all", false, &|s| s.hosts[i].lapsed = false);
        }
        if self.faults.lapses > 0 && !host.lapsed {
            push("freezes: its lease ends", true, &|s| {
                s.faults.lapses -= 1;
                s.hosts[i].lapsed = true;
            });
        }
        if self.faults.expulsions > 0 && !over {
            push("freezes: its lease ends, and it is expelled", true, &|s| {
                s.faults.expulsions -= 1;
                s.over |= 1 << host.number;
            });
        }
        if self.faults.crashes > 0 {
            push("crashes", true, &|s| {
                s.faults.crashes -= 1;
                // A crashed node loses all its state but its number.
                s.hosts[i] = Host { crashed: true, number: host.number, ..State::start(scenario).hosts[i] };
                s.hosts[i].at = At::Done;
            });
        }
        if self.faults.bells > 0 && host.registered && !host.bell {
            push("hears a doorbell that nobody rang", true, &|s| {
                s.faults.bells -= 1;
                s.hosts[i].bell = true;
            });
        }
        if scenario.guilt == Guilt::Forgetful && host.registered && self.writers[host.number as usize] != 0 {
            push("is forgotten by the store", true, &|s| s.writers[host.number as usize] = 0);
        }
    }

    /// Adds the states after each possible failure of a node's next step.
    pub(super) fn mishaps(&self, scenario: &Scenario, i: usize, out: &mut Vec<(Label, State)>) {
        let host = self.hosts[i];
        let fault = |what| Label { node: i as u8, what, fault: true };
        let doubtful = matches!(host.at, At::Claim | At::Publish) && host.exists.is_none() && self.faults.doubts > 0;
        if doubtful {
            let mut unheard = *self;
            unheard.faults.doubts -= 1;
            unheard.step(scenario, i);
            unheard.hosts[i] = host;
            out.push((fault("creates, and the answer is lost"), unheard));
        }
        if host.at == At::Write && host.sizes.marked && self.faults.fails > 0 {
            for half in [false, true] {
                let mut failed = *self;
                failed.faults.fails -= 1;
                if half {
                    failed.step(scenario, i);
                }
                failed.has_failed(scenario, i, host.sizes.known);
                failed.hosts[i].op += 1;
                failed.next_op(scenario, i);
                out.push((fault(if half { "writes, and that fails half way" } else { "cannot write" }), failed));
            }
        }
        if host.at == At::Ring && self.faults.silent > 0 {
            let mut silent = *self;
            silent.faults.silent -= 1;
            (silent.hosts[i].at, silent.hosts[i].ring) = (At::Step, 0);
            out.push((fault("rings, and nobody hears it"), silent));
        }
        if host.at == At::Ring && self.faults.give_ups > 0 {
            let mut tired = *self;
            tired.faults.give_ups -= 1;
            let h = &mut tired.hosts[i];
            (h.gives_up, h.ring) = (true, 0);
            if scenario.guilt == Guilt::GivesUpByRemoving {
                h.at = At::Retry;
            } else {
                (h.at, h.claim) = (At::Begin, None);
            }
            out.push((fault("gives its change up"), tired));
        }
        if scenario.guilt == Guilt::MissingIsOver && host.at == At::Ring {
            let mut wrong = *self;
            (wrong.hosts[i].at, wrong.hosts[i].ring) = (At::ChangeLoad, 0);
            out.push((fault("misses the writers' lease files in a listing"), wrong));
        }
    }
}
