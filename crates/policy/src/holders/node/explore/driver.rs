//! The driver around the machine: it carries every action out and decides nothing.

use super::scenario::{Guilt, NODES, Op, Scenario};
use super::world::{At, CONFIG, FIRST, Host, Late, Next, Record, STORE, View, World, label};
use crate::cluster::Node;
use crate::cluster::share::Created;
use crate::holders::node::{Action, Event, Holder, Step};
use crate::holders::table::{Answer, Caller, Request};
use std::collections::BTreeSet;

impl World {
    pub fn is_possible(&self, scenario: &Scenario, i: usize, action: &Action) -> bool {
        match action {
            Action::Connect => !self.hosts[i].apart,
            Action::Step { key, step: Step::Drain } => !self.runs(scenario, i, *key as usize),
            _ => true,
        }
    }

    /// Whether an operation of the node uses the file. Readers are not waited for.
    fn runs(&self, scenario: &Scenario, i: usize, file: usize) -> bool {
        let running = &self.hosts[i].running;
        if matches!(self.op(scenario, i), Some(Op::Read { .. })) {
            return false;
        }
        running.file == file && running.permit.is_some() && !matches!(running.at, At::Try | At::Wait | At::Done)
    }

    /// Carries an action out, and sends the answer to the machine.
    pub fn act(&mut self, scenario: &Scenario, i: usize, action: &Action) {
        self.hosts[i].actions.remove(action);
        let event = match action {
            Action::Ask { caller, .. } if self.hosts[i].apart || caller.run != self.server => {
                self.disconnect(i);
                Event::Unanswered
            }
            Action::Ask { key, caller, request } => {
                let answer = self.ask(scenario, *caller, request);
                if let (Some(key), Answer::Granted { generation: 0, newest: true, .. }) = (key, &answer) {
                    self.load_stub(i, *key as usize);
                }
                Event::Answered(*key, answer)
            }
            Action::Connect => {
                // The clock's first point stands for the present from now on.
                self.send(scenario, i, Event::Tick);
                self.hosts[i].phase = 0;
                Event::Connected(self.server)
            }
            Action::Members => Event::Members(match scenario.guilt {
                Guilt::OpensEarly => BTreeSet::from([self.hosts[i].node]),
                _ => self.members(),
            }),
            Action::Step { key, step } => self.step(scenario, i, *key as usize, *step),
            Action::Recall { .. } | Action::Ready { .. } => return,
        };
        let reads = matches!(action, Action::Step { step: Step::Pointer, .. });
        self.send(scenario, i, event);
        if reads && scenario.faults.freezes + scenario.faults.short == 0 {
            let look = |action: &&Action| matches!(action, Action::Step { step: Step::Look(_), .. });
            let next = self.hosts[i].actions.iter().find(look).cloned();
            next.iter().for_each(|action| self.act(scenario, i, action));
        }
        self.judge(scenario);
    }

    fn members(&self) -> BTreeSet<Node> {
        self.hosts.iter().filter(|host| !host.crashed && !host.over).map(|host| host.node).collect()
    }

    fn ask(&mut self, scenario: &Scenario, caller: Caller, request: &Request) -> Answer {
        if matches!(scenario.guilt, Guilt::TrustsCopy | Guilt::IsSure) {
            self.table.serve(STORE, caller, &Request::Trust);
        }
        match scenario.guilt {
            Guilt::ForgetsReleased => self.table.forget_released(),
            Guilt::IsSure => self.table.be_sure(),
            Guilt::TrustsReclaimed => self.table.trust_reclaimed(),
            _ => {}
        }
        let answer = self.table.serve(STORE, caller, request);
        if let (Guilt::KeepsGeneration, Request::Finish { key, generation, .. }) = (scenario.guilt, request) {
            self.table.set_newest(*key, *generation - 1);
        }
        if !(scenario.creates(0) || scenario.creates(1)) {
            // Only the creator of a file uses what this records.
            self.table.be_sure();
        }
        answer
    }

