//! An Entrepot volume whose names and objects lie on the file system that the hosts share, with a daemon on each host
//! that is to have one.

use crate::hosts::{Host, Hosts, LOCAL, MOUNTS, USER, hosts};
use crate::real::{code, err, noise, until, until_within};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Output;

/// Number of targets: `target1` and so on.
pub const TARGETS: usize = 2;

/// The name of the volume of tests of several nodes.
pub const NODES: &str = "nodes";
/// A machine with much else to do is no failed target.
pub const PATIENT: &str = "[health]\ndeadline = \"30s\"\n";

/// A volume of the hosts; one `volume.toml` for all.
pub struct Shared<'a> {
    hosts: &'a Hosts,
    name: String,
    toml: String,
}

/// The volume's node on one host.
pub struct Node<'a> {
    pub host: &'a Host,
    toml: String,
    stays: bool,
    /// Mount point on the host.
    pub at: String,
    state: String,
}

/// Place of the state that the daemons share, or that one of them has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    Embedded,
    Redis,
}

impl Shared<'_> {
    /// Makes a volume that no node serves yet.
    pub fn new<'a>(hosts: &'a Hosts, name: &str, state: State, more: &str) -> Shared<'a> {
        let dir = hosts.directory(name);
        let target = |n: usize| {
            hosts.directory(&format!("{name}/target{n}"));
            format!("[[target]]\nname = \"target{n}\"\npath = \"{dir}/target{n}\"\n")
        };
        let targets: String = (1..=TARGETS).map(target).collect();
        hosts.directory(&format!("{name}/namespace"));
        let store = match state {
            State::Embedded => String::new(),
            State::Redis => format!("state_store = \"{}\"\n", hosts.redis_url()),
        };
        let toml = format!("{dir}/volume.toml");
        let text = format!(
            "name = \"{name}\"\nnamespace = \"{dir}/namespace\"\nstate = \"{LOCAL}/{name}\"\n{store}\
             [tier.disk]\nspeed = \"200/100\"\n{targets}{more}"
        );
        std::fs::write(hosts.hosts[0].path(&toml), text).expect("volume.toml");
        Shared { hosts, name: name.into(), toml }
    }

    /// The node on a host, from 0 on.
    pub fn node(&self, host: usize) -> Node<'_> {
        let host = &self.hosts.hosts[host];
        let (at, state) = (format!("{MOUNTS}/{}", self.name), format!("{LOCAL}/{}", self.name));
        host.must("mkdir", &["-p", &at, &state]);
        Node { host, toml: self.toml.clone(), stays: self.name == NODES, at, state }
    }
}

impl Shared<'_> {
    /// The volume that tests of several nodes have, one after the other. It stays up, since that takes seconds.
    pub fn of_all(hosts: &Hosts) -> Shared<'_> {
        Shared::new(hosts, NODES, State::Redis, PATIENT)
    }

    /// Mounts it on all hosts.
    pub fn up(&self) -> Vec<Node<'_>> {
        let nodes: Vec<Node<'_>> = (0..self.hosts.hosts.len()).map(|host| self.node(host)).collect();
        nodes.iter().filter(|node| !node.run(&["status"]).status.success()).for_each(Node::up);
        is_well(&nodes);
        nodes
    }
}

