//! A move that dies at every step, by kill and by loss of power: the file is whole, nothing is left over.

#[allow(dead_code)]
mod world;

use engine::file::{File, MirrorWrites};
use engine::mover::{Mover, Step};
use meta::state::State;
use object::Result;
use parking_lot::Mutex;
use policy::TargetId;
use policy::layout::{MirrorState, Placement, Reason};
use rustix::io::Errno;
use std::sync::Arc;
use world::tiered::{SIZE, content, filled, lost_byte, tier_of, tiers};
use world::{Options, Random, World};

fn world(mirrors: usize) -> World {
    let placement =
        Placement { stripe_size: 4096, stripe_count: 3, single_bytes_max: 8192, segment_bytes: 0, mirrors, tier: None };
    filled(Options { targets: 6, placement, mirror_writes: MirrorWrites::Sync, inline_bytes_max: 0 })
}

fn check(world: &World, when: &str) {
    let mut buf = vec![0; SIZE + 1];
    let file = &world.life.file;
    assert_eq!(file.read(0, &mut buf).expect(when), SIZE, "{when}");
    assert!(buf[..SIZE] == content()[..], "content {when}");
    assert_eq!(world.orphans(), vec![], "{when}");
}

type Verb = fn(&Mover, &Arc<File>, &Placement) -> Result<()>;

const VERBS: [(&str, usize, Verb); 5] = [
    ("add mirror", 1, |m, f, p| m.add_mirror(f, p).map(drop)),
    ("drop mirror", 2, |m, f, _| m.drop_mirror(f, 0).map(drop)),
    ("replace target", 1, |m, f, _| {
        let target = f.layout().expect("laid out").mirrors[0].segments[1].objects[0].target;
        m.replace_target(f, target, Reason::Drained(target)).map(drop)
    }),
    ("move segment", 1, |m, f, p| m.move_segment(f, 0, 1, &Placement { stripe_count: 2, ..p.clone() }).map(drop)),
    ("resync", 2, |m, f, _| m.resync(f).map(drop)),
];

/// Runs a verb and dies the first time it reaches `step`. Whether it did.
fn die_at(world: &mut World, verb: Verb, step: Step) -> bool {
    let reached = Arc::new(Mutex::new(false));
    let (seen, power) = (reached.clone(), world.power.clone());
    let hook = move |at| {
        if at != step || *seen.lock() {
            return Ok(());
        }
        *seen.lock() = true;
        power.cut();
        Err(Errno::IO.into())
    };
    let mover = Mover::new(world.life.pool.clone(), world.state.clone(), None).with_crash_hook(Arc::new(hook));
    let file = world.life.file.clone();
    let result = verb(&mover, &file, &world.options.placement.clone());
    let reached = *reached.lock();
    assert_eq!(result.is_err(), reached, "at {step:?}: {result:?}");
    reached
}

/// [S-024]
#[test]
fn dying_at_any_step_leaves_a_whole_file_and_nothing_else() {
    let mut deaths = 0;
    for (name, mirrors, verb) in VERBS {
        for step in Step::ALL {
            for power_lost in [false, true] {
                let mut world = world(mirrors);
                if name == "resync" {
                    make_stale(&mut world);
                }
                if !die_at(&mut world, verb, step) {
                    continue;
                }
                deaths += 1;
                if power_lost {
                    world.crash(&mut Random(3))
                } else {
                    world.kill()
                }
                check(&world, &format!("{name} died at {step:?}, power lost: {power_lost}"));
                assert!(world.state.journal().expect("journal").is_empty());
            }
        }
    }
    assert!(deaths > 70, "only {deaths} deaths: the steps are not reached");
}

/// [S-024]
#[test]
fn a_failed_move_after_one_whose_record_is_not_durable_removes_no_object_of_the_durable_record() {
    for again in [false, true] {
        let mut world = world(1);
        let (power, file) = (world.power.clone(), world.life.file.clone());
        let hook = move |at| {
            if at == Step::Replaced {
                power.cut();
            }
            Ok(())
        };
        let mover = Mover::new(world.life.pool.clone(), world.state.clone(), None).with_crash_hook(Arc::new(hook));
        let target = file.layout().expect("laid out").mirrors[0].segments[0].objects[0].target;
        mover.replace_target(&file, target, Reason::Drained(target)).expect_err("the stub is not synced");
        world.power.restore();
        if again {
            mover.resync(&file).expect("nothing is stale");
        } else {
            mover.drop_mirror(&file, 9).expect_err("there is none");
        }
        drop((mover, file));
        world.stub.crash(0);
        world.crash(&mut Random(3));
        check(&world, "power lost after a failed sync");
    }
}

