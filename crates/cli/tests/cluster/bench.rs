//! `make bench-cluster`: an Entrepot volume on three hosts against plain mounts of the same GlusterFS, in one run.
//!
//! Every row visits the subjects in turn, round after round, the other way round each time. Ratios are of the seconds
//! within one round, so that a machine whose speed drifts drifts for all of them alike. `ENTREPOT_BENCH_ROUNDS` and
//! `ENTREPOT_BENCH_ONLY` (names of rows with commas between) set how much of it runs.
//!
//! `ENTREPOT_BENCH_COUNT=1` counts calls instead, once per row: calls of the kernel to the hosts' clients of GlusterFS,
//! and calls of these to the bricks. The counts are the same on a machine with other load. It also measures the
//! processor time of each program, per operation.

pub mod calls;
pub mod processors;
pub mod work;

use crate::agent::{Agent, Call};
use crate::gluster;
use crate::hosts::{Hosts, LOCAL, hosts};
use crate::real::until_within;
use crate::volume::{Node, PATIENT, Shared, State};
use crate::web::Web;
use calls::Calls;
use processors::Processors;
use std::time::{Duration, Instant};
use work::{RECORD, Work};

/// Mount point of GlusterFS with its own options.
const PLAIN: &str = "/run/plain";
/// Bytes of a large file.
const LARGE: u64 = 64 << 20;
/// Records of a shared file.
const RECORDS: u64 = 900;
/// Small files, and their bytes.
const SMALL: u64 = 150;
const SMALL_BYTES: usize = 4096;
/// Files that are too large for the namespace, and their bytes.
const MEDIUM: u64 = 20;
const MEDIUM_BYTES: usize = 100_000;
/// Appends to a file, and bytes of each.
const APPENDS: u64 = 300;
const APPENDED_BYTES: usize = 100;
/// Time after which a new volume is idle. A guess.
const STARTED: Duration = Duration::from_secs(20);
/// Rounds over which processor time is measured: the kernel counts it in ticks of some milliseconds.
const MEASURED_ROUNDS: usize = 5;
/// Rounds of staging in, each of which takes a minute.
const STAGED_ROUNDS: usize = 2;
/// No row may be slower than the plain mount by more than this.
const BOUND: f64 = 1.1;

/// Two plain mounts and two volumes. The second volume keeps names of directories, as the second mount does.
const SUBJECTS: usize = 4;
/// The first of the volumes.
const OURS: usize = 2;
const NAMES: [&str; SUBJECTS] = ["same options", "own options", "entrepot", "cached"];
/// Ratios of the table: of a subject to another.
const RATIOS: [(usize, usize); 3] = [(OURS, 0), (OURS, 1), (OURS + 1, 1)];

/// With the operations that are counted in each.
const ROWS: [(&str, u64); 13] = [
    ("write 64 MiB", LARGE >> 20),
    ("read it on another host", LARGE >> 20),
    ("3 hosts write one file", RECORDS),
    ("4 writers on each of 3 hosts write one file", RECORDS),
    ("create 150 files", SMALL),
    ("stat them on another host", SMALL),
    ("read them on another host", SMALL),
    ("read them again", SMALL),
    ("write them again", SMALL),
    ("remove them", SMALL),
    ("create 20 files of 100 kB", MEDIUM),
    ("append 300 times", APPENDS),
    ("stage in 64 MiB", LARGE >> 20),
];

struct Rig<'a> {
    /// Nodes of each volume.
    nodes: [Vec<Node<'a>>; 2],
    dirs: [String; SUBJECTS],
}

