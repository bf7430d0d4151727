//! Locks of users: who on which host keeps whom out, and when a lock ends.

use crate::agent::{Agent, Call, last, race};
use crate::ceph;
use crate::hosts::{LOCAL, hosts};
use crate::real::{code, err, until_within};
use crate::space::Lines;
use crate::volume::{Node, Shared, State, is_well};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Owner of a lock: `flock`, `fcntl` of a process, `fcntl` of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum By {
    Flock,
    Process,
    OpenFile,
}

/// A lock of an open file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Lock {
    pub of: String,
    by: By,
    /// Shared, exclusive, or none.
    kind: Option<bool>,
    start: i64,
    /// 0 is to the end.
    len: i64,
    waits: bool,
    /// Only what is in the way.
    tests: bool,
}

impl Lock {
    /// Asks for it; what is in the way as its exclusiveness, first byte, length and process.
    pub fn ask(&self, file: &File) -> Result<Value, Errno> {
        if self.by == By::Flock {
            let kind = match self.kind {
                None => libc::LOCK_UN,
                Some(false) => libc::LOCK_SH,
                Some(true) => libc::LOCK_EX,
            };
            let wait = if self.waits { 0 } else { libc::LOCK_NB };
            // SAFETY: the file is open.
            return if unsafe { libc::flock(file.as_raw_fd(), kind | wait) } == 0 {
                Ok(Value::Null)
            } else {
                Err(last())
            };
        }
        let command = match (self.by == By::Process, self.tests, self.waits) {
            (true, true, _) => libc::F_GETLK,
            (true, false, false) => libc::F_SETLK,
            (true, false, true) => libc::F_SETLKW,
            (false, true, _) => libc::F_OFD_GETLK,
            (false, false, false) => libc::F_OFD_SETLK,
            (false, false, true) => libc::F_OFD_SETLKW,
        };
        let kind = self.kind.map_or(libc::F_UNLCK, |alone| if alone { libc::F_WRLCK } else { libc::F_RDLCK });
        // SAFETY: zero is a value of each field.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        (lock.l_type, lock.l_whence) = (kind as i16, libc::SEEK_SET as i16);
        (lock.l_start, lock.l_len) = (self.start, self.len);
        // SAFETY: the file is open, the lock is there until the call returns.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } != 0 {
            return Err(last());
        }
        let is_free = !self.tests || i32::from(lock.l_type) == libc::F_UNLCK;
        let found = || json!([i32::from(lock.l_type) == libc::F_WRLCK, lock.l_start, lock.l_len, lock.l_pid]);
        Ok(if is_free { Value::Null } else { found() })
    }
}

/// A lock of all of `f`, without waiting.
fn all(by: By, kind: Option<bool>) -> Lock {
    Lock { of: "f".into(), by, kind, start: 0, len: 0, waits: false, tests: false }
}

/// Bytes of `f` for a process.
fn part(start: i64, len: i64, kind: Option<bool>) -> Lock {
    Lock { start, len, ..all(By::Process, kind) }
}

fn waiting(lock: Lock) -> Call {
    Call::Lock(Lock { waits: true, ..lock })
}

/// Makes the number in a file larger.
pub fn count(path: &str, times: u64, by: By) -> Result<(), Errno> {
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let file = File::options().read(true).write(true).open(path).map_err(errno)?;
    for _ in 0..times {
        Lock { waits: true, ..all(by, Some(true)) }.ask(&file)?;
        let mut number = [0; 8];
        file.read_exact_at(&mut number, 0).map_err(errno)?;
        file.write_all_at(&(u64::from_le_bytes(number) + 1).to_le_bytes(), 0).map_err(errno)?;
        all(by, None).ask(&file)?;
    }
    Ok(())
}

const ALONE: Option<bool> = Some(true);
const SHARED: Option<bool> = Some(false);

#[track_caller]
fn takes(agent: &mut Agent<'_>, lock: Lock) {
    agent.ok(Call::Lock(lock));
}

#[track_caller]
fn is_refused(agent: &mut Agent<'_>, lock: Lock) {
    let shown = format!("{lock:?}");
    let result = agent.call(Call::Lock(lock)).result;
    assert!(matches!(result, Err(Errno::AGAIN | Errno::ACCESS)), "{shown}: {result:?}");
}

