//! Invariants of every state.

use super::*;

impl State {
    pub(super) fn judge(&mut self, scenario: &Scenario) {
        if self.broken > 0 {
            return;
        }
        let objects = self.layouts[self.highest()].objects;
        let blocks = if scenario.sizes() { self.blocks(scenario) } else { 2 };
        for (block, object) in objects.iter().enumerate() {
            let value = self.objects[*object as usize];
            let due = || self.is_due(scenario, self.acknowledged);
            let broken = if value == 0 {
                3
            } else if block >= blocks as usize {
                if due() { 7 } else { self.lies_beyond(scenario, value) }
            } else if value == EMPTY {
                if due() { 1 } else { 8 }
            } else if block_of(scenario, value) != block as u8 {
                2
            } else if self.is_replaced(scenario, value, self.acknowledged) {
                1
            } else if self.gone & 1 << (value - 1) != 0 {
                9
            } else {
                0
            };
            if broken > 0 {
                self.broken = broken;
            }
        }
    }

    /// Value beyond the end, which would be read once a node leaves a hole there. Data that arrived too late are
    /// exempt.
    fn lies_beyond(&self, scenario: &Scenario, value: u8) -> u8 {
        let lies = value != EMPTY && self.stray & 1 << (value - 1) == 0 && self.cuts == 0;
        // Reads convict the other broken rules; bytes beyond the end convict only this one.
        if lies && matches!(scenario.guilt, Guilt::None | Guilt::FailureForgotten) { 11 } else { 0 }
    }

    /// Size of the file for a node that opens it now.
    fn blocks(&self, scenario: &Scenario) -> u8 {
        let marked = self.grows.iter().any(|mark| *mark > 0);
        let asks = marked && self.asks(scenario, &self.listed());
        if asks { self.size.max(self.reach(self.layouts[self.highest()].objects)) } else { self.size }
    }

    /// Whether block 1 must have the value of one of these writes: each cut that set the size came before it.
    pub(super) fn is_due(&self, scenario: &Scenario, by: u8) -> bool {
        let by = by & !scenario.cuts();
        let mut writes = (2..=WRITES as u8).filter(|value| by & 1 << (value - 1) != 0);
        let stays = |value: u8| self.shortened & !self.before[value as usize - 1] == 0;
        writes.any(|value| block_of(scenario, value) == 1 && stays(value))
    }

    /// Cuts that stay unfinished because their node is over.
    pub(super) fn cuts_left(&self, scenario: &Scenario) -> u8 {
        let cuts = |program: &[Op]| {
            program.iter().fold(0, |cuts, op| match op {
                Op::Cut { value } => cuts | 1 << (value - 1),
                _ => cuts,
            })
        };
        let crashed = scenario.programs.iter().zip(&self.hosts).filter(|(_, host)| host.crashed);
        self.begun & crashed.fold(0, |left, (program, _)| left | cuts(program))
    }

    /// Whether one of the writes `by` began after the write of `value` was acknowledged.
    pub(super) fn is_replaced(&self, scenario: &Scenario, value: u8, by: u8) -> bool {
        let write = |value: u8| 1u8 << (value - 1);
        let later = |other: u8| by & write(other) != 0 && self.before[other as usize - 1] & write(value) != 0;
        (3..=WRITES as u8).any(|other| later(other) && block_of(scenario, other) == block_of(scenario, value))
    }
}
