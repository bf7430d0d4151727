//! Selection of files by rules, by age and by space, and files that must stay.

use super::*;
use proptest::prelude::*;

fn file(id: u64, bytes: u64, used: u64) -> Candidate {
    let (path, used) = (format!("tmp/{id}"), Time::from_secs(used));
    let (uid, gid, size, written) = (7, 8, bytes, used);
    Candidate { id, path, uid, gid, size, bytes, used, written, only_here: false, needed: false, open: false }
}

fn run(config: Config, used: u64, files: &[Candidate], now: u64) -> (Vec<u64>, Stats) {
    let mut purge = Purge::new(config);
    let now = Time::from_secs(now);
    purge.handle(now, Event::Begin { used, total: 1000 });
    files.iter().for_each(|f| purge.handle(now, Event::Seen(f.clone())));
    assert_eq!(purge.poll(), None, "not before all are seen");
    purge.handle(now, Event::Scanned);
    let mut gone = Vec::new();
    while let Some(remove) = purge.poll() {
        assert_eq!(purge.poll(), None, "one at a time");
        gone.push(remove.id);
        purge.handle(now, Event::Removed { id: remove.id });
    }
    (gone, purge.stats())
}

fn by(age: Option<u64>, high_percent: u32, low_percent: u32) -> Config {
    Config { age: age.map(Time::from_secs), high_percent, low_percent, keep: Vec::new(), rules: Vec::new() }
}

#[test]
fn by_age_those_unused_for_long_enough() {
    let files = [file(1, 10, 50), file(2, 10, 10), file(3, 10, 90)];
    assert_eq!(run(by(Some(50), 100, 80), 999, &files, 100).0, [2, 1]);
    assert!(run(by(None, 100, 80), 1000, &files, 100).0.is_empty(), "100 percent is never");
}

#[test]
fn for_space_the_longest_unused_until_the_low_mark() {
    let files = [file(1, 100, 3), file(2, 100, 1), file(3, 100, 2), file(4, 100, 4)];
    assert_eq!(run(by(None, 90, 75), 900, &files, 100).0, [2, 3]);
    assert!(run(by(None, 90, 75), 899, &files, 100).0.is_empty(), "below the high mark");
}

#[test]
fn what_is_needed_unsafe_or_open_stays() {
    let files = [
        Candidate { needed: true, ..file(1, 100, 1) },
        Candidate { only_here: true, ..file(2, 100, 1) },
        Candidate { open: true, ..file(3, 100, 1) },
        file(4, 100, 1),
    ];
    let (gone, stats) = run(by(Some(1), 10, 0), 1000, &files, 100);
    assert_eq!(gone, [4]);
    assert_eq!((stats.needed, stats.unsafe_, stats.open, stats.removed_bytes), (1, 1, 1, 100));
}

#[test]
fn files_that_neither_age_nor_space_can_take_are_not_kept_in_memory() {
    let may_go = |config: Config, used: u64| {
        let (mut purge, now) = (Purge::new(config), Time::from_secs(100));
        purge.handle(now, Event::Begin { used, total: 1000 });
        for seen in [file(1, 100, 10), file(2, 100, 90)] {
            purge.handle(now, Event::Seen(seen));
        }
        purge.may_go()
    };
    assert_eq!(may_go(by(None, 100, 80), 1000), 0);
    assert_eq!(may_go(by(Some(50), 100, 80), 1000), 1, "the other is not old enough");
    assert_eq!((may_go(by(None, 90, 75), 899), may_go(by(None, 90, 75), 900)), (0, 2));
}

fn rule(path: &str) -> Rule {
    Rule {
        path: path.parse().unwrap(),
        keep: Vec::new(),
        older: None,
        unwritten: None,
        larger: None,
        users: None,
        groups: None,
        even_if_only_here: false,
    }
}

fn ruled(rules: Vec<Rule>) -> Config {
    Config { rules, ..by(None, 100, 80) }
}

#[test]
fn a_rule_takes_what_all_it_says_holds_for() {
    let files = [
        file(1, 100, 50),
        Candidate { path: "run/x".into(), ..file(2, 100, 50) },
        file(3, 100, 60),
        Candidate { uid: 9, ..file(4, 100, 50) },
        Candidate { gid: 9, ..file(5, 100, 50) },
        file(6, 99, 50),
        Candidate { written: Time::from_secs(40), ..file(7, 100, 50) },
        Candidate { path: "tmp/keep/me".into(), ..file(8, 100, 50) },
    ];
    let all = Rule {
        keep: vec!["*/keep".parse().unwrap()],
        older: Some(Time::from_secs(50)),
        larger: Some(99),
        users: Some(vec![1, 7]),
        groups: Some(vec![8]),
        ..rule("tmp/**")
    };
    assert_eq!(run(ruled(vec![all.clone()]), 999, &files, 100).0, [1, 7]);
    let unwritten = Rule { unwritten: Some(Time::from_secs(60)), ..all };
    assert_eq!(run(ruled(vec![unwritten]), 999, &files, 100).0, [7]);
}

