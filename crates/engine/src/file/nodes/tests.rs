//! Two nodes over one stub and the same targets, by hand.

mod appends;
mod calls;
mod marks;
mod sizes;
mod sums;

use super::*;
use crate::file::{MirrorWrites, Pool};
use crate::mover::Mover;
use meta::state::SqliteState;
use meta::stub::Stub;
use meta::stub::memory::MemoryStub;
use object::target::{Medium, MemoryMedium, TargetSpec, Targets, TargetsOptions};
use parking_lot::Mutex;
use policy::layout::Placement;
use policy::{ObjectId, TargetId};
use std::collections::BTreeMap;
use std::sync::Weak;

const PLACE: Placement =
    Placement { stripe_size: 4096, stripe_count: 2, single_bytes_max: 0, segment_bytes: 0, mirrors: 1, tier: None };
const INLINE: u64 = 1000;

/// State that all nodes share.
#[derive(Default)]
struct Others {
    over: Mutex<BTreeSet<Node>>,
    files: Mutex<BTreeMap<Node, Weak<File>>>,
    rung: AtomicU32,
}

/// Action at the loss of a lease.
type Happens = Box<dyn FnOnce() + Send>;

struct Member {
    number: AtomicU32,
    standing: Mutex<Standing>,
    /// Number of looks at the lease until it is lost, and the action then.
    loses: Mutex<Option<(u32, Happens)>>,
    others: Arc<Others>,
    reach: AtomicBool,
}

impl Cluster for Member {
    fn me(&self) -> Result<Node> {
        Ok(Node(self.number.load(Ordering::Relaxed)))
    }

    fn standing(&self, node: Node) -> Standing {
        let due = |(left, _): &mut (u32, _)| {
            *left -= 1;
            *left == 0
        };
        let lost = self.loses.lock().take_if(due);
        if let Some((_, happens)) = lost {
            self.others.over.lock().insert(node);
            self.number.fetch_add(10, Ordering::Relaxed);
            happens();
        }
        if node == Node(self.number.load(Ordering::Relaxed)) { *self.standing.lock() } else { Standing::Lost }
    }

    fn is_over(&self, node: Node) -> bool {
        self.others.over.lock().contains(&node)
    }

    fn epoch(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
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

    fn ring(&self, nodes: &BTreeSet<Node>, _: FileId) {
        self.others.rung.fetch_add(1, Ordering::Relaxed);
        let files = self.others.files.lock().clone();
        for (node, file) in nodes.iter().filter_map(|node| Some((*node, files.get(node)?.upgrade()?))) {
            let _ = file.let_go(node); // the request is repeated
        }
    }
}

pub(in crate::file) struct World {
    pub stub: Arc<MemoryStub>,
    media: [MemoryMedium; 3],
    others: Arc<Others>,
}

pub(in crate::file) struct One {
    pub file: Arc<File>,
    member: Arc<Member>,
    mover: Mover,
}

impl World {
    pub fn new() -> World {
        World { stub: Arc::default(), media: [1, 2, 3].map(MemoryMedium::new), others: Arc::default() }
    }

    pub fn node(&self, number: u32) -> One {
        let targets = Targets::new(TargetsOptions::inline());
        for (id, medium) in (0..).zip(&self.media) {
            targets.add(TargetSpec::new(TargetId(id), 0, Arc::new(medium.clone())));
        }
        let standing = Mutex::new(Standing::Held);
        let member = Arc::new(Member {
            number: AtomicU32::new(number),
            standing,
            loses: Mutex::default(),
            others: self.others.clone(),
            reach: AtomicBool::new(true),
        });
        let (counter, numbers) = (AtomicU32::new(0), member.clone());
        let next = move || {
            u64::from(numbers.number.load(Ordering::Relaxed)) << 32 | u64::from(counter.fetch_add(1, Ordering::Relaxed))
        };
        let pool =
            Pool { inline_bytes_max: INLINE, mirror_writes: MirrorWrites::Sync, ..Pool::new(targets, next, PLACE) };
        let cluster: Arc<dyn Cluster> = member.clone();
        assert!(pool.cluster.set(cluster).is_ok());
        let pool = Arc::new(pool);
        let file = File::open(self.stub.clone(), pool.clone()).expect("opens");
        self.others.files.lock().insert(Node(number), Arc::downgrade(&file));
        let state = Arc::new(SqliteState::in_memory().expect("a state store in memory"));
        One { file, member, mover: Mover::new(pool, state, None) }
    }

    fn over(&self, node: u32) {
        self.others.over.lock().insert(Node(node));
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
        self.file.refresh().expect("it looks, as whoever takes it from the table of files does");
        let place = Placement { stripe_count: 1, ..PLACE };
        self.mover.restripe(&self.file, 0, &place).expect("nothing is in the way");
    }

