//! Bytes of one file from several hosts: each lies where it was written, sizes only grow, a removed file's bytes reach
//! no other file.

use super::{Later, rounds, show};
use crate::agent::{Agent, Call, race};
use crate::ceph;
use crate::hosts::hosts;
use crate::real::until_within;
use rustix::fs::OFlags;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A record of IO500's hard test.
const RECORD: usize = 47_008;

fn write(offset: u64, byte: u8, len: usize) -> Call {
    Call::Write { of: "f".into(), offset: Some(offset), byte, len }
}

fn read(offset: u64, len: usize) -> Call {
    Call::Read { of: "f".into(), offset, len }
}

fn size() -> Call {
    Call::SizeOf { of: "f".into() }
}

#[test]
fn records_of_three_hosts_lie_side_by_side() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("records"));
    let path = format!("{dir}/file");
    agents.iter_mut().for_each(|agent| agent.open(&path, "f"));
    let (mut later, mut took) = (Later(13), Vec::new());
    for round in 0..rounds() {
        let place = |n: usize| (round * 3 + n as u64) * RECORD as u64;
        let value = |n: usize| 1 + ((round as usize * 3 + n) % 250) as u8;
        let calls: Vec<_> = (0..3).map(|n| (n, write(place(n), value(n), RECORD), later.next())).collect();
        for answer in race(&mut agents, &calls) {
            took.push(answer.took);
            assert_eq!(answer.ok(), RECORD);
        }
        let wanted = json!([[value(0), RECORD], [value(1), RECORD], [value(2), RECORD]]);
        for agent in &mut agents {
            assert_eq!(agent.ok(read(place(0), 4 * RECORD)), wanted, "round {round}, through the open file");
            assert_eq!(agent.ok(size()), place(3), "round {round}, through the open file");
        }
    }
    let all = rounds() as usize * 3;
    let wanted: Vec<(u8, usize)> = (0..all).map(|k| (1 + (k % 250) as u8, RECORD)).collect();
    for agent in &mut agents {
        agent.ok(Call::Close { of: "f".into() });
        assert_eq!(agent.ok(Call::Size { path: path.clone() }), all * RECORD);
        agent.open(&path, "f");
        assert_eq!(agent.ok(read(0, all * RECORD)), json!(wanted), "after all is closed");
    }
    show("pwrite of 47,008 bytes", took);
}

/// A read after another host's write returns the new bytes, whether the file was open or not.
#[test]
fn bytes_that_are_written_again_are_seen_at_once() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("again"));
    for (name, len) in [("small", 500), ("larger", 3 * RECORD)] {
        let path = format!("{dir}/{name}");
        agents.iter_mut().for_each(|agent| agent.open(&path, "f"));
        for round in 0..rounds() as usize / 2 {
            let value = 1 + (round % 250) as u8;
            assert_eq!(agents[round % 3].ok(write(0, value, len)), len);
            for agent in &mut agents {
                assert_eq!(agent.ok(read(0, 2 * len)), json!([[value, len]]), "{name}, round {round}");
                agent.open(&path, "anew");
                let anew = Call::Read { of: "anew".into(), offset: 0, len: 2 * len };
                assert_eq!(agent.ok(anew), json!([[value, len]]), "{name}, round {round}, opened anew");
            }
        }
    }
}

/// The length of a file is set by a byte at its end, which another host may be past already.
#[test]
fn a_byte_beyond_the_end_never_makes_a_file_shorter() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("grows"));
    let mut later = Later(17);
    for round in 0..rounds() {
        agents.iter_mut().for_each(|agent| agent.open(&format!("{dir}/file{round}"), "f"));
        let (near, far) = (4095 + round % 3, 10_000 + 5_000 * (round % 7));
        let calls = [
            (0, write(near, 0, 1), later.next()),
            (1, write(far, 9, 100), later.next()),
            (2, size(), later.next()),
            (0, size(), later.next()),
            (2, size(), later.next()),
        ];
        let answers: Vec<Value> = race(&mut agents, &calls).into_iter().map(|answer| answer.ok()).collect();
        let sizes: Vec<u64> = [2, 4].map(|k| answers[k].as_u64().expect("a size")).to_vec();
        let known = [0, near + 1, far + 100];
        assert!(sizes[0] <= sizes[1] && sizes.iter().all(|size| known.contains(size)), "round {round}: {answers:?}");
        for agent in &mut agents {
            assert_eq!(agent.ok(size()), far + 100, "round {round}");
            assert_eq!(agent.ok(read(far, 1000)), json!([[9, 100]]), "round {round}");
        }
    }
}

