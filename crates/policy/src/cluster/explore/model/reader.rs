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
                let marks = Marks::new(&listed, None);
                let asks = scenario.sizes() && self.asks(scenario, &listed);
                let host = &mut self.hosts[i];
                let loaded = (host.loaded > 0).then_some(u64::from(host.loaded));
                let current = share::is_current(loaded, &marks);
                (host.at, host.loaded, host.generation) = (At::ReadBlock, 0, 0);
                if !current {
                    (host.at, host.generation, host.layout) = (At::ReadLoad, marks.generation as u8, [0; 2]);
                } else if scenario.sizes() {
                    host.sizes.asks = asks;
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

    fn read_block(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        let Some(Op::Read { block }) = scenario.programs[i].get(host.op as usize) else { panic!() };
        let value = self.objects[host.layout[*block as usize] as usize];
        if value == 0 {
            (self.hosts[i].at, self.hosts[i].layout) = (At::ReadList, [0; 2]);
            self.hosts[i].sizes.known = 0;
            return "reads, and the object is gone";
        }
        if value == EMPTY {
            return self.reads_nothing(scenario, i);
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
