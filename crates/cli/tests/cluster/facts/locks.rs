//! Locks between hosts, and what becomes of them when a server ends and comes back.

use super::{Later, rounds, show};
use crate::agent::{Agent, Call, race};
use crate::hosts::hosts;
use crate::real::until;
use crate::{ceph, gluster};
use rustix::io::Errno;

fn flock() -> Call {
    Call::Flock { of: "f".into() }
}

fn range(start: i64, exclusive: bool) -> Call {
    Call::LockRange { of: "f".into(), exclusive, start, len: 10 }
}

fn write(offset: u64, byte: u8) -> Call {
    Call::Write { of: "f".into(), offset: Some(offset), byte, len: 1 }
}

fn is_busy<T>(result: &Result<T, Errno>) -> bool {
    matches!(result, Err(errno) if *errno == Errno::AGAIN || *errno == Errno::ACCESS)
}

fn one_of_three(agents: &mut [Agent<'_>], call: Call, later: &mut Later, what: &str) -> usize {
    let calls: Vec<_> = (0..3).map(|n| (n, call.clone(), later.next())).collect();
    let answers = race(agents, &calls);
    let winners: Vec<usize> = (0..3).filter(|n| answers[*n].result.is_ok()).collect();
    let others = answers.iter().filter(|answer| is_busy(&answer.result)).count();
    assert_eq!((winners.len(), others), (1, 2), "{what}: {answers:?}");
    winners[0]
}

#[test]
fn of_three_that_lock_one_succeeds() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("locks"));
    let (mut later, mut took) = (Later(23), Vec::new());
    for round in 0..rounds() / 2 {
        agents.iter_mut().for_each(|agent| agent.open(&format!("{dir}/flock"), "f"));
        let winner = one_of_three(&mut agents, flock(), &mut later, &format!("flock, round {round}"));
        // The end of the open file gives the lock back.
        agents[winner].ok(Call::Close { of: "f".into() });
        agents[winner].open(&format!("{dir}/flock"), "f");
        let next = (winner + 1) % 3;
        let again = agents[next].call(flock());
        took.push(again.took);
        again.ok();
        // Another file: here the two kinds of lock know each other.
        agents.iter_mut().for_each(|agent| agent.open(&format!("{dir}/range"), "f"));
        let start = round as i64 * 10;
        let winner = one_of_three(&mut agents, range(start, true), &mut later, &format!("range, round {round}"));
        agents[(winner + 1) % 3].ok(range(start + 10, true));
        agents[winner].ok(range(start, false));
        agents[(winner + 2) % 3].ok(range(start, true));
    }
    show("flock", took);
}

/// A lock is granted by the brick that has the file; it need not outlive it.
#[test]
fn an_open_file_outlives_the_brick_that_has_it() {
    if ceph::is_wanted() {
        return eprintln!("skipped: bricks are GlusterFS's");
    }
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("locks-brick"));
    let path = format!("{dir}/file");
    agents.iter_mut().for_each(|agent| agent.open(&path, "f"));
    agents[0].ok(write(0, 1));
    agents[0].ok(flock());
    assert!(is_busy(&agents[2].call(flock()).result));
    let brick = gluster::brick_of(&hosts.server, "locks-brick/file");
    gluster::kill_brick(&hosts.server, brick);
    until("it is away", || agents[0].call(write(0, 1)).result.is_err());
    let away = agents[0].call(write(0, 1)).result;
    gluster::restart_bricks(&hosts.server);
    let back = |agent: &mut Agent<'_>| agent.call(Call::Size { path: path.clone() }).result.is_ok();
    until("it is back", || agents.iter_mut().all(back));
    let (holder, other) = (agents[0].call(write(1, 2)).result, agents[2].call(flock()).result);
    println!(
        "a brick killed and started: a write while it is away {away:?}, afterwards {holder:?}; the lock for another host {other:?}"
    );
    agents[1].open(&path, "g");
    let read = Call::Read { of: "g".into(), offset: 0, len: 10 };
    let wanted = if holder.is_ok() { serde_json::json!([[1, 1], [2, 1]]) } else { serde_json::json!([[1, 1]]) };
    assert_eq!(agents[1].ok(read), wanted);
}
