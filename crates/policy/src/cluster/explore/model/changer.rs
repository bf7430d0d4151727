//! The steps of a changer: claim, drain, copy, publish, delete.

use super::*;

impl State {
    pub(super) fn begin_anew(&mut self, scenario: &Scenario, i: usize) {
        let host = &mut self.hosts[i];
        if host.gives_up {
            host.op += 1;
        }
        (host.layout, host.gives_up) = ([0; 2], false);
        self.next_op(scenario, i);
    }

    pub(super) fn drains(&self, scenario: &Scenario, i: usize) -> bool {
        let op = scenario.programs[i].get(self.hosts[i].op as usize);
        self.hosts[i].sizes.cleans || matches!(op, Some(Op::Move { .. } | Op::Cut { .. }))
    }

    pub(super) fn begin(&mut self, scenario: &Scenario, i: usize) -> Option<&'static str> {
        let host = self.hosts[i];
        let me = Node(u32::from(host.number));
        let (marks, what) = match host.at {
            At::Begin if self.standing(i) == Standing::Lost => {
                self.rejoin(scenario, i);
                return Some("has lost its lease: it joins again");
            }
            At::Begin => {
                let listed = self.listed();
                let marks = Marks::new(&listed, None);
                self.hosts[i].generation = marks.generation as u8;
                if share::claimed(&listed).is_some() {
                    self.hosts[i].at = At::BeginReadClaim;
                    return Some("lists the marks, with a claim");
                }
                (marks, "lists the marks")
            }
            At::BeginReadClaim => {
                let Some(claim) = self.claim(host.generation + 1) else {
                    (self.hosts[i].at, self.hosts[i].generation) = (At::Begin, 0);
                    return Some("finds the claim gone");
                };
                let generation = u64::from(host.generation);
                (Marks { generation, claim: Some(claim), ..Marks::default() }, "reads the claim")
            }
            _ => {
                let (_, generation, drains) = host.claim.unwrap();
                let free = self.claims[generation as usize].0 == 0;
                if free {
                    self.claims[generation as usize] = (host.number, drains);
                    self.hosts[i].at = At::Step;
                } else {
                    (self.hosts[i].at, self.hosts[i].claim) = (At::Begin, None);
                }
                return Some(if free { "claims the next generation" } else { "finds it claimed" });
            }
        };
        let decision = share::begin(me, self.drains(scenario, i), &marks, |node| self.is_over(node));
        let gives_up = host.gives_up;
        let host = &mut self.hosts[i];
        let seen = |claim: Claim| Some((claim.node.0 as u8, claim.generation as u8, claim.drains));
        match decision {
            // The node's claim is gone, so there is nothing to end.
            Begin::Claim(_) | Begin::Wait(_) if gives_up => self.begin_anew(scenario, i),
            Begin::Claim(claim) => (host.at, host.claim, host.generation) = (At::Claim, seen(claim), 0),
            Begin::Wait(claim) => (host.at, host.claim, host.generation) = (At::Await, seen(claim), 0),
            Begin::End(_) => (host.at, host.then) = (At::EndLoad, Some(Then::Begin)),
        }
        Some(what)
    }

    pub(super) fn drain(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        let (node, generation, drains) = host.claim.unwrap();
        let claim = Claim { node: Node(u32::from(node)), generation: u64::from(generation), drains };
        match host.at {
            At::Step => {
                let (listed, marks) = (self.listed(), self.marks());
                let step = share::step(&claim, &marks, |node| self.is_over(node));
                let host = &mut self.hosts[i];
                match step {
                    Step::Go => {
                        (host.at, host.generation) = (At::ChangeLoad, marks.generation as u8);
                        self.is_alone(scenario, i, &listed);
                    }
                    Step::Drain(nodes) => {
                        host.at = At::Ring;
                        host.ring = nodes.iter().fold(0, |ring, node| ring | 1 << node.0);
                    }
                    Step::Retry => host.at = At::Retry,
                }
                "looks who writes"
            }
            At::Ring => {
                for other in &mut self.hosts {
                    other.bell |= host.ring & (1 << other.number) != 0 && other.registered;
                }
                (self.hosts[i].at, self.hosts[i].ring) = (At::Step, 0);
                "rings at the writers"
            }
            _ => {
                self.remove((1, generation, 0));
                self.begin_anew(scenario, i);
                "removes its claim"
            }
        }
    }

    pub(super) fn copy(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        let (_, generation, _) = host.claim.unwrap();
        if host.at == At::ChangeLoad {
            let record = self.layouts[generation as usize - 1];
            let found = record.by > 0;
            let moves = self.drains(scenario, i);
            let next = if moves { At::Copy } else { At::LookBefore };
            (self.hosts[i].at, self.hosts[i].generation) = (if found { next } else { At::Step }, 0);
            self.hosts[i].layout = record.objects;
            if found {
                self.cuts_next(scenario, i);
            } else {
                self.hosts[i].sizes.cuts = 0;
            }
            return if found { "loads the layout to change it" } else { "finds the layout gone" };
        }
        let Some(Op::Move { block }) = scenario.programs[i].get(host.op as usize) else { panic!() };
        let mut value = self.objects[host.layout[*block as usize] as usize];
        if value == 0 {
            (self.hosts[i].at, self.hosts[i].layout) = (At::Step, [0; 2]);
            return "finds the object gone";
        }
        if *block >= self.size {
            value = EMPTY;
        }
        let lowest = (1..OBJECTS).find(|object| self.objects[*object] == 0).unwrap() as u8;
        let fresh = if scenario.guilt == Guilt::NumbersReused { lowest } else { self.next_object };
        self.next_object += 1;
        assert!((self.next_object as usize) < OBJECTS, "room for objects");
        self.objects[fresh as usize] = value;
        (self.hosts[i].at, self.hosts[i].fresh) = (At::LookBefore, fresh);
        "copies the block into a new object"
    }

    pub(super) fn finish(&mut self, scenario: &Scenario, i: usize) -> Option<&'static str> {
        let host = self.hosts[i];
        let (_, generation, _) = host.claim.unwrap();
        let standing = self.standing(i);
        match (host.at, standing) {
            (At::LookBefore, Standing::Lapsed) => None,
            (At::LookBefore, Standing::Lost) => {
                self.rejoin(scenario, i);
                Some("has lost its lease: it joins again")
            }
            (At::LookBefore, Standing::Held) => {
                self.hosts[i].at = At::Publish;
                Some("holds its lease")
            }
            (At::Publish, _) => {
                let mut objects = host.layout;
                if let Some(Op::Move { block }) = scenario.programs[i].get(host.op as usize) {
                    objects[*block as usize] = host.fresh;
                }
                let created = self.publish(generation, Record { by: host.number, objects });
                self.hosts[i].exists = (created != Created::Yes).then_some(created == Created::Exists { mine: true });
                self.hosts[i].at = At::LookAfter;
                Some(if created == Created::Yes { "publishes" } else { "finds the generation published" })
            }
            _ => {
                let created = host.exists.map_or(Created::Yes, |mine| Created::Exists { mine });
                let refused = scenario.guilt == Guilt::RefusedIsNot && host.exists == Some(false);
                let end = if refused { Published::Not } else { share::published(created, standing) };
                self.conclude(scenario, i, generation, end)
            }
        }
    }

    pub(super) fn conclude(
        &mut self,
        scenario: &Scenario,
        i: usize,
        generation: u8,
        end: Published,
    ) -> Option<&'static str> {
        self.hosts[i].exists = None;
        match end {
            Published::Happened => {
                if self.happened & (1 << generation) != 0 {
                    self.broken = 5;
                }
                self.happened |= 1 << generation;
                (self.hosts[i].at, self.hosts[i].then) = (At::Tidy, Some(Then::DeleteOld));
                self.hosts[i].claim = None;
                Some("holds its lease: the change happened")
            }
            Published::Not => {
                self.hosts[i].at = At::DeleteNew;
                self.hosts[i].claim = None;
                Some("sees that its change did not happen")
            }
            Published::Wait => None,
            Published::Unknown => {
                self.hosts[i].op += 1;
                self.rejoin(scenario, i);
                Some("has lost its lease, and leaves its change to a check")
            }
        }
    }

    pub(super) fn delete(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        let moved = match scenario.programs[i].get(host.op as usize) {
            Some(Op::Move { block }) => Some(host.layout[*block as usize]),
            _ => None,
        };
        let old = host.at == At::DeleteOld;
        let gone = if old { moved } else { moved.map(|_| host.fresh) };
        if let Some(object) = gone {
            self.objects[object as usize] = 0;
        }
        self.hosts[i].op += u8::from(old);
        self.begin_anew(scenario, i);
        if old { "deletes the old object" } else { "deletes its new object" }
    }
}