/// All know each other and use all targets: to a node that was cut off, all had failed.
pub fn is_well(nodes: &[Node<'_>]) {
    until_within(30, "all know each other", || nodes.iter().all(|node| node.hosts().len() == nodes.len()));
    for node in nodes {
        let away = || node.targets().into_iter().filter(|(_, state)| state != "ok").collect::<Vec<_>>();
        let (began, mut left) = (std::time::Instant::now(), away());
        while !left.is_empty() {
            let restored: Vec<_> = left.iter().map(|(target, _)| node.run(&["target", "restore", target])).collect();
            let said = || restored.iter().map(|done| String::from_utf8_lossy(&done.stderr)).collect::<String>();
            let in_time = began.elapsed().as_secs() < 30;
            assert!(in_time, "{} does not use {left:?}: {}\n{}", node.name(), said(), node.log());
            left = away();
        }
    }
}

/// Index of the node that leads.
pub fn leading(nodes: &[Node<'_>]) -> usize {
    let mut led = None;
    let leads = |node: &Node<'_>| node.name() == nodes[0].leader();
    until_within(30, "one leads", || {
        led = nodes.iter().position(leads);
        led.is_some()
    });
    led.expect("one leads")
}

/// The logs of all nodes, one after the other.
pub fn logs(nodes: &[Node<'_>]) -> String {
    nodes.iter().map(|node| format!("host {}:\n{}\n", node.host.number, node.log())).collect()
}

/// Checks on all nodes together that nothing is lost, half done or left over.
pub fn are_in_order(nodes: &[Node<'_>]) {
    let mut found = Value::Null;
    let asked = nodes.last().expect("a node");
    let mut in_order = || {
        found = asked.checked(&[]).1;
        let took_part = found["nodes"].as_array().is_some_and(|parts| parts.len() == nodes.len());
        found["healthy"] == true && took_part && found["findings"].as_array().is_some_and(Vec::is_empty)
    };
    let began = std::time::Instant::now();
    while !in_order() {
        assert!(began.elapsed().as_secs() < 30, "by host {}: {found:#}\n{}", asked.host.number, logs(nodes));
    }
}

impl Node<'_> {
    /// The host's name.
    pub fn name(&self) -> String {
        format!("host{}", self.host.number)
    }

    /// A file that this host alone has.
    pub fn local(&self, name: &str) -> String {
        format!("{}/{name}", self.state)
    }

    /// A file of this host that stops the agents there: outside of the state directory, which users cannot search.
    pub fn signal_file(&self, name: &str) -> String {
        format!("{}.{name}.stop", self.state)
    }

    /// A new empty file of [`USER`].
    pub fn new_file(&self, name: &str) {
        drop(std::fs::File::create_new(self.path(name)).expect("a new file"));
        std::os::unix::fs::chown(self.path(name), Some(USER), Some(USER)).expect("chown");
    }

    /// The hosts that have a node, and for each whether it leads, as this one sees it.
    fn listed(&self) -> Vec<(String, bool)> {
        let nodes = self.entrepot(&["node", "list"])["nodes"].take();
        let nodes = nodes.as_array().expect("nodes").iter();
        nodes.map(|node| (node["host"].as_str().unwrap_or("?").into(), node["leads"] == true)).collect()
    }

    /// The number of this node. An expelled node has none until it has joined again.
    pub fn number(&self) -> u64 {
        let mut number = None;
        until_within(30, "the node is a member", || {
            let nodes = self.entrepot(&["node", "list"])["nodes"].take();
            let own = nodes.as_array().expect("nodes").iter().find(|node| node["is_self"] == true);
            number = own.and_then(|node| node["node"].as_u64());
            number.is_some()
        });
        number.expect("a member")
    }

    pub fn hosts(&self) -> Vec<String> {
        self.listed().into_iter().map(|(host, _)| host).collect()
    }

    /// The hosts of nodes that died, and were neither started again nor forgotten.
    pub fn dead(&self) -> Vec<String> {
        let nodes = self.entrepot(&["node", "list"])["dead_nodes"].take();
        let nodes = nodes.as_array().expect("nodes that died").iter();
        nodes.map(|node| node["host"].as_str().expect("a host").into()).collect()
    }

    /// The host that leads, if one does.
    pub fn leader(&self) -> String {
        self.listed().into_iter().find(|(_, leads)| *leads).map(|(host, _)| host).unwrap_or_default()
    }

    /// The targets and their states, as this one sees them.
    pub fn targets(&self) -> Vec<(String, String)> {
        let targets = self.entrepot(&["target", "list"])["targets"].take();
        let word = |target: &Value, name: &str| target[name].as_str().expect("a word").to_owned();
        let targets = targets.as_array().expect("targets").iter();
        targets.map(|target| (word(target, "name"), word(target, "state"))).collect()
    }

    /// Runs a command of the binary.
    pub fn run(&self, words: &[&str]) -> Output {
        let mut command = self.host.command(env!("CARGO_BIN_EXE_entrepot"));
        command.env("ENTREPOT_VOLUME", &self.toml).args(words).output().expect("nsenter")
    }

    /// `run` as a user of the host.
    pub fn run_as(&self, uid: u32, words: &[&str]) -> Output {
        let user = uid.to_string();
        let mut command = self.host.command("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", env!("CARGO_BIN_EXE_entrepot")]);
        command.env("ENTREPOT_VOLUME", &self.toml).args(words).output().expect("nsenter")
    }

    /// JSON output of a command.
    pub fn entrepot(&self, words: &[&str]) -> Value {
        let done = self.run(&[words, &["--output", "json"]].concat());
        assert!(done.status.success(), "host {}: {words:?}: {}\n{}", self.host.number, err(&done), self.log());
        serde_json::from_slice(&done.stdout).expect("JSON")
    }

    /// Checks the volume; the exit code, and the report.
    pub fn checked(&self, more: &[&str]) -> (i32, Value) {
        let done = self.run(&[&["check", "--output", "json"], more].concat());
        let report = serde_json::from_slice(&done.stdout);
        (code(&done), report.unwrap_or_else(|_| panic!("host {}: {}", self.host.number, err(&done))))
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub fn ok(&self, words: &[&str]) {
        let done = self.run(words);
        assert!(done.status.success(), "host {}: {words:?}: {}\n{}", self.host.number, err(&done), self.log());
    }

    /// Empties a target. While an object remains that a node has yet to release, the order is repeated.
    pub fn empties(&self, target: &str) {
        let mut said = String::new();
        let began = std::time::Instant::now();
        loop {
            let done = self.run(&["target", "drain", target]);
            if done.status.success() {
                return;
            }
            said += &err(&done);
            assert!(said.contains("still holds") && began.elapsed().as_secs() < 30, "{said}\n{}", self.log());
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    }

    pub fn try_up(&self) -> Output {
        self.run(&["up", &self.toml, "--at", &self.at, "--detach"])
    }

    pub fn up(&self) {
        let done = self.try_up();
        assert!(done.status.success(), "host {}: up: {}\n{}", self.host.number, err(&done), self.log());
    }

    pub fn down(&self) {
        let done = self.run(&["down"]);
        assert!(done.status.success(), "host {}: down: {}\n{}", self.host.number, err(&done), self.log());
    }

    /// A file of the mount, as this process can open it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.host.path(&format!("{}/{name}", self.at))
    }

    /// Log of the daemon.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.host.path(&format!("{}/daemon.log", self.state))).unwrap_or_default()
    }

    /// The number of the daemon, on its host.
    pub fn pid(&self) -> String {
        self.entrepot(&["status"])["pid"].to_string()
    }

    fn signal(&self, signal: &str, pid: &str) {
        self.host.must("kill", &[signal, pid]);
    }

    /// Stops the daemon as a host stops that has too much to do, until what is given back is dropped.
    pub fn freeze(&self) -> Frozen<'_> {
        let pid = self.pid();
        self.signal("-STOP", &pid);
        Frozen { node: self, pid }
    }

    /// Stops the daemon for a while, by one process that runs before: while the daemon stands still, a process that has
    /// files of its mount open can start no other, whose copies of them are flushed first.
    pub fn stands_still(&self, long: std::time::Duration) {
        let (pid, seconds) = (self.pid(), long.as_secs_f64());
        self.host.must("sh", &["-c", &format!("kill -STOP {pid}; sleep {seconds}; kill -CONT {pid}")]);
    }

    /// Ends the daemon as a crash would, frozen or not, and what is left of its mount.
    pub fn kill(&self, pid: &str) {
        self.signal("-KILL", pid);
        until("it is gone", || !self.host.run("kill", &["-0", pid]).status.success());
        self.host.must("umount", &["-l", &self.at]);
    }
}

/// A daemon that stands still.
pub struct Frozen<'a> {
    node: &'a Node<'a>,
    pub pid: String,
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        drop(self.node.host.run("kill", &["-CONT", &self.pid]));
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        if !self.stays {
            drop(self.run(&["down", "--force"]));
        }
    }
}

