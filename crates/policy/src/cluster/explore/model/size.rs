//! The steps by which a size is set later: marks of growth, settling, cuts.
//!
//! One step checks the lease and sets a size or cuts a tail. No protocol over a plain file system can stop a later
//! system call of a frozen node.

use super::shared::code;
use super::*;

impl Sizes {
    /// Discards the listing.
    pub(super) fn unlist(&mut self) {
        (self.asks, self.was_cut) = (false, false);
    }
}

impl Host {
    /// First step of a registered writer that ends.
    pub(super) fn lets_go(&self, scenario: &Scenario) -> At {
        match self.sizes.marked {
            true if scenario.guilt == Guilt::UnmarksFirst => At::Unmark,
            true => At::SaySize,
            false => At::Deregister,
        }
    }

    /// First step of a registered writer for a write to this block.
    pub(super) fn writes(&mut self, scenario: &Scenario, block: u8) -> At {
        let sizes = &mut self.sizes;
        if !scenario.sizes() || block < sizes.known || sizes.marked {
            return At::Write;
        }
        if !sizes.was_cut || scenario.guilt == Guilt::ExtendsBesideCut {
            return At::MarkGrowth;
        }
        sizes.cleans = true;
        self.lets_go(scenario)
    }

    /// Mark of growth that the node has set.
    fn mark_of_growth(&self) -> (u8, u8, u8) {
        (3, self.number, self.entry | self.sizes.basis << 2)
    }
}

impl State {
    /// Whether the objects must be queried for the size.
    pub(super) fn asks(&self, scenario: &Scenario, listed: &BTreeSet<Mark>) -> bool {
        if scenario.guilt == Guilt::OldGrowthCounts {
            return !share::settled(listed).is_empty();
        }
        !share::growers(listed).is_empty()
    }

    /// Size in blocks up to the end of these objects.
    pub(super) fn reach(&self, objects: [u8; 2]) -> u8 {
        1 + u8::from(![0, EMPTY].contains(&self.objects[objects[1] as usize]))
    }

    /// Takes over the marks of size in a writer's listing.
    pub(super) fn note_sizes(&mut self, scenario: &Scenario, i: usize, listed: &BTreeSet<Mark>) {
        if scenario.sizes() {
            self.hosts[i].sizes.asks = scenario.guilt == Guilt::TrustsReach && self.asks(scenario, listed);
            self.hosts[i].sizes.was_cut = listed.iter().any(|mark| matches!(mark, Mark::Cut(_)));
        }
    }

    pub(super) fn has_written(&mut self, i: usize, block: u8, value: u8) {
        if block == 1 {
            self.hosts[i].sizes.known = 2;
        }
        self.gone &= !(1 << (value - 1));
        let late = self.standing(i) == Standing::Lost;
        self.stray = self.stray & !(1 << (value - 1)) | u8::from(late) << (value - 1);
    }

    /// A write failed, maybe half way, so the node queries the objects for their size.
    pub(super) fn has_failed(&mut self, scenario: &Scenario, i: usize, known: u8) {
        let reach = if scenario.guilt == Guilt::FailureForgotten { 0 } else { self.reach(self.hosts[i].layout) };
        self.hosts[i].sizes.known = known.max(reach);
    }

    /// Mark that the next step removes.
    pub(super) fn unmarks(&self, i: usize) -> Option<(u8, u8, u8)> {
        let host = &self.hosts[i];
        match host.at {
            At::Unmark => Some(host.mark_of_growth()),
            At::SettleMarks => {
                let number = host.ring.trailing_zeros() as u8;
                Some((3, number, self.grows[number as usize]))
            }
            At::UnmarkCuts => Some((4, host.sizes.cuts.trailing_zeros() as u8, 0)),
            _ => None,
        }
    }

