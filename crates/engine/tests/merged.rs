//! Merged files: what is done with one leaves the others as they are, a crash leaves each whole, and no space is lost.

#[allow(dead_code)]
mod world;

use engine::file::{File, MirrorWrites};
use engine::mover::{Mover, Step};
use meta::state::State;
use meta::stub::memory::MemoryStub;
use object::target::Medium;
use object::{Error, Result};
use parking_lot::Mutex;
use policy::TargetId;
use policy::layout::{Placement, Reason};
use rustix::io::Errno;
use std::sync::Arc;
use world::power::PoweredStub;
use world::tiered::{SIZE, content, filled};
use world::{Options, Random, World};

const STRIPE: u64 = 4096;

/// A world whose file holds `content`, striped over two targets.
fn world() -> World {
    let placement = Placement {
        stripe_size: STRIPE,
        stripe_count: 2,
        single_bytes_max: 0,
        segment_bytes: 0,
        mirrors: 1,
        tier: None,
    };
    filled(Options { targets: 4, placement, mirror_writes: MirrorWrites::Sync, inline_bytes_max: 0 })
}

/// Another file of that world.
fn open(world: &World, stub: &Arc<MemoryStub>) -> Arc<File> {
    let stub = Arc::new(PoweredStub::new(stub.clone(), world.power.clone()));
    File::open(stub, world.life.pool.clone()).expect("its stub is well")
}

/// Another file of that world that holds so many bytes.
fn another(world: &World, seed: u8, len: usize) -> (Arc<MemoryStub>, Arc<File>, Vec<u8>) {
    let stub = Arc::new(MemoryStub::new());
    let file = open(world, &stub);
    let bytes: Vec<u8> = (0..len).map(|i| seed.wrapping_add((i / 5) as u8) | 1).collect();
    file.write(0, &bytes).expect("well");
    file.sync_now(false).expect("well");
    (stub, file, bytes)
}

fn bytes(file: &Arc<File>) -> Vec<u8> {
    let mut bytes = vec![0xEE; file.size() as usize + 1];
    let read = file.read(0, &mut bytes).expect("it can be read");
    bytes.truncate(read);
    bytes
}

fn objects(file: &File) -> Vec<policy::ObjectId> {
    file.layout().iter().flat_map(|l| l.objects().map(|(_, o)| o.id).collect::<Vec<_>>()).collect()
}

fn merge(world: &World, files: &[Arc<File>]) -> std::result::Result<(), (usize, Error)> {
    world.life.mover.merge(files, &world.options.placement)
}

/// Pages that all objects take together.
fn pages(world: &World) -> u64 {
    let taken = |medium: &object::target::MemoryMedium| {
        let space = medium.space().expect("well");
        (space.total_bytes - space.free_bytes) / STRIPE
    };
    world.media.iter().map(taken).sum()
}

/// [S-133]
#[test]
fn merged_files_lie_in_turns_and_are_read_in_one_go() {
    let world = world();
    let first = world.life.file.clone();
    let (_stub, second, data) = another(&world, 3, SIZE - 10_000);
    merge(&world, &[first.clone(), second.clone()]).expect("merged");
    assert!(bytes(&first) == content() && bytes(&second) == data);
    let (a, b) = (first.layout().expect("laid out"), second.layout().expect("laid out"));
    assert_eq!(a.history.iter().next_back().map(|(_, reason)| *reason), Some(Reason::Merged));
    let stripe = STRIPE as usize;
    for ((_, one), (_, other)) in a.objects().zip(b.objects()) {
        assert_eq!(
            (one.target, one.merged.map(|m| m.slot), other.merged.map(|m| m.slot)),
            (other.target, Some(0), Some(1))
        );
        // The one sequential read: turns of both, as they are read together.
        let shared = world.media[usize::from(one.target.0)].peek(other.id).expect("there");
        let index = a.objects().position(|(_, o)| o.id == one.id).expect("its own");
        for turn in 0..4 {
            let at = (turn * 2 + index) * stripe;
            let pair = &shared[2 * turn * stripe..][..2 * stripe];
            assert!(
                pair[..stripe] == content()[at..at + stripe] && pair[stripe..] == data[at..at + stripe],
                "turn {turn}"
            );
        }
    }
    assert_eq!(pages(&world), (SIZE as u64).div_ceil(STRIPE) + (data.len() as u64).div_ceil(STRIPE), "no page twice");
}

