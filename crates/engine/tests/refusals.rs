//! Targets that are full or can only be read: what is on them is read, and what comes next goes to others.

#[allow(dead_code)]
mod world;

use engine::file::{File, MirrorWrites};
use meta::stub::memory::MemoryStub;
use object::Error;
use object::target::{Faults, Medium, MemoryMedium, State};
use policy::TargetId;
use policy::layout::{Layout, Placement, Reason};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Duration;
use world::{Options, World};

const PAGE: u64 = 4096;

fn placement(stripe_count: usize) -> Placement {
    Placement { stripe_size: 2 * PAGE, stripe_count, single_bytes_max: 0, segment_bytes: 0, mirrors: 1, tier: None }
}

fn world(targets: u16, placement: Placement) -> World {
    let inline_bytes_max = 1000;
    World::new(Options { targets, placement, mirror_writes: MirrorWrites::Sync, inline_bytes_max }, 7)
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i / 59) as u8 | 1).collect()
}

fn read(file: &Arc<File>) -> Vec<u8> {
    let mut bytes = vec![0xEE; file.size() as usize];
    file.read(0, &mut bytes).expect("readable");
    bytes
}

/// The targets of the segments that begin at `from` or later.
fn targets_from(layout: &Layout, from: u64) -> Vec<u16> {
    let segments = layout.mirrors[0].segments.iter().filter(|s| s.start >= from);
    segments.flat_map(|s| &s.objects).map(|o| o.target.0).collect()
}

fn read_only(medium: &MemoryMedium, read_only: bool) {
    medium.set_faults(Faults { read_only, ..Faults::default() });
}

/// Another file of the world's pool.
fn another(world: &World) -> Arc<File> {
    File::open(Arc::new(MemoryStub::new()), world.life.pool.clone()).expect("a new file")
}

/// [S-152]
#[test]
fn a_file_grows_on_where_one_of_its_targets_is_full() {
    for step in [PAGE as usize, 3000, 50_000] {
        let mut world = world(4, placement(4));
        world.media[2].set_capacity_bytes(4 * PAGE);
        let all = bytes(40 * PAGE as usize);
        for (n, piece) in all.chunks(step).enumerate() {
            world.life.file.write((n * step) as u64, piece).expect("three others have room");
        }
        assert!(read(&world.life.file) == all, "steps of {step}");
        let layout = world.life.file.layout().expect("laid out");
        let overflown = targets_from(&layout, 1);
        assert!(!overflown.is_empty() && !overflown.contains(&2), "steps of {step}: {layout:?}");
        assert!(layout.mirrors[0].segments.len() <= 3, "steps of {step}: {layout:?}");
        world.life.file.sync_now(false).expect("well");
        world.kill();
        assert!(read(&world.life.file) == all, "steps of {step}, after a restart");
        assert_eq!(world.orphans(), []);
        // Bytes of the failed write beyond the end do not come back.
        world.life.file.truncate(all.len() as u64 + 100 * PAGE).expect("well");
        assert!(read(&world.life.file)[all.len()..].iter().all(|b| *b == 0), "steps of {step}");
    }
}

#[test]
fn a_volume_without_room_says_so_and_keeps_what_it_has() {
    let world = world(3, placement(3));
    world.media.iter().for_each(|m| m.set_capacity_bytes(4 * PAGE));
    let (file, all) = (&world.life.file, bytes(40 * PAGE as usize));
    let full = (0..40).find_map(|n| {
        let (from, to) = (n * PAGE as usize, (n + 1) * PAGE as usize);
        file.write(from as u64, &all[from..to]).err().map(|error| (from, error))
    });
    let (written, error) = full.expect("it has room for twelve pages");
    assert_eq!((written, error.errno()), (12 * PAGE as usize, Errno::NOSPC));
    assert!(read(file) == all[..written]);
}

/// [S-154]
#[test]
fn a_reservation_that_cannot_fit_reserves_nothing() {
    let world = world(3, placement(3));
    let file = &world.life.file;
    file.write(0, &bytes(6 * PAGE as usize)).expect("nothing is wrong");
    world.media[2].set_capacity_bytes(8 * PAGE);
    let used = || -> Vec<u64> {
        world.media.iter().map(|m| m.space().map(|space| space.total_bytes - space.free_bytes).expect("well")).collect()
    };
    let before = used();
    for keep_size in [false, true] {
        let error = file.allocate(0, 60 * PAGE, keep_size).expect_err("one of three targets has room for 8 pages");
        assert_eq!((error.errno(), used()), (Errno::NOSPC, before.clone()));
        assert_eq!(read(file), bytes(6 * PAGE as usize));
    }
    file.allocate(0, 24 * PAGE, false).expect("what is there needs no room again");
    assert_eq!((file.size(), used()), (24 * PAGE, vec![8 * PAGE; 3]));
}

