//! Extended attributes as claims: made once, and seen at once through files that are open already.

use super::{Later, rounds, show};
use crate::agent::{Agent, Call, race};
use crate::hosts::hosts;
use rustix::io::Errno;
use std::time::Duration;

fn set(name: &str, value: &str) -> Call {
    Call::SetAttribute { of: "f".into(), name: name.into(), value: value.into(), create: true }
}

fn get(name: &str) -> Call {
    Call::GetAttribute { of: "f".into(), name: name.into() }
}

fn list() -> Call {
    Call::ListAttributes { of: "f".into() }
}

fn remove(name: &str) -> Call {
    Call::RemoveAttribute { of: "f".into(), name: name.into() }
}

/// All open one file, before anything is done with it.
fn open(agents: &mut [Agent<'_>], dir: &str, name: &str) {
    agents.iter_mut().for_each(|agent| agent.open(&format!("{dir}/{name}"), "f"));
}

#[test]
fn of_three_that_create_an_attribute_one_succeeds() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("attribute-once"));
    let mut later = Later(1);
    for round in 0..rounds() {
        if round % 16 == 0 {
            open(&mut agents, &dir, &format!("file{round}"));
        }
        let name = format!("user.claim.{round}");
        let calls: Vec<_> = (0..3).map(|n| (n, set(&name, &n.to_string()), later.next())).collect();
        let answers = race(&mut agents, &calls);
        let winners: Vec<usize> = (0..3).filter(|n| answers[*n].result.is_ok()).collect();
        assert_eq!(winners.len(), 1, "round {round}: {answers:?}");
        let others = answers.iter().filter(|answer| answer.result == Err(Errno::EXIST)).count();
        assert_eq!(others, 2, "round {round}: {answers:?}");
        for agent in &mut agents {
            assert_eq!(agent.ok(get(&name)), winners[0].to_string(), "round {round}");
        }
    }
}

#[test]
fn an_attribute_is_seen_at_once_through_an_open_file() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("attribute-seen"));
    let mut took = [(); 4].map(|()| Vec::new());
    open(&mut agents, &dir, "file");
    for round in 0..rounds() as usize {
        let (name, maker) = (format!("user.writer.{}", round % 5), round % 3);
        let see = |agents: &mut [Agent<'_>], there: bool, took: &mut [Vec<Duration>; 4]| {
            for agent in agents {
                let listed = agent.call(list());
                let got = agent.call(get(&name));
                took[1].push(listed.took);
                took[2].push(got.took);
                let named = listed.ok().as_array().expect("names").iter().any(|listed| *listed == *name);
                assert_eq!(named, there, "round {round}: listed");
                let wanted = if there { Ok(round.to_string().into()) } else { Err(Errno::NODATA) };
                assert_eq!(got.result, wanted, "round {round}");
            }
        };
        see(&mut agents, false, &mut took);
        let made = agents[maker].call(set(&name, &round.to_string()));
        took[0].push(made.took);
        made.ok();
        see(&mut agents, true, &mut took);
        let removed = agents[(maker + 1) % 3].call(remove(&name));
        took[3].push(removed.took);
        removed.ok();
        see(&mut agents, false, &mut took);
    }
    for (what, took) in ["fsetxattr", "flistxattr", "fgetxattr", "fremovexattr"].into_iter().zip(took) {
        show(what, took);
    }
}

/// Each makes an attribute and then looks: it cannot be that neither sees the other's.
#[test]
fn of_two_that_make_an_attribute_and_look_one_sees_the_other() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("attribute-look"));
    let (mut later, mut both) = (Later(3), 0);
    open(&mut agents, &dir, "file");
    for round in 0..rounds() {
        let (a, b) = ((round % 3) as usize, ((round + 1) % 3) as usize);
        let (of_a, of_b) = ("user.writer", "user.change");
        let (now, then) = (later.next(), later.next());
        let calls = [(a, set(of_a, "a"), now), (b, set(of_b, "b"), then), (a, list(), now), (b, list(), then)];
        let mut answers = race(&mut agents, &calls).into_iter();
        let mut next = || answers.next().expect("an answer").ok();
        next();
        next();
        let sees = |listed: &serde_json::Value, name: &str| {
            listed.as_array().expect("names").iter().any(|listed| *listed == *name)
        };
        let (a_sees, b_sees) = (sees(&next(), of_b), sees(&next(), of_a));
        assert!(a_sees || b_sees, "round {round}");
        both += u64::from(a_sees && b_sees);
        agents[b].ok(remove(of_a));
        agents[a].ok(remove(of_b));
    }
    println!("both saw the other in {both} of {} rounds", rounds());
}
