//! Several nodes over one stub, the same targets, and a table in memory.

mod failures;
mod marks;
mod real;
mod sizes;
mod swarm;

use super::*;
use crate::file::{Cluster, MirrorWrites, Pool};
use crate::mover::Mover;
use meta::state::SqliteState;
use meta::stub::memory::MemoryStub;
use meta::stub::{Records, Stub};
use object::target::{Medium, MemoryMedium, TargetSpec, Targets, TargetsOptions};
use policy::cluster::Standing;
use policy::holders::node::Config;
use policy::holders::table::{Answer, Caller, Mode, Request, Run, Table};
use policy::layout::{MirrorState, Placement};
use policy::{ObjectId, TargetId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

const PLACE: Placement =
    Placement { stripe_size: 4096, stripe_count: 2, single_bytes_max: 0, segment_bytes: 0, mirrors: 1, tier: None };
const INLINE: u64 = 1000;
/// Short sessions, since tests wait for their end.
const CONFIG: Config = Config {
    session: Time::from_millis(600),
    renew_every: Time::from_millis(150),
    caching: Time::from_millis(500),
    margin: Time::from_millis(100),
    retry: Time::from_millis(5),
    unused: Time::ZERO,
    new: Time::from_millis(100),
};

/// State that all nodes share.
struct Shared {
    table: Mutex<Table>,
    run: AtomicU64,
    began: Instant,
    over: Mutex<BTreeSet<Node>>,
    members: Mutex<BTreeSet<Node>>,
    holds: Mutex<BTreeMap<Node, Weak<Holds>>>,
    recalls: AtomicU32,
    /// Whether the shared file system may hide names.
    hides: AtomicBool,
}

impl Shared {
    fn now(&self) -> Time {
        Time::from_secs(1) + Time(self.began.elapsed().as_nanos() as u64)
    }

    /// The store begins another run without data.
    fn begins_anew(&self) {
        *self.table.lock() = Table::new(CONFIG.session);
        self.run.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends the lease of a node, as the others see it.
    fn end(&self, node: Node) {
        self.over.lock().insert(node);
        self.members.lock().remove(&node);
        let holds: Vec<_> = self.holds.lock().iter().filter_map(|(of, holds)| Some((*of, holds.upgrade()?))).collect();
        holds.iter().filter(|(of, _)| *of != node).for_each(|(_, holds)| holds.over(node));
    }
}

/// Membership and store of one node.
struct Member {
    number: AtomicU32,
    standing: Mutex<Standing>,
    shared: Arc<Shared>,
    /// The store is away for this node.
    apart: AtomicBool,
    /// Locks of this node exclude other nodes.
    reach: AtomicBool,
    /// Looks at the lease until it lapses.
    looks: Mutex<Option<u32>>,
    /// Requests until answers are lost, and the number of lost ones.
    loses: Mutex<(u64, u64)>,
}

impl Member {
    fn node(&self) -> Node {
        Node(self.number.load(Ordering::Acquire))
    }
}

impl Cluster for Member {
    fn me(&self) -> Result<Node> {
        Ok(self.node())
    }

    fn has_lease(&self) -> bool {
        *self.standing.lock() == Standing::Held
    }

    fn standing(&self, node: Node) -> Standing {
        if node != self.node() {
            return Standing::Lost;
        }
        let (mut standing, mut looks) = (self.standing.lock(), self.looks.lock());
        match &mut *looks {
            Some(0) => (*standing, *looks) = (Standing::Lapsed, None),
            Some(left) => *left -= 1,
            None => {}
        }
        *standing
    }

    fn is_over(&self, node: Node) -> bool {
        self.shared.over.lock().contains(&node)
    }

    fn epoch(&self) -> u32 {
        self.node().0
    }

    fn node_of(&self, epoch: u32) -> Option<Node> {
        Some(Node(epoch)).filter(|node| !self.is_over(*node))
    }

    fn may_be_used_by_another(&self, _: u32) -> bool {
        true
    }

    fn leads(&self) -> bool {
        true
    }

    fn locks_reach(&self) -> bool {
        self.reach.load(Ordering::Relaxed)
    }
}

impl Port for Member {
    fn now(&self) -> Time {
        self.shared.now()
    }

    fn ask(&self, caller: Caller, request: &Request) -> Result<Answer> {
        let away = || Error::State("the store is away".into());
        if self.apart.load(Ordering::Acquire) || caller.run != self.connect()? {
            return Err(away());
        }
        let mut table = self.shared.table.lock();
        let answer = table.serve(self.shared.now(), caller, request);
        // The first run is that of a new volume.
        if matches!(request, Request::Open { .. }) && caller.run == Run(1) {
            table.serve(self.shared.now(), caller, &Request::Trust);
        }
        let mut loses = self.loses.lock();
        let lost = loses.0 == 0 && loses.1 > 0;
        *loses = (loses.0.saturating_sub(1), loses.1.saturating_sub(u64::from(lost)));
        if lost { Err(away()) } else { Ok(answer) }
    }

    fn connect(&self) -> Result<Run> {
        match self.apart.load(Ordering::Acquire) {
            true => Err(Error::State("the store is away".into())),
            false => Ok(Run(self.shared.run.load(Ordering::Acquire))),
        }
    }

    fn members(&self) -> Result<BTreeSet<Node>> {
        Ok(self.shared.members.lock().clone())
    }

    fn was_over(&self, node: Node) -> bool {
        self.is_over(node)
    }

    fn shows_all_names(&self) -> Result<bool> {
        Ok(!self.shared.hides.load(Ordering::Acquire))
    }

    fn recall(&self, node: Node, key: u64, number: u64, mode: Mode) {
        self.shared.recalls.fetch_add(1, Ordering::Relaxed);
        let holds = self.shared.holds.lock().get(&node).and_then(Weak::upgrade);
        holds.iter().for_each(|holds| holds.recalled(key, number, mode));
    }
}

pub(in crate::file) struct World {
    pub stub: Arc<MemoryStub>,
    media: [MemoryMedium; 3],
    shared: Arc<Shared>,
    config: Config,
}

pub(in crate::file) struct One {
    pub file: Arc<File>,
    member: Arc<Member>,
    holds: Arc<Holds>,
    mover: Mover,
}

impl Drop for One {
    fn drop(&mut self) {
        self.holds.stop();
    }
}

impl World {
    pub fn new() -> World {
        World::with(CONFIG)
    }

    fn with(config: Config) -> World {
        let shared = Shared {
            table: Mutex::new(Table::new(config.session)),
            run: AtomicU64::new(1),
            began: Instant::now(),
            over: Mutex::default(),
            members: Mutex::default(),
            holds: Mutex::default(),
            recalls: AtomicU32::new(0),
            hides: AtomicBool::new(false),
        };
        World { stub: Arc::default(), media: [1, 2, 3].map(MemoryMedium::new), shared: Arc::new(shared), config }
    }

    pub fn node(&self, number: u32) -> One {
        self.node_with(number, PLACE)
    }

    fn node_with(&self, number: u32, place: Placement) -> One {
        self.node_on(number, place, self.stub.clone())
    }

    fn node_on(&self, number: u32, place: Placement, stub: Arc<dyn Stub>) -> One {
        let targets = Targets::new(TargetsOptions::inline());
        for (id, medium) in (0..).zip(&self.media) {
            targets.add(TargetSpec::new(TargetId(id), 0, Arc::new(medium.clone())));
        }
        let member = Arc::new(Member {
            number: AtomicU32::new(number),
            standing: Mutex::new(Standing::Held),
            shared: self.shared.clone(),
            apart: AtomicBool::new(false),
            reach: AtomicBool::new(true),
            looks: Mutex::new(None),
            loses: Mutex::default(),
        });
        self.shared.members.lock().insert(Node(number));
        let (counter, numbers) = (AtomicU32::new(0), member.clone());
        let next = move || u64::from(numbers.node().0) << 32 | u64::from(counter.fetch_add(1, Ordering::Relaxed));
        let pool =
            Pool { inline_bytes_max: INLINE, mirror_writes: MirrorWrites::Sync, ..Pool::new(targets, next, place) };
        let (port, cluster): (Arc<dyn Port>, Arc<dyn Cluster>) = (member.clone(), member.clone());
        let holds = Holds::start(port, cluster.clone(), self.config).expect("starts");
        self.shared.holds.lock().insert(Node(number), Arc::downgrade(&holds));
        assert!(pool.cluster.set(cluster).is_ok() && pool.holds.set(holds.clone()).is_ok());
        let pool = Arc::new(pool);
        let file = File::open(stub, pool.clone()).expect("opens");
        let state = Arc::new(SqliteState::in_memory().expect("a state store in memory"));
        One { file, member, holds, mover: Mover::new(pool, state, None) }
    }

    /// Targets have room again, and the stub answers.
    fn lift_faults(&self) {
        self.media.iter().for_each(|medium| medium.set_capacity_bytes(u64::MAX));
        self.stub.lose_answers(0, 0);
    }

    fn newest(&self) -> (u64, Option<Layout>) {
        let mut newest = match self.stub.pointer().unwrap() {
            Pointer::None => (0, None),
            Pointer::To { generation, .. } => (generation, self.stub.record(generation).unwrap().unwrap().layout),
            Pointer::Plain(layout) => (layout.generation, Some(*layout)),
        };
        while let Some(record) = self.stub.record(newest.0 + 1).unwrap() {
            newest = (newest.0 + 1, record.layout);
        }
        newest
    }
}

impl One {
    /// Locks of this node do not reach other nodes.
    pub fn locks_do_not_reach(&self) {
        self.member.reach.store(false, Ordering::Relaxed);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0xee; 1 << 20];
        let read = self.file.read(0, &mut bytes).expect("reads");
        bytes.truncate(read);
        bytes
    }

    /// Moves all of the file into new objects.
    fn moves(&self) {
        self.tries_to_move().expect("nothing is in the way");
    }

    fn tries_to_move(&self) -> Result<Arc<Layout>> {
        self.file.refresh()?; // as the table of files does
        self.mover.restripe(&self.file, 0, &Placement { stripe_count: 1, ..PLACE })
    }

    fn writes(&self, offset: u64, byte: u8, len: usize) {
        self.file.write(offset, &vec![byte; len]).expect("it is written");
    }

    /// Closes the file and opens it again. A file with a size to be settled stays in memory.
    fn reopens(&mut self) {
        let (stub, pool, closed) = (self.file.stub().clone(), self.file.pool().clone(), Arc::downgrade(&self.file));
        let alone = Pool::new(Targets::new(TargetsOptions::inline()), || 0, PLACE);
        self.file = File::made(Arc::<MemoryStub>::default(), Arc::new(alone), None);
        self.file = closed.upgrade().unwrap_or_else(|| File::made(stub, pool, None));
    }

    /// Waits for the end of a claim, which ends after its operation.
    fn rests(&self) {
        let until = Instant::now() + Duration::from_secs(30);
        while self.holds.is_busy(self.file.key()) {
            assert!(Instant::now() < until, "the claim does not end");
            std::thread::yield_now();
        }
    }

    /// The node is expelled, and joins again under another number.
    fn joins_again(&self, number: u32) {
        self.member.shared.members.lock().insert(Node(number));
        self.member.shared.holds.lock().insert(Node(number), Arc::downgrade(&self.holds));
        self.member.number.store(number, Ordering::Release);
        *self.member.standing.lock() = Standing::Held;
    }
}

fn two() -> (World, One, One) {
    let world = World::new();
    let (a, b) = (world.node(1), world.node(2));
    (world, a, b)
}

fn expected(parts: &[(u8, usize)]) -> Vec<u8> {
    parts.iter().flat_map(|(byte, len)| vec![*byte; *len]).collect()
}

/// [S-201]
#[test]
fn two_nodes_write_and_extend_one_file() {
    let (world, a, b) = two();
    a.writes(0, 1, 500);
    b.writes(500, 2, 9500);
    a.writes(10_000, 3, 10_000);
    b.writes(20_000, 4, 1);
    a.file.settle().unwrap();
    b.file.settle().unwrap();
    let all = expected(&[(1, 500), (2, 9500), (3, 10_000), (4, 1)]);
    assert!(a.bytes() == all && b.bytes() == all);
    assert_eq!(world.stub.size().unwrap(), 20_001);
}

/// [S-203]
#[test]
fn a_move_recalls_the_writer_which_then_writes_the_new_objects() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    let before = a.file.layout().unwrap();
    b.moves();
    assert!(world.shared.recalls.load(Ordering::Relaxed) > 0);
    a.writes(100, 2, 100);
    let after = a.file.layout().unwrap();
    assert!(after.generation > before.generation && after.mirrors != before.mirrors);
    let all = expected(&[(1, 100), (2, 100), (1, 19_800)]);
    assert!(a.bytes() == all && b.bytes() == all);
}