    /// A writer reads the size, marks that it makes the file longer, and sets the size at its end.
    pub(super) fn grow(&mut self, scenario: &Scenario, i: usize) -> Option<&'static str> {
        let host = self.hosts[i];
        match host.at {
            At::AskSize => Some(self.ask_size(scenario, i)),
            At::MarkGrowth => {
                if scenario.guilt != Guilt::GrowsUnmarked {
                    self.grows[host.number as usize] = host.mark_of_growth().2;
                }
                (self.hosts[i].sizes.marked, self.hosts[i].at) = (true, At::Write);
                Some("marks that it makes the file longer")
            }
            At::SaySize => match self.sized_standing(scenario, i) {
                Standing::Held => {
                    self.size = self.size.max(host.sizes.known);
                    let first = scenario.guilt == Guilt::UnmarksFirst;
                    self.hosts[i].at = if first { At::Deregister } else { At::Unmark };
                    self.hosts[i].sizes.marked &= !first;
                    Some("holds its lease, and says the size")
                }
                Standing::Lapsed => None,
                Standing::Lost => {
                    self.rejoin(scenario, i);
                    Some("has lost its lease, and leaves its marks: it joins again")
                }
            },
            _ => {
                self.remove(host.mark_of_growth());
                let first = scenario.guilt == Guilt::UnmarksFirst;
                self.hosts[i].at = if first { At::SaySize } else { At::Deregister };
                self.hosts[i].sizes.marked = first;
                Some("removes its mark of growth")
            }
        }
    }

    fn sized_standing(&self, scenario: &Scenario, i: usize) -> Standing {
        if scenario.guilt == Guilt::SizedUnseen { Standing::Held } else { self.standing(i) }
    }

    /// This is one step, because only growth happens beside a registered writer.
    fn ask_size(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        let reach = if host.sizes.asks { self.reach(host.layout) } else { 0 };
        let sizes = &mut self.hosts[i].sizes;
        (sizes.known, sizes.asks) = (self.size.max(reach), false);
        let Some(Op::Write { block, .. }) = scenario.programs[i].get(host.op as usize) else { panic!() };
        self.hosts[i].at = self.hosts[i].writes(scenario, *block);
        "asks for the size"
    }

    /// A changer that drains has exclusive use; returns what it must settle first.
    pub(super) fn is_alone(&mut self, scenario: &Scenario, i: usize, listed: &BTreeSet<Mark>) {
        if !scenario.sizes() || !self.drains(scenario, i) {
            return;
        }
        let asks = self.asks(scenario, listed);
        let settled: Vec<_> = share::settled(listed).into_iter().map(code).collect();
        if settled.iter().any(|mark| !self.is_over(Node(u32::from(mark.1)))) {
            self.broken = 10;
        }
        let host = &mut self.hosts[i];
        if host.sizes.cleans {
            let cut = |mark: &Mark| if let Mark::Cut(generation) = mark { Some(*generation) } else { None };
            host.sizes.cuts = listed.iter().filter_map(cut).fold(0, |cuts, generation| cuts | 1 << generation);
        }
        if scenario.guilt == Guilt::SkipsSettling || settled.is_empty() {
            return;
        }
        host.ring = settled.iter().fold(0, |ring, mark| ring | 1 << mark.1);
        host.sizes.asks = asks;
        let first = scenario.guilt == Guilt::SettlesMarksFirst || !asks;
        host.at = if first { At::SettleMarks } else { At::AskReach };
    }

    /// Queries the objects, sets the size, then removes the marks.
    pub(super) fn settle(&mut self, scenario: &Scenario, i: usize) -> Option<&'static str> {
        if self.hosts[i].at == At::AskReach {
            let reach = self.reach(self.layouts[self.highest()].objects);
            (self.hosts[i].at, self.hosts[i].sizes.known) = (At::SettleSize, reach);
            return Some("asks the objects how far they reach");
        }
        if self.hosts[i].at == At::SettleMarks {
            self.remove(self.unmarks(i).unwrap());
            let host = &mut self.hosts[i];
            host.ring &= host.ring - 1;
            if host.ring == 0 {
                host.at = if host.sizes.asks { At::AskReach } else { At::ChangeLoad };
            }
            return Some("removes a mark of growth that is settled");
        }
        match self.sized_standing(scenario, i) {
            Standing::Held => {
                let host = &mut self.hosts[i];
                self.size = self.size.max(host.sizes.known);
                (host.sizes.asks, host.sizes.known) = (false, 0);
                host.at = if host.ring > 0 { At::SettleMarks } else { At::ChangeLoad };
                Some("holds its lease, and sets the size to what the objects reach")
            }
            Standing::Lapsed => None,
            Standing::Lost => {
                self.rejoin(scenario, i);
                Some("has lost its lease: it joins again")
            }
        }
    }

    /// A node with exclusive use has loaded the layout, and decides whether to cut.
    pub(super) fn cuts_next(&mut self, scenario: &Scenario, i: usize) {
        let host = &mut self.hosts[i];
        let cuts = matches!(scenario.programs[i].get(host.op as usize), Some(Op::Cut { .. }));
        if cuts || host.sizes.cleans {
            let (_, generation, _) = host.claim.take().unwrap();
            host.generation = generation - 1;
            (host.at, host.then) = (At::CutObject, Some(Then::Clean));
            if cuts {
                (host.at, host.then) = (At::MarkCut, Some(Then::Cut));
                host.sizes.cuts = 1 << generation;
            }
            if cuts && scenario.guilt == Guilt::CutsUnmarked {
                (host.at, host.sizes.cuts) = (At::CutSize, 0);
            }
        }
    }

    /// Cuts the file, or only the bytes beyond its end.
    pub(super) fn cut(&mut self, scenario: &Scenario, i: usize) -> Option<&'static str> {
        let host = self.hosts[i];
        let standing = self.sized_standing(scenario, i);
        match (host.at, standing) {
            (At::MarkCut, _) => {
                self.cuts |= host.sizes.cuts;
                self.hosts[i].at = At::CutSize;
                Some("marks that it cuts the file")
            }
            (At::UnmarkCuts, _) => {
                self.remove(self.unmarks(i).unwrap());
                let host = &mut self.hosts[i];
                host.sizes.cuts &= host.sizes.cuts - 1;
                host.at = if host.sizes.cuts > 0 { At::UnmarkCuts } else { At::EndCreate };
                Some("removes a mark of a cut")
            }
            (_, Standing::Lapsed) => None,
            (_, Standing::Lost) => {
                self.rejoin(scenario, i);
                Some("has lost its lease: it joins again")
            }
            (At::CutSize, Standing::Held) => {
                (self.size, self.hosts[i].at) = (1, At::CutObject);
                if let Some(Op::Cut { value }) = scenario.programs[i].get(host.op as usize) {
                    self.shortened |= 1 << (value - 1);
                }
                let value = self.objects[self.layouts[self.highest()].objects[1] as usize];
                self.gone |= if value == EMPTY { 0 } else { 1 << (value - 1) };
                Some("holds its lease, and sets the size to one block")
            }
            (_, Standing::Held) => {
                if self.size < 2 {
                    self.objects[host.layout[1] as usize] = EMPTY;
                }
                self.hosts[i].at = if host.sizes.cuts > 0 { At::UnmarkCuts } else { At::EndCreate };
                Some("holds its lease, and cuts the object beyond the size")
            }
        }
    }

    /// Ends the program of a cut when its claim was ended.
    pub(super) fn has_ended(&mut self, scenario: &Scenario, i: usize) {
        let host = &mut self.hosts[i];
        match (host.then, scenario.programs[i].get(host.op as usize)) {
            (Some(Then::Cut), Some(Op::Cut { value })) => {
                self.acknowledged |= 1 << (value - 1);
                (host.op, host.then) = (host.op + 1, Some(Then::Begin));
            }
            (Some(Then::Clean), _) => {
                (host.sizes.cleans, host.then) = (false, Some(Then::Begin));
            }
            _ => {}
        }
    }

    /// A reader has a listing: it reads the size, and queries the objects if it has to.
    pub(super) fn read_size(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = self.hosts[i];
        if host.at == At::ReadReach {
            if self.objects[host.layout[1] as usize] == 0 {
                (self.hosts[i].at, self.hosts[i].layout, self.hosts[i].claim) = (At::ReadList, [0; 2], None);
                self.hosts[i].sizes = Sizes { gone: host.sizes.gone, ..Sizes::default() };
                return "asks the objects, and one is gone";
            }
            self.hosts[i].sizes.known = host.sizes.known.max(self.reach(host.layout));
            self.hosts[i].sizes.asks = false;
            self.read_on(scenario, i);
            return "asks the objects how far they reach";
        }
        self.hosts[i].sizes.known = self.size;
        if scenario.guilt == Guilt::SizeBeforeMarks {
            self.hosts[i].at = At::ReadList;
        } else {
            self.read_on(scenario, i);
        }
        "asks for the size"
    }

    /// A reader has the size of the stub, and decides whether to query the objects.
    pub(super) fn read_on(&mut self, scenario: &Scenario, i: usize) {
        let host = &mut self.hosts[i];
        let Some(Op::Read { block }) = scenario.programs[i].get(host.op as usize) else { panic!() };
        if *block < host.sizes.known && host.sizes.looks > 0 {
            if scenario.guilt == Guilt::SizeAfterIsEnough {
                self.broken = 12;
                return;
            }
            (host.at, host.loaded, host.sizes.looks) = (At::ReadList, host.sizes.basis, 2);
            (host.sizes.asks, host.sizes.known) = (false, 0);
        } else if *block < host.sizes.known {
            (host.at, host.sizes.asks, host.sizes.known) = (At::ReadBlock, false, 0);
        } else if host.sizes.asks {
            host.at = At::ReadReach;
        } else {
            self.reads_nothing(scenario, i);
        }
    }

    /// A reader finds no byte where it reads.
    pub(super) fn reads_nothing(&mut self, scenario: &Scenario, i: usize) -> &'static str {
        let host = &mut self.hosts[i];
        let since = host.since;
        (host.op, host.layout, host.sizes) = (host.op + 1, [0; 2], Sizes::default());
        if self.is_due(scenario, since) {
            self.broken = 6;
        }
        self.next_op(scenario, i);
        "finds the end of the file"
    }
}
