//! Deferred sizes: until the stub has them, and where their node is over.

use super::*;
use object::target::Faults;

const PIECE: usize = 3000;
/// Bytes of a write that goes to two objects.
const LONG: usize = 5000;

/// Extends the file piece by piece; returns the content.
fn grown(a: &One, pieces: u8) -> Vec<u8> {
    (0..pieces).for_each(|n| a.writes(u64::from(n) * PIECE as u64, n + 1, PIECE));
    (0..pieces).flat_map(|n| vec![n + 1; PIECE]).collect()
}

/// Two nodes that hold a file for writing beside each other, and its content.
fn beside() -> (World, One, One, Vec<u8>) {
    let (world, a, b) = two();
    let mut all = grown(&a, 20);
    b.writes(all.len() as u64, 21, PIECE);
    all.resize(all.len() + PIECE, 21);
    drop(a.bytes());
    (world, a, b, all)
}

/// Targets of the parts of a write of `LONG` bytes, in the order of the file.
fn targets_of(a: &One, offset: u64) -> Vec<usize> {
    let view = a.file.view();
    let pieces = view.layout.as_ref().expect("objects").mirrors[0].pieces(0, offset, LONG as u64);
    pieces.map(|piece| usize::from(view.slot(piece.at).target_id.0)).collect()
}

/// Writes bytes into the objects alone, as a node does that ends before it sets the size.
fn lands(a: &One, offset: u64, byte: u8) {
    let view = a.file.view();
    for piece in view.layout.as_ref().expect("objects").mirrors[0].pieces(0, offset, PIECE as u64) {
        let (at, bytes) = (piece.object_offset, vec![byte; piece.len as usize]);
        view.slot(piece.at).run(a.file.pool(), move |object| object.write_at(at, &bytes)).expect("room");
    }
}

/// [S-020]
#[test]
fn bytes_that_another_node_synced_in_the_stub_are_made_durable_in_the_objects() {
    let (world, a, b) = two();
    a.writes(0, 1, 100);
    a.file.sync_now(false).unwrap();
    let set_syncs_lose = |syncs_lose| {
        world.media.iter().for_each(|medium| medium.set_faults(Faults { syncs_lose, ..Faults::default() }));
    };
    set_syncs_lose(true);
    b.file.write(INLINE, &[2; 10]).expect_err("the objects are not durable");
    set_syncs_lose(false);
    assert!(b.bytes()[..100] == [1; 100]);
}

/// [S-330]
#[test]
fn another_node_gets_the_size_by_a_recall_or_a_close() {
    let world = World::new();
    let a = world.node(1);
    let all = grown(&a, 20);
    assert!(world.stub.size().unwrap() < all.len() as u64);
    let b = world.node(2);
    assert!(b.bytes() == all, "the recall settles it");
    assert_eq!(world.stub.size().unwrap(), all.len() as u64);
    a.writes(all.len() as u64, 77, 5);
    a.holds.settle_sizes();
    assert_eq!(world.stub.size().unwrap(), all.len() as u64 + 5, "so does a while");
    a.writes(all.len() as u64 + 5, 78, 5);
    a.file.settle().unwrap();
    assert_eq!(b.bytes().len(), all.len() + 10, "and a close");
}

/// [S-201]
#[test]
fn nodes_that_write_beside_each_other_set_the_size_later_and_see_it_at_once() {
    let (world, a, b, mut all) = beside();
    let calls = world.stub.calls();
    for n in 0..10 {
        let one = if n % 2 == 0 { &a } else { &b };
        one.writes(all.len() as u64, 30 + n, PIECE);
        all.resize(all.len() + PIECE, 30 + n);
    }
    assert_eq!(world.stub.calls(), calls, "growth is a write to objects and nothing else");
    assert!(world.stub.size().unwrap() < all.len() as u64);
    assert!(a.bytes() == all && b.bytes() == all && world.node(3).bytes() == all);
    a.file.settle().unwrap();
    assert_eq!(world.stub.size().unwrap(), (all.len() - PIECE) as u64, "the end of its own writes");
    a.writes((all.len() - 10) as u64, 99, 5);
    a.file.settle().unwrap();
    assert_eq!(world.stub.size().unwrap(), (all.len() - 5) as u64, "where the growth is that of another, too");
    b.file.settle().unwrap();
    assert_eq!(world.stub.size().unwrap(), all.len() as u64);
}

/// [S-201]
#[test]
fn no_part_of_a_write_beside_others_shows_before_the_bytes_ahead_of_it() {
    let (world, a, b, all) = beside();
    let first = targets_of(&a, all.len() as u64)[0];
    world.media[first].set_gone(true);
    let io = a.file.io.read();
    assert!(a.file.write_in(&a.file.view(), all.len() as u64, &[9; LONG]).is_err());
    drop(io);
    world.media[first].set_gone(false);
    assert!(b.bytes() == all);
}

/// [S-330]
#[test]
fn a_node_that_is_over_loses_nothing_of_a_deferred_size() {
    type Change = fn(&One);
    const CHANGES: [Change; 4] =
        [|b| b.moves(), |b| b.writes(1 << 19, 9, 1), |b| assert!(b.file.append(&[9]).is_ok()), |b| drop(b.bytes())];
    for (nth, change) in CHANGES.into_iter().enumerate() {
        let (world, a, b) = two();
        let all = grown(&a, 20);
        *a.member.standing.lock() = Standing::Lost;
        world.shared.end(Node(1));
        change(&b);
        assert!(b.bytes().starts_with(&all), "change {nth}");
        let c = world.node(3);
        assert!(c.bytes().starts_with(&all), "change {nth}");
        // The writer wakes under another number.
        a.joins_again(11);
        a.writes(0, 50, 10);
        assert!(c.bytes()[10..].starts_with(&all[10..]), "change {nth}");
    }
}

