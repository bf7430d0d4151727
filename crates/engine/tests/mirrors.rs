//! Several copies of a file: what each of them holds, which are read, and what is lost when none is left.

#[allow(dead_code)]
mod world;

use engine::file::{File, MirrorWrites};
use object::Error;
use object::target::{Faults, Medium, Order};
use policy::layout::{MirrorState, Object, Placement};
use std::sync::Arc;
use world::{Options, Random, World};

const STRIPE: usize = 4096;
const SIZE: usize = 12 * STRIPE;

/// Striped over three targets from the first byte on, with enough targets for two mirrors on different ones.
fn world(mirrors: usize, mirror_writes: MirrorWrites) -> World {
    let placement = Placement {
        stripe_size: STRIPE as u64,
        stripe_count: 3,
        single_bytes_max: 0,
        segment_bytes: 0,
        mirrors,
        tier: None,
    };
    World::new(Options { targets: 6, placement, mirror_writes, inline_bytes_max: 0 }, 5)
}

fn content(seed: u8) -> Vec<u8> {
    (0..SIZE).map(|i| seed.wrapping_add((i / 61) as u8) | 1).collect()
}

fn read(file: &Arc<File>) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0xEE; file.size() as usize];
    let read = file.read(0, &mut bytes)?;
    assert_eq!(read, bytes.len());
    Ok(bytes)
}

fn objects(file: &Arc<File>, mirror: usize) -> Vec<Object> {
    let layout = file.layout().expect("laid out");
    layout.mirrors[mirror].segments.iter().flat_map(|s| s.objects.clone()).collect()
}

/// Contents of the file when every target of all other mirrors is gone.
fn read_only(world: &World, mirror: usize) -> Result<Vec<u8>, Error> {
    let file = &world.life.file;
    let others = |m: &usize| *m != mirror;
    let away: Vec<_> = (0..file.layout().expect("laid out").mirrors.len()).filter(others).collect();
    let away: Vec<_> = away.into_iter().flat_map(|m| objects(file, m)).collect();
    let targets = &world.life.pool.targets;
    for object in &away {
        targets.operate(object.target, Order::Fail).expect("known");
    }
    let bytes = read(file);
    for object in &away {
        targets.operate(object.target, Order::Restore).expect("it is well");
    }
    bytes
}

/// [S-014]
#[test]
fn truncating_and_extending_gives_zeros_on_every_mirror() {
    let world = world(2, MirrorWrites::Sync);
    let file = &world.life.file;
    let mut expected = content(1);
    file.write(0, &expected).expect("well");
    for cut in [SIZE - 100, 7 * STRIPE, 5 * STRIPE + 17, 3] {
        file.truncate(cut as u64).expect("well");
        file.truncate(SIZE as u64).expect("well");
        expected[cut..].fill(0);
        for mirror in 0..2 {
            assert!(read_only(&world, mirror).expect("one mirror is enough") == expected, "mirror {mirror}, {cut}");
        }
    }
}

/// [S-020]
#[test]
fn bytes_synced_in_the_stub_stay_there_until_every_mirror_has_them_durably() {
    let placement = Placement {
        stripe_size: STRIPE as u64,
        stripe_count: 1,
        single_bytes_max: 0,
        segment_bytes: 0,
        mirrors: 2,
        tier: None,
    };
    let inline_bytes_max = STRIPE as u64;
    let world = World::new(Options { targets: 2, placement, mirror_writes: MirrorWrites::Sync, inline_bytes_max }, 5);
    let file = &world.life.file;
    file.write(0, &[1; 100]).expect("well");
    file.sync_now(false).expect("well");
    world.media[1].set_faults(Faults { syncs_lose: true, ..Faults::default() });
    file.write(inline_bytes_max, &[2; 10]).expect_err("one mirror is not durable");
    assert!(file.layout().is_none());
    assert!(read(file).expect("well")[..100] == [1; 100]);
}