/// [S-152]
#[test]
fn a_new_file_passes_over_a_target_that_turns_out_to_be_full() {
    let world = world(3, placement(1));
    let file = &world.life.file;
    file.write(0, &bytes(900)).expect("in the stub");
    // The first to be chosen makes the object and has no room for bytes.
    world.media[0].set_faults(Faults { nth: Some((2, Errno::NOSPC)), ..Faults::default() });
    file.write(900, &bytes(5000)).expect("two others have room");
    assert!(!targets_from(&file.layout().expect("laid out"), 0).contains(&0));
    assert_eq!(world.orphans(), []);
}

/// [S-153]
#[test]
fn what_can_only_be_read_is_read_grown_beside_and_moved_off() {
    let world = world(4, placement(3));
    let (file, pool) = (&world.life.file, &world.life.pool);
    let mut all = bytes(13 * PAGE as usize + 100);
    file.write(0, &all).expect("well");
    let hurt = targets_from(&file.layout().expect("laid out"), 0)[1];
    let state = || pool.targets.get(TargetId(hurt)).expect("there").state();
    read_only(&world.media[usize::from(hurt)], true);
    let refused = file.write(2 * PAGE, b"over what is there").expect_err("nobody can");
    assert_eq!((refused.errno(), state()), (Errno::ROFS, State::ReadOnly));
    assert!(read(file) == all, "all of it can be read");
    let more = bytes(9 * PAGE as usize);
    file.write(all.len() as u64, &more).expect("others take what is appended");
    all.extend(more);
    assert!(read(file) == all);
    let layout = file.layout().expect("laid out");
    assert!(!targets_from(&layout, 1).is_empty() && !targets_from(&layout, 1).contains(&hurt), "{layout:?}");
    for _ in 0..5 {
        let new = another(&world);
        new.lay_out(100_000, &placement(3), Reason::Requested).expect("three are left");
        assert!(!targets_from(&new.layout().expect("laid out"), 0).contains(&hurt));
        new.remove_objects().expect("well");
    }
    world.life.mover.replace_target(file, TargetId(hurt), Reason::Drained(TargetId(hurt))).expect("it can be read");
    file.write(2 * PAGE, b"over what was there").expect("it lies elsewhere");
    assert_eq!(world.orphans(), [], "what could not be removed is remembered");
    read_only(&world.media[usize::from(hurt)], false);
    pool.targets.advance(Duration::from_secs(60));
    assert_eq!(state(), State::Ok, "it can be written again");
    world.life.mover.collect_garbage(TargetId(hurt)).expect("well");
    use object::target::Medium;
    assert_eq!(world.media[usize::from(hurt)].list().expect("well"), []);
}

/// [S-153]
#[test]
fn a_file_on_a_target_that_can_only_be_read_can_be_emptied_and_written() {
    let world = world(3, placement(2));
    let file = &world.life.file;
    file.write(0, &bytes(20_000)).expect("well");
    let hurt = targets_from(&file.layout().expect("laid out"), 0)[0];
    read_only(&world.media[usize::from(hurt)], true);
    file.truncate(0).expect("it gets new objects");
    file.write(0, &bytes(30_000)).expect("they can be written");
    assert!(read(file) == bytes(30_000));
    assert!(!targets_from(&file.layout().expect("laid out"), 0).contains(&hurt));
}

/// [S-153]
#[test]
fn a_target_that_cannot_sync_gets_nothing_new_and_stays_readable() {
    let world = world(3, placement(2));
    let (file, pool) = (&world.life.file, &world.life.pool);
    file.write(0, &bytes(20_000)).expect("well");
    file.sync_now(false).expect("well");
    let hurt = targets_from(&file.layout().expect("laid out"), 0)[0];
    let state = || pool.targets.get(TargetId(hurt)).expect("there").state();
    let medium = &world.media[usize::from(hurt)];
    medium.set_faults(Faults { syncs_lose: true, ..Faults::default() });
    file.write(0, &bytes(100)).expect("written, not synced");
    assert_eq!(state(), State::Ok);
    assert!(matches!(file.sync_now(false), Err(Error::Target { .. })));
    assert_eq!(state(), State::ReadOnly, "its probe cannot sync either");
    let new = another(&world);
    new.lay_out(100_000, &placement(3), Reason::Requested).expect("two are left");
    assert!(!targets_from(&new.layout().expect("laid out"), 0).contains(&hurt));
    assert_eq!(read(file).len(), 20_000);
    medium.set_faults(Faults::default());
    pool.targets.advance(Duration::from_secs(60));
    assert_eq!(state(), State::Ok);
}
