//! A whole volume: the events of a simulation with every mechanism on go to the machine that a `volume.toml` configures
//! for the daemon; its actions are equal, word for word and at the same times.

use policy::Time;
use policy::burst::admission;
use policy::burst::buffer::{self, Scheme};
use policy::burst::control;
use policy::machine::Machine;
use policy::stripe::advice::Mode;
use policy::stripe::device::Measured;
use policy::stripe::{rules, striper};
use policy::tier::cost::{Costs, DeviceCost};
use policy::tier::machine::{self, Planner, Window};
use policy::volume::ownership::Mechanism;
use policy::volume::{Action, BurstConfig, Config, Logged, ReplicasConfig, StripesConfig, Volume};
use sim::storage::{Device, Service};
use sim::volume::{Faults, Load, Setup, Target, run_logged};
use std::collections::BTreeMap;
use std::path::Path;

const MIB: u64 = 1 << 20;
const FAST_BYTES: u64 = 2048 * MIB;
const SYSTEM_NODES: u32 = 64;
const MOVES: usize = 4;

const TOML: &str = "namespace = \"n\"\nstate = \"s\"\n[layout]\nsegment = \"8MiB\"\n[tier.fast]\n[tier.capacity]\n\
    [[target]]\nname = \"f\"\npath = \"f\"\ntier = \"fast\"\n[[target]]\nname = \"a\"\npath = \"a\"\ntier = \"capacity\"\n\
    [[target]]\nname = \"b\"\npath = \"b\"\ntier = \"capacity\"\n[[target]]\nname = \"c\"\npath = \"c\"\ntier = \"capacity\"\n\
    [burst]\nfast = \"fast\"\nreplicas = \"capacity\"\nwait = \"10m\"\nfull_wait = \"5m\"\nwrite_max = 2000000000\n\
    write_min = 1500000000\ndemote_max = 400000000\ndemote_min = 10000000\ndemote_idle = 400000000\n\
    [tiering]\npolicy = \"tuned\"\nwindow = \"20m\"\nkeep_copies = false\n[stripes]\nmode = \"model\"\n\
    interval = \"10s\"\n[replication]\npolicy = \"shortcut\"\nthreshold = 0.01\nalpha = 0.2\n";

fn costs() -> Costs {
    let device = |ns: f64, ns_per_byte| DeviceCost {
        read_latency_ns: ns,
        write_latency_ns: ns,
        read_ns_per_byte: ns_per_byte,
        write_ns_per_byte: ns_per_byte,
    };
    Costs { fast: device(1e5, 0.5), slow: device(8e6, 5.0), fast_devices: 1, slow_devices: 3 }
}

/// The mechanisms of the file, configured by hand.
fn config() -> Config {
    let device = control::Device {
        write_max: 2e9,
        write_min: 1.5e9,
        demote_max: 4e8,
        demote_min: 1e7,
        demote_idle: 4e8,
        capacity: FAST_BYTES as f64,
    };
    let buffer = buffer::Config {
        wait_max: Some(Time::from_secs(600)),
        replicas: true,
        ..buffer::Config::new(device, Scheme::Predicted)
    };
    let admission = admission::Config { buffer, full_waits: true, full_wait: Time::from_secs(300) };
    let tiers = machine::Config {
        window: Window::Span(Time::from_secs(1200)),
        block_bytes: 8 * MIB,
        fast_bytes: FAST_BYTES / 2,
        costs: costs(),
        planner: Planner::Tuned,
        idle: Time::from_millis(500),
        moves_max: MOVES,
        ..machine::Config::default()
    };
    let stripes = StripesConfig {
        striper: striper::Config::new(Mode::Model, &Measured::default(), 4),
        rules: rules::parse(rules::ADAPTIVE).expect("the built-in rules"),
        every: Time::from_secs(10),
    };
    Config {
        burst: Some(BurstConfig { admission, look_every: Time::from_millis(250) }),
        tiers: Some(tiers),
        stripes: Some(stripes),
        replicas: Some(ReplicasConfig::new(SYSTEM_NODES)),
        changes_max: MOVES,
        repairs: true,
    }
}

