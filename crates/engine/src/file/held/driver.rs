//! Carries out the actions of `policy::holders::node::Holder`: one thread for the store, a few for steps of files.
//!
//! ```text
//!   operation: begin, finish ──> machine <── answers ── session thread: requests, messages, time
//!                                        <── results ── few workers: steps of files, lists of nodes
//! ```
//! A result counts only for the node number that requested it. Under a new number the node starts with a new machine,
//! and registers its open files again.

use super::steps::Stepped;
use super::{Port, Right};
use crate::Result;
use crate::file::{Cluster, File};
use object::workers::{self, Workers};
use parking_lot::{Condvar, Mutex, MutexGuard};
use policy::Time;
use policy::cluster::share::Written;
use policy::cluster::{Node, Standing};
use policy::holders::node::{Action, Config, Event, Holder, Step, Use};
use policy::holders::table::{Answer, Caller, Mode, Request, Run};
use policy::machine::Machine;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Threads for steps of files. A guess: a step is a few calls to the namespace.
const WORKERS_MAX: usize = 4;
/// Longest sleep of the session thread, after which it looks at the lease again.
const REST_MAX: Duration = Duration::from_millis(500);
/// Pause before the next attempt to reach the store.
const CONNECT_AGAIN: Duration = Duration::from_millis(200);
/// Longest time for the release of all holds. A guess: a shutdown that users wait for.
const RELEASE_MAX: Duration = Duration::from_secs(3);
/// Pause before a step that could not end is tried again.
const STEP_AGAIN: Duration = Duration::from_millis(10);

/// Work of the session thread.
enum Task {
    Connect,
    Ask { key: Option<u64>, caller: Caller, request: Request },
    Recall { node: Node, key: u64, number: u64, mode: Mode },
}

struct Inner {
    machine: Holder,
    /// Number of the machine's node.
    node: Node,
    tasks: VecDeque<Task>,
    connect_at: Option<Instant>,
    files: HashMap<u64, Weak<File>>,
    /// Files with a task under way.
    busy: HashMap<u64, Arc<File>>,
    ends: bool,
}

/// Files to let go once the lock is free, since a dropped file sends an event.
type Old = Vec<Arc<File>>;

/// The holds of this node.
pub struct Holds {
    this: Weak<Holds>,
    port: Arc<dyn Port>,
    cluster: Arc<dyn Cluster>,
    config: Config,
    inner: Mutex<Inner>,
    came: Condvar,
    steps: workers::Pool,
    session: Workers,
    /// Files whose size in the stub is outdated.
    pub(super) behind: Mutex<Vec<Arc<File>>>,
    /// Number of records made so far.
    made: AtomicU32,
}

impl Holds {
    /// Starts the session of this node.
    pub fn start(port: Arc<dyn Port>, cluster: Arc<dyn Cluster>, config: Config) -> Result<Arc<Holds>> {
        let node = cluster.me()?;
        let holds = Arc::new_cyclic(|this| Holds {
            this: this.clone(),
            port,
            cluster,
            config,
            inner: Mutex::new(Inner {
                machine: Holder::new(config, node),
                node,
                tasks: VecDeque::new(),
                connect_at: None,
                files: HashMap::new(),
                busy: HashMap::new(),
                ends: false,
            }),
            came: Condvar::new(),
            steps: workers::Pool::new("holds-steps", WORKERS_MAX),
            session: Workers::of("holds"),
            behind: Mutex::default(),
            made: AtomicU32::new(0),
        });
        let old = holds.carry(&mut holds.inner.lock());
        holds.let_go(old);
        let this = Arc::downgrade(&holds);
        holds.session.start("holds", move || while this.upgrade().is_some_and(|holds| holds.serve()) {});
        Ok(holds)
    }

    /// Sets deferred sizes, ends the session thread and the workers, and releases all holds. No file is used any more.
    pub fn stop(&self) {
        self.settle_sizes();
        let behind = std::mem::take(&mut *self.behind.lock());
        self.inner.lock().ends = true;
        self.came.notify_all();
        self.session.stop();
        self.steps.stop(workers::END_SPAN);
        // Steps that have not ended keep their files in memory.
        let busy = std::mem::take(&mut self.inner.lock().busy);
        drop(busy);
        self.release_all(&behind.iter().map(|file| file.key()).collect());
    }