    /// The node that removed the last name of a file looks for other holders. Without any it removes the objects.
    pub fn remove_objects(&mut self, scenario: &Scenario, i: usize, file: usize) {
        let (caller, key) = (self.hosts[i].machine.caller(), file as u64);
        let answer = self.ask(scenario, caller, &Request::OtherHolders { key });
        if let Answer::Recall { nodes, mode } = &answer {
            self.messages.extend(nodes.iter().map(|(node, number)| (*node, key, *number, *mode)));
        }
        if answer == Answer::Done || scenario.guilt == Guilt::RemovesAtOnce {
            self.hosts[i].removed.remove(&file);
            let newest = self.stubs[file].newest;
            let objects = self.stubs[file].records[&newest].objects;
            // Without a record the bytes are in the stub, which stays while it is open.
            self.objects.retain(|object, _| newest == 0 || !objects.contains(object));
        }
        self.judge(scenario);
    }

    /// Requests under way get no answer.
    fn disconnect(&mut self, i: usize) {
        self.hosts[i].actions.retain(|action| !matches!(action, Action::Ask { .. }));
    }

    /// Fixes the record of a publication, which a frozen node may create later.
    pub fn prepare(&mut self, scenario: &Scenario, i: usize, action: &Action) {
        let Action::Step { key, step: Step::Publish { generation, changed, sealed } } = action else { return };
        let file = *key as usize;
        let view = self.hosts[i].views[file];
        let mut objects = view.changed.filter(|_| *changed).unwrap_or(view.objects);
        if *sealed && scenario.guilt != Guilt::NoSeal {
            for object in &mut objects[self.stubs[file].size..] {
                *object = self.new_object(scenario);
            }
        }
        let stamp = u64::from(self.hosts[i].node.0) << 32 | generation;
        self.hosts[i].views[file].record = Some((*generation, Record { stamp, objects }));
    }

    fn new_object(&mut self, scenario: &Scenario) -> u8 {
        let mut object = self.next_object;
        self.next_object += 1;
        if scenario.guilt == Guilt::NumbersReused {
            object = (1..).find(|object| !self.objects.contains_key(object)).unwrap_or_default();
        }
        self.objects.insert(object, 0);
        object
    }

    fn step(&mut self, scenario: &Scenario, i: usize, file: usize, step: Step) -> Event {
        let key = file as u64;
        match step {
            Step::Pointer if scenario.guilt != Guilt::BelievesList => {
                let pointer = self.stubs[file].pointer;
                Event::Found(key, Some(pointer).filter(|(generation, _)| *generation > 0))
            }
            Step::Pointer | Step::List => {
                Event::Found(key, self.listed(file).map(|generation| (generation, self.stamp(file, generation))))
            }
            Step::Look(generation) => {
                let record = self.stubs[file].records.get(&generation).copied();
                let view = &mut self.hosts[i].views[file];
                let newer =
                    scenario.guilt == Guilt::BelievesList && view.generation > 0 && generation > view.generation;
                let Some(record) = record.filter(|_| !newer) else {
                    if generation == 1 {
                        self.load_stub(i, file);
                    }
                    return Event::Found(key, None);
                };
                (view.generation, view.objects, view.cached) = (generation, record.objects, [None; 2]);
                view.size = if view.behind { view.size } else { self.stubs[file].size };
                Event::Found(key, Some((generation, record.stamp)))
            }
            Step::Whole => Event::Done(key, !self.stubs[file].cut),
            Step::Drain => Event::Done(key, true),
            Step::Settle => {
                let view = &mut self.hosts[i].views[file];
                if std::mem::take(&mut view.behind) {
                    let size = view.size;
                    if scenario.guilt == Guilt::ReleasesFirst {
                        self.late.insert(Late::Size { file, size });
                    } else {
                        self.stubs[file].size = self.stubs[file].size.max(size);
                    }
                }
                Event::Done(key, true)
            }
            Step::SettleFromObjects(_) => {
                self.settle_from_objects(scenario, i, file);
                Event::Done(key, true)
            }
            Step::Change(_) => {
                let objects = self.hosts[i].views[file].objects;
                let moved = objects.map(|object| {
                    let new = self.new_object(scenario);
                    let content = self.objects.get(&object).copied().unwrap_or_default();
                    self.objects.insert(new, content);
                    new
                });
                self.hosts[i].views[file].changed = Some(moved);
                Event::Done(key, true)
            }
            Step::Publish { changed, .. } => Event::Published(key, self.publish(scenario, i, file, changed)),
            Step::Point(generation) => {
                self.stubs[file].pointer = (generation, self.stamp(file, generation));
                Event::Done(key, true)
            }
            Step::Tidy(generation) => {
                self.stubs[file].records.retain(|older, _| *older >= generation);
                Event::Done(key, true)
            }
        }
    }

