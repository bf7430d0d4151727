//! An ordinary user changes files on all nodes, by a seed, while daemons freeze and die, targets are drained and Redis stops.
//!
//! The test takes seconds. The long form (`tests/soak-cluster.sh`, `ENTREPOT_MINUTES`) also cuts hosts off, kills
//! bricks, and puts Redis back to what it had on disk a while ago. `ENTREPOT_DISTURBANCES` names the ones to draw from,
//! as in `cut,cut,killed`.

mod files;

use crate::agent::Agent;
use crate::hosts::{Hosts, USER, hosts};
use crate::random::{Random, seed};
use crate::real::{err, until_within};
use crate::volume::{NODES, Node, Shared, TARGETS, are_in_order, is_well, logs};
use crate::writers::Writers;
use crate::{audit, ceph, gluster};
use clap::ValueEnum;
use files::Known;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_secs(15);
const FILES: usize = 12;
const WORKERS: u64 = 6;
/// A step that began before a brick is killed ends within this.
const STEP: Duration = Duration::from_secs(3);
/// After a call that failed.
const AGAIN: Duration = Duration::from_millis(100);

/// Duration of a soak, if `ENTREPOT_MINUTES` sets one.
pub fn wanted() -> Option<Duration> {
    let minutes = std::env::var("ENTREPOT_MINUTES").ok()?;
    Some(Duration::from_secs(60 * minutes.parse::<u64>().expect("ENTREPOT_MINUTES is a number")))
}

/// Disturbance of the nodes, or of what connects them.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Kind {
    Drained,
    Frozen,
    Killed,
    Redis,
    Cut,
    Brick,
    OldRedis,
}

/// Kinds to draw from, each as often as it is drawn.
fn kinds() -> Vec<Kind> {
    use Kind::{Brick, Cut, Drained, Frozen, Killed, OldRedis, Redis};
    if let Ok(names) = std::env::var("ENTREPOT_DISTURBANCES") {
        return names.split(',').map(|name| Kind::from_str(name, true).expect("a disturbance")).collect();
    }
    let mut kinds = vec![Drained, Drained, Drained, Frozen, Frozen, Killed, Killed, Redis];
    // A cut host and a dead brick cost many seconds each.
    if wanted().is_some() && !ceph::is_wanted() {
        kinds.extend([Cut, Brick, OldRedis]);
    }
    kinds
}