/// A move between tiers that keeps a copy, or that only makes one.
const COPYING: [(&str, Verb); 2] = [
    ("move and keep", |m, f, p| {
        let fast = Placement { tier: Some(0), ..p.clone() };
        m.move_segment_keeping(f, 2, &fast, None).map(drop)
    }),
    ("copy below", |m, f, p| m.copy_segment_below(f, 2, p, None)),
];

/// Runs a verb on a world and removes the file when it reaches `step`. Whether it did.
fn removed_at(world: &World, name: &str, verb: Verb, step: Step) -> bool {
    use object::target::Medium;
    let file = world.life.file.clone();
    let (removed, reached) = (file.clone(), Arc::new(Mutex::new(false)));
    let seen = reached.clone();
    let hook = move |at| {
        if at == step && !std::mem::replace(&mut *seen.lock(), true) {
            removed.remove_objects()?;
        }
        Ok(())
    };
    let mover = Mover::new(world.life.pool.clone(), world.state.clone(), None).with_crash_hook(Arc::new(hook));
    let moved = verb(&mover, &file, &world.options.placement.clone());
    let reached = *reached.lock();
    if !reached {
        return false;
    }
    if step < Step::Replaced {
        assert!(matches!(moved, Err(object::Error::Busy(_))), "{name}, removed at {step:?}: {moved:?}");
    }
    mover.remove_stale_copies().expect("no target fails");
    for (n, medium) in world.media.iter().enumerate() {
        assert_eq!(medium.list().expect("well"), vec![], "{name}, removed at {step:?}: target {n}");
        assert_eq!(world.state.garbage_of(TargetId(n as u16), 100).expect("garbage"), vec![], "{name} at {step:?}");
    }
    assert!(world.state.journal().expect("journal").is_empty(), "{name}, removed at {step:?}");
    assert!(verb(&mover, &file, &world.options.placement.clone()).is_err(), "{name}: nothing is left to be moved");
    true
}

/// [S-370]
#[test]
fn a_move_of_a_file_that_is_removed_meanwhile_leaves_no_object() {
    let mut removals = 0;
    // While writers are kept out the removal waits.
    let steps = || Step::ALL.into_iter().filter(|step| !matches!(step, Step::CaughtUp | Step::Synced));
    for step in steps() {
        for (name, mirrors, verb) in VERBS {
            let mut world = world(mirrors);
            if name == "resync" {
                make_stale(&mut world);
            }
            removals += usize::from(removed_at(&world, name, verb, step));
        }
        for (name, verb) in COPYING {
            removals += usize::from(removed_at(&tiers(), name, verb, step));
        }
    }
    assert!(removals > 40, "only {removals} removals: the steps are not reached");
}

