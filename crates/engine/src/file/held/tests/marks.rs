//! Marks of files in use on several nodes, and removal of the objects when the name is removed during the use.

use super::*;
use meta::stub::InUse;

fn objects(world: &World) -> usize {
    world.media.iter().map(|medium| medium.list().expect("in memory").len()).sum()
}

/// [S-213]
#[test]
fn each_node_has_a_mark_of_its_own_and_takes_no_other_away() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    b.file.refresh().unwrap();
    let file = a.file.id().unwrap();
    let has = |node| world.stub.has_mark(InUse { file, node: Some(Node(node)) });
    a.file.mark_in_use().unwrap();
    b.file.mark_in_use().unwrap();
    assert_eq!((a.file.names(|| 3), b.file.names(|| 2)), (2, 1), "its own is not counted");
    b.file.settle_mark();
    assert!(has(1) && !has(2));
    // Under another number the node sets a new mark, since other nodes settle the old one.
    a.member.number.store(3, Ordering::Release);
    assert!(!a.file.is_marked_in_use());
    a.file.mark_in_use().unwrap();
    assert!(a.file.is_marked_in_use() && has(1) && has(3));
}

/// [S-213]
#[test]
fn whoever_takes_the_last_link_away_removes_the_objects_as_they_lie_then() {
    // No session lapses between the two drops.
    let world = World::with(Config::default());
    let (a, b) = (world.node(1), world.node(2));
    a.writes(0, 1, 20_000);
    b.file.refresh().unwrap();
    b.file.mark_in_use().unwrap();
    a.moves();
    a.rests();
    world.stub.unlink();
    assert!(!a.file.is_nameless(|| world.stub.links()), "that is for the node with the mark to say");
    let there = objects(&world);
    drop(a);
    assert_eq!((objects(&world), there > 0), (there, true));
    drop(b);
    assert_eq!(objects(&world), 0);
}

/// [S-411]
#[test]
fn objects_stay_while_another_node_has_the_file_open() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    b.file.refresh().unwrap();
    b.file.mark_in_use().unwrap();
    world.stub.unlink();
    let there = objects(&world);
    drop(b);
    assert_eq!((objects(&world), there > 0), (there, true));
    assert!(a.bytes() == expected(&[(1, 20_000)]));
}

/// [S-213]
#[test]
fn a_move_of_a_file_that_loses_its_name_leaves_nothing() {
    let (world, a, b) = two();
    a.writes(0, 1, 20_000);
    drop(a);
    world.shared.end(Node(1));
    let stub = world.stub.clone();
    let at_copied = move |step| {
        if step == crate::mover::Step::Copied {
            stub.unlink();
        }
        Ok(())
    };
    let state = Arc::new(SqliteState::in_memory().unwrap());
    let mover = Mover::new(b.file.pool.clone(), state, None).with_crash_hook(Arc::new(at_copied));
    b.file.refresh().unwrap();
    let _ = mover.restripe(&b.file, 0, &Placement { stripe_count: 1, ..PLACE });
    drop((mover, b));
    assert_eq!(objects(&world), 0);
}