/// State that the workers share.
struct World<'a> {
    nodes: &'a [Node<'a>],
    files: Vec<Mutex<Known>>,
    steps: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
    wrong: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl World<'_> {
    fn work(&self, worker: u64, seed: u64) {
        files::act_as_user();
        let mut random = Random(seed.wrapping_mul(1000) + worker);
        while !self.is_over.load(Ordering::Relaxed) {
            let node = &self.nodes[random.below(self.nodes.len() as u64) as usize];
            if files::is_apart(node) {
                std::thread::sleep(AGAIN);
                continue;
            }
            let Ok(mut file) = self.files[random.below(FILES as u64) as usize].try_lock() else { continue };
            match file.step(node, &mut random) {
                Ok(None) => drop(self.steps.fetch_add(1, Ordering::Relaxed)),
                Ok(Some(error)) => {
                    drop(file);
                    *self.errors.lock().expect("whole").entry(error.to_string()).or_default() += 1;
                    std::thread::sleep(AGAIN);
                }
                Err(what) => {
                    self.wrong.lock().expect("whole").push(what);
                    self.is_over.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Empties a target, as far as possible, and restores it.
fn moves(nodes: &[Node<'_>], random: &mut Random) -> String {
    let target = format!("target{}", 1 + random.below(TARGETS as u64));
    let (by, again) = (random.below(3) as usize, random.below(3) as usize);
    let done = nodes[by].run(&["target", "drain", &target]);
    nodes[again].ok(&["target", "restore", &target]);
    let how = if done.status.success() { "empty".into() } else { err(&done).replace('\n', "; ") };
    format!("{target} drained by {}: {how}", nodes[by].name())
}

/// Waits until each host reaches each brick: a cut or a load may part another host from a brick, too.
fn all_reach(nodes: &[Node<'_>], reached: &str) {
    nodes.iter().for_each(|node| Agent::start(node.host).reaches_all(reached));
}

/// Disturbs the nodes, or what connects them, in one way, and ends the disturbance. In the directory `reached` of the shared
/// file system a host creates files to see whether it reaches each brick again.
fn disturb(hosts: &Hosts, nodes: &[Node<'_>], reached: &str, kinds: &[Kind], random: &mut Random) -> String {
    let victim = random.below(3) as usize;
    match random.one_of(kinds) {
        Kind::Drained => moves(nodes, random),
        Kind::Frozen => {
            let order = (victim + 1 + random.below(2) as usize) % 3;
            let target = format!("target{}", 1 + random.below(TARGETS as u64));
            nodes[order].ok(&["target", "drain", &target, "--no-wait"]);
            let long = Duration::from_millis(500 + random.below(8000));
            nodes[victim].stands_still(long);
            is_well(nodes);
            format!("{} frozen for {long:.1?} beside a drain of {target}", nodes[victim].name())
        }
        Kind::Killed => {
            let target = format!("target{}", 1 + random.below(TARGETS as u64));
            nodes[random.below(3) as usize].ok(&["target", "drain", &target, "--no-wait"]);
            std::thread::sleep(Duration::from_millis(random.below(300)));
            nodes[victim].kill(&nodes[victim].pid());
            std::thread::sleep(Duration::from_millis(random.below(7000)));
            nodes[victim].up();
            is_well(nodes);
            format!("{} killed beside a drain of {target}", nodes[victim].name())
        }
        Kind::Cut => {
            let host = nodes[victim].host;
            let long = Duration::from_millis(1000 + random.below(9000));
            files::set_apart(&nodes[victim], true);
            host.cut();
            std::thread::sleep(long);
            host.join();
            all_reach(nodes, reached);
            files::set_apart(&nodes[victim], false);
            is_well(nodes);
            format!("host {} cut off for {long:.1?}", host.number)
        }
        Kind::Brick => {
            let brick = random.one_of(&gluster::BRICKS);
            let long = Duration::from_millis(1000 + random.below(4000));
            nodes.iter().for_each(|node| files::set_apart(node, true));
            std::thread::sleep(STEP);
            gluster::kill_brick(&hosts.server, brick);
            std::thread::sleep(long);
            gluster::restart_bricks(&hosts.server);
            all_reach(nodes, reached);
            nodes.iter().for_each(|node| files::set_apart(node, false));
            is_well(nodes);
            format!("{brick} away for {long:.1?}")
        }
        kind @ (Kind::Redis | Kind::OldRedis) => {
            hosts.kill_redis();
            let long = Duration::from_millis(random.below(4000));
            std::thread::sleep(long);
            let is_old = kind == Kind::OldRedis;
            if is_old {
                hosts.put_redis_back()
            } else {
                hosts.server.start_redis()
            }
            // A node that has just failed to connect does not try again at once, and would keep an order for itself.
            until_within(30, "all nodes reach Redis", || {
                nodes.iter().all(|node| node.entrepot(&["status"])["state_away"].is_null())
            });
            is_well(nodes);
            if is_old {
                hosts.keep_redis(); // for the next time
            }
            format!("Redis away for {long:.1?}{}", if is_old { ", and back with an old copy" } else { "" })
        }
    }
}

/// [S-201] [S-203] [S-204] [S-205]
#[test]
fn what_was_acknowledged_stays_whatever_happens_to_nodes() {
    let Some(hosts) = hosts() else { return };
    let (seed, long, kinds) = (seed(), wanted().unwrap_or(SHORT), kinds());
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let reached = hosts.directory("soak-reached");
    std::fs::create_dir(nodes[0].path(files::DIRECTORY)).expect("a directory");
    std::os::unix::fs::chown(nodes[0].path(files::DIRECTORY), Some(USER), Some(USER)).expect("chown");
    let world = World {
        nodes: &nodes,
        files: (0..FILES).map(|n| Mutex::new(Known::make(&nodes[n % 3], n))).collect(),
        steps: AtomicU64::new(0),
        errors: Mutex::default(),
        wrong: Mutex::default(),
        is_over: AtomicBool::new(false),
    };
    hosts.keep_redis();
    let writers = Writers::start(&nodes, "soaked", 60, seed);
    let (mut random, began, mut disturbed) = (Random(seed), Instant::now(), 0);
    std::thread::scope(|scope| {
        let world = &world;
        (0..WORKERS).for_each(|worker| drop(scope.spawn(move || world.work(worker, seed))));
        let over = Over(&world.is_over);
        while began.elapsed() < long && !world.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(200 + random.below(1500)));
            let what = disturb(&hosts, &nodes, &reached, &kinds, &mut random);
            disturbed += 1;
            println!("{:6.1?}: {what}; {} steps so far", began.elapsed(), world.steps.load(Ordering::Relaxed));
        }
        drop(over);
    });
    println!("{:.0?}, {disturbed} disturbances, {} steps", began.elapsed(), world.steps.load(Ordering::Relaxed));
    println!("errors: {:#?}", world.errors.lock().expect("whole"));
    for node in &nodes {
        for file in &world.files {
            if let Err(what) = file.lock().expect("whole").is_whole(node) {
                world.wrong.lock().expect("whole").push(what);
            }
        }
    }
    let wrong = world.wrong.lock().expect("whole").join("\n");
    assert!(wrong.is_empty(), "seed {seed}:\n{wrong}\n{}", logs(&nodes));
    writers.stop();
    let mut names: Vec<String> = world.files.iter().map(|file| file.lock().expect("whole").name().to_owned()).collect();
    names.sort();
    for node in &nodes {
        let there = std::fs::read_dir(node.path(files::DIRECTORY)).expect("a directory");
        let mut there: Vec<String> =
            there.map(|e| e.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        there.retain(|name| !name.starts_with("part"));
        there.sort();
        assert_eq!(there, names, "{}", node.name());
    }
    // After an old copy of the state, objects of lost records stay until the operator gives them up. An object in doubt
    // is found after ten minutes.
    let options: &[&str] = match wanted() {
        Some(_) => &["check", "--repair", "--drop-unknown"],
        None => &["check", "--repair"],
    };
    audit::balances_within(660, &nodes[1], NODES, || {
        let began = Instant::now();
        while !nodes[0].run(options).status.success() {
            assert!(began.elapsed().as_secs() < 60, "{}", nodes[0].log());
        }
    });
    for file in &world.files {
        file.lock().expect("whole").is_whole(&nodes[2]).expect("the check removes no byte of a file");
    }
    are_in_order(&nodes);
}

/// Sets the workers' end flag when dropped, also after a failed disturbance.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