    /// Loads a file without a record.
    fn load_stub(&mut self, i: usize, file: usize) {
        let stub = &self.stubs[file];
        let Some(record) = stub.records.get(&0) else { return };
        let view = &mut self.hosts[i].views[file];
        (view.generation, view.objects, view.cached) = (0, record.objects, [None; 2]);
        view.size = if view.behind { view.size } else { stub.size };
    }

    /// A node learns from its hold that a file is new: it reads nothing.
    pub fn take_new(&mut self, i: usize, file: usize) {
        if self.hosts[i].machine.take_new(file as u64) {
            self.hosts[i].views[file] = View { objects: FIRST[file], ..View::default() };
        }
    }

    fn stamp(&self, file: usize, generation: u64) -> u64 {
        self.stubs[file].records.get(&generation).map_or(0, |record| record.stamp)
    }

    /// The highest generation of a listing. The fault that cuts it short is another step.
    fn listed(&self, file: usize) -> Option<u64> {
        self.stubs[file].records.keys().last().copied()
    }

    fn settle_from_objects(&mut self, scenario: &Scenario, i: usize, file: usize) {
        if scenario.guilt == Guilt::SkipsSettling {
            return;
        }
        let objects = self.hosts[i].views[file].objects;
        let stub = &mut self.stubs[file];
        if std::mem::take(&mut stub.cut) {
            for object in &objects[stub.size..] {
                self.objects.entry(*object).and_modify(|content| *content = 0);
            }
        } else {
            let reach = self.reach(&objects);
            let stub = &mut self.stubs[file];
            stub.size = stub.size.max(reach);
        }
        self.hosts[i].views[file].size = self.stubs[file].size;
    }

    /// Size of a file as its objects show it.
    pub fn reach(&self, objects: &[u8; 2]) -> usize {
        let reach = objects.iter().rposition(|object| self.objects.get(object).is_some_and(|content| *content > 0));
        reach.map_or(0, |last| last + 1)
    }

    fn publish(&mut self, scenario: &Scenario, i: usize, file: usize, changed: bool) -> Created {
        let Some((mut generation, record)) = self.hosts[i].views[file].record.take() else {
            return Created::Exists { mine: false };
        };
        let old = self.hosts[i].views[file].objects;
        if scenario.guilt == Guilt::FindsLate && changed {
            generation = self.stubs[file].newest + 1;
        }
        let fences = !changed && self.hosts[i].phase == 2;
        if fences && scenario.guilt == Guilt::NoFence {
            let view = &mut self.hosts[i].views[file];
            view.generation = generation;
            return Created::Yes;
        }
        let made = self.create(file, generation, record);
        let view = &mut self.hosts[i].views[file];
        view.changed = None;
        let objects = if made {
            (view.generation, view.objects) = (generation, record.objects);
            old
        } else {
            record.objects
        };
        if changed {
            self.objects.retain(|object, _| !objects.contains(object));
        }
        if made { Created::Yes } else { Created::Exists { mine: false } }
    }

    fn create(&mut self, file: usize, generation: u64, record: Record) -> bool {
        let stub = &mut self.stubs[file];
        let free = !stub.records.contains_key(&generation);
        if free {
            stub.records.insert(generation, record);
            stub.newest = stub.newest.max(generation);
        }
        free
    }

    /// Faults of a step of a node.
    pub fn mishaps(&self, scenario: &Scenario, i: usize, action: &Action, out: &mut Next) {
        match action {
            Action::Ask { caller, request, .. } if self.faults.doubts > 0 && caller.run == self.server => {
                let mut next = self.clone();
                next.faults.doubts -= 1;
                next.ask(scenario, *caller, request);
                next.disconnect(i);
                next.send(scenario, i, Event::Unanswered);
                out.push((label(i, format!("no answer: {request:?}"), true), next));
            }
            Action::Step { key, step: Step::SettleFromObjects(_) } if self.faults.unreached > 0 => {
                let mut next = self.clone();
                next.faults.unreached -= 1;
                next.hosts[i].actions.remove(action);
                next.send(scenario, i, Event::Done(*key, false));
                out.push((label(i, "an object is not reached".into(), true), next));
            }
            Action::Step { key, step } if self.faults.short > 0 => {
                let lists = *step == Step::List || (*step == Step::Pointer && scenario.guilt == Guilt::BelievesList);
                if !lists {
                    return;
                }
                let file = *key as usize;
                let records = &self.stubs[file].records;
                let short = records.keys().rev().nth(1).map(|generation| (*generation, self.stamp(file, *generation)));
                let mut next = self.clone();
                next.faults.short -= 1;
                next.hosts[i].actions.remove(action);
                next.send(scenario, i, Event::Found(*key, short));
                out.push((label(i, format!("a list that is cut short: {short:?}"), true), next));
            }
            _ => {}
        }
    }

