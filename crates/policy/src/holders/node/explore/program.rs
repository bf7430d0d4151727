//! The engine: operations of the programs, each under a permit of the machine.

use super::scenario::{Guilt, Op, Scenario};
use super::world::{At, Late, Running, START, VALUES, World};
use crate::cluster::share::Written;
use crate::holders::node::{Event, Use};
use crate::holders::table::Mode;

pub const LOST: &str = "an acknowledged write is not in the layout";

fn bits(set: u16) -> impl Iterator<Item = usize> {
    (0..VALUES).filter(move |bit| set & 1 << bit != 0)
}

impl World {
    pub fn op(&self, scenario: &Scenario, i: usize) -> Option<Op> {
        scenario.programs[i].get(self.hosts[i].running.op).copied()
    }

    pub fn begin_op(&mut self, scenario: &Scenario, i: usize, op: usize) {
        self.hosts[i].running = Running { op, ..START };
        if self.op(scenario, i).is_none() {
            self.hosts[i].running.at = At::Done;
        }
    }

    /// An operation goes on under another number of the node. An append that may have happened fails instead.
    pub fn resume_op(&mut self, scenario: &Scenario, i: usize, before: Running) {
        let wrote = matches!(before.at, At::Data | At::SetSize | At::Finish);
        let value = self.op(scenario, i).and_then(Op::value).unwrap_or_default();
        let landed =
            !self.late.iter().any(|late| matches!(late, Late::Write { value: on_the_way, .. } if *on_the_way == value));
        if scenario.guilt == Guilt::NoLook && matches!(before.at, At::Data | At::Finish) && landed {
            self.acknowledged |= 1 << value;
            self.place[usize::from(value)] = (before.file, before.block);
            self.judge(scenario);
        }
        if wrote && matches!(self.op(scenario, i), Some(Op::Append { .. })) {
            self.next_op(scenario, i);
        } else {
            self.hosts[i].running = Running { op: before.op, since: before.since, ..START };
        }
    }

    fn file_of(&self, i: usize, name: usize) -> Option<usize> {
        self.hosts[i].handles[name].or(self.names[name])
    }

    fn usage(&self, scenario: &Scenario, i: usize) -> Option<Use> {
        let running = &self.hosts[i].running;
        let file = running.file;
        match self.op(scenario, i)? {
            Op::Read { .. } | Op::Open { .. } => Some(Use::Read),
            Op::Write { .. } if running.block >= self.stubs[file].size => Some(Use::Grow),
            Op::Write { .. } => Some(Use::Write),
            Op::Append { .. } | Op::Cut { .. } => Some(Use::Alone),
            Op::Move { .. } => Some(Use::Change),
            Op::Close { .. } if self.hosts[i].views[file].behind => Some(Use::Write),
            _ => None,
        }
    }

    /// Object and value of a write under way.
    pub fn data(&self, scenario: &Scenario, i: usize) -> Option<(u8, u8)> {
        let running = &self.hosts[i].running;
        match self.op(scenario, i)? {
            Op::Write { value, .. } | Op::Append { value, .. } => Some((running.objects[running.block], value)),
            _ => None,
        }
    }

    /// The node's next step in its operation, if there is one.
    pub fn can_go_on(&self, scenario: &Scenario, i: usize) -> Option<String> {
        let running = &self.hosts[i].running;
        let op = self.op(scenario, i)?;
        (!matches!(running.at, At::Wait | At::Done)).then(|| format!("{:?} of {op:?}", running.at))
    }

    pub fn go_on(&mut self, scenario: &Scenario, i: usize) {
        let Some(op) = self.op(scenario, i) else { return };
        match self.hosts[i].running.at {
            At::Start => self.start_op(scenario, i, op),
            At::Try => self.attempt(scenario, i, op),
            At::Size => self.take_size(scenario, i, op),
            At::Data => self.transfer(scenario, i, op),
            At::SetSize | At::Settle | At::Mark | At::CutSize | At::CutObject | At::Unmark => self.resize(scenario, i),
            At::Finish => self.finish_op(scenario, i, op),
            At::Wait | At::Done => {}
        }
        self.judge(scenario);
    }