/// Operations on a file that another host removed fail or have no effect, and never reach another file.
#[test]
fn a_removed_file_is_no_other_file() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("removed"));
    let path = format!("{dir}/file");
    for round in 0..12 {
        let (owner, remover) = ((round % 3) as usize, ((round + 1) % 3) as usize);
        agents[owner].open(&path, "f");
        assert_eq!(agents[owner].ok(write(0, 1, 5000)), 5000);
        agents[owner].open(&path, "unused");
        agents[remover].ok(Call::Unlink { path: path.clone() });
        agents[remover].open(&path, "g");
        let nothing = |agents: &mut [Agent<'_>]| {
            let bytes = agents[remover].ok(Call::Read { of: "g".into(), offset: 0, len: 9000 });
            let attributes = agents[remover].ok(Call::ListAttributes { of: "g".into() });
            assert_eq!((bytes, attributes), (json!([]), json!([])), "the new file has none of the old one");
        };
        nothing(&mut agents);
        let attribute = Call::SetAttribute { of: "f".into(), name: "user.a".into(), value: "1".into(), create: true };
        let mut said = Vec::new();
        for (what, call) in [
            ("pwrite", write(0, 2, 5000)),
            ("pwrite beyond its end", write(5000, 3, 100)),
            ("fsync", Call::Sync { of: "f".into() }),
            ("pread", read(0, 9000)),
            ("pread of one not used before", Call::Read { of: "unused".into(), offset: 0, len: 9000 }),
            ("fstat", size()),
            ("fsetxattr", attribute),
            ("flistxattr", Call::ListAttributes { of: "f".into() }),
            ("close", Call::Close { of: "f".into() }),
        ] {
            said.push(format!("{what} {:?}", agents[owner].call(call).result));
            nothing(&mut agents);
        }
        if round == 0 {
            println!("a removed file: {}", said.join(", "));
        }
        agents[remover].ok(Call::Unlink { path: path.clone() });
    }
}

/// Appended records do not overwrite each other. One of more than 128 KiB goes in pieces, and others may come between.
#[test]
fn appends_of_three_hosts() {
    if ceph::is_wanted() {
        return eprintln!(
            "skipped: on CephFS appends of several hosts overwrite each other; volumes do not rely on them"
        );
    }
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("appends"));
    let flags = (OFlags::CREATE | OFlags::APPEND).bits();
    let mut later = Later(19);
    for (k, record) in [100, 4096, RECORD, 300_000].into_iter().enumerate() {
        let path = format!("{dir}/file{k}");
        for agent in &mut agents {
            agent.ok(Call::Open { path: path.clone(), flags, of: "f".into() });
        }
        let rounds = rounds() as usize / 4;
        for round in 0..rounds {
            let byte = |n: usize| 1 + ((round * 3 + n) % 250) as u8;
            let append = |n: usize| Call::Write { of: "f".into(), offset: None, byte: byte(n), len: record };
            let calls: Vec<_> = (0..3).map(|n| (n, append(n), later.next())).collect();
            for answer in race(&mut agents, &calls) {
                assert_eq!(answer.ok(), record);
            }
        }
        let all = 3 * rounds;
        let size = agents[0].ok(size()).as_u64().expect("a size") as usize;
        let runs: Vec<(u8, usize)> = serde_json::from_value(agents[0].ok(read(0, size))).expect("runs");
        let whole = runs.iter().filter(|(byte, len)| *byte != 0 && *len == record).count();
        println!("{all} appends of {record} bytes: {whole} are whole");
        assert_eq!(size, all * record);
        assert!(record > 128 << 10 || whole == all, "{runs:?}");
    }
}

/// A write is with a server once it is acknowledged: bytes that a client keeps would be lost with its host.
#[test]
fn what_a_client_that_dies_had_acknowledged_is_there() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("acknowledged"));
    let client = hosts.another_client(&hosts.hosts[0], "/run/doomed");
    let len = 20 * RECORD;
    agents[0].open("/run/doomed/acknowledged/file", "f");
    assert_eq!(agents[0].ok(write(0, 1, len)), len);
    hosts.hosts[0].must("kill", &["-KILL", &client]);
    let began = Instant::now();
    agents[1].open(&format!("{dir}/file"), "f");
    assert_eq!(agents[1].ok(read(0, len)), json!([[1, len]]));
    println!("read by another host {:.1?} after its writer's client died", began.elapsed());
    hosts.hosts[0].must("umount", &["-l", "/run/doomed"]);
}

/// A write that failed while the host had no cable never replaces a later one of that host.
#[test]
fn a_write_that_failed_without_a_cable_replaces_no_later_one() {
    if ceph::is_wanted() {
        return eprintln!("skipped: CephFS shuts a client out that was cut off, until it mounts again");
    }
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("cable"));
    agents.iter_mut().for_each(|agent| agent.open(&format!("{dir}/file"), "f"));
    for round in 0..2 {
        assert_eq!(agents[0].ok(write(0, 1, RECORD)), RECORD);
        hosts.hosts[0].cut();
        let failed = agents[0].call(write(0, 2, RECORD));
        assert!(failed.result.is_err(), "round {round}");
        hosts.hosts[0].join();
        let joined = Instant::now();
        until_within(30, "the host writes again", || agents[0].call(write(0, 3, RECORD)).result.is_ok());
        println!("failed after {:.1?}, written again {:.1?} after the cable", failed.took, joined.elapsed());
        while joined.elapsed() < Duration::from_secs(12) {
            let found = agents[1].ok(read(0, RECORD));
            assert_eq!(found, json!([[3, RECORD]]), "round {round}, {:.1?} after the cable", joined.elapsed());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
