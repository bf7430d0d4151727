//! A volume under random configurations, loads and faults: no promise is broken, and everything comes to rest.

use super::checkpoints::Held;
use super::world::World;
use super::*;
use crate::storage::{Cost, Service};
use policy::burst::admission;
use policy::burst::buffer::{self, Scheme};
use policy::burst::control;
use policy::stripe::advice::Mode;
use policy::stripe::device::Measured;
use policy::stripe::{rules, striper};
use policy::tier::cost::{Costs, DeviceCost};
use policy::tier::machine::{self, Window};
use policy::volume::ownership::Mechanism;
use policy::volume::{Action, BurstConfig, Event, Logged, Outcome, ReplicasConfig, StripesConfig, Verb};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// Parameters that differ from run to run.
#[derive(Clone, Copy, Debug)]
struct Wish {
    burst: bool,
    tiers: bool,
    stripes: bool,
    replicas: bool,
    group: bool,
    scheme: usize,
    buffer_mib: u64,
    faults: u32,
    fast: u32,
    slow: u32,
    writes: f64,
    seed: u64,
}

const ALL: Wish = Wish {
    burst: true,
    tiers: true,
    stripes: true,
    replicas: true,
    group: true,
    scheme: 0,
    buffer_mib: 4096,
    faults: 2,
    fast: 2,
    slow: 4,
    writes: 0.2,
    seed: 1,
};

fn service(bytes_per_s: u64, latency: Time) -> Device {
    let cost = Cost { request: latency, sector_ps: 512 * 1_000_000_000_000 / bytes_per_s };
    Device::Constant(Service { sectors: 1 << 40, read: cost, write: cost, busy_ns: 0 })
}

/// Bytes per second of a target of each tier.
const FAST_RATE: u64 = 2_000_000_000;
const SLOW_RATE: u64 = 200_000_000;

fn burst(wish: Wish) -> BurstConfig {
    let device = control::Device {
        write_max: 2e9,
        write_min: 1.5e9,
        demote_max: 4e8,
        demote_min: 1e7,
        demote_idle: 4e8,
        capacity: (wish.buffer_mib * MIB) as f64,
    };
    let buffer = buffer::Config {
        direct: wish.seed.is_multiple_of(2),
        wait_max: Some(Time::from_secs(600)),
        replicas: wish.group,
        ..buffer::Config::new(device, [Scheme::Predicted, Scheme::Bbos, Scheme::MaxBw, Scheme::MaxEff][wish.scheme])
    };
    BurstConfig {
        admission: admission::Config { buffer, full_waits: true, full_wait: Time::from_secs(300) },
        look_every: Time::from_secs(10),
    }
}

fn tiers(wish: Wish) -> machine::Config {
    let cost = |rate: u64, latency_ns: f64| DeviceCost {
        read_latency_ns: latency_ns,
        write_latency_ns: latency_ns,
        read_ns_per_byte: 1e9 / rate as f64,
        write_ns_per_byte: 1e9 / rate as f64,
    };
    let costs = Costs {
        fast: cost(FAST_RATE, 1e5),
        slow: cost(SLOW_RATE, 8e6),
        fast_devices: wish.fast,
        slow_devices: wish.slow,
    };
    machine::Config {
        window: Window::Span(Time::from_secs(1200)),
        block_bytes: 8 * MIB,
        fast_bytes: 512 * MIB,
        costs,
        moves_max: 4,
        keep_copies: true,
        copy_after: Some(Time::from_secs(600)),
        ..machine::Config::default()
    }
}

fn setup(wish: Wish) -> Setup {
    let measured = Measured::disk(0.008, 0.008, SLOW_RATE as f64, SLOW_RATE as f64, 0.0002);
    let stripes = StripesConfig {
        striper: striper::Config { forks: 2, ..striper::Config::new(Mode::Model, &measured, wish.slow) },
        rules: rules::parse(rules::ADAPTIVE).expect("the built-in rules"),
        every: Time::from_secs(10),
    };
    let target = |tier, bytes, device| Target { tier, bytes, device };
    let fast = (0..wish.fast).map(|_| target(0, 8192 * MIB, service(FAST_RATE, Time(100_000))));
    let slow = (0..wish.slow).map(|_| target(1, 32_768 * MIB, service(SLOW_RATE, Time(8_000_000))));
    Setup {
        config: Config {
            burst: wish.burst.then(|| burst(wish)),
            tiers: wish.tiers.then(|| tiers(wish)),
            stripes: wish.stripes.then_some(stripes),
            replicas: wish.replicas.then(|| ReplicasConfig::new(64)),
            changes_max: 4,
            repairs: true,
        },
        targets: fast.chain(slow).collect(),
        segment_bytes: 8 * MIB,
        stripe_count: 1,
        stripe_bytes: MIB,
        load: Load {
            span: Time::from_secs(3600),
            queued: Time::from_secs(1800),
            jobs: 4,
            input_bytes: 256 * MIB,
            checkpoint_bytes: 1024 * MIB,
            checkpoints: 3,
            interval: Time::from_secs(200),
            files: 12,
            file_bytes: 64 * MIB,
            requests: 1000,
            request_bytes: 4 * MIB,
            writes: wish.writes,
            seed: wish.seed,
        },
        faults: Faults { count: wish.faults, replaced_after: Time::from_secs(300), seed: wish.seed },
        rest: Time::from_secs(1800),
        check: true,
        ..Setup::default()
    }
}