impl Rig<'_> {
    /// Makes the directories of a round.
    fn make_directories(&self, agents: &mut [Agent<'_>], round: usize) {
        for dir in &self.dirs {
            agents[0].ok(Call::Work(Work::Directory { path: format!("{dir}/{round}/small") }));
        }
    }

    /// Seconds of one row for one subject, in one round.
    fn measure(&self, agents: &mut [Agent<'_>], row: &str, subject: usize, round: usize) -> f64 {
        let dir = format!("{}/{round}", self.dirs[subject]);
        let (large, shared, small) = (format!("{dir}/large"), format!("{dir}/shared"), format!("{dir}/small"));
        let mut one = |host: usize, work: Work| seconds(&mut agents[host], &work);
        match row {
            "write 64 MiB" => one(0, Work::Write { path: large, bytes: LARGE }),
            "read it on another host" => one(1, Work::Read { path: large, bytes: LARGE }),
            "3 hosts write one file" => write_together(agents, shared, 1),
            "4 writers on each of 3 hosts write one file" => write_together(agents, format!("{shared}-by-many"), 4),
            "create 150 files" => one(0, Work::Create { dir: small, files: SMALL, bytes: SMALL_BYTES }),
            "stat them on another host" => one(1, Work::Stat { dir: small, files: SMALL }),
            "read them on another host" | "read them again" => {
                one(2, Work::ReadAll { dir: small, files: SMALL, bytes: SMALL_BYTES })
            }
            "write them again" => one(1, Work::Overwrite { dir: small, files: SMALL, bytes: SMALL_BYTES }),
            "remove them" => one(0, Work::Remove { dir: small, files: SMALL }),
            "create 20 files of 100 kB" => one(0, Work::Create { dir, files: MEDIUM, bytes: MEDIUM_BYTES }),
            "append 300 times" => {
                one(0, Work::Append { path: format!("{dir}/log"), times: APPENDS, bytes: APPENDED_BYTES })
            }
            _ => self.stage_in(subject, &dir, round),
        }
    }

    /// A file of the host comes in: by `entrepot stage in`, or by `cp`.
    fn stage_in(&self, subject: usize, dir: &str, round: usize) -> f64 {
        let source = format!("{LOCAL}/source");
        let began = Instant::now();
        if subject >= OURS {
            let node = &self.nodes[subject - OURS][0];
            let to = format!("{}/{round}/staged", node.at);
            node.ok(&["stage", "in", &format!("file://{source}"), &to]);
        } else {
            self.nodes[0][0].host.must("cp", &[&source, &format!("{dir}/staged")]);
        }
        began.elapsed().as_secs_f64()
    }
}

/// `writers` on each host take turns with the records of one file.
fn write_together(agents: &mut [Agent<'_>], path: String, writers: u64) -> f64 {
    seconds(&mut agents[0], &Work::Touch { path: path.clone() });
    let (hosts, step) = (agents.len() as u64, agents.len() as u64 * writers);
    let first = |host| (0..writers).map(|writer| host + writer * hosts).collect();
    let part = |host| Work::Records { path: path.clone(), first: first(host), step, count: RECORDS };
    (0..).zip(agents.iter_mut()).for_each(|(host, agent)| agent.begin(&Call::Work(part(host))));
    agents.iter().map(|agent| agent.end().ok().as_f64().expect("seconds")).fold(0.0, f64::max)
}

fn seconds(agent: &mut Agent<'_>, work: &Work) -> f64 {
    agent.ok(Call::Work(work.clone())).as_f64().expect("seconds")
}

/// Smallest, middle and largest.
fn spread(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    [sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]]
}

fn rig(hosts: &Hosts) -> Rig<'_> {
    let shared = Shared::of_all(hosts);
    let cached = Shared::new(hosts, "cached", State::Redis, &format!("{PATIENT}[mount]\nnames = \"cached\"\n"));
    gluster::start_plain(&hosts.server, &hosts.hosts, PLAIN);
    let nodes = [&*Box::leak(Box::new(shared)), Box::leak(Box::new(cached))].map(Shared::up);
    let dirs = [hosts.directory("plain"), format!("{PLAIN}/dir"), nodes[0][0].at.clone(), nodes[1][0].at.clone()];
    let first = nodes[0][0].host;
    let source = first.path(&format!("{LOCAL}/source"));
    std::fs::write(source, crate::real::noise(LARGE as usize)).expect("a source");
    Rig { nodes, dirs }
}