    fn writes(&self, offset: u64, byte: u8, len: usize) {
        self.file.write(offset, &vec![byte; len]).expect("it is written");
    }
}

/// A world and two of its nodes.
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
fn two_nodes_write_and_grow_one_file() {
    let (world, a, b) = two();
    a.writes(0, 1, 500);
    b.writes(500, 2, 9500);
    a.writes(10_000, 3, 10_000);
    b.writes(20_000, 4, 1);
    let all = expected(&[(1, 500), (2, 9500), (3, 10_000), (4, 1)]);
    assert!(a.bytes() == all && b.bytes() == all);
    assert_eq!((a.file.size(), world.stub.size().unwrap()), (20_001, 20_001));
}

/// [S-203]
#[test]
fn who_moves_a_file_waits_until_others_let_go_and_they_write_where_it_lies_then() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    assert!(world.stub.look().unwrap().marks.writers.contains(&Node(1)));
    let before = a.file.layout().unwrap();
    b.moves();
    assert!(world.others.rung.load(Ordering::Relaxed) > 0);
    assert_eq!(world.stub.look().unwrap().marks.writers, BTreeSet::new());
    a.writes(100, 2, 100);
    let after = a.file.layout().unwrap();
    assert!(after.generation > before.generation && after.mirrors != before.mirrors);
    let all = expected(&[(1, 100), (2, 100), (1, 19_800)]);
    assert!(a.bytes() == all && b.bytes() == all);
}

/// [S-203]
#[test]
fn a_copy_that_another_node_wrote_beside_is_made_again() {
    let (_world, a, b) = two();
    a.writes(0, 1, 20_000);
    b.file.refresh().unwrap();
    b.file.watch(Arc::default()).unwrap();
    assert!(b.file.is_copy_good().unwrap());
    a.writes(0, 2, 1);
    assert!(!b.file.is_copy_good().unwrap(), "it lacks what was written");
}

/// [S-204]
#[test]
fn what_was_written_under_a_lost_lease_is_written_again() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    // The frozen node's lease ends, and another node moves the file. Then the node wakes, under another number.
    world.over(1);
    b.moves();
    b.writes(0, 2, 5);
    a.member.number.store(3, Ordering::Relaxed);
    a.writes(10, 3, 5);
    let all = expected(&[(2, 5), (1, 5), (3, 5), (1, 19_985)]);
    assert!(b.bytes() == all && a.bytes() == all);
    let writers = world.stub.look().unwrap().marks.writers;
    assert!(writers.contains(&Node(3)), "{writers:?}");
}

/// [S-204]
#[test]
fn a_change_that_comes_late_is_refused_and_takes_nothing_away() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    {
        let _alone = a.file.exclusive().unwrap();
        world.over(1);
        *a.member.standing.lock() = Standing::Lost;
        b.writes(0, 2, 5);
        let record = a.file.record.lock();
        let (view, layout) = (a.file.view(), Layout::clone(&a.file.layout().unwrap()));
        let late = a.file.replace(&record, &view, layout);
        assert!(matches!(late, Err(Error::Elsewhere(_))), "{late:?}");
    }
    a.member.number.store(3, Ordering::Relaxed);
    *a.member.standing.lock() = Standing::Held;
    let all = expected(&[(2, 5), (1, 19_995)]);
    assert!(b.bytes() == all);
    a.writes(5, 3, 1);
    assert_eq!(b.bytes()[..7], [2, 2, 2, 2, 2, 3, 1]);
}

/// [S-204]
#[test]
fn a_layout_of_objects_that_others_may_have_removed_meanwhile_is_not_published() {
    let (world, a, b) = two();
    b.writes(0, 1, 20_000);
    b.file.end_writing().unwrap();
    a.file.refresh().unwrap();
    let lies = || world.stub.newest().unwrap().1.expect("a layout").mirrors;
    let before = lies();
    // The node loses its lease after it made the new objects and before it published a layout that names them.
    *a.member.standing.lock() = Standing::Lost;
    let moved = a.mover.restripe(&a.file, 0, &Placement { stripe_count: 1, ..PLACE });
    assert!(matches!(moved, Err(Error::Elsewhere(_))), "{moved:?}");
    assert_eq!(lies(), before, "it lies as before");
    assert!(b.bytes() == expected(&[(1, 20_000)]));
}

/// [S-204]
#[test]
fn the_claim_of_a_node_that_is_over_stops_nobody() {
    let world = World::new();
    let a = world.node(1);
    a.writes(0, 1, 20_000);
    let generation = world.stub.look().unwrap().marks.generation;
    assert!(world.stub.claim(Claim { node: Node(9), generation: generation + 1, drains: true }).unwrap());
    world.over(9);
    let b = world.node(2);
    b.writes(0, 2, 5);
    let look = world.stub.look().unwrap();
    assert_eq!((look.marks.generation, look.marks.claim), (generation + 1, None));
    assert!(!world.stub.publish(Node(9), generation + 1, None).unwrap(), "what it still does comes too late");
}

