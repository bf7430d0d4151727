//! Slow copies that are made below segments that lie only on the fast tier: they give way to writers, cost a crash
//! nothing, and are as good a way back as a copy that a promotion left.

#[allow(dead_code)]
mod world;

use engine::mover::{Mover, Step};
use meta::state::State;
use object::Error;
use object::target::Medium;
use parking_lot::Mutex;
use policy::layout::Placement;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use world::tiered::{AT, SIZE, content, death_under_a_writer, lost_byte, tier_of, tiers};
use world::{Random, World};

const SEGMENT: usize = 2;

fn on(world: &World, tier: u8) -> Placement {
    Placement { tier: Some(tier), ..world.options.placement.clone() }
}

/// A world whose third segment lies on the fast tier, and only there.
fn placed_fast() -> World {
    let world = tiers();
    world.life.mover.move_segment(&world.life.file, 0, SEGMENT, &on(&world, 0)).expect("nothing is wrong");
    assert_eq!((tier_of(&world.life.file, SEGMENT), world.life.mover.copies()), (0, 0));
    world
}

fn bytes(world: &World) -> Vec<u8> {
    let mut there = vec![0; SIZE];
    world.life.file.read(0, &mut there).expect("whole");
    there
}

fn objects(world: &World) -> usize {
    world.media.iter().map(|medium| medium.list().expect("well").len()).sum()
}

fn records(world: &World) -> usize {
    world.state.records("kept-copies").expect("a state store").len()
}

/// Nothing is there but what the file's layout names.
fn nothing_left(world: &World, what: &str) {
    assert_eq!((objects(world), world.orphans()), (world.named().len(), vec![]), "{what}");
    assert!(world.state.journal().expect("journal").is_empty(), "{what}");
}

/// [S-102]
#[test]
fn a_segment_that_lies_only_on_the_fast_tier_gets_a_copy_and_goes_to_it_for_nothing() {
    let world = placed_fast();
    let (file, mover) = (&world.life.file, &world.life.mover);
    let before = file.layout().expect("laid out");
    mover.copy_segment_below(file, SEGMENT, &on(&world, 1), None).expect("nothing is wrong");
    assert_eq!(file.layout().expect("laid out").mirrors, before.mirrors, "it lies where it lay");
    let copy = before.mirrors[0].segments[SEGMENT].objects.len();
    assert_eq!((mover.copies(), records(&world), objects(&world)), (1, 1, world.named().len() + copy));
    assert!(mover.has_copy(before.file, &before.mirrors[0].segments[SEGMENT]) && bytes(&world) == content());
    let written =
        || -> u64 { world.life.pool.targets.all().iter().map(|target| target.counters().written_bytes.get()).sum() };
    let so_far = written();
    mover.return_segment(file, SEGMENT).expect("nothing was written");
    assert_eq!((written(), tier_of(file, SEGMENT), mover.copies(), records(&world)), (so_far, 1, 0, 0));
    assert!(bytes(&world) == content());
    nothing_left(&world, "back");
}

/// [S-102]
#[test]
fn a_write_while_a_copy_is_made_ends_it_and_one_beside_it_does_not() {
    for step in [Step::Marked, Step::Journalled, Step::Created, Step::ChunkCopied, Step::Copied] {
        for (offset, ends) in [(AT + 300, true), (AT - 10, true), (AT - 900, false), (AT + 8192, false)] {
            let world = placed_fast();
            let (writer, done) = (world.life.file.clone(), Mutex::new(false));
            let hook = move |at: Step| {
                if at == step && !std::mem::replace(&mut *done.lock(), true) {
                    writer.write(offset as u64, &[0xee; 700])?;
                }
                Ok(())
            };
            let mover = Mover::new(world.life.pool.clone(), world.state.clone(), None).with_crash_hook(Arc::new(hook));
            let copied = mover.copy_segment_below(&world.life.file, SEGMENT, &on(&world, 1), None);
            assert_eq!(matches!(copied, Err(Error::Busy(_))), ends, "{step:?}, {offset}: {copied:?}");
            assert_eq!(mover.copies(), usize::from(!ends), "{step:?}, {offset}");
            let mut expected = content();
            expected[offset..offset + 700].fill(0xee);
            assert!(bytes(&world) == expected, "{step:?}, {offset}");
            if ends {
                nothing_left(&world, "ended by a write");
                continue;
            }
            mover.return_segment(&world.life.file, SEGMENT).expect("an equal copy");
            assert!(bytes(&world) == expected && tier_of(&world.life.file, SEGMENT) == 1, "{step:?}, {offset}");
        }
    }
    // Cut while it is copied, it is no copy either.
    let world = placed_fast();
    let (writer, done) = (world.life.file.clone(), Mutex::new(false));
    let hook = move |at: Step| {
        if at == Step::Copied && !std::mem::replace(&mut *done.lock(), true) {
            writer.truncate(AT as u64 + 100)?;
        }
        Ok(())
    };
    let mover = Mover::new(world.life.pool.clone(), world.state.clone(), None).with_crash_hook(Arc::new(hook));
    let copied = mover.copy_segment_below(&world.life.file, SEGMENT, &on(&world, 1), None);
    assert!(matches!(copied, Err(Error::Busy(_))), "{copied:?}");
    nothing_left(&world, "ended by a cut");
}