/// [S-020] In the objects themselves: after a loss of power the copies may differ in what was not synced, so one of
/// them is the truth and the others are brought up to it.
#[test]
fn what_was_synced_is_on_every_mirror_after_a_loss_of_power() {
    let mut expected = content(2);
    expected[100..107].copy_from_slice(b"over it");
    for seed in 0..50 {
        let mut world = world(2, MirrorWrites::Sync);
        world.life.file.write(0, &content(2)).expect("well");
        world.life.file.write(100, b"over it").expect("well");
        world.life.file.sync_now(false).expect("well");
        let mirrors = [0, 1].map(|mirror| objects(&world.life.file, mirror));
        world.crash(&mut Random(seed));
        for (mirror, objects) in mirrors.iter().enumerate() {
            for (stripe, expected) in expected.chunks(STRIPE).enumerate() {
                let object = objects[stripe % 3];
                let there = world.media[usize::from(object.target.0)].peek(object.id).expect("its name was synced");
                assert!(there[stripe / 3 * STRIPE..][..STRIPE] == *expected, "mirror {mirror}, {stripe}, seed {seed}");
            }
        }
        assert!(read(&world.life.file).expect("well") == expected);
        world.life.mover.resync(&world.life.file).expect("well");
        assert!(read_only(&world, 1).expect("in sync again") == expected);
    }
}

/// [S-023]
#[test]
fn a_mirror_that_missed_a_write_is_stale_when_the_write_is_acknowledged() {
    for nth in 1..=3 {
        let mut world = world(2, MirrorWrites::Sync);
        world.life.file.write(0, &content(3)).expect("well");
        let first = objects(&world.life.file, 0);
        let medium = &world.media[usize::from(first[0].target.0)];
        medium.set_faults(Faults { nth: Some((nth, rustix::io::Errno::IO)), ..Faults::default() });
        world.life.file.write(0, &content(4)).expect("the other mirror took it");
        world.life.file.write(0, &content(5)).expect("the other mirror took it");
        let recorded = meta::stub::Stub::layout(&*world.stub).expect("well").expect("laid out").mirrors[0].state;
        world.kill();
        let hit = recorded == MirrorState::Stale;
        assert!(hit || nth > 1, "the first operation on its target was the write");
        assert!(read(&world.life.file).expect("readable") == content(5), "fault {nth}: an old byte came back");
        let sound = |m: &usize| world.life.file.layout().expect("laid out").mirrors[*m].state == MirrorState::InSync;
        let in_sync: Vec<usize> = (0..2).filter(sound).collect();
        for mirror in in_sync {
            assert!(read_only(&world, mirror).expect("in sync") == content(5), "mirror {mirror} is said to be in sync");
        }
    }
}

/// [S-023] with `mirror_writes = "stale"`.
#[test]
fn where_one_mirror_is_written_the_others_are_stale_first() {
    let mut world = world(2, MirrorWrites::Stale);
    world.life.file.write(0, &content(6)).expect("well");
    world.kill();
    let states: Vec<_> = world.life.file.layout().expect("laid out").mirrors.iter().map(|m| m.state).collect();
    assert_eq!(states, [MirrorState::InSync, MirrorState::Stale]);
    assert!(read(&world.life.file).expect("well") == content(6));
    read_only(&world, 1).expect_err("what is stale is not read");
    world.life.mover.resync(&world.life.file).expect("well");
    assert!(read_only(&world, 1).expect("in sync again") == content(6));
}

/// [S-023] [S-071]
#[test]
fn a_replica_takes_no_object_of_a_mirror_that_missed_a_write() {
    let world = world(1, MirrorWrites::Sync);
    let (file, mover, targets) = (&world.life.file, &world.life.mover, &world.life.pool.targets);
    file.write(0, &content(8)).expect("well");
    mover.add_replica(file).expect("three targets are left");
    let failed = objects(file, 0)[0].target;
    targets.operate(failed, Order::Fail).expect("known");
    file.write(0, &content(9)).expect("the replica takes it");
    assert_eq!(file.layout().expect("laid out").mirrors[0].state, MirrorState::Stale);
    assert_eq!(mover.swap_replica(file, 1, failed).expect("nothing to do"), 0);
    targets.operate(failed, Order::Restore).expect("it is well");
    assert!(read(file).expect("the replica has all") == content(9));
    mover.resync(file).expect("well");
    assert!(read_only(&world, 0).expect("in sync again") == content(9));
}