/// Random changes of three merged files, against bytes in memory; one is split off and one is removed on the way.
/// [S-133]
#[test]
fn members_are_changed_independently_of_each_other() {
    for seed in 0..12 {
        let world = world();
        let mut random = Random(seed);
        let (_a, second, data) = another(&world, 3, 30_000);
        let (_b, third, more) = another(&world, 9, 70_000);
        let files = [world.life.file.clone(), second, third];
        let mut expected = [content(), data, more];
        merge(&world, &files).expect("merged");
        for step in 0..60 {
            let n = random.below(3) as usize;
            let (file, bytes_of) = (&files[n], &mut expected[n]);
            if n == 2 && step > 50 {
                continue; // it is gone
            }
            let (at, len) = (random.below(80_000) as usize, 1 + random.below(9000) as usize);
            match random.below(5) {
                0 => {
                    file.truncate(at as u64).expect("well");
                    bytes_of.resize(at, 0);
                }
                1 => {
                    file.punch(at as u64, len as u64).expect("well");
                    let end = (at + len).min(bytes_of.len());
                    bytes_of[at.min(end)..end].fill(0);
                }
                _ => {
                    let what = vec![(seed * 17 + step) as u8 | 1; len];
                    file.write(at as u64, &what).expect("well");
                    bytes_of.resize(bytes_of.len().max(at + len), 0);
                    bytes_of[at..at + len].copy_from_slice(&what);
                }
            }
            if step == 30 {
                world.life.mover.split(&files[1]).expect("split off");
                assert!(!files[1].layout().expect("laid out").is_merged());
            }
            if step == 50 {
                files[2].remove_objects().expect("removed");
            }
            for n in 0..if step < 50 { 3 } else { 2 } {
                assert!(bytes(&files[n]) == expected[n], "seed {seed}, step {step}, file {n}");
                let hole = files[n].seek_hole(0).unwrap_or(u64::MAX);
                assert!(expected[n].get(hole as usize).is_none_or(|byte| *byte == 0), "a hole at {hole} that is none");
            }
        }
        files.iter().take(2).for_each(|file| file.remove_objects().expect("removed"));
        assert_eq!(pages(&world), 0, "seed {seed}: what was freed is free");
    }
}

/// [S-133]
#[test]
fn the_space_of_one_that_leaves_returns_at_once() {
    let world = world();
    let first = world.life.file.clone();
    let (_stub, second, data) = another(&world, 3, SIZE);
    let before = pages(&world);
    merge(&world, &[first.clone(), second.clone()]).expect("merged");
    assert_eq!(pages(&world), before);
    world.life.mover.split(&first).expect("split off");
    assert_eq!(pages(&world), before, "it took its turns' space along");
    assert!(bytes(&first) == content() && bytes(&second) == data);
    assert!(matches!(world.life.mover.split(&first), Err(Error::Invalid(_))), "it shares nothing any more");
    second.remove_objects().expect("removed");
    assert_eq!(pages(&world), before / 2);
    assert!(bytes(&first) == content());
}

#[test]
fn what_cannot_be_merged_is_refused_before_anything_is_changed() {
    let world = world();
    let first = world.life.file.clone();
    let (_stub, second, _) = another(&world, 3, SIZE);
    let small = open(&world, &Arc::new(MemoryStub::new()));
    let before = (first.layout(), second.layout(), pages(&world));
    let refused = |files: &[Arc<File>], number: usize, why: &str| match merge(&world, files) {
        Err((at, Error::Invalid(cause))) if at == number && cause.contains(why) => {}
        other => panic!("{why}: {other:?}"),
    };
    refused(std::slice::from_ref(&first), 0, "from 2 to 64");
    refused(&[first.clone(), second.clone(), first.clone()], 2, "named twice");
    refused(&[first.clone(), small], 1, "so small");
    world.life.mover.add_mirror(&second, &world.options.placement).expect("well");
    refused(&[first.clone(), second.clone()], 1, "several mirrors");
    world.life.mover.drop_mirror(&second, 1).expect("well");
    assert_eq!(
        (first.layout().map(|l| l.mirrors.clone()), pages(&world)),
        (before.0.map(|l| l.mirrors.clone()), before.2)
    );
    assert_eq!(second.layout().map(|l| l.mirrors.clone()), before.1.map(|l| l.mirrors.clone()));
}

