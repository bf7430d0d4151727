//! The steps of a writer, and how any node ends a claim and takes litter away.

use super::shared::code;
use super::*;

impl State {
    pub(super) fn register(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let me = self.hosts[i].number;
        // A name that was never used before: in the model, a name that no late removal is about to hit.
        let hits = |entry: u8| {
            matches!(self.late, Some((2, number, of)) if number == me && of == entry)
                || matches!(self.late, Some((3, number, of)) if number == me && of & 3 == entry)
        };
        let late = |entry: &u8| hits(*entry) && scenario.guilt != Guilt::OneEntry;
        let entry = (0..4).find(|entry| !late(entry)).unwrap();
        self.writers[me as usize] |= 1 << entry;
        let host = &mut self.hosts[i];
        (host.registered, host.entry, host.at) = (true, entry, At::List);
        "registers"
    }

    /// The writer looks, reads the claim, and loads the layout.
    pub(super) fn enter(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        let (marks, what) = match host.at {
            At::List => {
                let listed = self.listed();
                let marks = Marks::new(&listed, None);
                self.hosts[i].generation = marks.generation as u8;
                self.note_sizes(scenario, i, &listed);
                if share::claimed(&listed).is_some() {
                    self.hosts[i].at = At::ReadClaim;
                    return "lists the marks, with a claim";
                }
                (marks, "lists the marks")
            }
            At::ReadClaim => {
                let Some(claim) = self.claim(host.generation + 1) else {
                    (self.hosts[i].at, self.hosts[i].generation) = (At::List, 0);
                    self.hosts[i].sizes.unlist();
                    return "finds the claim gone";
                };
                let generation = u64::from(host.generation);
                (Marks { generation, claim: Some(claim), ..Marks::default() }, "reads the claim")
            }
            _ => {
                let record = self.layouts[host.generation as usize];
                let found = record.by > 0;
                let host = &mut self.hosts[i];
                (host.at, host.layout) = (At::List, record.objects);
                host.loaded = if found { host.generation } else { 0 };
                if found && scenario.guilt == Guilt::LoadedUnseen {
                    (host.at, host.loaded) = (At::Write, 0);
                }
                host.generation = 0;
                return if found { "loads the layout" } else { "finds the layout gone" };
            }
        };
        let loaded = (host.loaded > 0).then_some(u64::from(host.loaded));
        let decision = share::enter(loaded, &marks, |node| self.is_over(node));
        let host = &mut self.hosts[i];
        host.loaded = 0;
        if decision != Enter::Go {
            host.sizes.unlist();
        }
        match decision {
            Enter::Load(_) => (host.at, host.layout) = (At::Load, [0; 2]),
            Enter::Go if scenario.sizes() => {
                (host.at, host.generation) = (At::AskSize, 0);
                // The name of an existing mark stays.
                host.sizes.basis = if host.sizes.marked { host.sizes.basis } else { marks.generation as u8 };
            }
            Enter::Go => (host.at, host.generation) = (At::Write, 0),
            Enter::Wait(claim) => {
                (host.at, host.generation) = (host.lets_go(scenario), 0);
                host.claim = Some((claim.node.0 as u8, claim.generation as u8, claim.drains));
            }
            Enter::End(_) => (host.at, host.then, host.layout) = (At::EndLoad, Some(Then::List), [0; 2]),
        }
        what
    }

    pub(super) fn write(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        let Some(Op::Write { block, value }) = scenario.programs[i].get(host.op as usize) else { panic!() };
        let object = &mut self.objects[host.layout[*block as usize] as usize];
        if *object == 0 {
            (self.hosts[i].at, self.hosts[i].layout) = (At::List, [0; 2]);
            return "writes, and the object is gone";
        }
        *object = *value;
        if scenario.sizes() {
            self.has_written(i, *block, *value);
        }
        self.hosts[i].at = At::LookAtLease;
        "writes"
    }

    pub(super) fn acknowledge(&mut self, scenario: &Scenario, i: usize) -> Option<&'static str> {
        let Some(Op::Write { value, .. }) = scenario.programs[i].get(self.hosts[i].op as usize) else { panic!() };
        let standing = if scenario.guilt == Guilt::NoLook { Standing::Held } else { self.standing(i) };
        match share::written(standing, !self.hosts[i].registered) {
            Written::Acknowledge => {
                self.acknowledged |= 1 << (value - 1);
                self.hosts[i].op += 1;
                self.next_op(scenario, i);
                Some("holds its lease and acknowledges the write")
            }
            Written::Wait => None,
            Written::Again => {
                self.rejoin(scenario, i);
                Some("has lost its lease: it joins again and writes again")
            }
        }
    }

    /// Ends a claim by publishing the next generation, and takes litter away.
    pub(super) fn end(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        match host.at {
            At::EndLoad if scenario.guilt == Guilt::ClaimJustRemoved => {
                self.remove((1, host.generation + 1, 0));
                self.tidied(scenario, i);
                "removes the claim of a node that is over"
            }
            At::EndLoad => {
                let record = self.layouts[host.generation as usize];
                if record.by == 0 {
                    self.tidied(scenario, i);
                    return "finds the layout gone";
                }
                self.hosts[i].at = At::EndCreate;
                self.hosts[i].layout = record.objects;
                "loads the layout to end a claim"
            }
            At::EndCreate => {
                let record = Record { by: host.number, objects: host.layout };
                let created = self.publish(host.generation + 1, record);
                (self.hosts[i].at, self.hosts[i].layout, self.hosts[i].generation) = (At::Tidy, [0; 2], 0);
                self.has_ended(scenario, i);
                if created == Created::Yes { "ends the claim: the next generation" } else { "finds the claim ended" }
            }
            At::Tidy => {
                self.find_litter(scenario, i);
                "lists litter"
            }
            _ => {
                self.remove(host.mark.unwrap());
                self.find_litter(scenario, i);
                "removes litter"
            }
        }
    }

    pub(super) fn find_litter(&mut self, scenario: &Scenario, i: usize) {
        let listed = self.listed();
        let mut litter = share::litter(&listed, |node| self.is_over(node));
        if scenario.guilt == Guilt::GrowthIsLitter {
            let over = |mark: &Mark| matches!(mark, Mark::Grows { node, .. } if self.is_over(*node));
            litter.extend(listed.iter().copied().filter(over));
        }
        match litter.first() {
            Some(mark) => (self.hosts[i].at, self.hosts[i].mark) = (At::Remove, Some(code(*mark))),
            None => self.tidied(scenario, i),
        }
    }

    pub(super) fn tidied(&mut self, scenario: &Scenario, i: usize) {
        let host = &mut self.hosts[i];
        host.mark = None;
        match host.then.take().unwrap() {
            Then::List => (host.at, host.layout, host.generation) = (At::List, [0; 2], 0),
            Then::Begin | Then::Cut | Then::Clean => self.begin_anew(scenario, i),
            Then::DeleteOld => host.at = At::DeleteOld,
        }
    }
}