/// An agent on each host, and a second one on the first; all have the same file open as `f`.
fn with_file<'a>(nodes: &'a [Node<'_>], name: &str) -> Vec<Agent<'a>> {
    let hosts = nodes.iter().chain(nodes.first());
    let mut agents: Vec<Agent<'a>> = hosts.map(|node| Agent::of_user(node.host)).collect();
    let path = format!("{}/{name}", nodes[0].at);
    agents.iter_mut().for_each(|agent| agent.open(&path, "f"));
    agents
}

/// A shell on a host that has done something, and lives until it is killed.
struct Shell<'a>(&'a Node<'a>, Child, String);

impl<'a> Shell<'a> {
    fn start(node: &'a Node<'_>, script: &str) -> Shell<'a> {
        let mut command = node.host.process("sh".as_ref());
        command.args(["-c", &format!("{script}; echo $$; exec sleep 1000")]);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("nsenter");
        let lines = Lines::of(process.stdout.take().expect("piped"));
        let pid = lines.next(Duration::from_secs(60)).expect("it does what it is told");
        Shell(node, process, pid)
    }

    fn kill(&mut self) {
        self.0.host.must("kill", &["-9", &self.2]);
        self.2.clear();
        drop(self.1.wait());
    }
}

impl Drop for Shell<'_> {
    fn drop(&mut self) {
        if !self.2.is_empty() {
            self.kill();
        }
    }
}

/// [S-217]
#[test]
fn a_lock_keeps_out_those_of_all_hosts() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let mut agents = with_file(&nodes, "kept-out");
    for by in [By::Flock, By::Process, By::OpenFile] {
        for round in 0..10 {
            let calls: Vec<_> = (0..4).map(|n| (n, Call::Lock(all(by, ALONE)), Duration::ZERO)).collect();
            let answers = race(&mut agents, &calls);
            let winners: Vec<usize> = (0..4).filter(|n| answers[*n].result.is_ok()).collect();
            assert_eq!(winners.len(), 1, "{by:?}, round {round}: {answers:?}");
            for other in (0..4).filter(|n| *n != winners[0]) {
                is_refused(&mut agents[other], all(by, SHARED));
            }
            takes(&mut agents[winners[0]], all(by, SHARED));
            agents.iter_mut().for_each(|agent| takes(agent, all(by, SHARED)));
            agents.iter_mut().for_each(|agent| is_refused(agent, all(by, ALONE)));
            agents.iter_mut().for_each(|agent| takes(agent, all(by, None)));
        }
    }
    // Whichever way it was asked for.
    takes(&mut agents[0], all(By::Flock, ALONE));
    agents[1..].iter_mut().for_each(|agent| is_refused(agent, all(By::Process, SHARED)));
    takes(&mut agents[0], all(By::Flock, None));
    takes(&mut agents[1], part(10, 1, ALONE));
    is_refused(&mut agents[0], all(By::Flock, SHARED));
}

/// [S-217]
#[test]
fn ranges_are_locked_by_themselves_and_seen_by_those_who_ask() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let mut agents = with_file(&nodes, "ranges");
    takes(&mut agents[0], part(0, 30, ALONE));
    takes(&mut agents[1], part(30, 10, ALONE));
    takes(&mut agents[3], part(40, 0, SHARED));
    // Cut in three, of which one is shared.
    takes(&mut agents[0], part(10, 10, None));
    takes(&mut agents[0], part(25, 5, SHARED));
    takes(&mut agents[2], part(10, 10, ALONE));
    takes(&mut agents[2], part(25, 5, SHARED));
    for (start, kind) in [(9, SHARED), (20, SHARED), (24, SHARED), (25, ALONE), (39, SHARED), (1 << 40, ALONE)] {
        is_refused(&mut agents[2], part(start, 1, kind));
    }
    let mut asks = |n: usize, start| agents[n].ok(Call::Lock(Lock { tests: true, ..part(start, 1, ALONE) }));
    assert_eq!(asks(2, 3), json!([true, 0, 10, 0]), "no process of that host");
    assert_eq!(asks(2, 1 << 50), json!([false, 40, 0, 0]));
    assert_eq!(asks(1, 12), json!([true, 10, 10, 0]));
    assert_eq!((asks(1, 30), asks(3, 90)), (Value::Null, Value::Null), "their own");
    let here = asks(3, 3);
    assert_eq!(here.as_array().map(|found| &found[..3]), Some(&[json!(true), json!(0), json!(10)][..]), "{here}");
    assert!(here[3].as_i64().is_some_and(|pid| pid > 1), "a process of this host: {here}");
    // A file has its locks whatever its name is, and another under its name has none of them.
    let path = |name: &str| format!("{}/{name}", nodes[0].at);
    agents[1].ok(Call::Rename { from: path("ranges"), to: path("renamed") });
    is_refused(&mut agents[2], part(0, 1, SHARED));
    agents[2].open(&path("renamed"), "g");
    is_refused(&mut agents[2], Lock { of: "g".into(), ..part(0, 1, SHARED) });
    agents[2].open(&path("ranges"), "h");
    takes(&mut agents[2], Lock { of: "h".into(), ..part(0, 0, ALONE) });
}