/// A target without links, or one that is full, leaves the others merged and nothing behind.
#[test]
fn a_merge_that_fails_half_way_leaves_all_whole() {
    for nth in 1..40 {
        let world = world();
        let first = world.life.file.clone();
        let (_stub, second, data) = another(&world, 3, SIZE);
        for medium in &world.media {
            medium.set_faults(object::target::Faults { nth: Some((nth, Errno::NOSPC)), ..Default::default() });
        }
        let merged = merge(&world, &[first.clone(), second.clone()]);
        world.media.iter().for_each(|medium| medium.set_faults(Default::default()));
        if let Err((number, _)) = &merged {
            assert!(!second.layout().expect("laid out").is_merged(), "{nth}: {merged:?}");
            assert_eq!(first.layout().expect("laid out").is_merged(), *number == 1, "{nth}: {merged:?}");
        }
        assert!(bytes(&first) == content() && bytes(&second) == data, "{nth}: {merged:?}");
        let mut there: Vec<_> = world.media.iter().flat_map(|medium| medium.list().expect("well")).collect();
        let garbage = (0..4).flat_map(|t| world.state.garbage_of(TargetId(t), 100).expect("garbage"));
        let garbage: Vec<_> = garbage.collect();
        there.retain(|object| !garbage.contains(object));
        there.sort_unstable();
        let mut named = [objects(&first), objects(&second)].concat();
        named.sort_unstable();
        assert_eq!(there, named, "{nth}: {merged:?}");
    }
}

/// Test step on the world's file and another, which may die in one of its moves.
type Verb = fn(&Mover, &Arc<File>, &Arc<File>, &Placement) -> Result<()>;

/// With the number of the move in which it dies.
const VERBS: [(&str, usize, Verb); 3] = [
    ("first", 0, |m, f, o, p| m.merge(&[f.clone(), o.clone()], p).map_err(|(_, e)| e)),
    ("joins", 1, |m, f, o, p| m.merge(&[o.clone(), f.clone()], p).map_err(|(_, e)| e)),
    ("splits", 2, |m, f, o, p| {
        m.merge(&[o.clone(), f.clone()], p).map_err(|(_, e)| e)?;
        m.split(f).map(drop)
    }),
];

/// [S-133] [S-024]
#[test]
fn dying_at_any_step_leaves_every_file_whole_and_nothing_else() {
    let mut deaths = 0;
    for (name, number, verb) in VERBS {
        for step in Step::ALL {
            for power_lost in [false, true] {
                let when = format!("{name} died at {step:?}, power lost: {power_lost}");
                let mut world = world();
                let (stub, other, data) = another(&world, 3, SIZE - 9000);
                let (moves, power) = (Mutex::new(0), world.power.clone());
                let hook = move |at| {
                    let mut moves = moves.lock();
                    if at == step && *moves == number {
                        power.cut();
                        return Err(Errno::IO.into());
                    }
                    *moves += usize::from(at == Step::Removed);
                    Ok(())
                };
                let mover =
                    Mover::new(world.life.pool.clone(), world.state.clone(), None).with_crash_hook(Arc::new(hook));
                let file = world.life.file.clone();
                let died = verb(&mover, &file, &other, &world.options.placement.clone());
                assert!(died.is_err(), "{when}");
                deaths += 1;
                world.beside = objects(&other).into_iter().collect();
                drop((mover, file, other));
                if power_lost {
                    let keep = stub.unsynced();
                    stub.crash(keep);
                    world.crash(&mut Random(3));
                } else {
                    world.kill();
                }
                let other = open(&world, &stub);
                assert!(bytes(&world.life.file) == content() && bytes(&other) == data, "{when}");
                assert_eq!(world.orphans(), vec![], "{when}");
                assert!(world.state.journal().expect("journal").is_empty(), "{when}");
                // Both can be written on, each for itself.
                world.life.file.write(100, &[7; 20_000]).expect("well");
                assert!(bytes(&other) == data, "{when}");
            }
        }
    }
    assert_eq!(deaths, 3 * 2 * Step::ALL.len());
}
