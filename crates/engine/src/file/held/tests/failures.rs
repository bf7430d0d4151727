//! Lost leases, late publications, lost answers, and a store that is away.

use super::super::steps::Publication;
use super::*;
use crate::file::NewObjects;
use meta::stub::Record;
use object::target::{Order, Reach};
use policy::layout::Object;

/// [S-204]
#[test]
fn a_write_under_a_lost_lease_is_repeated_under_the_next() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    *a.member.standing.lock() = Standing::Lost;
    world.shared.end(Node(1));
    b.moves();
    b.writes(0, 2, 5);
    a.joins_again(3);
    a.writes(10, 3, 5);
    let all = expected(&[(2, 5), (1, 5), (3, 5), (1, 19_985)]);
    assert!(b.bytes() == all && a.bytes() == all);
}

/// [S-204]
#[test]
fn a_publication_that_comes_late_is_refused() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    {
        let _alone = a.file.exclusive().unwrap();
        *a.member.standing.lock() = Standing::Lost;
        world.shared.end(Node(1));
        b.writes(0, 2, 5);
        let record = a.file.record.lock();
        let (view, layout) = (a.file.view(), Layout::clone(&a.file.layout().unwrap()));
        let late = a.file.replace(&record, &view, layout);
        assert!(matches!(late, Err(Error::Elsewhere(_))), "{late:?}");
    }
    a.joins_again(3);
    assert!(b.bytes() == expected(&[(2, 5), (1, 19_995)]));
    a.writes(5, 3, 1);
    assert_eq!(b.bytes()[..7], [2, 2, 2, 2, 2, 3, 1]);
}

/// [S-204]
#[test]
fn a_record_that_is_created_again_late_is_not_taken_for_the_newest() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    let (old, layout) = world.newest();
    b.moves();
    b.moves();
    let (newest, _) = world.newest();
    assert!(newest > old && world.stub.record(old).unwrap().is_none());
    world.stub.create_record(old, &Record { stamp: 77, layout }).unwrap();
    world.stub.point(old, 5).unwrap();
    let c = world.node(3);
    assert!(c.bytes() == expected(&[(1, 20_000)]));
    assert_eq!(c.file.layout().unwrap().mirrors, b.file.layout().unwrap().mirrors);
}

/// [S-203]
#[test]
fn whichever_answer_of_the_stub_is_lost_a_move_removes_no_object_in_use() {
    let lost = |nth: u64| {
        let (world, a, b) = two();
        a.writes(0, 1, 20_000);
        a.file.settle().unwrap();
        drop(b.bytes());
        world.stub.lose_answers(nth, 1);
        let moved = b.tries_to_move();
        world.stub.lose_answers(1, 0);
        a.writes(100, 2, 100);
        let all = expected(&[(1, 100), (2, 100), (1, 19_800)]);
        assert!(a.bytes() == all && b.bytes() == all, "answer {nth}: {moved:?}");
        moved.is_ok()
    };
    std::thread::scope(|scope| (1..24).for_each(|nth| drop(scope.spawn(move || lost(nth)))));
    assert!(lost(200), "so many are not asked for");
}

/// [S-205]
#[test]
fn whichever_answer_of_the_store_is_lost_nothing_is_lost_with_it() {
    let lost = |nth: u64| {
        let (_world, a, b) = two();
        a.writes(0, 1, 20_000);
        a.file.settle().unwrap();
        *b.member.loses.lock() = (nth, 1);
        b.moves();
        b.writes(100, 2, 100);
        let all = expected(&[(1, 100), (2, 100), (1, 19_800)]);
        assert!(a.bytes() == all && b.bytes() == all, "answer {nth}");
    };
    std::thread::scope(|scope| {
        (0..12).for_each(|nth| drop(scope.spawn(move || lost(nth))));
    });
}

/// [S-205]
#[test]
fn without_the_store_a_node_goes_on_with_its_holds_and_changes_wait() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    a.member.apart.store(true, Ordering::Release);
    a.writes(0, 2, 5);
    a.writes(20_000, 3, 5);
    // The session lapses.
    std::thread::sleep(Duration::from_millis(700));
    let moved = std::thread::scope(|scope| {
        let moves = scope.spawn(|| b.moves());
        std::thread::sleep(Duration::from_millis(300));
        assert!(!moves.is_finished(), "a node without a session may hold it");
        a.writes(5, 4, 5);
        a.member.apart.store(false, Ordering::Release);
        moves.join().is_ok()
    });
    assert!(moved);
    let all = expected(&[(2, 5), (4, 5), (1, 19_990), (3, 5)]);
    assert!(a.bytes() == all && b.bytes() == all);
    assert!(world.newest().0 > 1);
}

/// [S-205]
#[test]
fn another_run_of_the_store_learns_all_holds_before_it_admits() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    world.shared.begins_anew();
    b.moves();
    a.writes(100, 2, 100);
    let all = expected(&[(1, 100), (2, 100), (1, 19_800)]);
    assert!(a.bytes() == all && b.bytes() == all);
}

