//! The burst buffer: the events of the simulator go to the machine that a `volume.toml` configures; its actions are
//! equal, word for word and at the same times.

use engine::volume::Config;
use policy::burst::buffer::Scheme;
use policy::burst::control::Device;
use policy::burst::tables::{Baselines, Order};
use policy::machine::Machine;
use policy::volume::{Action, Change, Logged, Purpose, Verb, Volume};
use policy::{Time, volume};
use sim::burst::{Load, Setup, VersionClass, run_logged};
use std::path::Path;

const TOML: &str = "namespace = \"n\"\nstate = \"s\"\n[tier.fast]\n[tier.capacity]\n\
    [[target]]\nname = \"f\"\npath = \"f\"\ntier = \"fast\"\n[[target]]\nname = \"c\"\npath = \"c\"\ntier = \"capacity\"\n\
    [burst]\nfast = \"fast\"\nwait = \"0s\"\nfull_wait = \"24h\"\nwrite_max = 3560000000\nwrite_min = 3000000000\n\
    demote_max = 1600000000\ndemote_min = 80000000\ndemote_idle = 2110000000\nperiod = \"1900s\"\nperiod_bytes = 3040000000000\n";

fn setup(scheme: Scheme, order: Order, congestion: f64, direct: bool) -> Setup {
    let device = Device { capacity: 1.6e12, ..Device::default() };
    let load = Load {
        period_s: 1900.0,
        job_bytes: 80e9,
        jobs: 38,
        congestion,
        classes: vec![VersionClass { weight: 2.0, per_period: 1 }, VersionClass { weight: 1.0, per_period: 2 }],
        mtbf_s: (60.0, 1200.0),
        jitter: 0.0,
        listed: Vec::new(),
        seed: 7,
    };
    let baselines = Baselines::Keep;
    Setup { device, load, scheme, order, baselines, direct, periods: 1, step_s: 1.0, check: true }
}

/// Leads the machine, with these lines in `volume.toml`, through what happened in the simulator.
fn live(more: &str, setup: &Setup, moments: &[Logged]) -> Vec<Logged> {
    let toml = format!("{TOML}{more}");
    let file = Config::parse(Path::new("/volume.toml"), &toml).expect("a configuration");
    let simulated = setup.volume().config;
    // The simulator's buffer is one device, whose space is not polled.
    let look_every = simulated.burst.expect("a buffer").look_every;
    let burst = volume::BurstConfig { look_every, ..file.burst.machine(setup.device.capacity as u64) };
    let mut machine = Volume::new(volume::Config { burst: Some(burst), ..simulated }, Time::ZERO);
    machine.log.start();
    for moment in moments {
        let Logged::Event(at, event) = moment else { continue };
        machine.handle(*at, event.clone());
        machine.drain().for_each(drop);
    }
    machine.log.lines().to_vec()
}

#[test]
fn the_simulator_and_the_live_burst_buffer_do_the_same() {
    let mut demotions = 0;
    for (scheme, order, congestion, direct, more) in [
        (Scheme::Bbos, Order::VersionsThenMtbf, 1.0, false, "policy = \"bbos\"\norder = \"versions\"\n"),
        (Scheme::Bbos, Order::VersionsThenMtbf, 0.5, true, "policy = \"bbos\"\norder = \"versions\"\ndirect = true\n"),
        (Scheme::Predicted, Order::Throughout, 0.5, false, ""),
        (Scheme::MaxBw, Order::Fifo, 0.1, false, "policy = \"maxbw\"\norder = \"fifo\"\n"),
        (Scheme::MaxEff, Order::Lru, 0.5, false, "policy = \"maxeff\"\norder = \"lru\"\n"),
        (Scheme::Static(0.9), Order::Mtbf, 0.5, false, "policy = \"static:0.9\"\norder = \"mtbf\"\n"),
    ] {
        let setup = setup(scheme, order, congestion, direct);
        let expected = run_logged(&setup);
        let logged = live(more, &setup, &expected);
        for (n, (live, simulated)) in logged.iter().zip(&expected).enumerate() {
            assert_eq!(live, simulated, "{scheme:?} {congestion}: line {n}");
        }
        assert_eq!(logged.len(), expected.len(), "{scheme:?}");
        let to = Verb::AddMirror { purpose: Purpose::Demoted, shape: None };
        let demotes =
            |line: &&Logged| matches!(line, Logged::Action(_, Action::Change(Change { verb, .. })) if *verb == to);
        demotions += expected.iter().filter(demotes).count();
    }
    assert!(demotions > 100, "{demotions}");
}

#[test]
fn different_schemes_have_different_logs() {
    let log = |scheme| run_logged(&setup(scheme, Order::Fifo, 0.5, false));
    assert_ne!(log(Scheme::MaxBw), log(Scheme::MaxEff));
}
