//! Slow copies that are kept below promoted segments: a way back without copying, and never a way to lose a byte.

#[allow(dead_code)]
mod world;

use engine::file::File;
use engine::mover::{Mover, Step};
use meta::state::State;
use object::target::Medium;
use object::{Error, Result};
use parking_lot::Mutex;
use policy::layout::Placement;
use rustix::io::Errno;
use std::sync::Arc;
use world::tiered::{AT, SIZE, content, death_under_a_writer, lost_byte, tier_of, tiers};
use world::{Random, World};

const SEGMENT: usize = 2;

fn fast(world: &World) -> Placement {
    Placement { tier: Some(0), ..world.options.placement.clone() }
}

fn promote(world: &World) {
    let (file, mover) = (&world.life.file, &world.life.mover);
    mover.move_segment_keeping(file, SEGMENT, &fast(world), None).expect("nothing is wrong");
    assert_eq!((tier_of(file, SEGMENT), mover.copies()), (0, 1));
}

fn bytes(file: &Arc<File>) -> Vec<u8> {
    let mut there = vec![0; SIZE];
    file.read(0, &mut there).expect("whole");
    there
}

fn objects(world: &World) -> usize {
    world.media.iter().map(|medium| medium.list().expect("well").len()).sum()
}

/// [S-102]
#[test]
fn a_segment_goes_back_to_its_copy_without_a_byte_being_copied() {
    let world = tiers();
    let (file, before) = (&world.life.file, world.life.file.layout().expect("laid out"));
    promote(&world);
    let named = world.named().len();
    assert_eq!(objects(&world), named + before.mirrors[0].segments[SEGMENT].objects.len(), "the copy is there");
    let written = |world: &World| -> u64 {
        world.life.pool.targets.all().iter().map(|target| target.counters().written_bytes.get()).sum()
    };
    let so_far = written(&world);
    world.life.mover.return_segment(file, SEGMENT).expect("nothing was written");
    assert_eq!(written(&world), so_far);
    let after = file.layout().expect("laid out");
    assert_eq!(after.mirrors, before.mirrors, "the very objects");
    assert!(bytes(file) == content());
    assert_eq!((objects(&world), world.orphans(), world.life.mover.copies()), (named, vec![], 0));
    assert!(world.state.records("kept-copies").expect("a state store").is_empty());
}

/// A common rotation of all tiers would give the first target each time: it has three targets, and each round makes three
/// choices.
#[test]
fn promoted_segments_take_turns_among_the_fast_targets_whatever_goes_to_the_slow_ones() {
    let world = tiers();
    let (file, mover) = (&world.life.file, &world.life.mover);
    let place = |tier| Placement { tier: Some(tier), stripe_count: 1, ..world.options.placement.clone() };
    let mut taken = Vec::new();
    for segment in 0..3 {
        mover.move_segment_keeping(file, segment, &place(0), None).expect("nothing is wrong");
        taken.push(file.layout().expect("laid out").mirrors[0].segments[segment].objects[0].target.0);
        (0..2).for_each(|_| drop(mover.move_segment_at(file, (0, 4), &place(1), None).expect("nothing is wrong")));
    }
    taken.sort_unstable();
    assert_eq!(taken, [0, 1, 2]);
}

/// [S-102]
#[test]
fn whatever_changes_the_segment_ends_its_copy() {
    type Change = fn(&Arc<File>) -> Result<()>;
    let changes: [(&str, Change); 5] = [
        ("a write", |file| file.write(AT as u64 + 5000, &[9])),
        ("a write across", |file| file.write(AT as u64 - 10, &[8; 20])),
        ("a cut", |file| file.truncate(AT as u64 + 100)),
        ("a hole", |file| file.punch(AT as u64 + 100, 5000)),
        ("a cut to nothing", |file| file.truncate(0)),
    ];
    for (name, change) in changes {
        let world = tiers();
        let (file, mover) = (&world.life.file, &world.life.mover);
        promote(&world);
        change(file).expect(name);
        let mut expected = vec![0; SIZE];
        let len = file.read(0, &mut expected).expect("whole");
        assert_eq!(mover.copies(), 0, "{name}");
        let back = mover.return_segment(file, SEGMENT);
        assert!(matches!(back, Err(Error::Busy(_))), "{name}: {back:?}");
        assert!(mover.remove_stale_copies().expect("well") > 0, "{name}");
        let mut there = vec![0; SIZE];
        assert_eq!((file.read(0, &mut there).expect("whole"), there == expected), (len, true), "{name}");
        assert_eq!((objects(&world), world.orphans()), (world.named().len(), vec![]), "{name}");
    }
    // A write beside it does not.
    let world = tiers();
    promote(&world);
    world.life.file.write(AT as u64 - 10, &[8; 10]).expect("well");
    world.life.file.write(AT as u64 + 8192, &[8; 10]).expect("well");
    assert_eq!(world.life.mover.copies(), 1);
    world.life.mover.return_segment(&world.life.file, SEGMENT).expect("equal still");
}