/// [S-203]
#[test]
fn objects_of_a_move_are_removed_if_the_file_goes() {
    for nth in 1..60 {
        let (world, a, b) = two();
        a.writes(0, 1, 20_000);
        a.file.settle().unwrap();
        drop(b.bytes());
        let of = |one: &One| one.file.layout().unwrap().objects().map(|(_, object)| object.id).collect::<BTreeSet<_>>();
        let before = of(&b);
        world.stub.goes_at(nth);
        if b.tries_to_move().is_ok() {
            assert!(nth > 3, "so many calls a move makes");
            return;
        }
        let there: BTreeSet<ObjectId> = world.media.iter().flat_map(|medium| medium.list().unwrap()).collect();
        assert!(there == before || there == &before | &of(&b), "gone at call {nth}: {there:?}");
    }
    panic!("it never moved");
}

/// [S-203]
#[test]
fn mirrors_that_miss_a_write_become_stale_under_a_claim() {
    let world = World::new();
    let place = Placement { mirrors: 2, stripe_count: 1, ..PLACE };
    let (a, b) = (world.node_with(1, place.clone()), world.node_with(2, place));
    a.writes(0, 1, 20_000);
    let target = a.file.layout().unwrap().mirrors[1].segments[0].objects[0].target;
    world.media[usize::from(target.0)].set_gone(true);
    a.writes(0, 2, 10);
    assert!(a.file.layout().unwrap().mirrors.iter().any(|mirror| mirror.state == MirrorState::Stale));
    assert!(b.bytes() == expected(&[(2, 10), (1, 19_990)]));
    // A sync finds the next one.
    world.media[usize::from(target.0)].set_gone(false);
    let file = &a.file;
    assert!(file.sync(false, &file.sync_cursor()).is_ok());
}

/// [S-204]
#[test]
fn a_claim_of_a_node_that_is_over_ends_before_a_check_removes_its_objects() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    b.file.refresh().unwrap();
    let generation = world.newest().0;
    let alone = a.file.exclusive().unwrap();
    *a.member.standing.lock() = Standing::Lost;
    world.shared.end(Node(1));
    b.file.settle_left().unwrap();
    assert_eq!(world.newest().0, generation + 1, "a late publication fails");
    drop(alone);
    assert!(b.bytes() == expected(&[(1, 20_000)]));
}

/// [S-204]
#[test]
fn a_member_that_was_over_before_a_node_began_keeps_nothing_waiting() {
    let world = World::new();
    let a = world.node(1);
    a.writes(0, 1, 20_000);
    *a.member.standing.lock() = Standing::Lost;
    world.shared.end(Node(1));
    let b = world.node(2);
    b.moves();
    b.writes(0, 2, 10);
    assert!(b.bytes() == expected(&[(2, 10), (1, 19_990)]));
}

/// [S-204]
#[test]
fn an_object_that_the_shared_file_system_hides_is_not_taken_for_lost() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    let objects: Vec<_> = a.file.layout().unwrap().objects().map(|(_, object)| *object).collect();
    let rename = |from: &dyn Fn(ObjectId) -> ObjectId, to: &dyn Fn(ObjectId) -> ObjectId| {
        for object in &objects {
            let medium = &world.media[usize::from(object.target.0)];
            medium.link(from(object.id), to(object.id)).unwrap();
            medium.remove(from(object.id)).unwrap();
        }
    };
    let hidden = |id: ObjectId| ObjectId(!id.0);
    rename(&|id| id, &hidden);
    world.shared.hides.store(true, Ordering::Release);
    *a.member.standing.lock() = Standing::Lost;
    world.shared.end(Node(1));
    let read = std::thread::scope(|scope| {
        let read = scope.spawn(|| b.bytes());
        std::thread::sleep(Duration::from_millis(300));
        assert!(!read.is_finished(), "the size is unknown");
        rename(&hidden, &|id| id);
        world.shared.hides.store(false, Ordering::Release);
        read.join().unwrap()
    });
    assert!(read == expected(&[(1, 20_000)]));
}

/// An operator orders all targets, on one node.
fn operates(one: &One, order: Order) {
    let targets = &one.file.pool().targets;
    targets.all().iter().for_each(|target| assert!(targets.operate(target.id(), order).is_ok()));
}

/// [S-204]
#[test]
fn a_size_that_one_node_cannot_see_is_left_to_another() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    *a.member.standing.lock() = Standing::Lost;
    world.shared.end(Node(1));
    let targets = &b.file.pool().targets;
    targets.all().iter().for_each(|target| targets.give_up(target.id()));
    b.file.read(0, &mut [0; 10]).expect_err("the size is unknown");
    b.file.append(&[9]).expect_err("the end is unknown");
    let c = world.node(3);
    assert!(c.bytes() == expected(&[(1, 20_000)]));
    operates(&b, Order::Restore);
    assert!(b.bytes() == expected(&[(1, 20_000)]));
}

