//! Logs of real centres: accepted and refused ones.

use super::*;

const LOG: &str = "\
; MaxProcs: 10
; a comment
1 100 0 50 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1
2 110 0 -1 4 -1 -1 4 60 -1 5 1 1 -1 1 -1 -1 -1
3 120 0 0 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1
4 115 0 70 -1 -1 2048 4 60 -1 1 1 1 -1 1 -1 -1 -1
5 130 0 70 20 -1 -1 20 90 1024 1 1 1 -1 1 -1 -1 -1
6 140 0 70 -1 -1 -1 -1 90 -1 1 1 1 -1 1 -1 -1 -1
7 150 0 10 2 -1 -1 2 -1 1024 5 1 1 -1 1 -1 -1 -1
";

fn rules(changes: &[(&str, &str)]) -> Rules {
    let mut rules = Rules::default();
    changes.iter().for_each(|(rule, what)| rules.set(rule, what).unwrap());
    rules
}

#[test]
fn every_line_is_kept_or_dropped_for_a_reason() {
    let log = parse(LOG, &Rules::default(), None).unwrap();
    let c = &log.census;
    assert_eq!((c.records, c.jobs, c.procs), (7, 3, 10));
    assert_eq!((c.cancelled, c.zero_run, c.no_processors, c.too_wide, c.no_estimate), (1, 1, 1, 1, 0));
    assert_eq!((c.out_of_order, c.overrun, c.no_estimate_mended, c.with_memory), (1, 1, 1, 2));
    let numbers: Vec<u64> = log.jobs.iter().map(|job| job.number).collect();
    assert_eq!(numbers, [1, 4, 7], "in order of submission");
    let four = log.jobs[1];
    assert_eq!((four.submit, four.run, four.estimate), (Time::from_secs(15), Time::from_secs(70), Time::from_secs(70)));
    assert_eq!((four.nodes, four.memory), (4, Some(2 << 20)));
    assert_eq!(log.jobs[2].estimate, Time::from_secs(10), "the true time stands in for a missing estimate");
    let area = 50.0 * 4.0 + 70.0 * 4.0 + 10.0 * 2.0;
    assert!((c.offered_load - area / (50.0 * 10.0)).abs() < 1e-12);
}

#[test]
fn each_rule_can_be_changed() {
    let jobs = |changes: &[(&str, &str)]| parse(LOG, &rules(changes), None).unwrap();
    assert_eq!(jobs(&[("cancelled", "drop")]).census.cancelled, 2);
    let kept = jobs(&[("cancelled", "keep"), ("zero-run", "1s")]);
    assert_eq!((kept.census.jobs, kept.census.zero_run_mended), (5, 2));
    let clamped = jobs(&[("too-wide", "clamp")]);
    assert_eq!((clamped.census.too_wide_mended, clamped.jobs[2].nodes), (1, 10));
    assert_eq!(jobs(&[("no-estimate", "drop")]).census.no_estimate, 1);
    assert_eq!(jobs(&[("overrun", "cut")]).jobs[1].run, Time::from_secs(60));
    let kept = jobs(&[("overrun", "keep")]).jobs[1];
    assert_eq!((kept.run, kept.estimate), (Time::from_secs(70), Time::from_secs(60)));
    assert!(matches!(parse(LOG, &rules(&[("order", "refuse")]), None), Err(LogError::OutOfOrder { line: 6 })));
    assert_eq!(parse(LOG, &Rules::default(), Some(20)).unwrap().census.too_wide, 0);
    assert!(Rules::default().set("overrun", "forget").is_err() && Rules::default().set("x", "drop").is_err());
}

#[test]
fn what_is_no_log_is_refused() {
    let broken = LOG.replace("4 115", "4 oops");
    assert!(matches!(parse(&broken, &Rules::default(), None), Err(LogError::Malformed { line: 6, .. })));
    assert_eq!(parse(&broken, &rules(&[("malformed", "skip")]), None).unwrap().census.malformed, 1);
    for text in ["", "; nothing\n", "1 2 3\n", "1 1 1 1e300 1 1 1 1 1 1 1\n", "1 0 0 -1 -1 0 0 -1 0 0 0\n"] {
        assert!(parse(text, &Rules::default(), None).is_err(), "{text}");
    }
}