    /// Releases the holds of files with a settled size, so that the next node need not settle them.
    fn release_all(&self, behind: &BTreeSet<u64>) {
        let (caller, mut keys) = {
            let inner = self.inner.lock();
            (inner.machine.caller(), inner.machine.releasable())
        };
        keys.retain(|key| !behind.contains(key));
        let until = Instant::now() + RELEASE_MAX;
        for key in keys {
            let released = self.port.ask(caller, &Request::Reclaim { key, hold: None, claim: None });
            if released.is_err() || Instant::now() >= until {
                return;
            }
        }
    }

    /// Sends a request that concerns no hold of this node. Returns the run that it was for, too.
    pub fn request(&self, request: &Request) -> Result<(Run, Answer)> {
        let caller = self.inner.lock().machine.caller();
        Ok((caller.run, self.port.ask(caller, request)?))
    }

    /// As `request`, in a run that another may have replaced; then it does nothing.
    pub fn request_in(&self, run: Run, request: &Request) -> Result<()> {
        let caller = Caller { run, ..self.inner.lock().machine.caller() };
        self.port.ask(caller, request).map(drop)
    }

    /// Whether another node holds a file, or may hold it. Nodes that have closed it release it within the wait.
    pub(super) fn has_other_holders(&self, key: u64, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        loop {
            match self.request(&Request::OtherHolders { key }) {
                Ok((_, Answer::Recall { nodes, mode })) => {
                    nodes.into_iter().for_each(|(node, number)| self.port.recall(node, key, number, mode));
                }
                answer => return !matches!(answer, Ok((_, Answer::Done))),
            }
            if Instant::now() >= until {
                return true;
            }
            std::thread::sleep(STEP_AGAIN);
        }
    }

    /// A node is over for ever.
    pub fn over(&self, node: Node) {
        self.feed_any(Event::Over(node));
    }

    /// Another node requests to lower a hold.
    pub fn recalled(&self, key: u64, number: u64, mode: Mode) {
        self.feed_any(Event::Recalled { key, number, mode });
    }

    /// Permission for one operation; `None`: wait with [`File::right`].
    pub(super) fn begin(&self, key: u64, usage: Use) -> Option<Right> {
        let mut inner = self.inner.lock();
        let node = inner.node;
        let permit = inner.machine.begin(self.port.now(), key, usage)?;
        Some(Right { node, permit })
    }

    /// Whether the result of an operation may be acknowledged.
    pub(in crate::file) fn finish(&self, key: u64, right: &Right) -> Written {
        let mut inner = self.inner.lock();
        let standing = if inner.node == right.node { self.cluster.standing(right.node) } else { Standing::Lost };
        inner.machine.finish(self.port.now(), key, &right.permit, standing)
    }

    /// Node and number of the hold that excludes other nodes from a file.
    pub(super) fn exclusive(&self, key: u64) -> Option<(Node, u64)> {
        let inner = self.inner.lock();
        let hold = inner.machine.hold(key).filter(|hold| hold.mode == Mode::Exclusive)?;
        Some((inner.node, hold.number))
    }

    /// Whether no other node uses a file.
    pub(in crate::file) fn is_exclusive(&self, key: u64) -> bool {
        self.exclusive(key).is_some()
    }

    /// Whether sizes and objects may be changed for a machine's node.
    pub(super) fn has_lease(&self, node: Node) -> bool {
        self.inner.lock().node == node && self.cluster.standing(node) == Standing::Held
    }

    /// Whether an object that is not found is lost.
    pub(in crate::file) fn shows_all_names(&self) -> bool {
        self.port.shows_all_names().unwrap_or(false)
    }

    /// Whether a task of a file is under way.
    #[cfg(test)]
    pub(super) fn is_busy(&self, key: u64) -> bool {
        self.inner.lock().machine.is_busy(key)
    }