/// [S-204]
#[test]
fn a_target_that_an_operator_failed_keeps_no_file_unsettled() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    a.file.settle().unwrap();
    a.writes(20_000, 2, 20_000);
    *a.member.standing.lock() = Standing::Lost;
    world.shared.end(Node(1));
    operates(&b, Order::Fail);
    b.file.refresh().unwrap();
    assert_eq!(b.file.size(), 20_000);
}

/// [S-330]
#[test]
fn the_stub_has_the_size_of_a_file_that_some_nodes_do_not_reach_at_once() {
    let (world, a, b) = two();
    let set_reach = |one: &One, reach| {
        one.file.pool().targets.all().iter().for_each(|target| target.set_reach(reach, false));
    };
    set_reach(&a, Reach::Here);
    set_reach(&b, Reach::Elsewhere);
    operates(&b, Order::Fail);
    a.writes(0, 1, 20_000);
    *a.member.standing.lock() = Standing::Lost;
    world.shared.end(Node(1));
    b.file.refresh().unwrap();
    assert_eq!(b.file.size(), 20_000);
    let c = world.node(3);
    assert!(c.bytes() == expected(&[(1, 20_000)]));
}

/// [S-204]
#[test]
fn a_record_of_an_earlier_number_is_not_published_under_the_next() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    a.file.settle().unwrap();
    let (generation, layout) = world.newest();
    let publication = Publication { node: Node(1), generation: generation + 1, changed: false, sealed: true };
    let late = Record { stamp: 77, layout };
    a.file.held.state.lock().change.publishing = Some((publication, late));
    *a.member.standing.lock() = Standing::Lost;
    world.shared.end(Node(1));
    a.joins_again(3);
    a.writes(0, 2, 10);
    let made = world.stub.record(generation + 1).unwrap();
    assert!(made.is_none_or(|record| record.stamp != 77));
    assert!(b.bytes() == expected(&[(2, 10), (1, 19_990)]));
}

/// [S-203]
#[test]
fn a_right_that_was_overtaken_loads_no_older_layout() {
    let (_world, a, b) = two();
    a.writes(0, 1, 20_000);
    let overtaken = a.file.right(&a.holds, Use::Read).unwrap();
    a.moves();
    let layout = a.file.layout();
    a.file.follow(&overtaken, Use::Read).expect("the newer one stays");
    assert_eq!(a.file.layout(), layout);
    assert!(a.bytes() == b.bytes());
}

/// [S-213]
#[test]
fn objects_of_a_settlement_count_as_under_construction_until_their_record_is_there() {
    let is_seen = (1..60).any(|nth| {
        let (world, a, b) = two();
        a.writes(0, 1, 20_000);
        *a.member.standing.lock() = Standing::Lost;
        world.shared.end(Node(1));
        world.stub.lose_answers(nth, 20);
        let mut is_seen = false;
        std::thread::scope(|scope| {
            let refreshed = scope.spawn(|| b.file.refresh());
            while !refreshed.is_finished() {
                let state = b.file.held.state.lock();
                if let Some(sealed) = &state.sealed {
                    let making = b.file.pool().making.objects(None);
                    assert!(sealed.new_objects().all(|object| making.contains(&object)));
                    is_seen = true;
                }
                drop(state);
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        is_seen
    });
    assert!(is_seen, "no settlement waited for its record");
}

/// [S-213]
#[test]
fn the_leader_has_to_search_for_objects_that_were_made_under_an_earlier_number() {
    let (world, a, _b) = two();
    let pool = a.file.pool();
    let make = || {
        let mut made = NewObjects::new(pool);
        made.make(&Object::whole(pool.next_object(), TargetId(0))).unwrap();
        made
    };
    drop(make());
    assert!(!pool.making.take_left_behind(), "this node removes its own");
    let made = make();
    world.shared.end(Node(1));
    a.joins_again(3);
    drop(made);
    assert!(pool.making.take_left_behind() && !pool.making.take_left_behind());
}

/// [S-204]
#[test]
fn an_append_that_another_node_settled_is_not_repeated() {
    for looks in 0..12 {
        let (world, a, b) = two();
        a.writes(0, 1, 20_000);
        *a.member.looks.lock() = Some(looks);
        let appended = std::thread::scope(|scope| {
            let append = scope.spawn(|| a.file.append(&[2; 10_000]));
            while !append.is_finished() {
                if *a.member.standing.lock() == Standing::Lapsed {
                    *a.member.standing.lock() = Standing::Lost;
                    world.shared.end(Node(1));
                    b.file.refresh().unwrap();
                    a.joins_again(3);
                }
                std::thread::yield_now();
            }
            append.join().unwrap()
        });
        assert_eq!(appended.unwrap(), 20_000);
        *a.member.looks.lock() = None;
        assert!(b.bytes() == expected(&[(1, 20_000), (2, 10_000)]), "{looks} looks");
    }
}
