//! Files that applications use, and moves by the leader, each under a hold.
//!
//! A move copies the file under a hold that caches. If that is lost before the claim, it copies again under a claim.

use super::world::{Happens, HostId, World};
use super::{CALLS_OF_STUB, CALLS_OF_VIEW};
use policy::Time;
use policy::cluster::Node;
use policy::cluster::share::{Created, Written};
use policy::holders::node::{Event, Permit, Step, Use};
use std::collections::{BTreeMap, BTreeSet};

/// Files of each node: many, so that most uses begin without a hold.
pub(super) const OWN: u64 = 1024;
/// Files that all nodes share.
pub(super) const COMMON: u64 = 64;
/// Interval between queries of a lapsed lease.
const PAUSE: Time = Time::from_millis(50);
/// Longest wait for a hold or a claim, as in the live driver.
const WAIT_MAX: Time = Time::from_secs(30);
/// Time after which a deferred size is set.
const SIZE_AFTER: Time = Time::from_secs(1);
/// Attempts of a move.
const ATTEMPTS_MAX: u32 = 4;

pub(super) type TaskId = u64;

/// Event of a task.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// The next operation begins.
    Next,
    /// An operation has ended.
    Operated(Permit),
    /// The file is copied under a hold.
    Copied(Permit),
    /// The wait that began then is too long.
    GivesUp(Time),
}

struct Task {
    host: HostId,
    node: Node,
    key: u64,
    usage: Use,
    began: Time,
    /// End of a use; `None` for a move.
    until: Option<Time>,
    /// Whether the first operation has ended.
    loaded: bool,
    /// Begin of a wait.
    waits: Option<Time>,
    /// Hold under which a move has copied.
    copied: Option<Permit>,
    attempts: u32,
    /// Whether the copy was valid under the claim.
    valid: bool,
}

/// Records of a stub: generations `oldest` to `newest`, and the pointer.
#[derive(Clone, Copy)]
struct Stub {
    oldest: u64,
    newest: u64,
    pointer: u64,
}

/// All stubs and the tasks on them.
#[derive(Default)]
pub(super) struct Files {
    count: u64,
    /// Stubs that have changed since the start.
    stubs: BTreeMap<u64, Stub>,
    tasks: BTreeMap<TaskId, Task>,
    /// Tasks that wait for a hold.
    waiting: BTreeMap<(HostId, u64), Vec<TaskId>>,
    /// Moves under way: one at a time per file and host.
    moves: BTreeMap<(HostId, u64), TaskId>,
    /// Writes under way.
    written: BTreeSet<(HostId, u64, TaskId)>,
    /// Files whose size in the stub is too small.
    behind: BTreeSet<(HostId, u64)>,
    begun: TaskId,
}

impl Files {
    pub fn new(nodes: u64) -> Files {
        Files { count: COMMON + OWN * nodes, ..Files::default() }
    }

    fn stub(&self, key: u64) -> Stub {
        self.stubs.get(&key).copied().unwrap_or(Stub { oldest: 1, newest: 1, pointer: 1 })
    }

    /// Result of a search. Each generation is published once, so all stamps are equal.
    pub fn found(&self, key: u64, step: Step) -> Option<(u64, u64)> {
        let stub = self.stub(key);
        let generation = match step {
            Step::Pointer => stub.pointer,
            Step::Look(generation) => (stub.oldest..=stub.newest).contains(&generation).then_some(generation)?,
            _ => stub.newest,
        };
        Some((generation, 0))
    }

    pub fn publish(&mut self, key: u64, generation: u64) -> Created {
        let stub = self.stub(key);
        if generation != stub.newest + 1 {
            return Created::Exists { mine: false };
        }
        self.stubs.insert(key, Stub { newest: generation, ..stub });
        Created::Yes
    }

    pub fn point(&mut self, key: u64, generation: u64) -> bool {
        let stub = self.stub(key);
        self.stubs.insert(key, Stub { pointer: generation, ..stub });
        true
    }

    pub fn tidy(&mut self, key: u64, generation: u64) -> bool {
        let stub = self.stub(key);
        self.stubs.insert(key, Stub { oldest: generation.max(stub.oldest), ..stub });
        true
    }

    pub fn is_written(&self, host: HostId, key: u64) -> bool {
        self.written.range((host, key, 0)..=(host, key, TaskId::MAX)).next().is_some()
    }

