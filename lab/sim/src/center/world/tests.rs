//! Tests of the world: on examples computed by hand, and on drawn logs with all features on.

use super::*;
use crate::center::log::Census;
use crate::center::records::Records;
use crate::center::setup::FailureModel;
use proptest::prelude::*;

/// (submit, nodes, estimate, run) in seconds.
fn log(procs: u32, jobs: &[(u64, u32, u64, u64)]) -> Log {
    let job = |(n, (submit, nodes, estimate, run)): (usize, &(u64, u32, u64, u64))| Job {
        number: n as u64,
        submit: Time::from_secs(*submit),
        run: Time::from_secs(*run),
        estimate: Time::from_secs(*estimate),
        nodes: *nodes,
        memory: None,
    };
    Log { jobs: jobs.iter().enumerate().map(job).collect(), procs, census: Census::default() }
}

/// Outages of I/O nodes: (node, from, to) in seconds. The seed 1 takes them from their beginning.
fn outages(list: &[(u32, u64, u64)]) -> Failures {
    let mut records = Records { nodes: 2, span: Time::from_secs(1_000_000), ..Records::default() };
    for (node, from, to) in list {
        records.outages.entry(*node).or_default().push((Time::from_secs(*from), Time::from_secs(*to)));
    }
    Failures::new(records)
}

/// Two I/O nodes, inputs on both.
fn setup(recovery: Recovery) -> Setup {
    Setup { io_nodes: 2, stripes: 2, recovery, ..Setup::default() }
}

fn waits(setup: &Setup, log: &Log, failures: &Failures) -> (Report, Vec<f64>) {
    let (report, jobs) = simulate(setup, log, Some(failures), true).unwrap();
    (report, jobs.iter().map(|job| job.wait_s).collect())
}

#[test]
fn the_reference_s_example() {
    let log = log(10, &[(0, 6, 10, 10), (1, 8, 5, 5), (2, 4, 8, 8), (3, 2, 20, 20), (4, 4, 7, 7)]);
    let (report, waits) = waits(&setup(Recovery::Ideal), &log, &outages(&[(0, 1, 2)]));
    assert_eq!(waits, [0.0, 9.0, 0.0, 7.0, 11.0]);
    assert_eq!((report.failures, report.affected.jobs, report.promises.broken), (0, 0, 0));
    assert_eq!(report.makespan_s, 30.0);
    let area = 60.0 + 40.0 + 32.0 + 40.0 + 28.0;
    assert!((report.utilisation_percent - 100.0 * area / 300.0).abs() < 1e-9);
    assert_eq!(report.held_percent, report.utilisation_percent);
}

#[test]
fn without_recovery_a_run_starts_anew_at_the_tail() {
    let log = log(4, &[(0, 4, 1000, 1000), (10, 4, 1000, 1000)]);
    let failures = outages(&[(0, 400, 700)]);
    // The first is interrupted at 400. The second, staged before that, fails 60 s after its dispatch, and so on until
    // 700.
    let (report, w) = waits(&setup(Recovery::None), &log, &failures);
    assert_eq!(report.failures, 1);
    // At 400 job 2 starts and fails at 460, job 1 at 520, job 2 at 580, job 1 at 640, job 2 at 700: the node is back
    // then.
    assert_eq!(report.requeued, 6);
    assert_eq!(w, [700.0, 1690.0]);
    assert_eq!(report.affected.jobs, 2);
    assert!(report.held_percent > report.utilisation_percent);
    let (ideal, w) = waits(&setup(Recovery::Ideal), &log, &failures);
    assert_eq!((w, ideal.requeued), (vec![0.0, 990.0], 0));
}

#[test]
fn on_the_fly_costs_an_overhead() {
    let log = log(4, &[(0, 4, 1001, 1000), (10, 4, 1000, 1000)]);
    let (report, w) = waits(&setup(Recovery::OnTheFly), &log, &outages(&[(0, 400, 1500)]));
    assert_eq!((w, report.requeued), (vec![0.0, 991.0], 0));
    assert_eq!((report.affected.jobs, report.makespan_s, report.promises.broken), (2, 2002.0, 0));
}

#[test]
fn offline_brings_back_what_waits_and_restarts_what_runs() {
    let log = log(4, &[(0, 4, 1000, 1000), (10, 4, 1000, 1000)]);
    let slow = Setup { source_rate: 1_000_000, ..setup(Recovery::Offline) };
    // Inputs of 800 MB on two nodes: the lost part takes 400 s; checks at 600 + 25 s.
    let (report, w) = waits(&slow, &log, &outages(&[(0, 400, 5000)]));
    // Job 2 is dispatched at 400 and restores its input itself (25 + 400 s); job 1 is restored while it waits.
    assert_eq!(w, [1825.0, 815.0]);
    assert_eq!((report.requeued, report.patched), (1, 1));
}

