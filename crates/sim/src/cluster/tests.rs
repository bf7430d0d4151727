//! The world by itself, and against what follows from its loads.

use super::world::World;
use super::*;
use policy::cluster::lease::Config;

fn small(nodes: u32) -> Setup {
    let load = Load { fail_every: None, ..Load::default() };
    Setup { nodes, load, span: Time::from_secs(20), ..Setup::default() }
}

/// Every node looks every second.
fn all_look(setup: Setup) -> Setup {
    Setup { lease: Config { watchers: u32::MAX, ..Config::default() }, ..setup }
}

fn is_near(found: f64, expected: f64, share: f64) -> bool {
    (found - expected).abs() <= expected * share
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_a_different_one() {
    let setup = small(10);
    assert_eq!(run(&setup), run(&setup));
    assert_ne!(run(&setup), run(&Setup { seed: 2, ..setup }));
}

#[test]
fn what_is_asked_is_what_follows_from_the_load() {
    let setup = Setup { gone: 0, ..small(100) };
    let (figures, demand) = (run(&setup), Demand(&setup));
    let servers = f64::from(setup.costs.servers);
    assert!(is_near(figures.namespace_share, demand.namespace(100) / servers, 0.1), "{figures:?}");
    assert!(is_near(figures.leader_share, demand.leader(100), 0.1), "{figures:?}");
    assert!(is_near(figures.renewals, 100.0 / 1.6, 0.05), "{figures:?}");
    assert_eq!((figures.lapses, figures.expelled, figures.moves_failed, figures.takeover_s), (0, 0, 0, None));
    assert!(figures.moves > 150 && figures.enter_ms > 0.0, "{figures:?}");
}

#[test]
fn listings_grow_with_the_square_of_the_nodes_only_where_all_look_every_second() {
    let names = |setup: Setup| run(&setup).names;
    let (few, many) = (names(all_look(small(40))), names(all_look(small(160))));
    assert!(is_near(many / few, 16.0, 0.05), "{few} and {many}");
    let (few, many) = (names(small(40)), names(small(160)));
    assert!(many / few < 5.0, "{few} and {many}");
}

#[test]
fn a_namespace_that_cannot_serve_its_nodes_loses_leases_and_the_demand_says_where_that_begins() {
    let costs = Costs { name: Time(200_000), ..Costs::default() };
    let setup = all_look(Setup {
        costs,
        gone: 0,
        load: Load { opens: 0.0, writes: 0.0, moves: 0.0, ..small(1).load },
        ..small(1)
    });
    let most = Demand(&setup).most(Demand::leases, 3.0) as u32;
    let at = |nodes| run(&Setup { nodes, ..setup.clone() });
    assert_eq!(at(most * 8 / 10).lapses, 0, "{most} nodes");
    assert!(at(most * 3).lapses > 0, "{most} nodes");
}

#[test]
fn another_leads_within_ten_seconds_and_with_many_gone_at_once_still_soon() {
    for seed in 1..6 {
        let took = |gone| run(&Setup { gone, seed, ..small(40) }).takeover_s.expect("one leads");
        assert!(took(1) > 3.0 && took(1) < 10.0, "seed {seed}: {}", took(1));
        assert!(took(8) < 25.0, "seed {seed}: {}", took(8));
    }
}

#[test]
fn what_dead_nodes_leave_is_ended_and_nothing_waits_for_ever() {
    let load = Load {
        opens: 0.0,
        writes: 4.0,
        shared: 1.0,
        moves: 60.0,
        fail_every: Some(Time::from_secs(2)),
        away: Time::from_secs(4),
        ..Load::default()
    };
    let mut world = World::new(Setup { nodes: 12, load, ..Setup::default() });
    world.start();
    world.until(Time::from_secs(60));
    let dead: Vec<_> = world.files.writers().into_iter().filter(|node| world.is_over(*node)).collect();
    assert!(!dead.is_empty(), "some died while they wrote");
    // No more comes.
    let quiet = Load { writes: 0.0, moves: 0.0, fail_every: None, batches: 0.0, ..world.setup.load.clone() };
    world.setup.load = quiet;
    world.until(Time::from_secs(120));
    assert_eq!(world.files.under_way(), 0);
    let failed = world.counts.moves_failed;
    assert_eq!(failed, 0);
}