/// [S-203]
#[test]
fn a_copy_beside_a_write_of_another_node_does_not_count() {
    let (_world, a, b) = two();
    a.writes(0, 1, 20_000);
    b.file.watch(Arc::default()).unwrap();
    assert!(b.file.is_copy_good().unwrap());
    b.writes(0, 3, 1);
    assert!(b.file.is_copy_good().unwrap(), "own writes are watched");
    a.writes(0, 2, 1);
    assert!(!b.file.is_copy_good().unwrap(), "it lacks another's write");
}

/// [S-203]
#[test]
fn readers_of_other_nodes_leave_a_copy_valid() {
    let (_world, a, b) = two();
    a.file.watch(Arc::default()).unwrap();
    assert!(b.bytes().is_empty() && a.file.is_copy_good().unwrap());
    b.file.refresh().unwrap();
    assert!(a.file.is_copy_good().unwrap());
    b.writes(0, 1, 10);
    assert!(!a.file.is_copy_good().unwrap());
}

/// [S-201]
#[test]
fn bytes_in_a_stub_are_written_under_holds_and_move_out_once() {
    let (_world, a, b) = two();
    a.writes(0, 1, 100);
    b.writes(100, 2, 5000);
    a.writes(50, 3, 10);
    assert!(!a.file.is_in_stub());
    b.file.settle().unwrap();
    let all = expected(&[(1, 50), (3, 10), (1, 40), (2, 5000)]);
    assert!(b.bytes() == all && a.bytes() == all);
}

