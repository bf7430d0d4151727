//! Processes on all hosts that write records of one file at the same time, each its own, and know what was
//! acknowledged.

use crate::agent::{Agent, Call};
use crate::random::Random;
use crate::real::until_within;
use crate::volume::Node;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Records that belong to no page and no stripe.
pub const RECORD: usize = 47_008;
/// After an error, until the file is opened again.
const AGAIN: Duration = Duration::from_millis(50);

/// Orders of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Orders {
    pub path: String,
    /// Bytes of a record, a multiple of eight.
    pub record: usize,
    /// Numbers of its records.
    pub slots: Vec<u64>,
    pub seed: u64,
    /// A file whose coming ends it; without one it writes each record once.
    pub stop: Option<String>,
}

/// Results of a process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The value of each record; none if the last write of it failed.
    pub values: BTreeMap<u64, Option<u64>>,
    pub writes: u64,
    pub reads: u64,
    /// Number of errors of each kind.
    pub errors: BTreeMap<String, u64>,
    /// Reads that gave something else than what had been acknowledged.
    pub wrong: Vec<String>,
    /// The slowest call.
    pub slowest: Duration,
}

impl Report {
    fn failed(&mut self, what: &str, error: &std::io::Error) {
        *self.errors.entry(format!("{what}: {error}")).or_default() += 1;
    }
}

fn record(value: u64, len: usize) -> Vec<u8> {
    value.to_le_bytes().repeat(len / 8)
}

/// Never makes the file: below a mount that is gone there is a directory.
fn open(path: &str) -> std::io::Result<File> {
    Ok(rustix::fs::open(path, OFlags::RDWR, Mode::empty())?.into())
}

/// Runs the orders of a process.
pub fn work(orders: &Orders) -> Result<Report, Errno> {
    let (mut random, mut report, mut file) = (Random(orders.seed), Report::default(), None);
    let mut once = orders.slots.clone();
    for n in (1..once.len()).rev() {
        once.swap(n, random.below(n as u64 + 1) as usize);
    }
    loop {
        let slot = match &orders.stop {
            Some(stop) if Path::new(stop).exists() => return Ok(report),
            Some(_) => random.one_of(&orders.slots),
            None => match once.pop() {
                Some(slot) => slot,
                None => return Ok(report),
            },
        };
        let began = Instant::now();
        if file.is_none() || random.below(100) == 0 {
            file = open(&orders.path).map_err(|error| report.failed("open", &error)).ok();
        }
        if let Some(open) = &file
            && let Err(error) = call(open, slot, orders, &mut random, &mut report)
        {
            report.failed("call", &error);
            file = None;
        }
        report.slowest = report.slowest.max(began.elapsed());
        if file.is_none() {
            std::thread::sleep(AGAIN);
        }
    }
}

fn call(file: &File, slot: u64, orders: &Orders, random: &mut Random, report: &mut Report) -> std::io::Result<()> {
    let (len, at) = (orders.record, slot * orders.record as u64);
    let known = report.values.get(&slot).copied().flatten().filter(|_| orders.stop.is_some() && random.below(3) == 0);
    if let Some(value) = known {
        let mut read = vec![0; len];
        file.read_exact_at(&mut read, at)?;
        report.reads += 1;
        if read != record(value, len) {
            report.wrong.push(differs(&read, value, slot));
        }
    } else {
        let value = random.next();
        // Until the write is acknowledged, its result is unknown.
        report.values.insert(slot, None);
        file.write_all_at(&record(value, len), at)?;
        report.values.insert(slot, Some(value));
        report.writes += 1;
    }
    Ok(())
}

fn differs(read: &[u8], value: u64, slot: u64) -> String {
    let wrong: Vec<usize> = (0..read.len() / 8).filter(|at| read[at * 8..][..8] != value.to_le_bytes()).collect();
    let (first, last) = (wrong.first().copied().unwrap_or(0), wrong.last().copied().unwrap_or(0));
    let found = &read[first * 8..read.len().min(first * 8 + 8)];
    let (len, wrong) = (read.len(), wrong.len());
    format!("record {slot}: {len} bytes, {wrong} words differ, from {first} to {last}: {found:02x?}")
}

/// One writer for each number of a host, with records dealt out to them.
pub fn orders(path: &str, record: usize, slots: u64, writers: u64, seed: u64) -> Vec<Orders> {
    let own = |writer| (0..slots).filter(|slot| slot % writers == writer).collect();
    let order = |writer| Orders {
        path: path.into(),
        record,
        slots: own(writer),
        seed: seed.wrapping_mul(1000) + writer,
        stop: None,
    };
    (0..writers).map(order).collect()
}