#[test]
fn only_a_rule_that_says_so_takes_what_is_nowhere_else_and_none_what_is_kept() {
    let only_here = |id| Candidate { only_here: true, ..file(id, 100, 1) };
    let files = [
        only_here(1),
        Candidate { needed: true, ..only_here(2) },
        Candidate { open: true, ..only_here(3) },
        Candidate { path: "tmp/keep/me".into(), ..only_here(4) },
    ];
    let (gone, stats) = run(ruled(vec![rule("tmp/**")]), 999, &files, 100);
    assert_eq!((gone, stats.unsafe_, stats.needed), (vec![], 3, 1));
    let config = ruled(vec![rule("tmp/**"), Rule { even_if_only_here: true, ..rule("**") }]);
    let config = Config { keep: vec!["tmp/keep".parse().unwrap()], ..config };
    let (gone, stats) = run(config.clone(), 999, &files, 100);
    assert_eq!((gone, stats.needed, stats.open, stats.excepted), (vec![1], 1, 1, 1));
    let mut purge = Purge::new(config);
    purge.handle(Time::ZERO, Event::Begin { used: 0, total: 1 });
    purge.handle(Time::ZERO, Event::Seen(only_here(1)));
    purge.handle(Time::ZERO, Event::Scanned);
    let reason = Reason::Rule { rule: 1, unused: Time::ZERO };
    assert_eq!(purge.poll(), Some(Remove { id: 1, reason }), "the rule that may");
}

#[test]
fn what_rules_freed_is_not_freed_again_for_space() {
    let files = [file(1, 100, 3), Candidate { path: "run/x".into(), ..file(2, 100, 1) }];
    let config = Config { rules: vec![rule("tmp/**")], ..by(None, 90, 75) };
    assert_eq!(run(config.clone(), 900, &files, 100).0, [1], "the rest is below the high mark now");
    assert_eq!(run(config, 1000, &files, 100).0, [1, 2]);
    let in_its_stub = Candidate { bytes: 0, ..file(3, 10, 0) };
    assert_eq!(run(by(None, 90, 75), 900, &[in_its_stub, file(1, 150, 3)], 100).0, [1], "frees nothing there");
}

#[test]
fn what_the_driver_left_frees_nothing() {
    let mut purge = Purge::new(by(None, 90, 75));
    purge.handle(Time::ZERO, Event::Begin { used: 900, total: 1000 });
    for id in 1..=3 {
        purge.handle(Time::ZERO, Event::Seen(file(id, 150, id)));
    }
    purge.handle(Time::ZERO, Event::Scanned);
    assert_eq!(purge.poll(), Some(Remove { id: 1, reason: Reason::Space(90) }));
    purge.handle(Time::ZERO, Event::Left { id: 1 });
    assert_eq!(purge.poll(), Some(Remove { id: 2, reason: Reason::Space(90) }));
    purge.handle(Time::ZERO, Event::Removed { id: 2 });
    assert_eq!(purge.poll(), None);
}

proptest! {
    #[test]
    fn never_what_must_stay_and_no_more_than_is_needed(
        files in prop::collection::vec((0u64..200, 0u64..100, any::<bool>(), any::<bool>(), any::<bool>()), 0..40),
        (used, age, high, low) in (0u64..1000, prop::option::of(0u64..100), 1u32..=100, 0u32..=100),
    ) {
        let files: Vec<Candidate> = files.into_iter().enumerate().map(|(id, (bytes, at, only_here, needed, open))| {
            Candidate { only_here, needed, open, ..file(id as u64, bytes, at) }
        }).collect();
        let (gone, stats) = run(by(age, high, low), used, &files, 100);
        for id in &gone {
            let f = &files[*id as usize];
            prop_assert!(!f.needed && !f.open && !f.only_here);
        }
        if age.is_none() && (high == 100 || used * 100 / 1000 < u64::from(high)) {
            prop_assert!(gone.is_empty());
        }
        // Without the last removal, the low mark would not have been reached.
        if let (None, Some(last)) = (age, gone.last()) {
            let before = used.saturating_sub(stats.removed_bytes - files[*last as usize].bytes);
            prop_assert!(before * 100 / 1000 > u64::from(low.min(high)));
        }
    }
}