    pub fn is_behind(&self, host: HostId, key: u64) -> bool {
        self.behind.contains(&(host, key))
    }

    /// Sets a deferred size; returns whether there was one.
    pub fn settle(&mut self, host: HostId, key: u64) -> bool {
        self.behind.remove(&(host, key))
    }

    /// Removes the tasks of a host that died.
    pub fn forget(&mut self, host: HostId) {
        self.tasks.retain(|_, task| task.host != host);
        self.waiting.retain(|(of, _), _| *of != host);
        self.moves.retain(|(of, _), _| *of != host);
        self.written.retain(|(of, ..)| *of != host);
        self.behind.retain(|(of, _)| *of != host);
    }

    #[cfg(test)]
    pub fn under_way(&self) -> usize {
        self.tasks.len()
    }
}

impl World {
    /// Opens a file on a host.
    pub fn uses(&mut self, host: HostId, usage: Use) {
        let (shared, held) = (self.setup.load.shared, self.setup.load.held.as_secs_f64());
        let common = self.rng.chance(shared);
        let (from, count) = if common { (0, COMMON) } else { (COMMON + OWN * host as u64, OWN) };
        let key = from + self.rng.below(count);
        let until = self.now() + Time((self.rng.exponential(held) * 1e9) as u64);
        self.counts.uses += u64::from(self.hosts[host].holds.is_some());
        self.opens(host, key, usage, Some(until));
    }

    /// Lets the leader move a file.
    pub fn moves(&mut self, host: HostId) {
        let key = self.rng.below(self.files.count);
        if !self.files.moves.contains_key(&(host, key)) {
            self.opens(host, key, Use::Read, None);
        }
    }

    fn opens(&mut self, host: HostId, key: u64, usage: Use, until: Option<Time>) {
        let Some(node) = self.hosts[host].holds.as_ref().map(|holds| holds.node) else { return };
        self.files.begun += 1;
        let (id, began) = (self.files.begun, self.now());
        let (loaded, waits, copied, attempts, valid) = (false, None, None, 0, false);
        let task = Task { host, node, key, usage, began, until, loaded, waits, copied, attempts, valid };
        self.files.tasks.insert(id, task);
        if until.is_none() {
            self.files.moves.insert((host, key), id);
        }
        self.feed(host, node, Event::Opened(key));
        let at = self.attributes(key, CALLS_OF_STUB);
        self.push(at, Happens::Task(id, Part::Next));
    }

    pub fn task(&mut self, id: TaskId, part: Part) {
        let Some(task) = self.files.tasks.get(&id) else { return };
        match part {
            Part::Next => self.tries(id),
            Part::Operated(permit) => self.operated(id, permit),
            Part::Copied(permit) => {
                self.update(id, |task| task.copied = Some(permit));
                self.claims(id);
            }
            Part::GivesUp(since) if task.waits == Some(since) => {
                match task.until {
                    Some(_) => self.counts.refused += 1,
                    None => self.counts.moves_failed += 1,
                }
                self.closes(id);
            }
            Part::GivesUp(_) => {}
        }
    }

    fn update(&mut self, id: TaskId, change: impl FnOnce(&mut Task)) {
        change(self.files.tasks.get_mut(&id).expect("a task under way"));
    }

    /// Begins an operation, or waits for a hold.
    fn tries(&mut self, id: TaskId) {
        let Some(task) = self.files.tasks.get(&id) else { return };
        let (host, node, key, usage, until) = (task.host, task.node, task.key, task.usage, task.until);
        let loaded = task.loaded;
        let Some(permit) = self.begin(host, node, key, usage) else {
            self.waits(id);
            self.files.waiting.entry((host, key)).or_default().push(id);
            return self.feed(host, node, Event::Want(key, usage));
        };
        self.update(id, |task| task.waits = None);
        let caches = permit.mode.caches();
        if until.is_none() {
            if !caches {
                // Others may write beside this hold.
                self.update(id, |task| task.usage = Use::Alone);
                return self.tries(id);
            }
            let at = self.attributes(key, CALLS_OF_VIEW) + self.setup.load.copy;
            return self.push(at, Happens::Task(id, Part::Copied(permit)));
        }
        if usage == Use::Grow {
            self.files.written.insert((host, key, id));
        }
        let at = self.attributes(key, if loaded { u32::from(!caches) } else { CALLS_OF_VIEW });
        self.push(at, Happens::Task(id, Part::Operated(permit)));
    }