    fn start_op(&mut self, scenario: &Scenario, i: usize, op: Op) {
        let value = op.value().map_or(0, |value| 1u16 << value);
        if self.begun & value == 0 || value == 0 {
            self.begun |= value;
            if let Some(value) = op.value() {
                self.before[usize::from(value)] = self.acknowledged;
            }
            self.hosts[i].running.since = self.visible;
        }
        if let Op::Create { name } = op {
            (self.names[name], self.hosts[i].handles[name]) = (Some(name), Some(name));
            let now = self.now(scenario, i);
            self.send(scenario, i, Event::Made(name as u64, now));
            return self.next_op(scenario, i);
        }
        let Some(file) = self.file_of(i, op.name()) else {
            return self.next_op(scenario, i);
        };
        self.hosts[i].running.file = file;
        match op {
            Op::Remove { name } => {
                self.names[name] = None;
                self.unlinked(scenario, i, file);
            }
            Op::Replace { from, to } => {
                self.names[to] = self.names[from].take();
                self.unlinked(scenario, i, file);
            }
            _ => {
                let block = if let Op::Write { block, .. } | Op::Read { block, .. } = op { block } else { 0 };
                self.hosts[i].running.block = block;
                self.send(scenario, i, Event::Opened(file as u64));
                if matches!(op, Op::Close { .. }) && !self.hosts[i].views[file].behind {
                    return self.end_op(scenario, i, op);
                }
                self.hosts[i].running.at = At::Try;
                if !matches!(op, Op::Move { .. }) {
                    return self.attempt(scenario, i, op);
                }
                self.hosts[i].running.at = At::Wait;
                self.send(scenario, i, Event::Want(file as u64, Use::Change));
            }
        }
    }

    fn unlinked(&mut self, scenario: &Scenario, i: usize, file: usize) {
        self.stubs[file].linked = false;
        self.hosts[i].removed.insert(file);
        self.next_op(scenario, i);
    }

    fn attempt(&mut self, scenario: &Scenario, i: usize, op: Op) {
        let file = self.hosts[i].running.file;
        let Some(usage) = self.usage(scenario, i) else { return self.end_op(scenario, i, op) };
        if usage == Use::Change {
            return self.end_op(scenario, i, op);
        }
        let now = self.now(scenario, i);
        let machine = &mut self.hosts[i].machine;
        let permit = machine.begin(now, file as u64, usage).or_else(|| {
            let reads = if scenario.guilt == Guilt::WritesAsReader { Some(Use::Read) } else { None };
            machine.begin(now, file as u64, reads?).filter(|permit| permit.mode == Mode::Write)
        });
        let extends = usage == Use::Grow;
        let running = &mut self.hosts[i].running;
        running.permit = permit;
        let Some(permit) = permit else {
            running.at = At::Wait;
            self.send(scenario, i, Event::Want(file as u64, usage));
            return;
        };
        // A name that went to another file before this one was held is looked up again.
        if !self.stubs[file].linked && !self.hosts[i].handles.contains(&Some(file)) {
            let (op, since) = (self.hosts[i].running.op, self.hosts[i].running.since);
            self.hosts[i].running = Running { op, since, ..START };
            return self.send(scenario, i, Event::Closed(file as u64));
        }
        self.take_new(i, file);
        if let Op::Open { name } = op {
            self.hosts[i].handles[name] = Some(file);
            return self.next_op(scenario, i);
        }
        let view = self.hosts[i].views[file];
        let running = &mut self.hosts[i].running;
        running.objects = view.objects;
        running.size = view.size;
        // Between the size and the bytes of a write within it nothing matters.
        let within = matches!(op, Op::Write { .. }) && !extends;
        let cached = within || permit.mode.caches() || scenario.guilt == Guilt::KeepsCache;
        if cached { self.sized(op, i) } else { running.at = At::Size }
    }

    fn take_size(&mut self, scenario: &Scenario, i: usize, op: Op) {
        let running = &self.hosts[i].running;
        let (file, beside) = (running.file, running.permit.is_some_and(|permit| !permit.mode.caches()));
        let shown = beside && !self.stubs[file].cut && scenario.guilt != Guilt::BelievesStub;
        let reach = if shown { self.reach(&running.objects) } else { 0 };
        let view = &mut self.hosts[i].views[file];
        let size = self.stubs[file].size.max(reach);
        view.size = if view.behind { view.size.max(size) } else { size };
        // A writer settles what only the objects show: the node that grew the file may fail.
        let settled = if matches!(op, Op::Write { .. }) { self.stubs[file].size } else { view.size };
        self.hosts[i].running.size = settled;
        self.sized(op, i);
    }

    /// The size is known.
    fn sized(&mut self, op: Op, i: usize) {
        self.hosts[i].running.marked = self.stubs[self.hosts[i].running.file].cut;
        let running = &mut self.hosts[i].running;
        running.at = match op {
            Op::Read { .. } | Op::Write { .. } => At::Data,
            Op::Append { .. } if running.size < 2 => {
                running.block = running.size;
                At::Data
            }
            // The model has no room for more.
            Op::Append { .. } => {
                running.block = 2;
                At::Finish
            }
            Op::Cut { .. } | Op::Close { .. } => At::Settle,
            _ => At::Finish,
        };
    }

