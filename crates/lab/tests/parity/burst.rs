//! The burst buffer: one list of events through the simulator and through the desk of the live volume, and what the buffer says is equal, word for word
//! and at the same times.

use policy::burst::buffer::{Event, Logged, Scheme};
use policy::burst::control::Device;
use policy::burst::tables::Order;
use sim::burst::{Load, Setup, VersionClass, run_logged};
use std::path::Path;
use store::daemon::burst::Desk;
use store::volume::Config;

const TOML: &str = "namespace = \"n\"\nstate = \"s\"\n[tier.fast]\n[tier.capacity]\n\
    [[target]]\nname = \"f\"\npath = \"f\"\ntier = \"fast\"\n[[target]]\nname = \"c\"\npath = \"c\"\ntier = \"capacity\"\n[burst]\nfast = \"fast\"\n";

fn setup(scheme: Scheme, order: Order, congestion: f64, direct: bool) -> Setup {
    let device = Device { capacity: 1.6e12, ..Device::default() };
    let load = Load {
        period_s: 1900.0,
        job_bytes: 80e9,
        jobs: 38,
        congestion,
        classes: vec![VersionClass { weight: 2.0, per_period: 1 }, VersionClass { weight: 1.0, per_period: 2 }],
        mtbf_s: (60.0, 1200.0),
        listed: Vec::new(),
        seed: 7,
    };
    Setup { device, load, scheme, order, direct, periods: 1, step_s: 1.0, check: true }
}

/// Leads the live desk through what happened in the simulator. It numbers requests from 1, and begins periods by its own clock.
fn live(setup: &Setup, moments: &[Logged]) -> Vec<Logged> {
    let mut settings = Config::parse(Path::new("/volume.toml"), TOML).expect("a configuration").burst;
    settings.buffer = setup.buffer();
    let mut desk = Desk::new(&settings, setup.device.capacity as u64);
    desk.start_log();
    for moment in moments {
        let Logged::Event(at, event) = *moment else { continue };
        match event {
            Event::Arrive { app, bytes, .. } => {
                desk.arrive(at, app, bytes as u64);
            }
            Event::Wrote { request, bytes } => desk.wrote(at, request + 1, bytes),
            Event::Committed { request, bytes } => desk.committed(at, request + 1, bytes as u64),
            Event::Demoted => desk.demoted(at),
            Event::Restarted { app } => desk.restarted(at, app),
            Event::Mtbf { app, mtbf_s } => desk.mtbf(at, app, mtbf_s),
            Event::Free { bytes } => desk.free(at, bytes),
            Event::Interval { app, interval_s } => desk.interval(at, app, interval_s),
            Event::Tick | Event::Period => desk.tick(at),
            other => panic!("the simulator has no {other:?}"),
        }
        while desk.effect().is_some() {}
    }
    desk.log().to_vec()
}

/// Without the ticks, of which the live clock makes more.
fn lines(log: &[Logged], first_request: u64) -> Vec<String> {
    let tick = |line: &&Logged| !matches!(line, Logged::Event(_, Event::Tick));
    let named = |line: &Logged| {
        // Requests count from `first_request`.
        let text = format!("{line:?}");
        match text.split_once("request: ") {
            Some((before, after)) => {
                let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
                let number: u64 = after[..end].parse().expect("a number");
                format!("{before}request: {}{}", number - first_request, &after[end..])
            }
            None => text,
        }
    };
    log.iter().filter(tick).map(named).collect()
}

#[test]
fn the_simulator_and_the_live_burst_buffer_do_the_same() {
    let mut demotions = 0;
    for (scheme, order, congestion, direct) in [
        (Scheme::Bbos, Order::VersionsThenMtbf, 1.0, false),
        (Scheme::Bbos, Order::VersionsThenMtbf, 0.5, true),
        (Scheme::Predicted, Order::Throughout, 0.5, false),
        (Scheme::MaxBw, Order::Fifo, 0.1, false),
        (Scheme::MaxEff, Order::Lru, 0.5, false),
        (Scheme::Static(0.9), Order::Mtbf, 0.5, false),
    ] {
        let setup = setup(scheme, order, congestion, direct);
        let moments = run_logged(&setup);
        let (expected, logged) = (lines(&moments, 0), lines(&live(&setup, &moments), 1));
        for (n, (live, simulated)) in logged.iter().zip(&expected).enumerate() {
            assert_eq!(live, simulated, "{scheme:?} {congestion}: line {n}");
        }
        assert_eq!(logged.len(), expected.len(), "{scheme:?}");
        demotions += expected.iter().filter(|line| line.contains("Demote(")).count();
    }
    assert!(demotions > 100, "{demotions}");
}

#[test]
fn different_schemes_have_different_logs() {
    let log = |scheme| lines(&run_logged(&setup(scheme, Order::Fifo, 0.5, false)), 0);
    assert_ne!(log(Scheme::MaxBw), log(Scheme::MaxEff));
}