/// [S-218]
#[test]
fn who_waits_gets_the_lock_when_it_is_free_or_is_interrupted() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let mut agents = with_file(&nodes, "waits");
    for by in [By::Flock, By::Process, By::OpenFile] {
        takes(&mut agents[0], all(by, ALONE));
        (1..4).for_each(|n| agents[n].begin(&waiting(all(by, SHARED))));
        std::thread::sleep(Duration::from_millis(200));
        takes(&mut agents[0], all(by, None));
        for agent in &agents[1..] {
            let answer = agent.end();
            println!("{by:?}: waited {:.0?}, 200 ms of it held", answer.took);
            answer.ok();
        }
        agents[1..].iter_mut().for_each(|agent| takes(agent, all(by, None)));
    }
    takes(&mut agents[0], all(By::Flock, ALONE));
    let path = format!("{}/waits", nodes[0].at);
    for node in [&nodes[1], &nodes[0]] {
        // A signal that the process catches ends its wait, and so does one that ends the process.
        let began = Instant::now();
        let given_up = node.host.run("flock", &["-w", "1", &path, "true"]);
        assert_eq!(code(&given_up), 1, "{}", err(&given_up));
        let killed = node.host.run("timeout", &["-s", "KILL", "1", "flock", &path, "true"]);
        assert!(!killed.status.success());
        println!("two waits of a second each took {:.1?}", began.elapsed());
    }
    takes(&mut agents[0], all(By::Flock, None));
    assert!(nodes[1].host.run("flock", &["-n", &path, "true"]).status.success(), "those who gave up have nothing");
}

/// [S-219]
#[test]
fn a_lock_ends_with_the_file_the_process_or_the_node() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let mut agents = with_file(&nodes, "ends");
    let path = format!("{}/ends", nodes[0].at);
    let gets = |agents: &mut [Agent<'_>], by: By| {
        let answer = agents[1].call(waiting(all(by, ALONE)));
        let took = answer.took;
        answer.ok();
        takes(&mut agents[1], all(by, None));
        took
    };
    // The locks of a process end when it closes any descriptor of the file; those of an open file, with that open file.
    agents[0].open(&path, "again");
    takes(&mut agents[0], all(By::OpenFile, ALONE));
    agents[0].ok(Call::Close { of: "again".into() });
    is_refused(&mut agents[1], all(By::Process, SHARED));
    takes(&mut agents[0], all(By::OpenFile, None));
    agents[0].open(&path, "again");
    takes(&mut agents[0], all(By::Process, ALONE));
    is_refused(&mut agents[1], all(By::Process, SHARED));
    agents[0].ok(Call::Close { of: "again".into() });
    takes(&mut agents[1], all(By::Process, ALONE));
    takes(&mut agents[1], all(By::Process, None));
    takes(&mut agents[0], all(By::Flock, ALONE));
    agents[0].ok(Call::Close { of: "f".into() });
    println!("closed: another host had it {:.1?} later", gets(&mut agents, By::Flock));
    // A child has the open file of its parent, and not its locks.
    let mut shell = Shell::start(&nodes[0], &format!("exec 9<>{path}; flock 9; (sleep 0.1)"));
    is_refused(&mut agents[1], all(By::Flock, SHARED));
    shell.kill();
    println!("its process killed: {:.1?}", gets(&mut agents, By::Flock));
    drop(shell);
    // The daemon of its host is killed: the file system underneath closes what it had open.
    agents[0].open(&path, "f");
    takes(&mut agents[0], all(By::Process, ALONE));
    agents[1].begin(&waiting(all(By::Process, ALONE)));
    std::thread::sleep(Duration::from_millis(100));
    let pid = nodes[0].pid();
    let began = Instant::now();
    nodes[0].kill(&pid);
    agents[1].end().ok();
    println!("its daemon killed: another host had it {:.1?} later", began.elapsed());
    nodes[0].up();
    let mut again = Agent::of_user(nodes[0].host);
    again.open(&path, "f");
    is_refused(&mut again, all(By::Process, ALONE));
    takes(&mut agents[1], all(By::Process, None));
    takes(&mut again, all(By::Process, ALONE));
}