/// Moves up and down between the tiers, with a writer that writes at every step and syncs now and then. At one step
/// the daemon dies, or the power goes; all acknowledged (with the power: synced) bytes are there.
/// [S-100]
#[test]
fn dying_at_any_step_of_a_move_between_tiers_loses_no_write() {
    let mut deaths = 0;
    for step in Step::ALL {
        for (power_lost, up) in [(false, true), (true, true), (false, false), (true, false)] {
            let mut world = tiers();
            let fast = Placement { tier: Some(0), ..world.options.placement.clone() };
            if !up {
                world.life.mover.move_segment(&world.life.file, 0, 2, &fast).expect("nothing is wrong");
                assert_eq!(tier_of(&world.life.file, 2), 0);
            }
            let place = Placement { tier: Some(u8::from(!up)), ..fast };
            // The writer's bytes, and the synced part of them.
            let written = Arc::new(Mutex::new((content(), content(), 0u8, false)));
            let (log, writer, power) = (written.clone(), world.life.file.clone(), world.power.clone());
            let hook = move |at: Step| {
                let mut log = log.lock();
                log.2 += 1;
                // From the last look at what was written to the new record writers are kept out.
                if at >= Step::Replaced || (at <= Step::Copied && !log.3) {
                    let (from, value) = (16_384 + usize::from(log.2) * 600, 0x80 + log.2);
                    writer.write(from as u64, &[value; 900])?;
                    log.0[from..from + 900].fill(value);
                    if log.2.is_multiple_of(2) {
                        writer.sync_now(false)?;
                        log.1 = log.0.clone();
                    }
                }
                log.3 |= at == Step::Copied;
                if at == step {
                    power.cut();
                    return Err(Errno::IO.into());
                }
                Ok(())
            };
            let mover = Mover::new(world.life.pool.clone(), world.state.clone(), None).with_crash_hook(Arc::new(hook));
            let file = world.life.file.clone();
            assert!(mover.move_segment(&file, 0, 2, &place).is_err(), "it died at {step:?}");
            drop((mover, file));
            deaths += 1;
            world.die(power_lost);
            let mut there = vec![0; SIZE];
            world.life.file.read(0, &mut there).expect("whole");
            let (written, synced, ..) = &*written.lock();
            assert_eq!(
                lost_byte(&there, written, synced, power_lost),
                None,
                "died at {step:?}, power lost: {power_lost}, up: {up}"
            );
            assert_eq!(world.orphans(), vec![], "died at {step:?}");
            let tier = tier_of(&world.life.file, 2);
            if step < Step::Replaced {
                assert_eq!(tier, u8::from(up), "nothing changed before the record did");
            }
        }
    }
    assert_eq!(deaths, 44);
}

/// [S-100]
#[test]
fn a_target_that_fails_during_a_move_between_tiers_leaves_the_segment_where_it_was() {
    for errno in [Errno::IO, Errno::NOSPC, object::target::MISSED_DEADLINE] {
        for nth in 1..12 {
            let world = tiers();
            let file = world.life.file.clone();
            let fast = Placement { tier: Some(0), ..world.options.placement.clone() };
            for medium in &world.media[..3] {
                medium.set_faults(object::target::Faults { nth: Some((nth, errno)), ..Default::default() });
            }
            let moved = world.life.mover.move_segment(&file, 0, 2, &fast);
            world.media.iter().for_each(|medium| medium.set_faults(Default::default()));
            // Targets that refuse an object are passed over, if need be for some of the other tier.
            if moved.is_err() {
                assert_eq!(tier_of(&file, 2), 1, "{errno:?} at {nth}: {moved:?}");
            }
            check(&world, &format!("{errno:?} at {nth}"));
        }
    }
}

/// Makes the first mirror miss a write of what is there already.
fn make_stale(world: &mut World) {
    let file = world.life.file.clone();
    let target = file.layout().expect("laid out").mirrors[0].segments[0].objects[0].target;
    world.life.pool.targets.operate(target, object::target::Order::Fail).expect("known");
    file.write(0, &content()[..100]).expect("the other mirror takes it");
    assert_eq!(file.layout().expect("laid out").mirrors[0].state, MirrorState::Stale);
    world.life.pool.targets.operate(target, object::target::Order::Restore).expect("it is well");
    file.sync_now(false).expect("well again");
}

#[test]
fn what_is_written_during_a_move_is_in_the_copy() {
    let world = world(1);
    let file = world.life.file.clone();
    let writer = file.clone();
    let times = Mutex::new(0u64);
    let hook = move |step| {
        if matches!(step, Step::ChunkCopied | Step::Copied | Step::Created) {
            let mut n = times.lock();
            *n += 1;
            if *n < 20 {
                writer.write(*n * 1000, &[0xA0 + *n as u8; 500])?;
            }
            if step == Step::Copied {
                *n = 20; // from here on writers are kept out
            }
        }
        Ok(())
    };
    let mover = Mover::new(world.life.pool.clone(), world.state.clone(), None).with_crash_hook(Arc::new(hook));
    let target = file.layout().expect("laid out").mirrors[0].segments[1].objects[0].target;
    let mut before = vec![0; SIZE];
    mover.replace_target(&file, target, Reason::Drained(target)).expect("a healthy move");
    assert!(file.layout().expect("laid out").objects().all(|(_, o)| o.target != target));
    file.read(0, &mut before).expect("healthy");
    let mut expect = content();
    for n in 1..20usize {
        if before[n * 1000] == 0xA0 + n as u8 {
            expect[n * 1000..n * 1000 + 500].fill(0xA0 + n as u8);
        }
    }
    assert!(before == expect && expect != content(), "the writes of the hook are there, whole");
    assert_eq!(world.orphans(), vec![]);
}