/// A writer on each node that runs until a stop file appears.
pub struct Writers<'a> {
    nodes: &'a [Node<'a>],
    agents: Vec<Agent<'a>>,
    file: String,
}

impl<'a> Writers<'a> {
    /// Starts them on a new file.
    pub fn start(nodes: &'a [Node<'a>], file: &str, slots: u64, seed: u64) -> Writers<'a> {
        nodes[0].new_file(file);
        let writers =
            Writers { nodes, agents: nodes.iter().map(|n| Agent::of_user(n.host)).collect(), file: file.into() };
        writers.begin(slots, seed)
    }

    fn begin(mut self, slots: u64, seed: u64) -> Writers<'a> {
        let path = format!("{}/{}", self.nodes[0].at, self.file);
        for (n, orders) in orders(&path, RECORD, slots, self.nodes.len() as u64, seed).into_iter().enumerate() {
            let stop = Some(self.nodes[n].signal_file(&self.file));
            self.agents[n].begin(&Call::Records(Orders { stop, ..orders }));
        }
        self
    }

    /// Waits until each has written some more records.
    #[track_caller]
    pub fn until_all_write(&self) {
        self.until_write(|_| true);
    }

    /// Waits until each on these nodes has written some more records.
    #[track_caller]
    pub fn until_write(&self, which: impl Fn(usize) -> bool) {
        let written = |node: &Node<'_>| -> u64 {
            let counts = node.entrepot(&["stats", "--count", "1"]);
            let ops = counts["ops"].as_array().expect("operations").iter().filter(|op| op["op"] == "write");
            ops.filter_map(|op| op["bytes"].as_u64()).sum()
        };
        let nodes = self.nodes.iter().enumerate().filter(|(n, _)| which(*n));
        let before: Vec<_> = nodes.map(|(_, node)| (node, written(node))).collect();
        for (node, before) in before {
            until_within(60, "a writer goes on", || written(node) >= before + 8 * RECORD as u64);
        }
    }

    /// Stops them; what each saw. No read gave anything but what was acknowledged before, and all is there on all
    /// nodes.
    #[track_caller]
    pub fn stop(self) -> Vec<Report> {
        for node in self.nodes {
            std::fs::write(node.host.path(&node.signal_file(&self.file)), "").expect("told");
        }
        let reports: Vec<Report> = self.agents.iter().map(|agent| report(agent.end().ok())).collect();
        for (node, report) in self.nodes.iter().zip(&reports) {
            println!(
                "host {}: {} writes, {} reads, slowest {:.1?}, errors {:?}",
                node.host.number, report.writes, report.reads, report.slowest, report.errors
            );
            if !report.errors.is_empty() {
                println!("{}", node.log());
            }
        }
        is_there(self.nodes, &self.file, RECORD, &reports);
        reports
    }
}

/// Parses a writer's answer.
pub fn report(answer: serde_json::Value) -> Report {
    serde_json::from_value(answer).expect("a report")
}

/// Checks that all acknowledged records are there on all nodes, that the nodes agree on the rest, and that no read
/// returned anything else.
#[track_caller]
pub fn is_there(nodes: &[Node<'_>], file: &str, len: usize, reports: &[Report]) {
    let wrong: Vec<&String> = reports.iter().flat_map(|report| &report.wrong).collect();
    assert!(wrong.is_empty(), "reads that gave something else than what was acknowledged: {wrong:#?}");
    let mut first: Option<Vec<u8>> = None;
    for node in nodes {
        let bytes = std::fs::read(node.path(file)).expect("read");
        let number = node.host.number;
        assert_eq!(std::fs::metadata(node.path(file)).expect("stat").len(), bytes.len() as u64, "host {number}");
        let known =
            reports.iter().flat_map(|report| &report.values).filter_map(|(slot, value)| Some((*slot, (*value)?)));
        let is_lost = |&(slot, value): &(u64, u64)| {
            let at = slot as usize * len;
            bytes.get(at..at + len) != Some(&*record(value, len))
        };
        let show = |(slot, value): (u64, u64)| {
            let at = (slot as usize * len).min(bytes.len());
            differs(&bytes[at..(at + len).min(bytes.len())], value, slot)
        };
        let lost: Vec<String> = known.filter(is_lost).map(show).collect();
        assert!(lost.is_empty(), "host {number} does not have what was acknowledged: {lost:#?}");
        assert!(
            *first.get_or_insert_with(|| bytes.clone()) == bytes,
            "host {number} has something else than the first"
        );
    }
}
