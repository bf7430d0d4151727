//! Operations of nodes on files by the rules of `policy::cluster::share`: writers enter, wait and leave on request;
//! movers claim.

use super::world::{Happens, HostId, World};
use crate::generate::Rng;
use policy::Time;
use policy::cluster::Node;
use policy::cluster::share::{self, Begin, Claim, Created, Enter, Mark, Marks, Published, Step as Next, Written};
use std::collections::{BTreeMap, BTreeSet};

/// Files of each node, and files that all nodes share.
const OWN: usize = 16;
const COMMON: usize = 64;
/// Interval between a waiting task's queries: the maximum of `engine::file`, `nodes`.
const PAUSE: Time = Time::from_millis(50);
/// Calls for a layout record.
const CALLS_OF_RECORD: u32 = 3;
/// Number of waits after which a task gives up: thirty seconds.
const WAITS_MAX: u32 = 600;

pub(super) type TaskId = u64;

/// Completion of a step of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A writer's mark is set.
    Marked,
    /// A writer has queried the stub, with the record of this generation.
    Looked,
    /// The writer has had the file open for its time.
    Closes,
    /// The writer's mark is removed: it closed the file, was requested to leave, or must wait.
    Closed,
    Left,
    Stepped,
    /// A writer has waited for a claim and queried the stub.
    Waited(Claim),
    /// A claim of a node that is over was removed.
    Ended(Claim),
    /// A mover has queried the stub.
    Begun,
    /// A mover has tried its claim.
    Claimed(Claim),
    /// A mover has queried the stub after its claim.
    Checked(Claim),
    /// The file is copied.
    Copied(Claim),
    /// The publication of the record was requested.
    Published(Claim),
}

struct Task {
    host: HostId,
    life: u32,
    node: Node,
    file: usize,
    began: Time,
    /// End of a writer's use; `None` for a mover.
    until: Option<Time>,
    entry: u64,
    loaded: u64,
    waits: u32,
    copied: Time,
    /// Whether a writer has entered, and was not requested to leave since.
    writes: bool,
}

#[derive(Default)]
struct Stub {
    marks: BTreeSet<Mark>,
    claim: Option<Claim>,
}

impl Stub {
    fn look(&self) -> Marks {
        let next = share::claimed(&self.marks);
        Marks::new(&self.marks, self.claim.filter(|claim| Some(claim.generation) == next))
    }
}

/// All stubs and the tasks on them.
pub(super) struct Files {
    stubs: Vec<Stub>,
    tasks: BTreeMap<TaskId, Task>,
    /// Writing tasks: one per file and node.
    writes: BTreeMap<(usize, Node), TaskId>,
    /// Moves under way: one at a time per file and node.
    moves: BTreeSet<(usize, Node)>,
    begun: TaskId,
}

impl Files {
    pub fn new(nodes: usize) -> Files {
        let stub = || Stub { marks: [Mark::Layout(1)].into(), claim: None };
        let stubs = (0..COMMON + OWN * nodes).map(|_| stub()).collect();
        Files { stubs, tasks: BTreeMap::new(), writes: BTreeMap::new(), moves: BTreeSet::new(), begun: 0 }
    }

    pub fn any(&self, rng: &mut Rng) -> usize {
        rng.below(self.stubs.len() as u64) as usize
    }

    /// Returns the nodes with writers' marks on any stub.
    #[cfg(test)]
    pub fn writers(&self) -> BTreeSet<Node> {
        self.stubs.iter().flat_map(|stub| stub.look().writers).collect()
    }

    #[cfg(test)]
    pub fn under_way(&self) -> usize {
        self.tasks.len()
    }
}

impl World {
    fn begin(&mut self, host: HostId, file: usize, until: Option<Time>) -> Option<(TaskId, Node)> {
        let node = self.hosts[host].machine.as_ref()?.node();
        self.files.begun += 1;
        let (life, began) = (self.hosts[host].life, self.now());
        let (entry, id) = (self.files.begun, self.files.begun);
        let task = Task {
            host,
            life,
            node,
            file,
            began,
            until,
            entry,
            loaded: 1,
            waits: 0,
            copied: Time::ZERO,
            writes: false,
        };
        self.files.tasks.insert(id, task);
        Some((id, node))
    }

    /// Opens a file for writing on a node; a file that it writes already stays open.
    pub fn writes(&mut self, host: HostId) {
        let load = &self.setup.load;
        let (shared, held) = (load.shared, load.held.as_secs_f64());
        let common = self.rng.chance(shared);
        let (from, count) = if common { (0, COMMON) } else { (COMMON + OWN * host, OWN) };
        let file = from + self.rng.below(count as u64) as usize;
        let until = self.now() + Time((self.rng.exponential(held) * 1e9) as u64);
        let Some((id, node)) = self.begin(host, file, Some(until)) else { return };
        if self.files.writes.contains_key(&(file, node)) {
            self.files.tasks.remove(&id);
            return;
        }
        self.files.writes.insert((file, node), id);
        self.call(id, super::CALLS_OF_OPEN + 1, Step::Marked);
    }