    /// The lease of a node ends while its steps are under way.
    pub fn expel(&mut self, scenario: &Scenario, i: usize) {
        self.over.insert(self.hosts[i].node);
        self.hosts[i].over = true;
        let actions = std::mem::take(&mut self.hosts[i].actions);
        for action in &actions {
            let Action::Step { key, step } = action else { continue };
            let file = *key as usize;
            let record = self.hosts[i].views[file].record;
            match (step, record) {
                (Step::Publish { .. }, Some((generation, Record { stamp, objects }))) => {
                    self.late.insert(Late::Create { file, generation, stamp, objects });
                }
                (Step::Point(generation), _) => {
                    let (generation, stamp) = (*generation, self.stamp(file, *generation));
                    self.late.insert(Late::Point { file, generation, stamp });
                }
                (Step::Tidy(generation), _) => drop(self.late.insert(Late::Tidy { file, generation: *generation })),
                _ => {}
            }
        }
        let machine = &self.hosts[i].machine;
        let caller = Caller { link: machine.caller().link + 1, ..machine.caller() };
        // Without a lease no size is set, and a hold with one to be set is not lowered.
        let lowers = |file: &usize| !self.hosts[i].views[*file].behind && !self.runs(scenario, i, *file);
        let lowered = |file: usize| {
            let (hold, generation) = (machine.hold(file as u64)?, machine.generation(file as u64)?);
            Some(Late::Lower { file, caller, hold, generation })
        };
        let late: Vec<Late> = (0..self.stubs.len()).filter(lowers).filter_map(lowered).collect();
        self.late.extend(late);
        if self.hosts[i].running.at == At::Data
            && let Some((object, value)) = self.data(scenario, i)
        {
            self.late.insert(Late::Write { object, value });
        }
        self.report_over(scenario);
    }

    /// The first node that lives removes the members that are over.
    fn report_over(&mut self, scenario: &Scenario) {
        let Some(first) = (0..NODES).find(|i| !self.hosts[*i].crashed && !self.hosts[*i].over) else { return };
        for node in self.over.clone() {
            self.send(scenario, first, Event::Over(node));
        }
    }

    pub fn join_again(&mut self, scenario: &Scenario, i: usize) {
        let node = Node(self.next_node);
        self.next_node += 1;
        let before = self.hosts[i].clone();
        let mut machine = Holder::new(CONFIG, node);
        for file in before.handles.into_iter().flatten() {
            machine.open(file as u64);
        }
        self.hosts[i] = Host {
            node,
            machine,
            over: false,
            phase: 0,
            actions: BTreeSet::new(),
            views: [View::default(); 2],
            ..before
        };
        self.drain(scenario, i);
        self.report_over(scenario);
        if before.running.at != At::Done {
            self.resume_op(scenario, i, before.running);
        }
    }

    pub fn carry_out_late(&mut self, scenario: &Scenario, late: Late) {
        match late {
            Late::Write { object, value } => drop(self.objects.entry(object).and_modify(|content| *content = value)),
            Late::Create { file, generation, stamp, objects } => {
                self.create(file, generation, Record { stamp, objects });
            }
            Late::Point { file, generation, stamp } => self.stubs[file].pointer = (generation, stamp),
            Late::Tidy { file, generation } => self.stubs[file].records.retain(|older, _| *older >= generation),
            Late::Size { file, size } => self.stubs[file].size = self.stubs[file].size.max(size),
            Late::Lower { file, caller, hold, generation } => {
                let (key, number) = (file as u64, hold.number);
                let lower = Request::Lower { key, number, mode: None, generation: Some(generation) };
                let reclaim = Request::Reclaim { key, hold: Some(hold), claim: None };
                for request in [Request::Begin, reclaim, Request::Register { not_after: STORE }, lower] {
                    self.ask(scenario, caller, &request);
                }
            }
        }
    }
}