fn wishes() -> impl Strategy<Value = Wish> {
    let mechanisms = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let sizes = (0usize..4, 1024u64..8192, 0u32..6, 1u32..4, 2u32..6, 0.0..0.6f64, any::<u64>());
    (mechanisms, sizes).prop_map(|((burst, tiers, stripes, replicas, group), sizes)| {
        let (scheme, buffer_mib, faults, fast, slow, writes, seed) = sizes;
        Wish { burst, tiers, stripes, replicas, group, scheme, buffer_mib, faults, fast, slow, writes, seed }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn no_promise_is_broken_and_everything_comes_to_rest(wish in wishes()) {
        run(setup(wish));
    }

    #[test]
    fn nor_is_any_with_every_mechanism_on(wish in wishes()) {
        run(setup(Wish { burst: true, tiers: true, stripes: true, replicas: true, ..wish }));
    }
}

#[test]
fn every_mechanism_works_on_one_volume() {
    let figures = run(setup(ALL));
    for mechanism in ["burst", "tiers", "stripes", "replicas", "repair"] {
        assert!(figures.changes.get(mechanism).is_some_and(|n| *n > 0), "{mechanism}: {figures:?}");
    }
    assert!(figures.copies_bytes > 0, "what lies on the fast tier has slow copies: {figures:?}");
    // Some of the requests are to files that were lost with a target.
    assert!(figures.jobs == 4 && figures.requests > 500, "{figures:?}");
    assert!(figures.requests_failed > 0 && figures.requests + figures.requests_failed == 1000, "{figures:?}");
}

/// Targets fail while jobs' inputs have replicas: in some runs a replica takes over, and is whole again at the end.
#[test]
fn a_replica_takes_over_for_a_target_that_fails_and_is_made_whole() {
    let (mut swapped, mut rebuilt) = (0, 0);
    for seed in 1..=8 {
        let wish = Wish { faults: 6, seed, ..ALL };
        let (_, log) = run_logged(Setup { check: false, ..setup(wish) });
        let begun = |is_it: fn(&Verb) -> bool| -> Vec<u64> {
            let change = |line: &Logged| match line {
                Logged::Action(_, Action::Change(change)) if is_it(&change.verb) => Some(change.ticket),
                _ => None,
            };
            log.iter().filter_map(change).collect()
        };
        let made = |tickets: Vec<u64>| {
            let is_made = |line: &&Logged| match line {
                Logged::Event(_, Event::Done { ticket, result: Outcome::Made { .. } }) => tickets.contains(ticket),
                _ => false,
            };
            log.iter().filter(is_made).count()
        };
        swapped += made(begun(|verb| matches!(verb, Verb::Swap { .. })));
        rebuilt += made(begun(|verb| matches!(verb, Verb::ReplaceTarget { .. })));
    }
    assert!(swapped > 1 && rebuilt > 1, "{swapped} {rebuilt}");
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    assert_eq!(run(setup(ALL)), run(setup(ALL)));
}

/// A deliberate error in the machine.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    /// The only intact mirror of a file is removed.
    LosesMirror,
    /// The space of an object is not freed.
    KeepsRoom,
    /// A write is never released.
    ForgetsWrite,
    /// One mechanism repeatedly undoes the changes of another.
    TakesBack,
}

/// Runs with a deliberate error in the middle of a run, which the watch must detect.
fn go_wrong(wrong: Wrong) {
    let mut setup = setup(ALL);
    let targets = std::mem::take(&mut setup.targets);
    let mut world = World::new(&setup, targets);
    world.run();
    world.check_end();
    let file = *world.acknowledged.iter().next().expect("a file");
    match wrong {
        Wrong::LosesMirror => {
            let of = world.files.get_mut(&file).expect("it is there");
            let gone = of.mirrors.drain(..).flat_map(|(_, m)| super::files::objects(&m, of.bytes).collect::<Vec<_>>());
            let gone = gone.collect();
            world.free(gone);
        }
        Wrong::KeepsRoom => world.targets.all[0].used += 1,
        Wrong::ForgetsWrite => drop(world.held.insert(u64::MAX, Held { request: 0, len: 1, since: world.now })),
        Wrong::TakesBack => world.take_back_for_ever(file),
    }
    world.check_end();
}

impl World<'_> {
    fn take_back_for_ever(&mut self, file: policy::FileId) {
        use policy::volume::{Change, Purpose, Reason, Verb};
        for n in 0..4 {
            let verb = match n % 2 {
                0 => Verb::AddMirror { purpose: Purpose::Fork, shape: None },
                _ => Verb::DropMirror(1),
            };
            let by = if n % 2 == 0 { Mechanism::Stripes } else { Mechanism::Replicas };
            let change = Change { ticket: n, file, verb, by, reason: Reason::BufferRoom, pace: None };
            self.watch.begun(&change, Some(Purpose::Fork));
        }
    }
}

#[test]
#[should_panic(expected = "no mirror and no source")]
fn canary_a_lost_mirror_is_seen() {
    go_wrong(Wrong::LosesMirror);
}

#[test]
#[should_panic(expected = "its room is not what its objects take")]
fn canary_room_that_is_not_given_back_is_seen() {
    go_wrong(Wrong::KeepsRoom);
}

#[test]
#[should_panic(expected = "writes are held")]
fn canary_a_forgotten_write_is_seen() {
    go_wrong(Wrong::ForgetsWrite);
}

#[test]
#[should_panic(expected = "took back each other's changes")]
fn canary_two_mechanisms_that_undo_each_other_are_seen() {
    go_wrong(Wrong::TakesBack);
}