/// [S-199]
#[test]
fn a_truncation_is_seen_at_once_and_cut_bytes_stay_away() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    b.file.truncate(3000).unwrap();
    assert!(a.bytes() == expected(&[(1, 3000)]));
    a.writes(5000, 2, 10);
    let all = expected(&[(1, 3000), (0, 2000), (2, 10)]);
    a.file.settle().unwrap();
    assert!(b.bytes() == all && a.bytes() == all);
    assert_eq!(world.stub.cut_to().unwrap(), None);
}

/// [S-204]
#[test]
fn a_held_file_takes_no_request_and_no_call_for_an_operation() {
    let world = World::new();
    let a = world.node(1);
    a.writes(0, 1, 20_000);
    a.writes(0, 1, 10);
    a.rests();
    let before = world.stub.calls();
    for n in 0..100 {
        a.writes(n * 100, 2, 100);
        a.writes(20_000 + n * 10, 3, 10);
        a.bytes();
    }
    let append = a.file.append(&[4; 10]).unwrap();
    assert_eq!(append, 21_000);
    assert_eq!(world.stub.calls() - before, 0);
    a.file.settle().unwrap();
    assert_eq!(world.stub.size().unwrap(), 21_010);
}

/// [S-330]
#[test]
fn a_resting_file_needs_no_call_until_another_node_takes_its_hold() {
    let world = World::with(Config::default());
    let a = world.node(1);
    a.writes(0, 1, 500);
    assert!(a.bytes() == expected(&[(1, 500)]));
    let (hold, calls) = (a.file.caching_hold(), world.stub.calls());
    assert!(hold.is_some());
    a.file.rest();
    assert!(a.bytes() == expected(&[(1, 500)]) && a.file.caching_hold() == hold);
    assert_eq!(world.stub.calls(), calls);
    a.file.rest();
    let b = world.node(2);
    b.writes(100, 2, 10);
    assert_eq!(world.shared.table.lock().holders(a.file.key()), 1, "it is closed for others");
    let all = expected(&[(1, 100), (2, 10), (1, 390)]);
    assert!(a.bytes() == all && a.file.caching_hold() != hold);
    a.writes(0, 3, 1);
    assert!(a.bytes() == [&[3], &all[1..]].concat(), "own writes show");
    a.file.rest();
    *a.member.standing.lock() = Standing::Lost;
    world.shared.end(Node(1));
    b.writes(1, 4, 1);
    a.joins_again(3);
    assert!(a.bytes() == [&[3, 4], &all[2..]].concat(), "so do others' under a new number");
}

/// [S-204]
#[test]
fn a_node_that_ends_leaves_nothing_to_settle() {
    let world = World::new();
    let a = world.node(1);
    a.writes(0, 1, 20_000);
    a.rests();
    a.holds.stop();
    assert!(world.shared.table.lock().is_empty());
    world.shared.end(Node(1));
    let b = world.node(2);
    let generation = world.newest().0;
    assert!(b.bytes() == expected(&[(1, 20_000)]));
    b.writes(0, 2, 10);
    assert_eq!(world.newest().0, generation, "no claim was needed");
}