    /// Begins a wait, unless one is under way.
    fn waits(&mut self, id: TaskId) {
        let now = self.now();
        let task = self.files.tasks.get_mut(&id).expect("a task under way");
        if task.waits.is_none() {
            task.waits = Some(now);
            self.push(now + WAIT_MAX, Happens::Task(id, Part::GivesUp(now)));
        }
    }

    fn operated(&mut self, id: TaskId, permit: Permit) {
        let (now, every) = (self.now(), self.setup.load.operate_every);
        let task = &self.files.tasks[&id];
        let (host, node, key, writes) = (task.host, task.node, task.key, task.usage == Use::Grow);
        let (began, until, loaded) = (task.began, task.until.unwrap_or_default(), task.loaded);
        match self.finish(host, node, key, &permit) {
            Written::Wait => return self.push(now + PAUSE, Happens::Task(id, Part::Operated(permit))),
            Written::Again => {
                self.files.written.remove(&(host, key, id));
                return self.tries(id);
            }
            Written::Acknowledge => {}
        }
        self.files.written.remove(&(host, key, id));
        self.counts.operated(permit.mode.caches());
        if !loaded {
            self.update(id, |task| task.loaded = true);
            let times = if writes { &mut self.counts.enter } else { &mut self.counts.open };
            times.add(now.since(began));
        }
        if writes && self.files.behind.insert((host, key)) {
            self.push(now + SIZE_AFTER, Happens::Size(host, key));
        }
        if now >= until {
            return self.closes(id);
        }
        self.push((now + every).min(until), Happens::Task(id, Part::Next));
    }

    /// Sets a deferred size, without a recall.
    pub fn size(&mut self, host: HostId, key: u64) {
        if self.files.settle(host, key) {
            self.attributes(key, 1);
        }
    }

    fn closes(&mut self, id: TaskId) {
        let Some(task) = self.files.tasks.remove(&id) else { return };
        if task.until.is_none() {
            self.files.moves.remove(&(task.host, task.key));
        }
        if task.usage == Use::Grow {
            self.size(task.host, task.key);
        }
        self.feed(task.host, task.node, Event::Closed(task.key));
    }

    /// A use that the host waits for is possible.
    pub fn ready(&mut self, host: HostId, key: u64, usage: Use) {
        if usage == Use::Change {
            return self.changed(host, key);
        }
        let waiting = self.files.waiting.remove(&(host, key)).unwrap_or_default();
        waiting.into_iter().for_each(|id| self.tries(id));
    }

    fn claims(&mut self, id: TaskId) {
        self.waits(id);
        let task = &self.files.tasks[&id];
        let (host, node, key) = (task.host, task.node, task.key);
        self.feed(host, node, Event::Want(key, Use::Change));
    }

    /// Time for which a claim is kept before the publication.
    pub fn copy_under_claim(&mut self, host: HostId, key: u64) -> Time {
        let Some(id) = self.files.moves.get(&(host, key)).copied() else { return Time::ZERO };
        self.update(id, |task| task.waits = None);
        if self.files.tasks[&id].attempts > 0 { self.setup.load.copy } else { Time::ZERO }
    }

    /// Whether a move has a valid copy under its claim.
    pub fn is_copied(&mut self, host: HostId, node: Node, key: u64) -> bool {
        let Some(id) = self.files.moves.get(&(host, key)).copied() else { return false };
        let task = &self.files.tasks[&id];
        let (copied, attempts) = (task.copied, task.attempts);
        let acknowledged = |permit| self.finish(host, node, key, &permit) == Written::Acknowledge;
        let valid = attempts > 0 || copied.is_some_and(acknowledged);
        self.update(id, |task| task.valid = valid);
        valid
    }

    /// A generation was published for a move: with the new layout, or the claim was in vain.
    fn changed(&mut self, host: HostId, key: u64) {
        let Some(id) = self.files.moves.get(&(host, key)).copied() else { return };
        let (now, copy) = (self.now(), self.setup.load.copy);
        let task = self.files.tasks.get_mut(&id).expect("a move under way");
        task.attempts += 1;
        if task.valid {
            let span = now.since(task.began).since(Time(copy.0 * u64::from(task.attempts)));
            self.counts.change.add(span);
        } else if task.attempts < ATTEMPTS_MAX {
            return self.claims(id);
        } else {
            self.counts.moves_failed += 1;
        }
        self.closes(id);
    }
}