    /// Number of a new record, which no other record of this daemon has.
    pub(super) fn next_record(&self) -> u32 {
        self.made.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the machine runs under this node.
    pub(super) fn is_under(&self, node: Node) -> bool {
        self.inner.lock().node == node
    }

    /// The node under which the machine runs; waits for a lease, and begins again after a lost one.
    pub(super) fn node(&self) -> Result<Node> {
        let me = self.cluster.me()?;
        let mut inner = self.inner.lock();
        // A number that was read before another thread joined again is lower.
        if inner.node < me {
            let files: Vec<(u64, Arc<File>)> =
                inner.files.iter().filter_map(|(key, file)| Some((*key, file.upgrade()?))).collect();
            let busy = std::mem::take(&mut inner.busy);
            (inner.node, inner.machine) = (me, Holder::new(self.config, me));
            let mut old = self.carry(&mut inner);
            for (key, _) in files.iter().filter(|(_, file)| !file.rests()) {
                inner.machine.handle(self.port.now(), Event::Opened(*key));
                old.extend(self.carry(&mut inner));
            }
            drop(inner);
            files.iter().for_each(|(_, file)| file.held.wake());
            self.let_go(old.into_iter().chain(busy.into_values()).chain(files.into_iter().map(|(_, file)| file)));
        }
        Ok(me)
    }

    /// Drops files. The last user of a file syncs its objects, which may take long; the session never waits for that.
    fn let_go(&self, old: impl IntoIterator<Item = Arc<File>>) {
        for last in old.into_iter().filter_map(Arc::into_inner) {
            let last = Box::new(last);
            drop(self.steps.push(move || drop(last))); // a pool that has ended drops it here
        }
    }

    /// A file is in use. `began`: begin of its creation by this node.
    pub(in crate::file) fn opened(&self, key: u64, file: &Weak<File>, began: Option<Time>) {
        self.inner.lock().files.insert(key, file.clone());
        self.feed_any(began.map_or(Event::Opened(key), |began| Event::Made(key, began)));
    }

    /// Time on the clock of the holds.
    pub(in crate::file) fn now(&self) -> Time {
        self.port.now()
    }

    /// Whether a file is empty and has no attributes. True once, before the first use.
    pub(super) fn take_new(&self, key: u64) -> bool {
        self.inner.lock().machine.take_new(key)
    }

    /// Counts a file in memory as closed, or as open again.
    pub(super) fn set_rest(&self, file: &File, rests: bool) {
        let mut inner = self.inner.lock();
        if file.held.rests.swap(rests, Ordering::AcqRel) != rests {
            let key = file.key();
            inner.machine.handle(self.port.now(), if rests { Event::Closed(key) } else { Event::Opened(key) });
            let old = self.carry(&mut inner);
            drop(inner);
            self.let_go(old);
        }
    }

    /// A file was dropped.
    pub(in crate::file) fn closed(&self, file: &File) {
        let (key, mut inner) = (file.key(), self.inner.lock());
        if inner.files.get(&key).is_some_and(|known| known.ptr_eq(&file.this)) {
            inner.files.remove(&key);
        }
        drop(inner);
        if !file.rests() {
            self.feed_any(Event::Closed(key));
        }
    }

    /// The file of an inode number, if it is in use.
    fn file(inner: &Inner, key: u64) -> Option<Arc<File>> {
        inner.files.get(&key)?.upgrade()
    }

    /// Sends an event to the machine, whatever its node.
    pub(super) fn feed_any(&self, event: Event) {
        let node = self.inner.lock().node;
        self.feed(node, event);
    }

    /// Sends an event to the machine, unless it runs under another node by now.
    pub(super) fn feed(&self, node: Node, event: Event) {
        let mut inner = self.inner.lock();
        if inner.node == node {
            tracing::trace!(%node, ?event, "event of a holder");
            let key = event.key();
            inner.machine.handle(self.port.now(), event);
            let mut old = self.carry(&mut inner);
            if let Some(key) = key.filter(|key| !inner.machine.is_busy(*key)) {
                old.extend(inner.busy.remove(&key));
            }
            drop(inner);
            self.let_go(old);
        }
    }

    /// Queues all actions.
    fn carry(&self, inner: &mut Inner) -> Old {
        let mut old = Old::default();
        while let Some(action) = inner.machine.poll() {
            tracing::trace!(node = %inner.node, ?action, "action of a holder");
            if let Action::Ask { key: Some(key), .. } | Action::Step { key, .. } = &action
                && !inner.busy.contains_key(key)
                && let Some(file) = Holds::file(inner, *key)
            {
                inner.busy.insert(*key, file);
            }
            match action {
                // Answers of earlier connections do not count.
                Action::Connect => {
                    inner.tasks.clear();
                    let Inner { machine, busy, .. } = inner;
                    old.extend(busy.extract_if(|key, _| !machine.is_busy(*key)).map(|(_, file)| file));
                    inner.connect_at = None;
                    inner.tasks.push_back(Task::Connect);
                }
                Action::Ask { key: None, caller, request } => {
                    inner.tasks.push_front(Task::Ask { key: None, caller, request });
                }
                Action::Ask { key, caller, request } => inner.tasks.push_back(Task::Ask { key, caller, request }),
                Action::Recall { node, key, number, mode } => {
                    inner.tasks.push_back(Task::Recall { node, key, number, mode });
                }
                Action::Members => self.list_members(inner.node),
                Action::Step { key, step } => match inner.busy.get(&key) {
                    Some(file) if matches!(step, Step::Drain | Step::Settle) && file.is_idle() => {
                        inner.machine.handle(self.port.now(), Event::Done(key, true));
                    }
                    Some(file) => self.push_step(inner.node, file.clone(), step),
                    // The file is closed, so it has no operation, and its size is settled.
                    None => {
                        let done = Event::Done(key, matches!(step, Step::Drain | Step::Settle));
                        inner.machine.handle(self.port.now(), done);
                    }
                },
                Action::Ready { key, .. } => {
                    let file = Holds::file(inner, key);
                    file.iter().for_each(|file| file.held.wake());
                    old.extend(file);
                }
            }
        }
        self.came.notify_all();
        old
    }

    fn push_step(&self, node: Node, file: Arc<File>, step: Step) {
        let Some(this) = self.this.upgrade() else { return };
        let pushed = self.steps.push(move || match file.step(&this, node, step) {
            Stepped::Event(event) => this.feed(node, event),
            Stepped::Again if !this.ends(node) => {
                let again = this.clone();
                let repeated = this.steps.at(Instant::now() + STEP_AGAIN, move || again.push_step(node, file, step));
                if let Err(error) = repeated {
                    tracing::debug!("a step of a hold is not repeated: {error}");
                }
            }
            Stepped::Again | Stepped::Later => {}
        });
        if let Err(error) = pushed {
            tracing::debug!("a step of a hold is not carried out: {error}");
        }
    }

    /// Whether no result for this node counts any more.
    fn ends(&self, node: Node) -> bool {
        let inner = self.inner.lock();
        inner.ends || inner.node != node
    }

    fn list_members(&self, node: Node) {
        let Some(this) = self.this.upgrade() else { return };
        let pushed = self.steps.push(move || match this.port.members() {
            Ok(members) => this.feed(node, Event::Members(members)),
            Err(error) => {
                tracing::debug!("the nodes of the volume cannot be listed for now: {error}");
                std::thread::sleep(CONNECT_AGAIN);
                if !this.ends(node) {
                    this.list_members(node);
                }
            }
        });
        if let Err(error) = pushed {
            tracing::debug!("the nodes of the volume are not listed: {error}");
        }
    }

    /// Does the next task, or waits a while. Returns whether the session goes on.
    fn serve(&self) -> bool {
        let mut inner = self.inner.lock();
        if inner.ends {
            return false;
        }
        let (now, node) = (self.port.now(), inner.node);
        if self.cluster.standing(node) == Standing::Lost {
            drop(inner);
            // Requests of a lost number would keep it a member.
            if self.node().is_ok_and(|me| me == node) {
                self.rest(&mut self.inner.lock());
            }
            return true;
        }
        if inner.machine.next_deadline().is_some_and(|at| at <= now) {
            drop(inner);
            self.feed(node, Event::Tick);
            inner = self.inner.lock();
        }
        if inner.connect_at.is_some_and(|at| Instant::now() >= at) {
            inner.connect_at = None;
            inner.tasks.push_front(Task::Connect);
        }
        let Some(task) = inner.tasks.pop_front() else {
            self.rest(&mut inner);
            return true;
        };
        // Another thread may have begun under a new number in between.
        let node = inner.node;
        drop(inner);
        self.act(node, task);
        true
    }

    fn rest(&self, inner: &mut MutexGuard<'_, Inner>) {
        let deadline = inner.machine.next_deadline().map(|at| Duration::from_nanos(at.since(self.port.now()).0));
        let connect = inner.connect_at.map(|at| at.saturating_duration_since(Instant::now()));
        let rest = deadline.into_iter().chain(connect).min().unwrap_or(REST_MAX).min(REST_MAX);
        self.came.wait_for(inner, rest.max(Duration::from_millis(1)));
    }

    fn act(&self, node: Node, task: Task) {
        match task {
            Task::Connect => match self.port.connect() {
                Ok(run) => self.feed(node, Event::Connected(run)),
                Err(error) => {
                    tracing::debug!("the table of holders is away: {error}");
                    self.inner.lock().connect_at = Some(Instant::now() + CONNECT_AGAIN);
                }
            },
            Task::Ask { key, caller, request } => match self.port.ask(caller, &request) {
                Ok(answer) => {
                    // The member may have been over before this node began.
                    if let Some(other) = answer.waits_for().filter(|other| self.port.was_over(*other)) {
                        self.feed(node, Event::Over(other));
                    }
                    self.feed(node, Event::Answered(key, answer));
                }
                Err(error) => {
                    tracing::debug!("the table of holders does not answer: {error}");
                    self.feed(node, Event::Unanswered);
                }
            },
            Task::Recall { node, key, number, mode } => self.port.recall(node, key, number, mode),
        }
    }
}