fn setup(seed: u64) -> Setup {
    let device = |millis| Device::Constant(Service::new(Time::from_millis(millis), Time(500 * millis)));
    let target = |tier, bytes, millis| Target { tier, bytes, device: device(millis) };
    Setup {
        config: config(),
        targets: vec![
            target(0, FAST_BYTES, 1),
            target(1, 65_536 * MIB, 8),
            target(1, 65_536 * MIB, 8),
            target(1, 65_536 * MIB, 8),
        ],
        segment_bytes: 8 * MIB,
        stripe_count: 1,
        stripe_bytes: MIB,
        load: Load {
            span: Time::from_secs(900),
            queued: Time::from_secs(1800),
            jobs: 3,
            input_bytes: 64 * MIB,
            checkpoint_bytes: 512 * MIB,
            checkpoints: 3,
            interval: Time::from_secs(120),
            files: 8,
            file_bytes: 64 * MIB,
            requests: 600,
            request_bytes: 4 * MIB,
            writes: 0.1,
            seed,
        },
        faults: Faults { count: 1, replaced_after: Time::from_secs(120), seed },
        rest: Time::from_secs(600),
        check: false,
        ..Setup::default()
    }
}

/// Leads the machine, as the daemon sets it up for that file, through what happened in the simulator.
fn live(toml: &str, moments: &[Logged]) -> Vec<Logged> {
    let config = engine::volume::Config::parse(Path::new("/volume.toml"), toml).expect("a configuration");
    let machine = Config {
        burst: Some(config.burst.machine(FAST_BYTES)),
        tiers: Some(config.tiering.machine(costs(), FAST_BYTES / 2, config.layout.segment, MOVES)),
        stripes: Some(node::adapt::striping(&config).expect("the built-in rules")),
        replicas: Some(config.replication.machine(SYSTEM_NODES)),
        changes_max: MOVES,
        repairs: true,
    };
    let mut volume = Volume::new(machine, Time::ZERO);
    volume.log.start();
    for moment in moments {
        let Logged::Event(at, event) = moment else { continue };
        volume.handle(*at, event.clone());
        volume.drain().for_each(drop);
    }
    volume.log.lines().to_vec()
}

/// Debug text of a line: an unknown number in a reason is NaN and not equal to itself.
fn in_words(line: &Logged) -> String {
    format!("{line:?}")
}

#[test]
fn the_simulator_and_the_live_volume_do_the_same() {
    let mut by = BTreeMap::<Mechanism, usize>::new();
    for seed in [1, 2] {
        let (_, expected) = run_logged(setup(seed));
        let logged = live(TOML, &expected);
        for (n, (live, simulated)) in logged.iter().zip(&expected).enumerate() {
            assert_eq!(in_words(live), in_words(simulated), "seed {seed}: line {n}");
        }
        assert_eq!(logged.len(), expected.len(), "seed {seed}");
        for line in &expected {
            if let Logged::Action(_, Action::Change(change)) = line {
                *by.entry(change.by).or_default() += 1;
            }
        }
    }
    use Mechanism::{Burst, Repair, Replicas, Stripes, Tiers};
    for mechanism in [Burst, Tiers, Stripes, Replicas, Repair] {
        assert!(by.get(&mechanism).is_some_and(|changes| *changes > 0), "{mechanism:?}: {by:?}");
    }
}

/// The comparison detects another configuration.
#[test]
fn different_volumes_have_different_logs() {
    let (_, log) = run_logged(setup(1));
    for (line, other) in [("[burst]\n", "[burst]\npolicy = \"maxeff\"\n"), ("\"tuned\"", "\"lfu\"")] {
        let toml = TOML.replace(line, other);
        let other_log = live(&toml, &log);
        assert!(toml != TOML && !other_log.iter().map(in_words).eq(log.iter().map(in_words)), "{other}");
    }
}
