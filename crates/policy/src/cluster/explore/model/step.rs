//! One step of a node: the next place in its program, and the next operation.

use super::*;

impl State {
    /// Advances to the next operation that needs the shared file system.
    pub(super) fn next_op(&mut self, scenario: &Scenario, i: usize) {
        let host = &mut self.hosts[i];
        let op = scenario.programs[i].get(host.op as usize);
        let idle = Host {
            generation: 0,
            loaded: 0,
            claim: None,
            ring: 0,
            fresh: 0,
            exists: None,
            mark: None,
            then: None,
            gives_up: false,
            since: 0,
            sizes: Sizes { cuts: 0, gone: 0, looks: 0, ..host.sizes },
            ..*host
        };
        *host = idle;
        host.at = match op {
            Some(Op::Write { .. }) if host.registered && host.bell => host.lets_go(scenario),
            Some(Op::Write { block, .. }) if host.registered => host.writes(scenario, *block),
            Some(Op::Write { .. }) if host.sizes.cleans => At::Begin,
            Some(Op::Write { .. }) => At::Register,
            _ if host.registered => host.lets_go(scenario),
            Some(Op::Move { .. } | Op::Add) => At::Begin,
            Some(Op::Settle | Op::Cut { .. }) => At::Begin,
            Some(Op::Read { .. }) => At::ReadList,
            None => At::Done,
        };
        if !host.registered {
            (host.layout, host.bell) = ([0; 2], false);
        }
        host.gives_up = matches!(op, Some(Op::Settle));
        if host.at == At::ReadList && scenario.guilt == Guilt::SizeBeforeMarks {
            host.at = At::ReadSize;
        }
        let lets_go = matches!(host.at, At::SaySize | At::Unmark | At::Deregister);
        if let Some(Op::Write { value, .. } | Op::Cut { value }) = op.filter(|_| !lets_go) {
            self.begin_write(scenario, *value);
        }
    }

    fn begin_write(&mut self, scenario: &Scenario, value: u8) {
        let bit = 1u8 << (value - 1);
        if self.begun & bit == 0 {
            self.begun |= bit;
            self.before[value as usize - 1] = self.acknowledged | self.cuts_left(scenario);
        }
    }

    /// The node joins again under a new number, and repeats its operation.
    pub(super) fn rejoin(&mut self, scenario: &Scenario, i: usize) {
        let host = &mut self.hosts[i];
        host.number += NODES as u8;
        assert!((host.number as usize) < NUMBERS, "room for the lives of a node");
        (host.lapsed, host.registered, host.bell, host.entry) = (false, false, false, 0);
        host.sizes = Sizes::default();
        self.next_op(scenario, i);
    }

    /// Adds the possible next states after a step of one node, one per outcome.
    pub(super) fn steps(&self, scenario: &Scenario, i: usize, out: &mut Vec<(Label, State)>) {
        let mut next = *self;
        let node = i as u8;
        let host = self.hosts[i];
        let (fault, fine) = (|what| Label { node, what, fault: true }, |what| Label { node, what, fault: false });
        let removal = match host.at {
            At::Deregister => Some((2, host.number, host.entry)),
            At::Remove => host.mark,
            At::Retry => host.claim.map(|(_, generation, _)| (1, generation, 0)),
            _ => self.unmarks(i),
        };
        let what = next.step(scenario, i);
        let Some(what) = what else { return };
        out.push((fine(what), next));
        if let Some(mark) = removal.filter(|_| self.faults.late > 0 && self.late.is_none()) {
            let mut again = next;
            again.late = Some(mark);
            again.faults.late -= 1;
            out.push((fault("removes twice, for the first answer was lost; once is yet to come"), again));
        }
        self.mishaps(scenario, i, out);
    }

    pub(super) fn step(&mut self, scenario: &Scenario, i: usize) -> Option<&'static str> {
        let me = self.hosts[i].number;
        match self.hosts[i].at {
            At::Register => Some(self.register(scenario, i)),
            At::List | At::ReadClaim | At::Load => Some(self.enter(scenario, i)),
            At::Write => Some(self.write(scenario, i)),
            At::LookAtLease => self.acknowledge(scenario, i),
            At::AskSize | At::MarkGrowth | At::SaySize | At::Unmark => self.grow(scenario, i),
            At::AskReach | At::SettleSize | At::SettleMarks => self.settle(scenario, i),
            At::MarkCut | At::CutSize | At::CutObject | At::UnmarkCuts => self.cut(scenario, i),
            At::Deregister => {
                self.remove((2, me, self.hosts[i].entry));
                let waits = self.hosts[i].claim.is_some();
                let host = &mut self.hosts[i];
                (host.registered, host.bell, host.layout, host.entry) = (false, false, [0; 2], 0);
                host.sizes = Sizes { cleans: host.sizes.cleans, ..Sizes::default() };
                if waits {
                    host.at = At::Await
                } else {
                    self.next_op(scenario, i)
                }
                Some("removes its registration")
            }
            At::Await => {
                let (node, generation, drains) = self.hosts[i].claim.unwrap();
                let claim = Claim { node: Node(u32::from(node)), generation: u64::from(generation), drains };
                if share::stands(&claim, &self.marks(), |node| self.is_over(node)) {
                    return None;
                }
                self.next_op(scenario, i);
                Some("sees that the claim stands no more")
            }
            At::EndLoad | At::EndCreate | At::Tidy | At::Remove => Some(self.end(scenario, i)),
            At::Begin | At::BeginReadClaim | At::Claim => self.begin(scenario, i),
            At::Step | At::Ring | At::Retry => Some(self.drain(scenario, i)),
            At::ChangeLoad | At::Copy => Some(self.copy(scenario, i)),
            At::LookBefore | At::Publish | At::LookAfter => self.finish(scenario, i),
            At::DeleteOld | At::DeleteNew => Some(self.delete(scenario, i)),
            At::ReadList | At::ReadLoad | At::ReadSize | At::ReadReach | At::ReadBlock => Some(self.read(scenario, i)),
            At::Done => None,
        }
    }
}
