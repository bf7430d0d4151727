//! The world on its own, and against figures derived from its loads.

use super::world::World;
use super::*;
use policy::cluster::lease::Config;

fn small(nodes: u32) -> Setup {
    let load = Load { fail_every: None, ..Load::default() };
    Setup { nodes, load, span: Time::from_secs(20), ..Setup::default() }
}

/// Every node lists the leases every second.
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
    assert!(is_near(figures.store_share, demand.store(100), 0.1), "{figures:?} and {}", demand.store(100));
    assert!(is_near(figures.leader_share, demand.leader(100), 0.1), "{figures:?}");
    assert!(is_near(figures.renewals, 100.0 / 1.6, 0.05), "{figures:?}");
    assert!(figures.order_s > 0.0 && figures.order_s < 0.01, "{figures:?}");
    assert_eq!((figures.lapses, figures.expelled, figures.refused, figures.takeover_s), (0, 0, 0, None));
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
fn what_dead_nodes_leave_is_settled_and_nothing_waits_for_ever() {
    let load = Load {
        opens: 1.0,
        writes: 4.0,
        shared: 1.0,
        moves: 60.0,
        fail_every: Some(Time::from_secs(20)),
        away: Time::from_secs(4),
        ..Load::default()
    };
    let mut world = World::new(Setup { nodes: 12, load, ..Setup::default() });
    world.start();
    world.until(Time::from_secs(60));
    assert!((1..=12).any(|number| world.is_over(policy::cluster::Node(number))), "some died");
    assert!(world.counts.recalls > 100 && world.counts.change.count() > 100);
    // No new load arrives.
    let quiet =
        Load { opens: 0.0, writes: 0.0, moves: 0.0, fail_every: None, batches: 0.0, ..world.setup.load.clone() };
    world.setup.load = quiet;
    world.until(Time::from_secs(200));
    assert_eq!((world.files.under_way(), world.counts.refused, world.counts.moves_failed), (0, 0, 0));
    assert!(world.counts.settlements > 0, "files of nodes that are over were opened");
}

#[test]
fn a_hold_of_its_own_file_takes_two_requests_and_shared_files_cost_more_with_each_holder() {
    let at = |shared, nodes| {
        let load = Load { shared, moves: 0.0, batches: 0.0, ..small(1).load };
        run(&Setup { gone: 0, load, ..small(nodes) })
    };
    let (own, few, many) = (at(0.0, 20), at(1.0, 20), at(1.0, 80));
    assert!(own.recalls == 0.0 && own.requests < 2.1 && own.cached == 1.0, "{own:?}");
    assert!(few.cached < 0.5, "{few:?}");
    assert!(many.store_share > 6.0 * few.store_share, "{few:?} and {many:?}");
}

#[test]
fn a_node_without_a_session_makes_no_other_list_its_lease() {
    // A lease of a large cluster is longer than a session.
    let lease = Config { lease: Time::from_secs(15), renew_every: Time::from_millis(4800), ..Config::default() };
    let names = |fail_every| {
        let load = Load { fail_every, ..small(1).load };
        run(&Setup { gone: 0, lease: lease.clone(), load, warm_up: Time::from_secs(10), ..small(60) }).names
    };
    let (some, none) = (names(Some(Time::from_secs(10))), names(None));
    assert!(is_near(some, none, 0.1), "{some} and {none}");
}

/// A cluster without operations on files.
fn idle(nodes: u32) -> Setup {
    let load = Load { opens: 0.0, writes: 0.0, moves: 0.0, batches: 0.0, ..small(1).load };
    Setup { nodes, gone: 0, load, warm_up: Time::from_secs(10), ..small(1) }
}

#[test]
fn of_many_nodes_each_renews_more_rarely_and_as_the_demand_says() {
    let setup = Setup { costs: Costs { servers: 8, ..Costs::default() }, ..idle(500) };
    let (grown, plain) = (run(&setup), run(&Setup { plain: true, ..setup.clone() }));
    assert!(is_near(plain.renewals, 500.0 / 1.6, 0.05), "{plain:?}");
    assert!(grown.renewals < 0.8 * plain.renewals, "{grown:?}");
    assert!(is_near(grown.namespace_share, Demand(&setup).leases(500) / 8.0, 0.1), "{grown:?}");
    assert_eq!((grown.lapses, grown.expelled), (0, 0));
}

#[test]
fn nodes_that_were_there_before_cost_no_listing_once_their_names_are_folded() {
    let names = |past, plain| run(&Setup { past, plain, ..idle(20) }).names;
    assert!(is_near(names(2000, true) / names(0, true), 4041.0 / 41.0, 0.01));
    assert!(is_near(names(2000, false) / names(0, false), 43.0 / 41.0, 0.01));
}

#[test]
fn names_are_folded_while_nodes_come_and_go_and_the_next_leads_once_that_ends() {
    let load = Load { fail_every: Some(Time::from_millis(500)), away: Time::from_secs(2), ..idle(1).load };
    let mut world = World::new(Setup { load, gone: 1, ..idle(30) });
    world.start();
    world.until(Time::from_secs(120));
    let over = (1..200).map(policy::cluster::Node).filter(|node| world.is_over(*node)).count();
    assert!(over > 150, "{over} are over");
    let (names, most) = (world.names(), 2 * (30 + 64 + 15) + 3);
    assert!(names < most, "{names} names of {over} and 30");
    assert!(world.leads().is_some());
    // Half of the nodes come and go within a lease: the successor is visible once that ends.
    world.setup.load.fail_every = None;
    assert!(world.takeover().is_some());
}

#[test]
fn an_order_is_followed_at_once_and_with_all_reading_all_targets_it_takes_long() {
    let order = |plain| run(&Setup { plain, ..idle(300) }).order_s;
    assert!(order(false) < 0.1 && order(true) > 10.0, "{} and {}", order(false), order(true));
}