#[test]
fn a_replica_takes_over() {
    let six = Setup { io_nodes: 6, replication: Replication::All, ..setup(Recovery::None) };
    let log = log(4, &[(0, 4, 10, 10), (0, 4, 1001, 1000)]);
    let mut failures = outages(&[]);
    failures.records.nodes = 6;
    for node in 0..6u64 {
        let at = Time::from_secs(100 + node * 150);
        failures.records.outages.insert(node as u32, vec![(at, at + Time::from_secs(50))]);
    }
    let (report, w) = waits(&six, &log, &failures);
    assert_eq!((w[1], report.requeued), (10.0, 0));
    assert!(report.failovers >= 2, "{report:?}");
    assert_eq!(report.at_risk_percent, 50.0, "the first was dispatched at once");
    let (report, _) = waits(&Setup { replication: Replication::None, ..six }, &log, &failures);
    assert!(report.requeued > 0);
}

#[test]
fn jobs_at_risk_are_ordered_as_published_in_a_small_queue() {
    // A long job holds the machine; small ones are backfilled out of their turn behind a wide head.
    let mut jobs = vec![(0, 90, 10_000, 10_000), (1, 100, 5_000, 5_000)];
    jobs.extend((0..20).map(|n| (100 + n * 400, 10, 300, 300)));
    let log = log(100, &jobs);
    let risk = |replication, threshold: u64| {
        let threshold = policy::protect::replica::Share::millionths(threshold);
        let setup = Setup { replication, threshold, copy_rate: 1_000_000_000, ..setup(Recovery::Ideal) };
        let alpha = policy::protect::replica::Share::millionths(0);
        waits(&Setup { alpha, ..setup }, &log, &outages(&[])).0.at_risk_percent
    };
    let (fcfs, small) = (risk(Replication::Fcfs, 0), risk(Replication::Shortcut, 10_000));
    let (large, aware) = (risk(Replication::Shortcut, 100_000), risk(Replication::DispatchAware, 0));
    assert!(fcfs >= small && small >= large && aware <= fcfs, "{fcfs} {small} {large} {aware}");
}

#[test]
fn the_load_can_be_changed() {
    let log = log(10, &[(0, 5, 100, 100), (1000, 5, 100, 100)]);
    assert_eq!(scaled(&log, Load::Factor(2.0))[1].submit, Time::from_secs(500));
    assert_eq!(scaled(&log, Load::Offered(0.5))[1].submit, Time::from_secs(200));
}

#[test]
fn more_stripes_than_nodes_are_refused() {
    let wide = Setup { stripes: 3, ..setup(Recovery::None) };
    assert!(simulate(&wide, &log(1, &[(0, 1, 1, 1)]), None, false).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// All features on: all jobs end, no promise is broken, all machines keep their invariants, and a repeated run is
    /// identical.
    #[test]
    fn whatever_fails_all_jobs_end_and_promises_hold(
        jobs in prop::collection::vec((0u64..5000, 1u32..=16, 1u64..900, 1u64..900), 1..60),
        list in prop::collection::vec((0u32..8, 0u64..8000, 1u64..900), 0..20),
        recovery in prop::sample::select(vec![Recovery::None, Recovery::Offline, Recovery::OnTheFly, Recovery::Ideal]),
        replication in prop::sample::select(vec![
            Replication::None, Replication::Fcfs, Replication::Shortcut, Replication::All, Replication::DispatchAware,
        ]),
        (stripes, reads_for) in (1u32..=8, prop::sample::select(vec![1.0, 0.3])),
    ) {
        let mut jobs: Vec<_> = jobs.into_iter().map(|(s, n, e, r)| (s, n, e.max(r), r)).collect();
        jobs.sort_unstable();
        let mut failures = outages(&[]);
        failures.records.nodes = 8;
        for (node, from, long) in list {
            let list = failures.records.outages.entry(node).or_default();
            list.push((Time::from_secs(from), Time::from_secs(from + long)));
            list.sort_unstable();
        }
        let setup = Setup {
            io_nodes: 8, stripes, recovery, replication, reads_for, copy_rate: 10_000_000,
            failure_model: FailureModel::Records, ..Setup::default()
        };
        let log = log(16, &jobs);
        let (report, outcome) = simulate(&setup, &log, Some(&failures), true).unwrap();
        prop_assert_eq!(report.all.jobs as usize, jobs.len());
        prop_assert_eq!(report.promises.broken, 0);
        prop_assert!(report.held_percent <= 100.0 + 1e-9 && report.held_percent >= report.utilisation_percent - 1e-9);
        prop_assert!(recovery != Recovery::Ideal || report.affected.jobs == 0);
        prop_assert!(report.requeued == 0 || !matches!(recovery, Recovery::OnTheFly | Recovery::Ideal));
        prop_assert_eq!((report, outcome), simulate(&setup, &log, Some(&failures), false).unwrap());
    }
}