/// [S-219]
#[test]
fn what_a_host_had_locked_is_free_when_it_is_cut_off() {
    if ceph::is_wanted() {
        return eprintln!("skipped: CephFS shuts a client out that was cut off, until it mounts again");
    }
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let (mut agents, reached) = (with_file(&nodes, "cut-off"), hosts.directory("reached"));
    takes(&mut agents[1], all(By::Process, ALONE));
    agents[0].begin(&waiting(all(By::Process, ALONE)));
    std::thread::sleep(Duration::from_millis(100));
    nodes[1].host.cut();
    let began = Instant::now();
    let got = agents[0].end();
    nodes[1].host.join();
    got.ok();
    println!("its host cut off: another had it {:.1?} later", began.elapsed());
    until_within(30, "it has joined again", || nodes[0].hosts().len() == 3);
    Agent::start(nodes[1].host).reaches_all(&reached);
    is_well(&nodes);
    is_refused(&mut agents[2], all(By::Process, SHARED));
    takes(&mut agents[0], all(By::Process, None));
    takes(&mut agents[2], all(By::Process, ALONE));
}

/// [S-217]
#[test]
fn a_number_that_all_count_under_a_lock_is_the_sum() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let mut agents = with_file(&nodes, "count");
    let (path, times) = (format!("{}/count", nodes[0].at), 60);
    std::fs::write(nodes[0].path("count"), 0u64.to_le_bytes()).expect("write");
    for (round, by) in (1..).zip([By::Flock, By::Process, By::OpenFile]) {
        let began = Instant::now();
        agents.iter_mut().for_each(|agent| agent.begin(&Call::Count { path: path.clone(), times, by }));
        agents.iter().for_each(|agent| drop(agent.end().ok()));
        let bytes = std::fs::read(nodes[1].path("count")).expect("read");
        let sum = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        assert_eq!(sum, round * times * 4, "{by:?}");
        println!("{by:?}: {} turns in {:.1?}", times * 4, began.elapsed());
    }
}

/// [S-219]
#[test]
fn where_locks_do_not_reach_the_others_they_are_an_error() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::new(&hosts, "unlocked", State::Redis, "");
    let nodes = [shared.node(0), shared.node(1)];
    nodes[0].up();
    let mut first = Agent::of_user(nodes[0].host);
    first.open(&format!("{}/f", nodes[0].at), "f");
    takes(&mut first, all(By::Process, ALONE));
    takes(&mut first, all(By::Process, None));
    // As on a file system that keeps locks local: other hosts do not see the locks of this one.
    let (own, theirs) = (format!("{LOCAL}/unlocked.locks"), "/run/shared/unlocked/namespace/nodes/locks");
    nodes[1].host.must("sh", &["-c", &format!("touch {own}; mount --bind {own} {theirs}")]);
    nodes[1].up();
    let mut second = Agent::of_user(nodes[1].host);
    second.open(&format!("{}/f", nodes[1].at), "f");
    for by in [By::Flock, By::Process, By::OpenFile] {
        let result = second.call(Call::Lock(all(by, ALONE))).result;
        assert_eq!(result, Err(Errno::NOLCK), "{by:?}");
    }
    until_within(30, "the first knows of it", || {
        let result = first.call(Call::Lock(all(By::Process, SHARED))).result;
        result == Err(Errno::NOLCK)
    });
    drop((first, second));
    nodes[1].down();
    nodes[1].host.must("umount", &[theirs]);
    nodes[1].up();
    let mut second = Agent::of_user(nodes[1].host);
    second.open(&format!("{}/f", nodes[1].at), "f");
    until_within(30, "they reach", || second.call(Call::Lock(all(By::Process, ALONE))).result.is_ok());
    drop(second);
    nodes.iter().for_each(Node::down);
}