#[test]
fn entrepot_against_plain_mounts() {
    let Some(rounds) = rounds() else { return };
    let Some(hosts) = hosts() else { return };
    let rows = wanted_rows();
    let rig = rig(&hosts);
    let mut agents = hosts.agents();
    let mut all = vec![[const { Vec::new() }; SUBJECTS]; rows.len()];
    // The first round is not counted: it finds nothing in any memory.
    for round in 0..=rounds {
        rig.make_directories(&mut agents, round);
        for ((row, _), all) in rows.iter().zip(&mut all) {
            let mut turns: Vec<usize> = (0..SUBJECTS).collect();
            if round % 2 == 1 {
                turns.reverse();
            }
            for subject in turns {
                let took = rig.measure(&mut agents, row, subject, round);
                if round > 0 {
                    all[subject].push(took);
                }
            }
        }
    }
    println!("{rounds} rounds, seconds: middle; ratios: middle (smallest to largest) of the rounds");
    println!(
        "| row | same options | own options | entrepot | cached | to same options | to own options | cached to own |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut slow = Vec::new();
    for ((row, _), all) in rows.iter().zip(&all) {
        let ratio = |(of, to): (usize, usize)| {
            let ratios: Vec<f64> = all[of].iter().zip(&all[to]).map(|(of, to)| of / to).collect();
            spread(&ratios)
        };
        let ratios = RATIOS.map(ratio);
        let shown = ratios.map(|[least, middle, most]| format!("{middle:.2} ({least:.2} to {most:.2})")).join(" | ");
        let seconds = all.each_ref().map(|seconds| format!("{:.3}", spread(seconds)[1])).join(" | ");
        println!("| {row} | {seconds} | {shown} |");
        if ratios[0][1] > BOUND {
            slow.push(format!("{row}: {:.2}", ratios[0][1]));
        }
    }
    println!("slower than the plain mount with the same options by more than 10 %: {}", slow.join(", "));
    assert!(RECORD.is_multiple_of(8) && !rows.is_empty(), "a row of that name");
}

fn wanted_rows() -> Vec<(&'static str, u64)> {
    let only = std::env::var("ENTREPOT_BENCH_ONLY").unwrap_or_default();
    let wanted = |row: &&(&str, u64)| only.is_empty() || only.split(',').any(|name| name.trim() == row.0);
    ROWS.iter().filter(wanted).copied().collect()
}

#[test]
fn calls_of_entrepot_beside_those_of_a_plain_mount() {
    if !is_counting() {
        return;
    }
    let Some(hosts) = hosts() else { return };
    let (rows, rig) = (wanted_rows(), rig(&hosts));
    let mut agents = hosts.agents();
    // The daemons' work after their start does not count as idle.
    std::thread::sleep(STARTED);
    // The first round is not counted: it finds nothing in any memory.
    for round in 0..2 {
        rig.make_directories(&mut agents, round);
        let idle = Calls::idle(&hosts.hosts);
        let each = idle.clone().times(1.0 / rig.nodes.iter().flatten().count() as f64);
        println!(
            "idle, a daemon and second: {:.1} calls, {:.1} of bricks: {}",
            each.asked(),
            each.sent(),
            each.named()
        );
        if round > 0 {
            println!("| row | per | asked: plain | entrepot | of bricks: plain | entrepot |");
            println!("|---|---|---|---|---|---|");
        }
        for (row, operations) in &rows {
            let mut count = |subject: usize| {
                let work = || {
                    rig.measure(&mut agents, row, subject, round);
                };
                Calls::during(&hosts.hosts, &idle, work).times(1.0 / *operations as f64)
            };
            let (plain, ours) = (count(0), count(OURS));
            if round > 0 {
                let [a, b] = [&plain, &ours].map(Calls::asked);
                let [c, d] = [&plain, &ours].map(Calls::sent);
                println!("| {row} | {operations} | {a:.1} | {b:.1} | {c:.1} | {d:.1} |");
                println!("  plain: {}\n  entrepot: {}", plain.named(), ours.named());
            }
            assert!(plain.asked() > 0.0 && ours.asked() > 0.0, "{row}: nothing was counted");
        }
    }
}

fn is_counting() -> bool {
    let counts = std::env::var_os("ENTREPOT_BENCH_COUNT").is_some();
    if !counts {
        println!("not wanted: ENTREPOT_BENCH_COUNT=1 has it run");
    }
    counts
}

#[test]
fn processor_time_of_each_program() {
    if !is_counting() {
        return;
    }
    let Some(hosts) = hosts() else { return };
    let (rows, rig) = (wanted_rows(), rig(&hosts));
    let mut agents = hosts.agents();
    std::thread::sleep(STARTED);
    let idle = Processors::idle();
    let mut all = vec![[const { Vec::new() }; SUBJECTS]; rows.len()];
    // The first round is not counted.
    for round in 0..=MEASURED_ROUNDS {
        rig.make_directories(&mut agents, round);
        for ((row, operations), all) in rows.iter().zip(&mut all) {
            for (subject, all) in all.iter_mut().enumerate() {
                let work = || {
                    rig.measure(&mut agents, row, subject, round);
                };
                let each = Processors::during(&idle, work).times(1.0 / *operations as f64);
                if round > 0 {
                    all.push(each);
                }
            }
        }
    }
    println!("milliseconds of processor time per operation, mean of {MEASURED_ROUNDS} rounds");
    let columns = NAMES.iter().enumerate().map(|(subject, name)| match subject < OURS {
        true => format!("{name}: client | bricks"),
        false => format!("{name}: daemon | client | bricks"),
    });
    println!("| row | per | {} |", columns.collect::<Vec<_>>().join(" | "));
    println!("|---|{}", "---|".repeat(1 + 2 * OURS + 3 * (SUBJECTS - OURS)));
    for ((row, operations), all) in rows.iter().zip(&all) {
        let cells = all.iter().enumerate().map(|(subject, of)| Processors::mean(of).cells(subject >= OURS));
        println!("| {row} | {operations} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

/// A source that gives each connection a MiB a second, as one far away does: what more nodes are good for.
#[test]
fn staged_by_one_two_and_three_nodes() {
    let Some(rounds) = rounds() else { return };
    let Some(hosts) = hosts() else { return };
    let Some(web) = Web::start(&hosts.server) else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    web.put("far", &crate::real::noise(3 * LARGE as usize));
    let mut all = [const { Vec::new() }; 3];
    for round in 0..rounds.min(STAGED_ROUNDS) {
        for (n, took) in (1..).zip(&mut all) {
            let idle = || nodes[n..].iter().map(Node::name);
            idle().for_each(|host| nodes[0].ok(&["node", "drain", &host]));
            let began = Instant::now();
            nodes[0].ok(&["stage", "in", &web.uri("slow/far"), &format!("{}/far{round}-{n}", nodes[0].at)]);
            took.push(began.elapsed().as_secs_f64());
            idle().for_each(|host| nodes[0].ok(&["node", "restore", &host]));
            until_within(30, "none drains", || {
                let listed = nodes[0].entrepot(&["node", "list"])["nodes"].take();
                let listed = listed.as_array().expect("nodes");
                listed.len() == nodes.len() && listed.iter().all(|node| node["state"] == "ok")
            });
        }
    }
    println!("| nodes | seconds to stage in 192 MiB: middle (smallest to largest) | to one node |");
    println!("|---|---|---|");
    for (n, took) in (1..).zip(&all) {
        let [least, middle, most] = spread(took);
        println!("| {n} | {middle:.2} ({least:.2} to {most:.2}) | {:.2} |", middle / spread(&all[0])[1]);
    }
}

fn rounds() -> Option<usize> {
    let rounds = std::env::var("ENTREPOT_BENCH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    if rounds.is_none() {
        println!("not wanted: `make bench-cluster` runs it");
    }
    rounds
}