    /// Lets the leader move a file.
    pub fn moves(&mut self, host: HostId) {
        let file = self.files.any(&mut self.rng);
        let Some((id, node)) = self.begin(host, file, None) else { return };
        if self.files.writes.contains_key(&(file, node)) || !self.files.moves.insert((file, node)) {
            self.files.tasks.remove(&id);
            return;
        }
        self.call(id, 1, Step::Begun);
    }

    fn call(&mut self, id: TaskId, calls: u32, then: Step) {
        let Some(task) = self.files.tasks.get(&id) else { return };
        let at = self.attributes(task.file, calls);
        self.push(at, Happens::Step(id, then));
    }

    fn wait(&mut self, id: TaskId, claim: Claim) {
        let at = self.now() + PAUSE;
        self.push(at, Happens::Step(id, Step::Waited(claim)));
    }

    /// Handles the request to leave a file, at the given nodes.
    pub fn rung(&mut self, file: usize, nodes: &[Node]) {
        for node in nodes {
            let Some(id) = self.files.writes.get(&(file, *node)).copied() else { continue };
            // A writer that is about to enter gets the next notification.
            if self.files.tasks.get_mut(&id).is_some_and(|task| std::mem::take(&mut task.writes)) {
                self.call(id, 1, Step::Left);
            }
        }
    }

    fn end(&mut self, id: TaskId) {
        let Some(task) = self.files.tasks.remove(&id) else { return };
        match task.until {
            Some(_) => drop(self.files.writes.remove(&(task.file, task.node))),
            None => assert!(self.files.moves.remove(&(task.file, task.node)), "one at a time"),
        }
    }

    fn look(&self, id: TaskId) -> Marks {
        self.files.stubs[self.files.tasks[&id].file].look()
    }

    fn mark(&mut self, id: TaskId, set: bool) {
        let task = &self.files.tasks[&id];
        let mark = Mark::Writer { node: task.node, entry: task.entry };
        let marks = &mut self.files.stubs[task.file].marks;
        if set {
            marks.insert(mark)
        } else {
            marks.remove(&mark)
        };
    }

    pub fn step(&mut self, id: TaskId, step: Step) {
        let Some(task) = self.files.tasks.get(&id) else { return };
        let host = task.host;
        if self.hosts[host].life != task.life {
            return self.end(id); // its daemon died, and its marks on the stub stay
        }
        match step {
            Step::Marked => {
                self.mark(id, true);
                self.call(id, 3, Step::Looked);
            }
            Step::Looked => self.enters(id, host),
            Step::Closes => self.closes(id, host),
            Step::Closed => {
                self.mark(id, false);
                self.end(id);
            }
            Step::Left => {
                self.mark(id, false);
                self.again(id);
            }
            Step::Stepped => self.mark(id, false),
            Step::Waited(claim) => self.waited(id, host, claim),
            Step::Ended(claim) => {
                self.publish(id, claim);
                self.restart(id);
            }
            Step::Begun => self.claims(id, host),
            Step::Claimed(claim) => {
                let stub = &mut self.files.stubs[self.files.tasks[&id].file];
                if stub.marks.insert(Mark::Change(claim.generation)) {
                    stub.claim = Some(claim);
                }
                self.call(id, 1, Step::Checked(claim));
            }
            Step::Checked(claim) => self.checks(id, host, claim),
            Step::Copied(claim) => self.call(id, CALLS_OF_RECORD, Step::Published(claim)),
            Step::Published(claim) => self.published(id, host, claim),
        }
    }

    /// Restarts a writer if it still has the file open.
    fn again(&mut self, id: TaskId) {
        let now = self.now();
        let Some(task) = self.files.tasks.get_mut(&id) else { return };
        if task.until.is_some_and(|until| now >= until) {
            return self.end(id);
        }
        self.files.begun += 1;
        (task.entry, task.began) = (self.files.begun, now);
        self.call(id, 1, Step::Marked);
    }

    fn restart(&mut self, id: TaskId) {
        match self.files.tasks.get(&id).map(|task| task.until.is_some()) {
            Some(true) => self.again(id),
            Some(false) => self.call(id, 1, Step::Begun),
            None => {}
        }
    }

    fn enters(&mut self, id: TaskId, host: HostId) {
        let marks = self.look(id);
        let task = &self.files.tasks[&id];
        let (loaded, until, began) = (task.loaded, task.until.unwrap_or_default(), task.began);
        let gone = marks.claim.is_some_and(|claim| self.over(host, claim.node));
        match share::enter(Some(loaded), &marks, |_| gone) {
            Enter::Load(generation) => {
                self.files.tasks.get_mut(&id).expect("it looked").loaded = generation;
                self.call(id, CALLS_OF_RECORD, Step::Looked);
            }
            Enter::Go => {
                let now = self.now();
                self.counts.entered(now.since(began));
                self.files.tasks.get_mut(&id).expect("it looked").writes = true;
                self.push(until.max(now), Happens::Step(id, Step::Closes));
            }
            Enter::Wait(claim) => {
                self.call(id, 1, Step::Stepped);
                self.wait(id, claim);
            }
            Enter::End(claim) => {
                self.call(id, 1, Step::Stepped);
                self.call(id, CALLS_OF_RECORD, Step::Ended(claim));
            }
        }
    }

