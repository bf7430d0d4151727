//! Attributes that are listed while others of the file go: a list may lack names that are there all the time.

use super::rounds;
use crate::agent::{Call, race};
use crate::hosts::hosts;
use rustix::io::Errno;
use std::time::Duration;

/// Lists that each of two hosts asks for while the third removes two names.
const LISTS: usize = 6;

/// A list counts once it came twice in a row: each incomplete list cost another name its life.
#[test]
fn lists_that_come_twice_in_a_row_beside_removals_lack_nothing() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("attribute-listed"));
    agents.iter_mut().for_each(|agent| agent.open(&format!("{dir}/file"), "f"));
    let set = |name: &str| Call::SetAttribute { of: "f".into(), name: name.into(), value: "1".into(), create: true };
    let remove = |name: &str| Call::RemoveAttribute { of: "f".into(), name: name.into() };
    let list = || Call::ListAttributes { of: "f".into() };
    let stay = ["user.change.2", "user.layout.1", "user.writer.1.1"];
    stay.iter().for_each(|name| drop(agents[0].ok(set(name))));
    let (mut whole, mut lacking, mut errors) = (0, 0, 0);
    for round in 0..rounds() {
        let go = [format!("user.grows.{round}"), format!("user.writer.2.{round}")];
        go.iter().for_each(|name| drop(agents[1].ok(set(name))));
        let now = Duration::ZERO;
        let mut calls: Vec<_> = go.iter().map(|name| (1, remove(name), now)).collect();
        for host in [0, 2] {
            calls.extend((0..LISTS).map(|_| (host, list(), now)));
        }
        let mut answers = race(&mut agents, &calls).into_iter().skip(go.len());
        for host in [0, 2] {
            let mut last = None;
            for _ in 0..LISTS {
                let names = match answers.next().expect("an answer").result {
                    Ok(names) => names,
                    Err(Errno::NODATA) => {
                        errors += 1;
                        continue;
                    }
                    Err(error) => panic!("round {round}, host {host}: {error}"),
                };
                let has = |name: &&str| names.as_array().expect("names").iter().any(|listed| *listed == **name);
                let is_whole = stay.iter().all(has);
                assert!(is_whole || last.as_ref() != Some(&names), "round {round}, host {host}: twice {names}");
                whole += usize::from(is_whole);
                lacking += usize::from(!is_whole);
                last = Some(names);
            }
        }
    }
    println!("lists beside removals: {whole} whole, {lacking} without a name that was there, {errors} times NODATA");
}