/// Checks that a second daemon is refused with the name of the first, and changes nothing.
fn is_refused(first: &Node<'_>, second: &Node<'_>) {
    let pid = first.pid();
    let refused = second.try_up();
    let said = err(&refused);
    assert_eq!(code(&refused), 2, "{said}");
    let holder = format!("open already, in process {pid} on host{}", first.host.number);
    assert!(said.contains(&holder) && said.contains("the volume is not opened"), "{said}");
    assert!(said.contains("  next: "), "{said}");
    let mounted = std::fs::read_to_string(second.host.path("/proc/1/mounts")).expect("mounts");
    assert!(!mounted.contains(&second.at), "{mounted}");
    assert_eq!(code(&second.run(&["status"])), 3, "no daemon answers there");
    first.entrepot(&["status"]);
}

#[test]
fn a_volume_with_embedded_state_is_refused_on_a_second_host() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::new(&hosts, "embedded", State::Embedded, "");
    let (first, second) = (shared.node(0), shared.node(1));
    first.up();
    let data = noise(3 << 20);
    std::fs::write(first.path("file"), &data).expect("write");
    is_refused(&first, &second);
    assert!(std::fs::read(first.path("file")).expect("read") == data);
    first.down();
    // The state is not on the second host: nothing there records the moves in progress.
    let other = second.try_up();
    assert_eq!(code(&other), 2, "{}", err(&other));
    assert!(err(&other).contains("the volume is not opened"), "{}", err(&other));
    first.up();
    assert!(std::fs::read(first.path("file")).expect("read") == data, "and where it is the volume opens again");
    first.down();
}