/// [S-204]
#[test]
fn a_late_write_of_a_node_that_is_over_lands_in_no_file() {
    let (world, a, b) = two();
    let all = grown(&a, 3);
    let (slot, end) = {
        let view = a.file.view();
        let piece = view.layout.as_ref().unwrap().mirrors[0].pieces(0, all.len() as u64, 1).next().unwrap();
        (view.slot(piece.at).clone(), piece.object_offset)
    };
    *a.member.standing.lock() = Standing::Lost;
    world.shared.end(Node(1));
    assert!(b.bytes() == all);
    slot.run(a.file.pool(), move |object| object.write_at(end, &[99; 50])).expect("the target does not know");
    b.writes(all.len() as u64 + 100, 5, 1);
    let mut expected = all.clone();
    expected.resize(all.len() + 100, 0);
    expected.push(5);
    assert!(b.bytes() == expected);
}

/// [S-330]
#[test]
fn a_failed_write_shows_in_no_later_hole() {
    let (world, a, b) = two();
    let all = grown(&a, 20);
    world.media.iter().for_each(|medium| medium.set_capacity_bytes(all.len() as u64 / 3 + (60 << 10)));
    assert!(a.file.write(all.len() as u64, &vec![9; 1 << 20]).is_err(), "there is no room for it");
    world.media.iter().for_each(|medium| medium.set_capacity_bytes(u64::MAX));
    let size = a.file.size();
    b.writes(2 << 19, 7, 10);
    let there = world.node(3).bytes();
    assert!(there.starts_with(&all));
    assert!(there[size as usize..].iter().take(1 << 19).all(|byte| *byte == 0), "a hole holds nothing");
}

/// [S-201]
#[test]
fn a_failed_write_beside_another_writer_cuts_none_of_its_bytes() {
    let (world, a, b, mut all) = beside();
    // The first part lands.
    let last = targets_of(&a, all.len() as u64)[1];
    world.media[last].set_gone(true);
    assert!(a.file.write(all.len() as u64, &[9; LONG]).is_err());
    world.media[last].set_gone(false);
    b.writes(all.len() as u64, 22, PIECE);
    all.resize(all.len() + PIECE, 22);
    a.holds.settle_sizes();
    a.file.settle().unwrap();
    assert!(world.node(3).bytes() == all, "they were acknowledged");
}

/// [S-201]
#[test]
fn a_failed_write_cuts_nothing_by_the_size_of_an_earlier_hold() {
    let (world, a, b, mut all) = beside();
    lands(&a, all.len() as u64, 9);
    a.file.defer_cut(&a.holds);
    b.writes(all.len() as u64, 22, PIECE);
    all.resize(all.len() + PIECE, 22);
    // The exclusive hold comes, and no operation has read the size under it.
    a.holds.feed(a.member.node(), Event::Want(a.file.key(), Use::Alone));
    while !a.holds.is_exclusive(a.file.key()) {
        std::thread::yield_now();
    }
    a.holds.settle_sizes();
    assert!(world.node(3).bytes() == all, "they were acknowledged");
}

/// [S-330]
#[test]
fn what_a_node_wrote_beside_others_shows_at_once_and_stays_when_it_is_over() {
    let (world, a, b, mut all) = beside();
    lands(&a, all.len() as u64, 9);
    all.resize(all.len() + PIECE, 9);
    assert!(b.bytes() == all);
    *a.member.standing.lock() = Standing::Lost;
    world.shared.end(Node(1));
    world.media.iter().for_each(|medium| medium.set_gone(true));
    assert!(b.file.refresh().is_ok(), "an open needs none of it");
    world.media.iter().for_each(|medium| medium.set_gone(false));
    assert!(b.bytes() == all);
    drop(b.file.alone().expect("settles"));
    assert!(b.bytes() == all && world.node(3).bytes() == all);
}

/// [S-330]
#[test]
fn a_truncation_whose_objects_are_away_is_finished_by_the_next_that_extends_the_file() {
    let (world, a, b) = two();
    let all = grown(&a, 20);
    drop(b.bytes());
    drop(b.file.alone().unwrap());
    world.media[1].set_gone(true);
    b.file.truncate(PIECE as u64).unwrap();
    world.media[1].set_gone(false);
    assert_eq!(world.stub.cut_to().unwrap(), Some(PIECE as u64), "not all of it could be cut");
    let c = world.node(3);
    assert_eq!(c.bytes(), all[..PIECE]);
    c.writes(10_000, 9, 10);
    let mut now = all[..PIECE].to_vec();
    now.resize(10_000, 0);
    now.resize(10_010, 9);
    assert!(c.bytes() == now && b.bytes() == now);
    assert_eq!(world.stub.cut_to().unwrap(), None);
}

/// [S-202]
#[test]
fn appends_of_two_nodes_are_whole_and_in_some_order() {
    let (_world, a, b) = two();
    std::thread::scope(|scope| {
        for (one, byte) in [(&a, 1), (&b, 2)] {
            scope.spawn(move || {
                for _ in 0..20 {
                    one.file.append(&[byte; 100]).expect("appends");
                }
            });
        }
    });
    let bytes = a.bytes();
    assert_eq!(bytes.len(), 4000);
    assert!(bytes.chunks(100).all(|piece| piece.iter().all(|byte| *byte == piece[0])));
    assert_eq!(bytes.iter().filter(|byte| **byte == 1).count(), 2000);
}