/// [S-102]
#[test]
fn a_write_that_comes_before_the_way_back_is_done_stops_it() {
    for step in [Step::Marked, Step::Created, Step::Copied] {
        let world = tiers();
        promote(&world);
        let (writer, done) = (world.life.file.clone(), Mutex::new(false));
        let hook = move |at: Step| {
            if at == step && !std::mem::replace(&mut *done.lock(), true) {
                writer.write(AT as u64 + 300, &[0xee; 700])?;
            }
            Ok(())
        };
        let mover = Mover::new(world.life.pool.clone(), world.state.clone(), None).with_crash_hook(Arc::new(hook));
        assert!(mover.return_segment(&world.life.file, SEGMENT).is_err(), "{step:?}");
        mover.remove_stale_copies().expect("well");
        let mut expected = content();
        expected[AT + 300..AT + 1000].fill(0xee);
        assert!(bytes(&world.life.file) == expected, "{step:?}");
        assert_eq!((tier_of(&world.life.file, SEGMENT), objects(&world)), (0, world.named().len()), "{step:?}");
    }
}

/// Up and back with the daemon dying, or the power going, at every step; after the new record a writer writes and
/// syncs.
/// [S-102]
#[test]
fn dying_at_any_step_with_copies_loses_no_write_and_leaves_no_object() {
    let mut deaths = 0;
    for step in Step::ALL {
        for (power_lost, up) in [(false, true), (true, true), (false, false), (true, false)] {
            let mut world = tiers();
            if !up {
                promote(&world);
            }
            let (hook, log) = death_under_a_writer(&world, step, true);
            let mover = Mover::new(world.life.pool.clone(), world.state.clone(), None).with_crash_hook(hook);
            let file = world.life.file.clone();
            let result = if up {
                mover.move_segment_keeping(&file, SEGMENT, &fast(&world), None)
            } else {
                mover.return_segment(&file, SEGMENT)
            };
            let died = result.is_err();
            assert!(died || (!up && step == Step::ChunkCopied), "{step:?}, up: {up}");
            drop((mover, file));
            deaths += usize::from(died);
            world.die(power_lost);
            let (written, synced) = &*log.lock();
            let there = bytes(&world.life.file);
            assert_eq!(
                lost_byte(&there, written, synced, power_lost),
                None,
                "died at {step:?}, power lost: {power_lost}, up: {up}"
            );
            assert_eq!(world.orphans(), vec![], "died at {step:?}, up: {up}");
            assert_eq!(objects(&world), world.named().len(), "died at {step:?}, power lost: {power_lost}, up: {up}");
            assert!(world.state.records("kept-copies").expect("a state store").is_empty());
        }
    }
    assert_eq!(deaths, 42);
}

/// [S-102]
#[test]
fn a_restart_removes_copies_and_nothing_else() {
    for power_lost in [false, true] {
        let mut world = tiers();
        promote(&world);
        if power_lost {
            world.crash(&mut Random(5))
        } else {
            world.kill()
        }
        assert_eq!((tier_of(&world.life.file, SEGMENT), world.life.mover.copies()), (0, 0));
        assert!(bytes(&world.life.file) == content());
        assert_eq!(objects(&world), world.named().len());
    }
}

/// [S-102]
#[test]
fn a_copy_on_a_device_that_fails_is_no_way_back_and_garbage_collection_leaves_copies_alone() {
    for errno in [Errno::IO, object::target::MISSED_DEADLINE] {
        for nth in 1..5 {
            let world = tiers();
            promote(&world);
            let fault = object::target::Faults { nth: Some((nth, errno)), ..Default::default() };
            world.media[3..].iter().for_each(|medium| medium.set_faults(fault.clone()));
            let back = world.life.mover.return_segment(&world.life.file, SEGMENT);
            world.media.iter().for_each(|medium| medium.set_faults(Default::default()));
            assert_eq!(tier_of(&world.life.file, SEGMENT), u8::from(back.is_ok()), "{errno:?} at {nth}");
            assert!(bytes(&world.life.file) == content(), "{errno:?} at {nth}");
        }
    }
    let world = tiers();
    promote(&world);
    world.sweep(u32::MAX).expect("sweep");
    for target in world.life.pool.targets.all() {
        world.life.mover.collect_garbage(target.id()).expect("well");
    }
    world.life.mover.return_segment(&world.life.file, SEGMENT).expect("the copy is there still");
    for target in world.life.pool.targets.all() {
        world.life.mover.collect_garbage(target.id()).expect("well");
    }
    assert!(bytes(&world.life.file) == content());
}