    /// Reads or writes an object.
    fn transfer(&mut self, scenario: &Scenario, i: usize, op: Op) {
        let running = self.hosts[i].running;
        if let Op::Read { block, .. } = op {
            let file = running.file;
            let found = self.objects.get(&running.objects[block]).copied();
            let caches = running.permit.is_some_and(|permit| permit.mode.caches());
            let keeps = caches || scenario.guilt == Guilt::KeepsCache;
            let found = self.hosts[i].views[file].cached[block].filter(|_| keeps).or(found);
            let value = (block < running.size).then_some(found);
            if caches {
                self.hosts[i].views[file].cached[block] = found;
            }
            if self.written(scenario, i) != Written::Acknowledge {
                return self.again(scenario, i, op);
            }
            self.judge_read(scenario, (running.file, block), value, running.since);
            return self.end_op(scenario, i, op);
        }
        let Some((object, value)) = self.data(scenario, i) else { return };
        self.objects.entry(object).and_modify(|content| *content = value);
        self.place[usize::from(value)] = (running.file, running.block);
        self.hosts[i].views[running.file].cached[running.block] = None;
        let longer = running.block >= running.size;
        let later = matches!(op, Op::Write { later: true, .. } | Op::Append { later: true, .. }) && !running.marked;
        let now = if longer && !later { At::SetSize } else { At::Finish };
        self.hosts[i].running.at = now;
    }

    /// Sets sizes and cuts objects, while hold and lease are valid.
    fn resize(&mut self, scenario: &Scenario, i: usize) {
        let Some(op) = self.op(scenario, i) else { return };
        if self.written(scenario, i) != Written::Acknowledge {
            return self.again(scenario, i, op);
        }
        let running = self.hosts[i].running;
        let (file, at) = (running.file, running.at);
        let behind = std::mem::take(&mut self.hosts[i].views[file].behind);
        let view = &mut self.hosts[i].views[file];
        let stub = &mut self.stubs[file];
        let short = view.size <= 1 && !stub.cut;
        let next = match at {
            At::SetSize => {
                view.size = view.size.max(running.block + 1);
                stub.size = stub.size.max(running.block + 1);
                self.hosts[i].running.size = running.block + 1;
                At::Finish
            }
            At::Settle => {
                stub.size = if behind { stub.size.max(view.size) } else { stub.size };
                if matches!(op, Op::Close { .. }) || short { At::Finish } else { At::Mark }
            }
            At::Mark => {
                stub.cut = true;
                At::CutSize
            }
            At::CutSize => {
                (stub.size, view.size) = (stub.size.min(1), view.size.min(1));
                At::CutObject
            }
            At::CutObject => {
                self.objects.entry(running.objects[1]).and_modify(|content| *content = 0);
                At::Unmark
            }
            _ => {
                stub.cut = false;
                At::Finish
            }
        };
        self.hosts[i].running.at = next;
    }

    fn written(&mut self, scenario: &Scenario, i: usize) -> Written {
        let running = self.hosts[i].running;
        let Some(permit) = running.permit else { return Written::Again };
        let (now, standing) = (self.now(scenario, i), self.standing(i));
        self.hosts[i].machine.finish(now, running.file as u64, &permit, standing)
    }

    fn again(&mut self, scenario: &Scenario, i: usize, op: Op) {
        self.hosts[i].running.permit = None;
        self.hosts[i].running.at = At::Try;
        self.attempt(scenario, i, op);
        // The operation has ended for those that wait for it.
        self.act_at_once(scenario, i);
    }

    fn finish_op(&mut self, scenario: &Scenario, i: usize, op: Op) {
        let looks = scenario.guilt != Guilt::NoLook;
        if looks && self.written(scenario, i) != Written::Acknowledge {
            return self.again(scenario, i, op);
        }
        let running = self.hosts[i].running;
        let view = &mut self.hosts[i].views[running.file];
        match op {
            Op::Write { value, .. } | Op::Append { value, .. } if running.block < 2 => {
                if running.block >= running.size {
                    (view.size, view.behind) = (view.size.max(running.block + 1), true);
                }
                self.acknowledged |= 1 << value;
                self.visible |= 1 << value;
            }
            Op::Cut { value, .. } => {
                self.acknowledged |= 1 << value;
                self.visible |= 1 << value;
            }
            // All that this node has acknowledged in the file is visible.
            Op::Close { .. } => {
                let here = |value: &usize| self.place[*value].0 == running.file;
                let own = scenario.programs[i].iter().filter_map(|op| op.value()).map(usize::from);
                let bits = own.filter(here).fold(0, |bits, value| bits | 1 << value);
                self.visible |= bits & self.acknowledged;
            }
            _ => {}
        }
        self.end_op(scenario, i, op);
    }

