//! Deferred sizes: the view of other nodes until the size is published, and if it never is.

use super::*;
use policy::cluster::share::Mark;

const PIECE: usize = 3000;

/// Extends the file piece by piece on `a`; returns the content.
fn grown(a: &One, pieces: u8) -> Vec<u8> {
    (0..pieces).for_each(|n| a.writes(u64::from(n) * PIECE as u64, n + 1, PIECE));
    (0..pieces).flat_map(|n| vec![n + 1; PIECE]).collect()
}

fn said(world: &World) -> u64 {
    world.stub.size().expect("in memory")
}

fn grows(world: &World) -> Vec<Mark> {
    let look = world.stub.look().expect("in memory");
    look.listed.into_iter().filter(|mark| matches!(mark, Mark::Grows { .. } | Mark::Cut(_))).collect()
}

/// [S-330]
#[test]
fn the_size_of_a_file_that_grows_is_said_at_its_end_and_seen_by_who_opens_it_before() {
    let (world, a, b) = two();
    let all = grown(&a, 20);
    assert!(said(&world) < all.len() as u64, "said {}", said(&world));
    assert_eq!(a.file.size(), all.len() as u64);
    let c = world.node(3);
    assert_eq!(c.file.size(), all.len() as u64, "who opens it asks the objects");
    assert!(b.bytes() == all && c.bytes() == all, "who reads beyond what it knows looks again");
    a.file.settle().unwrap();
    assert_eq!((said(&world), grows(&world).len()), (all.len() as u64, 1), "a close says it");
    a.writes(all.len() as u64, 77, 5);
    File::say_sizes(&a.file.pool);
    assert_eq!(said(&world), all.len() as u64 + 5, "so does a while");
    a.writes(all.len() as u64 + 5, 78, 5);
    a.file.end_writing().unwrap();
    assert_eq!((said(&world), grows(&world)), (all.len() as u64 + 10, vec![]));
    assert_eq!(b.file.refresh().map(|_| b.file.size()).unwrap(), all.len() as u64 + 10);
}

/// [S-330]
#[test]
fn a_file_that_goes_on_growing_takes_few_calls_of_its_stub() {
    let world = World::new();
    let a = world.node(1);
    let small = |n: u64| a.writes(5000 + n * 10, 1, 10);
    (0..10).for_each(small);
    let before = world.stub.calls();
    (10..1010).for_each(small);
    assert_eq!(world.stub.calls() - before, 0);
    a.file.settle().unwrap();
    assert_eq!(said(&world), 5000 + 1010 * 10);
}

/// [S-330]
#[test]
fn a_node_that_is_over_has_lost_nothing_of_a_size_that_it_did_not_say() {
    type Change = fn(&One);
    const CHANGES: [Change; 3] = [|b| b.moves(), |b| b.writes(1 << 20, 9, 1), |b| assert!(b.file.append(&[9]).is_ok())];
    for (nth, change) in CHANGES.into_iter().enumerate() {
        let (world, a, b) = two();
        let all = grown(&a, 20);
        assert!(said(&world) < all.len() as u64);
        world.over(1);
        change(&b);
        assert!(b.bytes().starts_with(&all), "change {nth}");
        let c = world.node(3);
        let mut there = vec![0; all.len()];
        assert_eq!(c.file.read(0, &mut there).unwrap(), all.len());
        assert!(there == all, "change {nth}");
        // The writer wakes under another number.
        a.member.number.store(11, Ordering::Relaxed);
        a.writes(0, 50, 10);
        assert!(c.bytes()[10..].starts_with(&all[10..]), "change {nth}");
        a.file.end_writing().unwrap();
        b.moves();
        assert_eq!(grows(&world), [], "change {nth}: the stub has it");
    }
}

/// [S-330]
#[test]
fn what_was_cut_off_does_not_come_back_when_neither_the_writer_nor_who_cut_it_comes_to_an_end() {
    let (world, a, b) = two();
    let all = grown(&a, 20);
    let late = grows(&world)[0];
    world.over(1);
    // Some of the bytes beyond the end stay, because a target is away.
    drop(b.file.exclusive().unwrap());
    world.media[1].set_gone(true);
    b.file.truncate(PIECE as u64).unwrap();
    world.media[1].set_gone(false);
    assert!(matches!(grows(&world)[..], [Mark::Cut(_)]), "not all of it could be cut: {:?}", grows(&world));
    // A writer that was suspended sets its `grows` mark only now.
    world.stub.set_mark(late).unwrap();
    let c = world.node(3);
    assert_eq!(c.file.size(), PIECE as u64);
    c.writes(10_000, 9, 10);
    let mut now = all[..PIECE].to_vec();
    now.resize(10_000, 0);
    now.resize(10_010, 9);
    assert!(c.bytes() == now && world.node(4).bytes() == now);
    assert!(grows(&world).iter().all(|mark| !matches!(mark, Mark::Cut(_))));
}

/// [S-330]
#[test]
fn what_a_write_that_failed_left_beyond_the_end_is_in_the_file_and_not_in_a_later_hole() {
    let (world, a, b) = two();
    let all = grown(&a, 20);
    b.file.refresh().unwrap();
    b.writes(0, 1, 1);
    world.media.iter().for_each(|medium| medium.set_capacity_bytes(all.len() as u64 / 3 + (60 << 10)));
    assert!(a.file.write(all.len() as u64, &vec![9; 1 << 20]).is_err(), "there is no room for it");
    world.media.iter().for_each(|medium| medium.set_capacity_bytes(u64::MAX));
    let size = a.file.size();
    assert_eq!(said(&world), size, "it is said at once");
    a.file.end_writing().unwrap();
    b.writes(2 << 20, 7, 10);
    let there = world.node(3).bytes();
    assert!(there.starts_with(&all));
    assert!(there[size as usize..].iter().all(|byte| *byte == 0), "a hole holds nothing");
}

/// [S-330]
#[test]
fn a_writer_does_not_rely_on_what_another_says_of_the_size() {
    let (world, a, b) = two();
    let all = grown(&a, 20);
    // The writer gets the end from the objects. So its write extends nothing, although the size in the stub is smaller.
    b.writes(all.len() as u64 - 10, 7, 10);
    assert!(said(&world) >= all.len() as u64 || grows(&world).len() == 2, "{:?}", grows(&world));
}

/// [S-330]
#[test]
fn a_lease_that_was_lost_leaves_the_size_to_the_objects() {
    let (world, a, b) = two();
    let all = grown(&a, 20);
    *a.member.standing.lock() = Standing::Lost;
    a.file.end_writing().unwrap();
    assert!(said(&world) < all.len() as u64 && grows(&world).len() == 1, "what it says now may come too late");
    world.over(1);
    b.moves();
    assert!(b.bytes() == all);
}