    fn closes(&mut self, id: TaskId, host: HostId) {
        let task = &self.files.tasks[&id];
        // A request to leave arrived in between and closes the file.
        if !task.writes {
            return;
        }
        match share::written(self.standing(host, task.node), false) {
            Written::Acknowledge => {
                self.files.tasks.get_mut(&id).expect("it writes").writes = false;
                self.call(id, 1, Step::Closed);
            }
            Written::Wait => {
                let at = self.now() + PAUSE;
                self.push(at, Happens::Step(id, Step::Closes));
            }
            Written::Again => self.end(id),
        }
    }

    fn waited(&mut self, id: TaskId, host: HostId, claim: Claim) {
        let task = self.files.tasks.get_mut(&id).expect("it waits");
        task.waits += 1;
        if task.waits > WAITS_MAX {
            self.counts.moves_failed += u64::from(task.until.is_none());
            return self.end(id);
        }
        let marks = self.look(id);
        let gone = self.over(host, claim.node);
        let file = self.files.tasks[&id].file;
        if share::stands(&claim, &marks, |_| gone) {
            self.attributes(file, 1);
            return self.wait(id, claim);
        }
        self.restart(id);
    }

    /// Publishes the next generation, unless another task was faster.
    fn publish(&mut self, id: TaskId, claim: Claim) -> Created {
        let file = self.files.tasks[&id].file;
        let stub = &mut self.files.stubs[file];
        let highest = stub.look().generation;
        let created = highest + 1 == claim.generation;
        if created {
            stub.marks.insert(Mark::Layout(claim.generation));
        }
        let machine = self.hosts[self.files.tasks[&id].host].machine.as_ref();
        for mark in share::litter(&stub.marks, |node| machine.is_some_and(|machine| machine.is_over(node))) {
            stub.marks.remove(&mark);
        }
        if created { Created::Yes } else { Created::Exists { mine: false } }
    }

    fn claims(&mut self, id: TaskId, host: HostId) {
        let (marks, me) = (self.look(id), self.files.tasks[&id].node);
        let gone = marks.claim.is_some_and(|claim| self.over(host, claim.node));
        match share::begin(me, true, &marks, |_| gone) {
            Begin::Claim(claim) => self.call(id, 1, Step::Claimed(claim)),
            Begin::Wait(claim) => self.wait(id, claim),
            Begin::End(claim) => self.call(id, CALLS_OF_RECORD, Step::Ended(claim)),
        }
    }

    fn checks(&mut self, id: TaskId, host: HostId, claim: Claim) {
        let marks = self.look(id);
        let gone: BTreeSet<Node> = marks.writers.iter().copied().filter(|node| self.over(host, *node)).collect();
        match share::step(&claim, &marks, |node| gone.contains(&node)) {
            Next::Go => {
                let (now, copy) = (self.now(), self.setup.load.copy);
                self.files.tasks.get_mut(&id).expect("it looked").copied = copy;
                self.push(now + copy, Happens::Step(id, Step::Copied(claim)));
            }
            Next::Retry => self.call(id, 1, Step::Begun),
            Next::Drain(nodes) => {
                let task = self.files.tasks.get_mut(&id).expect("it looked");
                task.waits += 1;
                let (file, gives_up) = (task.file, task.waits > WAITS_MAX);
                if gives_up {
                    self.counts.moves_failed += 1;
                    self.publish(id, claim);
                    return self.end(id);
                }
                self.ring(file, nodes.into_iter().collect());
                let at = self.now() + PAUSE;
                self.attributes(file, 1);
                self.push(at, Happens::Step(id, Step::Checked(claim)));
            }
        }
    }

    fn published(&mut self, id: TaskId, host: HostId, claim: Claim) {
        let (node, began, copied) = {
            let task = &self.files.tasks[&id];
            (task.node, task.began, task.copied)
        };
        let standing = self.standing(host, node);
        if share::published(Created::Yes, standing) == Published::Wait {
            let at = self.now() + PAUSE;
            return self.push(at, Happens::Step(id, Step::Published(claim)));
        }
        let created = self.publish(id, claim);
        match share::published(created, standing) {
            Published::Happened => {
                let span = self.now().since(began);
                self.counts.moved(span.since(copied));
                let file = self.files.tasks[&id].file;
                self.attributes(file, 2);
            }
            Published::Not | Published::Unknown | Published::Wait => self.counts.moves_failed += 1,
        }
        self.end(id);
    }
}