/// [S-033]
#[test]
fn draining_empties_a_target_and_says_how_far_it_is() {
    let world = world(1);
    let file = world.life.file.clone();
    let target = TargetId(0);
    world.life.pool.targets.operate(target, object::target::Order::Drain).expect("known");
    let mut seen = 0;
    let walk = || Ok(Box::new(std::iter::once(Ok(file.clone()))) as engine::mover::Walk<'_>);
    let progress = world.life.mover.drain(target, walk, |_| {
        seen += 1;
        true
    });
    let progress = progress.expect("a healthy drain");
    assert_eq!((progress.files, progress.left, progress.busy), (1, 0, 0));
    assert!(seen > 0);
    use object::target::Medium;
    assert_eq!(world.media[0].list().expect("well"), vec![]);
    check(&world, "after the drain");
    assert_eq!(world.life.mover.progress().list()[0].verb, "replace target");
}

/// [S-033]
#[test]
fn a_restored_target_keeps_the_files_that_were_not_moved_so_far() {
    let world = world(1);
    let file = world.life.file.clone();
    let target = TargetId(0);
    world.life.pool.targets.operate(target, object::target::Order::Drain).expect("known");
    let walk = || Ok(Box::new([file.clone(), file.clone()].into_iter().map(Ok)) as engine::mover::Walk<'_>);
    let mut moved = 0;
    let drained = world.life.mover.drain(target, walk, |progress| {
        moved = progress.files;
        false
    });
    assert!(moved == 1 && drained.is_err_and(|error| error.to_string().contains("restored")));
}

/// [S-155]
#[test]
fn what_a_target_does_not_know_of_yet_is_moved_too() {
    let world = world(1);
    let file = &world.life.file;
    for medium in &world.media {
        medium.set_faults(object::target::Faults { seeks_lag: true, ..Default::default() });
    }
    // Over the old bytes and beyond them, and not on any device yet.
    file.write(30_000, &[7; 40_000]).expect("well");
    let target = file.layout().expect("laid out").mirrors[0].segments[1].objects[0].target;
    let written = file.clone();
    let late = Arc::new(Mutex::new(false));
    let hook = move |at| {
        // Also what is written while the move is under way.
        if at == Step::ChunkCopied && !std::mem::replace(&mut *late.lock(), true) {
            written.write(80_000, &[9; 20_000])?;
        }
        Ok(())
    };
    let mover = Mover::new(world.life.pool.clone(), world.state.clone(), None).with_crash_hook(Arc::new(hook));
    mover.replace_target(file, target, Reason::Drained(target)).expect("well");
    let mut bytes = vec![0; 100_000];
    assert_eq!(file.read(0, &mut bytes).expect("well"), bytes.len());
    assert!(bytes[..30_000] == content()[..30_000] && bytes[30_000..70_000].iter().all(|b| *b == 7));
    assert!(bytes[70_000..80_000].iter().all(|b| *b == 0) && bytes[80_000..].iter().all(|b| *b == 9));
}

/// Otherwise tiers would have a claim on the file, and it would be lost to the striper.
#[test]
fn a_file_that_is_striped_again_has_segments_only_if_it_had_them() {
    let cut = Placement { segment_bytes: 8192, ..world(1).options.placement.clone() };
    for (placement, are_several) in [(world(1).options.placement.clone(), false), (cut.clone(), true)] {
        let world = filled(Options { targets: 6, placement, mirror_writes: MirrorWrites::Sync, inline_bytes_max: 0 });
        let mover = Mover::new(world.life.pool.clone(), world.state.clone(), None);
        let wide = Placement { stripe_count: 4, single_bytes_max: 0, ..cut.clone() };
        let layout = mover.restripe(&world.life.file, 0, &wide).expect("well");
        assert_eq!(layout.mirrors[0].segments.len() > 1, are_several, "{layout:?}");
        let forked = mover.add_fork(&world.life.file, &wide).expect("well");
        assert_eq!(forked.mirrors[1].segments.len() > 1, are_several, "{forked:?}");
        let copied = mover.add_mirror(&world.life.file, &wide).expect("well");
        assert_eq!(copied.mirrors[2].segments.len() > 1, are_several, "{copied:?}");
        check(&world, "afterwards");
    }
}