#[test]
fn a_volume_is_refused_to_a_daemon_with_another_state() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::new(&hosts, "strange", State::Redis, "");
    let first = shared.node(0);
    first.up();
    std::fs::write(first.path("file"), noise(100_000)).expect("write");
    first.down();
    // The same namespace and targets, with a state of its own.
    let text = std::fs::read_to_string(first.host.path(&first.toml)).expect("volume.toml");
    let store = text.lines().find(|line| line.starts_with("state_store")).expect("a line").to_owned();
    let mut strange = shared.node(1);
    strange.toml = format!("{LOCAL}/strange.toml");
    std::fs::write(strange.host.path(&strange.toml), text.replace(&store, "")).expect("volume.toml");
    let refused = strange.try_up();
    assert_eq!(code(&refused), 2, "{}", err(&refused));
    assert!(
        err(&refused).contains("the volume is not opened") && err(&refused).contains("  next: "),
        "{}",
        err(&refused)
    );
    // Nor does it get a place in another database of the same server, but for the version of what would be written
    // there.
    let wrong = format!("{}/7", hosts.redis_url());
    std::fs::write(strange.host.path(&strange.toml), text.replace(&hosts.redis_url(), &wrong)).expect("volume.toml");
    let refused = strange.try_up();
    assert!(code(&refused) == 2 && err(&refused).contains("with another state"), "{}", err(&refused));
    let keys = strange.host.must("redis-cli", &["-u", &wrong, "keys", "*"]);
    assert!(keys.lines().all(|key| key.ends_with(":schema")), "{keys}");
    first.up();
    assert!(std::fs::read(first.path("file")).expect("read") == noise(100_000));
    first.down();
}

#[test]
fn nodes_have_one_line_for_the_state_and_each_a_directory_of_its_own() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::new(&hosts, "one-line", State::Embedded, "");
    let path = hosts.hosts[0].path(&shared.toml);
    let text = std::fs::read_to_string(&path).expect("volume.toml");
    let (own, one_line) = (format!("\"{LOCAL}/one-line\""), format!("\"{}\"", hosts.redis_url()));
    std::fs::write(&path, text.replace(&own, &one_line)).expect("volume.toml");
    let mut nodes = [shared.node(0), shared.node(1)];
    for node in &mut nodes {
        node.state = "/var/lib/entrepot/one-line".into();
        assert!(!node.host.path(&node.state).exists(), "nobody made it before");
        node.up();
        assert!(node.host.path(&node.state).join("control.sock").exists());
        node.ok(&["status"]);
    }
    let name = |node: &Node<'_>| std::fs::read_to_string(node.host.path(&node.state).join("node")).expect("a name");
    assert_ne!(name(&nodes[0]), name(&nodes[1]));
    std::fs::write(nodes[0].path("file"), noise(3 << 20)).expect("write");
    assert!(std::fs::read(nodes[1].path("file")).expect("read") == noise(3 << 20));
    nodes.iter().for_each(Node::down);
}

/// State in Redis, names and objects in GlusterFS: any host has the volume, one after the other.
#[test]
fn what_one_host_wrote_another_reads_when_it_has_the_volume() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::new(&hosts, "moves", State::Redis, "");
    let data = noise(9 << 20);
    let (first, second) = (shared.node(0), shared.node(1));
    first.up();
    std::fs::write(first.path("large"), &data).expect("write");
    std::fs::write(first.path("small"), b"a few bytes").expect("write");
    first.down();
    second.up();
    assert!(std::fs::read(second.path("large")).expect("read") == data);
    std::fs::write(second.path("small"), b"a few more bytes").expect("write");
    // A frozen node keeps no other out, and neither does a dead one.
    let frozen = second.freeze();
    first.up();
    assert!(std::fs::read(first.path("large")).expect("read") == data);
    assert_eq!(std::fs::read(first.path("small")).expect("read"), b"a few more bytes");
    let pid = frozen.pid.clone();
    drop(frozen);
    assert!(std::fs::read(second.path("large")).expect("read") == data);
    second.kill(&pid);
    std::fs::write(first.path("large"), b"no more").expect("write");
    second.up();
    assert_eq!(std::fs::read(second.path("large")).expect("read"), b"no more");
    second.down();
    first.down();
}