/// [S-031] [S-032]
#[test]
fn a_missing_object_is_lost_and_no_hole_and_the_others_are_read() {
    let mut world = world(1, MirrorWrites::Sync);
    world.life.file.write(0, &content(7)).expect("well");
    let lost = objects(&world.life.file, 0)[1];
    world.media[usize::from(lost.target.0)].remove(lost.id).expect("there");
    world.kill();
    let file = &world.life.file;
    loses_every_third_stripe(file);
    read(file).expect_err("a read over the lost stripes");
}

/// [S-032]
#[test]
fn without_mirror_or_source_a_failed_target_takes_its_stripes_only() {
    let world = world(1, MirrorWrites::Sync);
    let file = &world.life.file;
    file.write(0, &content(7)).expect("well");
    let lost = objects(file, 0)[1];
    world.life.pool.targets.operate(lost.target, Order::Fail).expect("known");
    loses_every_third_stripe(file);
    file.write(STRIPE as u64, b"x").expect_err("nobody takes it");
    file.write(0, b"x").expect("the others do");
    world.life.pool.targets.operate(lost.target, Order::Restore).expect("it is well");
    let mut expected = content(7);
    expected[0] = b'x';
    assert!(read(file).expect("all there again") == expected);
}

fn loses_every_third_stripe(file: &Arc<File>) {
    for stripe in 0..SIZE / STRIPE {
        let mut bytes = vec![0; STRIPE];
        let result = file.read((stripe * STRIPE) as u64, &mut bytes);
        if stripe % 3 == 1 {
            let error = result.expect_err("lost");
            assert_eq!(error.errno(), rustix::io::Errno::IO, "{error}");
        } else {
            result.expect("on a healthy target");
            assert!(bytes == content(7)[stripe * STRIPE..][..STRIPE], "stripe {stripe}");
        }
    }
}

/// [S-036]
#[test]
fn an_emptied_file_gets_new_objects_where_it_lost_some() {
    for (mirrors, failed) in [(1, true), (1, false), (2, true), (2, false)] {
        let mut world = world(mirrors, MirrorWrites::Sync);
        let file = world.life.file.clone();
        file.write(0, &content(1)).expect("nothing is wrong");
        file.sync_now(false).expect("nothing is wrong");
        for mirror in 0..mirrors {
            let object = objects(&file, mirror)[1];
            if failed {
                world.life.pool.targets.operate(object.target, Order::Fail).expect("known");
            } else {
                world.media[usize::from(object.target.0)].remove(object.id).expect("there");
            }
        }
        drop(file);
        if !failed {
            world.kill(); // who has an object open still writes it
        }
        let file = &world.life.file;
        if mirrors == 1 {
            file.write(0, &content(2)).expect_err("a part of it is lost");
        }
        file.truncate(0).expect("nothing of it is needed");
        file.write(0, &content(3)).expect("as a file that was never hurt");
        file.sync_now(false).expect("whole");
        assert!(read(file).expect("whole") == content(3));
        assert_eq!(file.layout().expect("laid out").in_sync_count(), mirrors);
        file.truncate(0).expect("whole");
        assert_eq!(world.orphans(), vec![], "the old objects are gone, or garbage where their target is away");
    }
}

#[test]
fn an_empty_file_on_a_lost_target_is_made_whole_by_emptying_it_again() {
    let world = world(1, MirrorWrites::Sync);
    let file = &world.life.file;
    file.write(0, &content(1)).expect("nothing is wrong");
    file.truncate(0).expect("nothing is wrong");
    world.life.pool.targets.operate(objects(file, 0)[0].target, Order::Fail).expect("known");
    file.write(0, &content(2)).expect_err("its first object is lost");
    file.truncate(0).expect("nothing of it is needed");
    file.write(0, &content(2)).expect("whole");
    assert!(read(file).expect("whole") == content(2));
}
