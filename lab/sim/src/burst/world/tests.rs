//! The buffer under loads whose outcome is derived or published.

use super::super::load::{Listed, VersionClass};
use super::*;

fn setup(scheme: Scheme, dwpp: f64, congestion: f64) -> Setup {
    let device = Device::default();
    let jobs = (dwpp * device.capacity / 80e9).round() as usize;
    let load = Load {
        period_s: 3800.0,
        job_bytes: 80e9,
        jobs,
        congestion,
        classes: vec![VersionClass { weight: 1.0, per_period: 1 }],
        mtbf_s: (60.0, 1200.0),
        jitter: 0.0,
        listed: Vec::new(),
        seed: 1,
    };
    let order = if matches!(scheme, Scheme::Bbos | Scheme::Predicted) { Order::default() } else { Order::Fifo };
    let baselines = Baselines::default();
    Setup { device, load, scheme, order, baselines, direct: false, periods: 2, step_s: 0.5, check: true }
}

#[test]
fn below_the_capacity_nobody_is_slowed_or_stopped() {
    for scheme in [Scheme::MaxBw, Scheme::Bbos, Scheme::Predicted] {
        let out = run(&setup(scheme, 0.9, 1.0));
        assert!((out.run_s - 80.0 / 3.56).abs() < 0.6 && out.stop_s == 0.0 && out.wait_s < 0.6, "{scheme:?} {out:?}");
    }
    let eff = run(&setup(Scheme::MaxEff, 0.9, 1.0));
    assert!(eff.run_s > 80.0 / 3.0 - 0.1, "demotion beside writing slows it: {}", eff.run_s);
}

#[test]
fn over_subscribed_and_crowded_maxbw_stops_and_bbos_does_not() {
    let (bw, bbos) = (run(&setup(Scheme::MaxBw, 1.9, 0.1)), run(&setup(Scheme::Bbos, 1.9, 0.1)));
    assert!(bw.stop_s > 5.0 && bbos.stop_s < 1.0, "{} {}", bw.stop_s, bbos.stop_s);
    assert!(bbos.latency_s < bw.latency_s && bbos.latency_max_s < bw.latency_max_s);
    let warp = run(&setup(Scheme::DataWarp, 1.0, 0.1));
    assert!(warp.run_s > 10.0 * bbos.run_s, "everybody at once: {}", warp.run_s);
}

#[test]
fn who_knows_the_versions_and_the_mtbf_has_more_restarts_in_the_buffer() {
    let with = |order| run(&Setup { order, ..setup(Scheme::Bbos, 1.9, 0.5) }).hit_ratio;
    let (paper, fifo, lru) = (with(Order::VersionsThenMtbf), with(Order::Fifo), with(Order::Lru));
    assert!(paper > fifo + 0.15 && paper > lru, "{paper} {fifo} {lru}");
    let throughout = with(Order::Throughout);
    assert!(throughout > paper + 0.02, "{throughout} {paper}");
}

/// The published comparison: FIFO and LRU lose what they demote, and a static threshold counts only what is left.
#[test]
fn baselines_that_move_hold_fewer_restarts_and_let_a_threshold_matter() {
    let with = |scheme, order, baselines| run(&Setup { order, baselines, ..setup(scheme, 1.9, 0.5) });
    let hits = |order, baselines| with(Scheme::Bbos, order, baselines).hit_ratio;
    let paper = hits(Order::VersionsThenMtbf, Baselines::Move);
    assert_eq!(paper, hits(Order::VersionsThenMtbf, Baselines::Keep), "the paper's own order always keeps");
    let (moved, kept) = (hits(Order::Fifo, Baselines::Move), hits(Order::Fifo, Baselines::Keep));
    assert!(paper > 2.0 * moved && kept > 1.5 * moved, "{paper} {kept} {moved}");
    assert_eq!(moved, hits(Order::Lru, Baselines::Move), "both go by the time of writing");
    let [fixed, eff] = [Scheme::Static(0.9), Scheme::MaxEff].map(|of| with(of, Order::Fifo, Baselines::Move));
    assert!(fixed.throughput_gb_s > eff.throughput_gb_s + 0.02, "{fixed:?} {eff:?}");
}

#[test]
fn direct_writing_demotes_less() {
    let with = |direct| run(&Setup { direct, ..setup(Scheme::Bbos, 1.9, 0.5) });
    let (direct, through) = (with(true), with(false));
    assert!(direct.direct_gb > 0.0 && direct.demoted_gb < through.demoted_gb);
}

#[test]
fn the_forecast_is_never_slower_than_the_plan() {
    for (dwpp, congestion) in [(1.3, 1.0), (1.6, 0.5), (1.9, 1.0), (1.9, 0.1)] {
        let (plan, forecast) = (setup(Scheme::Bbos, dwpp, congestion), setup(Scheme::Predicted, dwpp, congestion));
        let (plan, forecast) = (run(&plan), run(&forecast));
        assert!(
            forecast.latency_s <= plan.latency_s * 1.001,
            "{dwpp} {congestion}: {} {}",
            forecast.latency_s,
            plan.latency_s
        );
    }
}

/// Applications that slip: the forecast is wrong each time, and still no worse than the plan by more than this.
#[test]
fn a_forecast_that_is_wrong_costs_little() {
    for (dwpp, congestion) in [(1.6, 0.5), (1.9, 0.5)] {
        let with = |scheme, jitter| {
            let mut setup = setup(scheme, dwpp, congestion);
            setup.load.jitter = jitter;
            run(&setup).latency_s
        };
        let (steady, wrong) = (with(Scheme::Predicted, 0.0), with(Scheme::Predicted, 0.2));
        let plan = with(Scheme::Bbos, 0.2);
        assert!(wrong != steady && wrong <= plan * 1.05, "{dwpp} {congestion}: {steady} {wrong} {plan}");
    }
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let setup = setup(Scheme::Predicted, 1.6, 0.5);
    assert_eq!(run(&setup), run(&setup));
}

/// Applications of different sizes: all of them are written, each at its own times.
#[test]
fn a_list_of_applications_is_written_in_full() {
    let of = |bytes, interval_s| Listed { name: String::new(), bytes, interval_s, mtbf_s: 1000.0 };
    let mut setup = setup(Scheme::Bbos, 0.3, 1.0);
    setup.load.listed = vec![of(400e9, 3800.0), of(40e9, 380.0), of(80e9, 1900.0)];
    setup.check = true;
    let out = run(&setup);
    assert_eq!((out.jobs, out.unfinished), (2 * (1 + 10 + 2), 0));
    assert!((out.utilisation - (400.0 + 400.0 + 160.0) / 3200.0).abs() < 1e-9, "{out:?}");
    assert!(out.restarts > 0 && out.hit_ratio == 1.0, "all of it fits: {out:?}");
}