    fn end_op(&mut self, scenario: &Scenario, i: usize, op: Op) {
        let file = self.hosts[i].running.file;
        self.hosts[i].running.permit = None;
        if let Op::Close { name } = op
            && self.hosts[i].handles[name].take().is_some()
        {
            self.send(scenario, i, Event::Closed(file as u64));
        }
        self.next_op(scenario, i);
        self.send(scenario, i, Event::Closed(file as u64));
    }

    fn next_op(&mut self, scenario: &Scenario, i: usize) {
        let op = self.hosts[i].running.op + 1;
        self.begin_op(scenario, i, op);
    }

    /// Checks what a reader got: `None` beyond the end, `Some(None)` of an object that is gone.
    fn judge_read(&mut self, scenario: &Scenario, at: (usize, usize), value: Option<Option<u8>>, since: u16) {
        let here = |value: &usize| self.place[*value] == at;
        let seen: Vec<usize> = bits(since).filter(here).collect();
        let before = |write: usize, other: usize| self.before[write] & 1 << other != 0;
        let broken = match value {
            None => {
                // A cut that may come later explains the end.
                let mut stays =
                    seen.iter().filter(|write| bits(scenario.cuts() & self.begun).all(|cut| before(**write, cut)));
                stays.next().map(|_| "a reader finds the end of the file before what was closed")
            }
            Some(None) => Some("an object of the layout is gone"),
            Some(Some(0)) => Some("a reader gets zeros that were never written"),
            Some(Some(value)) => {
                let value = usize::from(value);
                let older = seen.iter().any(|write| before(*write, value));
                let cut = at.1 > 0 && bits(scenario.cuts() & since).any(|cut| before(cut, value));
                match () {
                    () if self.acknowledged & 1 << value != 0 && !here(&value) => {
                        Some("a reader gets bytes of another place")
                    }
                    () if older => Some("a reader gets older bytes than were closed before it opened the file"),
                    () if cut => Some("bytes that were cut come back"),
                    () => None,
                }
            }
        };
        self.broken = self.broken.or(broken);
    }

    /// Checks that nothing acknowledged is lost.
    pub fn judge(&mut self, scenario: &Scenario) {
        if self.broken.is_some() {
            return;
        }
        for write in 1..VALUES {
            let (file, block) = self.place[write];
            if self.acknowledged & 1 << write == 0 || file > 1 {
                continue;
            }
            let cuts = scenario.cuts() & self.begun & !self.before[write];
            let may_be_cut = cuts != 0 && block > 0;
            let used = self.hosts.iter().any(|host| host.handles.contains(&Some(file)) && !host.crashed);
            if may_be_cut || !(self.stubs[file].linked || used) {
                continue;
            }
            let record = self.stubs[file].records[&self.stubs[file].newest];
            let value = self.objects.get(&record.objects[block]).copied();
            let appended = |value: usize| scenario.appends() & 1 << value != 0;
            self.broken = match value.map(usize::from) {
                None => Some("an object of the layout is gone"),
                Some(0) => Some(LOST),
                Some(value) if value != write && self.before[write] & 1 << value != 0 => Some(LOST),
                Some(value) if value != write && appended(write) && appended(value) => Some(LOST),
                Some(value) if scenario.name_of(value as u8) != file => Some("an object holds bytes of another"),
                Some(_) if block >= self.stubs[file].size && !self.is_recoverable(file, block) => {
                    Some("the file is shorter than what was acknowledged")
                }
                Some(_) => None,
            };
            if self.broken.is_some() {
                return;
            }
        }
    }

    /// Whether a size that the stub lacks will be set.
    fn is_recoverable(&self, file: usize, block: usize) -> bool {
        let live = |host: &super::world::Host| {
            let view = &host.views[file];
            !host.crashed && !host.over && view.behind && view.size > block
        };
        let unsettled = self.table.is_unsettled(file as u64) || self.table.run() != self.server;
        // A node that is over stays a member until another has reported it.
        let grown = self.table.has_writer(file as u64, &self.over);
        self.hosts.iter().any(live) || ((unsettled || grown) && !self.stubs[file].cut)
    }
}
