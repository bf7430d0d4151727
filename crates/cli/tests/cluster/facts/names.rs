//! Names as leases: of several that rename or make one, one succeeds, and all see it at once.

use super::{Later, rounds, show};
use crate::agent::{Agent, Answer, Call, race};
use crate::hosts::hosts;
use rustix::fs::OFlags;
use rustix::io::Errno;

fn rename(dir: &str, from: &str, to: &str) -> Call {
    Call::Rename { from: format!("{dir}/{from}"), to: format!("{dir}/{to}") }
}

fn make(dir: &str, name: &str) -> Call {
    Call::Open { path: format!("{dir}/{name}"), flags: (OFlags::CREATE | OFlags::EXCL).bits(), of: "made".into() }
}

/// A node renews its lease and two others expel it, all by renaming the same file, each to a name of its own. Two
/// renames to one name can both report success.
#[test]
fn of_a_renewal_and_two_expulsions_one_succeeds() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("lease"));
    let (mut later, mut took, mut renewed) = (Later(5), Vec::new(), 0);
    for round in 0..rounds() {
        let node = (round % 3) as usize;
        let (old, new) = (format!("{round}.7"), format!("{round}.8"));
        agents[node].ok(make(&dir, &old));
        let to = |n: usize| if n == node { new.clone() } else { format!("{old}.gone.{n}") };
        let calls: Vec<_> = (0..3).map(|n| (n, rename(&dir, &old, &to(n)), later.next())).collect();
        let answers = race(&mut agents, &calls);
        let winners: Vec<usize> = (0..3).filter(|n| answers[*n].result.is_ok()).collect();
        let others = answers.iter().filter(|answer| answer.result == Err(Errno::NOENT)).count();
        assert_eq!((winners.len(), others), (1, 2), "round {round}: {answers:?}");
        renewed += usize::from(winners[0] == node);
        took.extend(answers.iter().map(|answer| answer.took));
        for agent in &mut agents {
            assert_eq!(agent.names(&dir), [to(winners[0])], "round {round}");
        }
        agents[0].ok(Call::Unlink { path: format!("{dir}/{}", to(winners[0])) });
    }
    println!("renewed in {renewed} of {} rounds, else expelled", rounds());
    show("rename in a race", took);
}

/// Both expulsions rename to the same name: the file is renamed once, and never do both the renewal and an expulsion
/// succeed.
#[test]
fn a_renewal_and_expulsions_to_one_name_never_both_succeed() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("lease-one-name"));
    let (mut later, mut both) = (Later(29), 0);
    for round in 0..rounds() {
        let node = (round % 3) as usize;
        let (old, new, gone) = (format!("{round}.7"), format!("{round}.8"), format!("{round}.gone"));
        agents[node].ok(make(&dir, &old));
        let to = |n: usize| if n == node { &new } else { &gone };
        let calls: Vec<_> = (0..3).map(|n| (n, rename(&dir, &old, to(n)), later.next())).collect();
        let answers = race(&mut agents, &calls);
        let expelled = (0..3).filter(|n| *n != node && answers[*n].result.is_ok()).count();
        assert_eq!(answers[node].result.is_ok(), expelled == 0, "round {round}: {answers:?}");
        both += usize::from(expelled == 2);
        let left = if expelled == 0 { &new } else { &gone };
        for agent in &mut agents {
            assert_eq!(agent.names(&dir), std::slice::from_ref(left), "round {round}");
        }
        agents[0].ok(Call::Unlink { path: format!("{dir}/{left}") });
    }
    println!("both that expelled were told that they did in {both} of {} rounds", rounds());
}

/// A chain of renewals, each from what the last one made, with a watcher that lists all the while.
#[test]
fn a_file_that_is_renamed_on_and_on_is_listed_once() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("renewed"));
    let (mut later, mut twice, mut none) = (Later(7), 0, 0);
    agents[0].ok(make(&dir, "1.0"));
    for beat in 0..rounds() {
        let (old, new) = (format!("1.{beat}"), format!("1.{}", beat + 1));
        let look = Call::List { path: dir.clone() };
        let calls =
            [(0, rename(&dir, &old, &new), later.next()), (1, look.clone(), later.next()), (2, look, later.next())];
        let mut answers = race(&mut agents, &calls).into_iter().map(|answer| answer.ok());
        answers.next();
        for seen in answers {
            let seen: Vec<String> = serde_json::from_value(seen).expect("names");
            assert!(seen.iter().all(|name| *name == old || *name == new), "beat {beat}: {seen:?}");
            (twice, none) = (twice + usize::from(seen.len() > 1), none + usize::from(seen.is_empty()));
        }
        for agent in &mut agents {
            assert_eq!(agent.names(&dir), std::slice::from_ref(&new), "beat {beat}");
        }
    }
    println!("a listing during a rename: both names in {twice}, none in {none} of {} ", 2 * rounds());
}

#[test]
fn of_three_that_create_or_link_a_name_one_succeeds() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("name-once"));
    let (mut later, mut took) = (Later(11), Vec::new());
    (0..3).for_each(|n| drop(agents[n].ok(make(&dir, &format!("own{n}")))));
    for round in 0..rounds() {
        let name = format!("epoch{round}");
        let one = |n: usize| match round % 2 {
            0 => make(&dir, &name),
            _ => Call::Link { from: format!("{dir}/own{n}"), to: format!("{dir}/{name}") },
        };
        let calls: Vec<_> = (0..3).map(|n| (n, one(n), later.next())).collect();
        let answers = race(&mut agents, &calls);
        let winners = answers.iter().filter(|answer| answer.result.is_ok()).count();
        // GlusterFS once returned ESTALE to a host that lost a race of links, at high load.
        let lost = |answer: &&Answer| matches!(answer.result, Err(Errno::EXIST | Errno::STALE));
        let others = answers.iter().filter(lost).count();
        assert_eq!((winners, others), (1, 2), "round {round}: {answers:?}");
        took.extend(answers.iter().map(|answer| answer.took));
    }
    show("create or link in a race", took);
}

#[test]
fn names_that_come_and_go_are_seen_at_once() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("name-seen"));
    let path = |name: &str| format!("{dir}/{name}");
    let there = |agents: &mut [Agent<'_>], names: &[&str], gone: &[&str]| {
        for agent in agents {
            assert_eq!(agent.names(&dir), names);
            names.iter().for_each(|name| drop(agent.ok(Call::Size { path: path(name) })));
            for name in gone {
                assert_eq!(agent.call(Call::Size { path: path(name) }).result, Err(Errno::NOENT));
            }
        }
    };
    for round in 0..rounds() as usize / 4 {
        let actor = |step: usize| (round + step) % 3;
        there(&mut agents, &[], &["a", "b", "c"]);
        agents[actor(0)].ok(make(&dir, "a"));
        there(&mut agents, &["a"], &["b", "c"]);
        agents[actor(1)].ok(Call::Link { from: path("a"), to: path("b") });
        there(&mut agents, &["a", "b"], &["c"]);
        agents[actor(2)].ok(rename(&dir, "b", "c"));
        there(&mut agents, &["a", "c"], &["b"]);
        agents[actor(0)].ok(Call::Unlink { path: path("c") });
        agents[actor(1)].ok(Call::Unlink { path: path("a") });
    }
}