/// [S-201]
#[test]
fn bytes_in_a_stub_are_written_again_when_another_node_moves_them_out() {
    let (_world, a, b) = two();
    a.writes(0, 1, 100);
    b.writes(100, 2, 5000);
    // The node's view still has the bytes in the stub.
    assert!(a.file.is_in_stub());
    a.writes(50, 3, 10);
    assert!(!a.file.is_in_stub());
    let all = expected(&[(1, 50), (3, 10), (1, 40), (2, 5000)]);
    assert!(b.bytes() == all && a.bytes() == all);
}

/// [S-203]
#[test]
fn who_reads_on_sees_what_another_wrote_after_a_move() {
    let (_world, a, b) = two();
    a.writes(0, 1, 20_000);
    assert!(b.bytes() == expected(&[(1, 20_000)]));
    a.file.end_writing().unwrap();
    a.moves();
    a.writes(0, 2, 20_000);
    let seen = || b.bytes() == expected(&[(2, 20_000)]);
    b.file.sync(true, &b.file.sync_cursor()).unwrap();
    assert!(seen(), "after a sync");
    a.file.end_writing().unwrap();
    a.moves();
    a.writes(0, 3, 20_000);
    b.file.said.looked.store(0, Ordering::Relaxed);
    assert!(b.bytes() == expected(&[(3, 20_000)]), "after a while");
}

/// [S-199]
#[test]
fn a_truncation_is_seen_by_who_reads_and_writes_afterwards() {
    let (_world, a, b) = two();
    a.writes(0, 1, 20_000);
    b.file.truncate(3000).unwrap();
    a.file.forget_what_others_changed(false).unwrap();
    assert!(a.bytes() == expected(&[(1, 3000)]));
    a.writes(5000, 2, 10);
    let all = expected(&[(1, 3000), (0, 2000), (2, 10)]);
    assert!(b.bytes() == all && a.bytes() == all);
}

/// [S-203]
#[test]
fn of_a_file_that_goes_while_it_moves_no_new_object_stays() {
    for nth in 1..40 {
        let (world, a, b) = two();
        a.writes(0, 1, 20_000);
        a.file.end_writing().unwrap();
        b.file.refresh().unwrap();
        let of = |one: &One| one.file.layout().unwrap().objects().map(|(_, object)| object.id).collect::<BTreeSet<_>>();
        let before = of(&b);
        world.stub.goes_at(nth);
        if b.mover.restripe(&b.file, 0, &Placement { stripe_count: 1, ..PLACE }).is_ok() {
            assert!(nth > 5, "so many calls a move makes");
            return;
        }
        let lie: BTreeSet<ObjectId> = world.media.iter().flat_map(|medium| medium.list().unwrap()).collect();
        // Once a layout was published, its objects are removed with the file.
        assert!(lie == before || lie == &before | &of(&b), "gone at call {nth}: {lie:?}");
    }
    panic!("it never moved");
}

/// [S-203]
#[test]
fn whatever_answer_is_lost_while_a_file_moves_nothing_that_it_names_is_removed() {
    let lost = |nth: u64, calls: u64| {
        let (world, a, b) = two();
        a.writes(0, 1, 20_000);
        b.file.refresh().unwrap();
        world.stub.lose_answers(nth, calls);
        let moved = b.mover.restripe(&b.file, 0, &Placement { stripe_count: 1, ..PLACE });
        world.stub.lose_answers(1, 0);
        // No node waits for marks that a failed move left on the stub.
        let written = a.file.write(100, &[2; 100]);
        assert!(written.is_ok(), "answers {nth} to {}: {moved:?}, {written:?}", nth + calls);
        let all = expected(&[(1, 100), (2, 100), (1, 19_800)]);
        assert!(a.bytes() == all && b.bytes() == all, "answers {nth} to {}: {moved:?}", nth + calls);
        b.writes(0, 3, 100);
        assert!(a.bytes()[..100] == [3; 100], "answers {nth} to {}: {moved:?}", nth + calls);
        moved.is_ok()
    };
    // Some of these runs wait for a second until they request the release of a leftover claim.
    std::thread::scope(|scope| {
        for nth in 1..40 {
            for calls in [1, 2, 3, 1 << 40] {
                scope.spawn(move || lost(nth, calls));
            }
        }
    });
    assert!(!lost(1, 1) && lost(60, 1), "so many are asked for");
}

#[test]
fn who_writes_a_file_that_another_node_laid_out_finds_it_by_its_number() {
    let (_world, a, b) = two();
    a.writes(0, 1, 20_000);
    b.writes(20_000, 2, 10);
    let id = b.file.id().expect("it is laid out");
    let found = b.file.pool.numbered.get(id);
    assert!(found.is_some_and(|found| Arc::ptr_eq(&found, &b.file)), "else a ring for it searches the whole tree");
}