/// The daemon dies, or the power goes, at every step; once the copy is known a writer writes and syncs.
/// [S-102]
#[test]
fn dying_at_any_step_of_a_copy_loses_no_write_and_leaves_no_object() {
    let mut deaths = 0;
    for step in Step::ALL {
        for (power_lost, writes) in [(false, true), (true, true), (false, false), (true, false)] {
            let mut world = placed_fast();
            let (hook, log) = death_under_a_writer(&world, step, writes);
            let mover = Mover::new(world.life.pool.clone(), world.state.clone(), None).with_crash_hook(hook);
            let file = world.life.file.clone();
            let result = mover.copy_segment_below(&file, SEGMENT, &on(&world, 1), None);
            assert!(result.is_err(), "it died at {step:?}");
            drop((mover, file));
            deaths += 1;
            world.die(power_lost);
            let what = format!("died at {step:?}, power lost: {power_lost}, writes: {writes}");
            let (written, synced) = &*log.lock();
            let there = bytes(&world);
            assert_eq!(lost_byte(&there, written, synced, power_lost), None, "{what}");
            assert_eq!((tier_of(&world.life.file, SEGMENT), records(&world)), (0, 0), "{what}");
            nothing_left(&world, &what);
        }
    }
    assert_eq!(deaths, 44);
}

/// [S-102]
#[test]
fn a_device_that_fails_costs_the_copy_and_nothing_else() {
    for errno in [Errno::IO, Errno::NOSPC, object::target::MISSED_DEADLINE] {
        for nth in 1..8 {
            let world = placed_fast();
            let fault = object::target::Faults { nth: Some((nth, errno)), ..Default::default() };
            world.media[3..].iter().for_each(|medium| medium.set_faults(fault.clone()));
            let copied = world.life.mover.copy_segment_below(&world.life.file, SEGMENT, &on(&world, 1), None);
            world.media.iter().for_each(|medium| medium.set_faults(Default::default()));
            assert_eq!(world.life.mover.copies(), usize::from(copied.is_ok()), "{errno:?} at {nth}");
            assert!(bytes(&world) == content() && tier_of(&world.life.file, SEGMENT) == 0, "{errno:?} at {nth}");
        }
    }
}

/// Readers and writers at work while every segment of the file is copied, goes back, and comes up again, over and over.
/// [S-102]
#[test]
fn copies_come_and_go_under_readers_and_writers_who_notice_nothing() {
    let world = tiers();
    let (file, mover) = (&world.life.file, &world.life.mover);
    let segments = file.layout().expect("laid out").mirrors[0].segments.len();
    let (ends, model) = (AtomicBool::new(false), Mutex::new(content()));
    let (mut copied, mut returned) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(11);
            while !ends.load(Ordering::Relaxed) {
                let (at, len) = (random.below(SIZE as u64 - 700) as usize, 1 + random.below(700) as usize);
                let value = random.below(256) as u8;
                // Readers see all of a write or nothing of it: they hold the model while they look.
                let mut model = model.lock();
                file.write(at as u64, &vec![value; len]).expect("well");
                model[at..at + len].fill(value);
                drop(model);
                std::thread::yield_now();
            }
        });
        scope.spawn(|| {
            let mut random = Random(12);
            while !ends.load(Ordering::Relaxed) {
                let (at, len) = (random.below(SIZE as u64 - 5000) as usize, 1 + random.below(5000) as usize);
                let mut there = vec![0; len];
                let model = model.lock();
                file.read(at as u64, &mut there).expect("well");
                assert!(there == model[at..at + len], "{at}, {len}");
                drop(model);
                std::thread::yield_now();
            }
        });
        for round in 0..120 {
            let segment = round % segments;
            if tier_of(file, segment) == 1 {
                mover.move_segment(file, 0, segment, &on(&world, 0)).expect("nothing is wrong");
            }
            copied += usize::from(mover.copy_segment_below(file, segment, &on(&world, 1), None).is_ok());
            returned += usize::from(mover.return_segment(file, segment).is_ok());
            mover.remove_stale_copies().expect("well");
        }
        // Alone with it, as when devices are idle: both always go.
        let quiet = model.lock();
        if tier_of(file, 0) == 1 {
            mover.move_segment(file, 0, 0, &on(&world, 0)).expect("nothing is wrong");
        }
        mover.copy_segment_below(file, 0, &on(&world, 1), None).expect("nobody writes");
        mover.return_segment(file, 0).expect("nobody wrote");
        drop(quiet);
        ends.store(true, Ordering::Relaxed);
    });
    assert!(bytes(&world) == *model.lock(), "{copied} copied, {returned} returned");
    mover.forget_copies().expect("well");
    nothing_left(&world, "in the end");
    assert_eq!((mover.copies(), records(&world)), (0, 0));
}
