//! The steps of a reader, which registers nothing.

use super::*;

impl State {
    pub(super) fn read(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        if self.hosts[i].since == 0 {
            (self.hosts[i].since, self.hosts[i].sizes.gone) = (self.acknowledged, self.gone);
        }
        match self.hosts[i].at {
            At::ReadList => {
                let listed = self.listed();
                let marks = self.marks();
                let asks = scenario.sizes() && self.asks(scenario, &listed);
                let host = self.hosts[i];
                let loaded = (host.loaded > 0).then_some(u64::from(host.loaded));
                let current = share::is_current(loaded, &marks);
                if host.sizes.looks > 0 && self.looks_again(i, current && !(asks && marks.claim.is_some()), &marks) {
                    return "looks again: nothing was cut, so it reads zeros";
                }
                let host = &mut self.hosts[i];
                (host.at, host.loaded, host.generation) = (At::ReadBlock, 0, 0);
                if !current {
                    (host.at, host.generation, host.layout) = (At::ReadLoad, marks.generation as u8, [0; 2]);
                } else if scenario.sizes() {
                    (host.sizes.asks, host.sizes.basis) = (asks, marks.generation as u8);
                    host.at = At::ReadSize;
                    if host.sizes.known > 0 {
                        self.read_on(scenario, i);
                    }
                }
                if current { "looks again: it has the layout" } else { "lists the marks" }
            }
            At::ReadLoad => {
                let record = self.layouts[self.hosts[i].generation as usize];
                let found = record.by > 0;
                let host = &mut self.hosts[i];
                (host.at, host.layout) = (At::ReadList, record.objects);
                host.loaded = if found { host.generation } else { 0 };
                host.generation = 0;
                if found && scenario.guilt == Guilt::LoadedUnseen {
                    (host.at, host.loaded) = (At::ReadBlock, 0);
                }
                if found { "loads the layout" } else { "finds the layout gone" }
            }
            At::ReadSize | At::ReadReach => self.read_size(scenario, i),
            _ => self.read_block(scenario, i),
        }
    }

    /// A listing of a reader that found no byte within the size. Returns whether the reader takes the missing byte for
    /// a hole; the model has no holes. It starts over unless the listing is `valid`.
    fn looks_again(&mut self, i: usize, valid: bool, marks: &Marks) -> bool {
        let host = &mut self.hosts[i];
        let seen = |(node, generation, drains)| Claim {
            node: Node(u32::from(node)),
            generation: u64::from(generation),
            drains,
        };
        let before = Marks { claim: host.claim.take().map(seen), ..marks.clone() };
        if !valid || host.sizes.looks == 2 && !share::agree(&before, false, marks) {
            (host.sizes.looks, host.sizes.known, host.sizes.basis) = (0, 0, 0);
            return false;
        }
        if host.sizes.looks == 2 {
            self.broken = 12;
            return true;
        }
        host.claim = marks.claim.map(|claim| (claim.node.0 as u8, claim.generation as u8, claim.drains));
        false
    }

    fn read_block(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        let Some(Op::Read { block }) = scenario.programs[i].get(host.op as usize) else { panic!() };
        let value = self.objects[host.layout[*block as usize] as usize];
        if value == 0 {
            (self.hosts[i].at, self.hosts[i].layout) = (At::ReadList, [0; 2]);
            (self.hosts[i].sizes.known, self.hosts[i].sizes.basis) = (0, 0);
            return "reads, and the object is gone";
        }
        if value == EMPTY {
            if scenario.guilt == Guilt::ShortIsHole {
                self.broken = 12;
            }
            let host = &mut self.hosts[i];
            (host.at, host.loaded, host.sizes.looks) = (At::ReadList, host.sizes.basis, 1);
            return "reads, and finds nothing within the size";
        }
        if block_of(scenario, value) != *block {
            self.broken = 2;
        } else if self.is_replaced(scenario, value, host.since) {
            self.broken = 6;
        } else if host.sizes.gone & self.gone & 1 << (value - 1) != 0 {
            self.broken = 9;
        }
        let host = &mut self.hosts[i];
        (host.op, host.layout, host.sizes) = (host.op + 1, [0; 2], Sizes::default());
        self.next_op(scenario, i);
        "reads"
    }
}
