//! Three hosts and a file server on one machine: each has a network, mounts, processes, a name and a boot of its own.
//!
//! ```text
//!   server 10.79.0.100: GlusterFS over three bricks, Redis
//!      │
//!   switch, a bridge in a network namespace of its own
//!      ├────────────────┬────────────────┐
//!   10.79.0.1        10.79.0.2        10.79.0.3     on each: /run/shared (GlusterFS), /run/local, /run/mnt
//! ```
//! The bricks are not on the hosts: a host that is cut off would take a third of all names with it. Files lie in
//! memory, on paths that are the same everywhere. Nothing is visible outside, and nothing stays.

use crate::agent::Agent;
use crate::real::until;
use crate::space::Space;
use crate::{ceph, gluster, soak};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The file system that all hosts have mounted.
pub const SHARED: &str = "/run/shared";
/// Local directory of each host.
pub const LOCAL: &str = "/run/local";
/// Directory of the mount points.
pub const MOUNTS: &str = "/run/mnt";
/// An ordinary user of all hosts.
pub const USER: u32 = 1234;
/// Number of the server.
const SERVER: usize = 100;
/// Seconds that a command on a host may take.
const COMMAND_SECONDS: &str = "60";
/// The program ends itself then: a call on a mount has no limit of its own. A benchmark sets [`SECONDS`].
const PROGRAM: Duration = Duration::from_secs(2400);
const SECONDS: &str = "ENTREPOT_CLUSTER_SECONDS";

/// All hosts of the tests.
pub struct Hosts {
    pub hosts: Vec<Host>,
    pub server: Host,
    // After all of them.
    _switch: Space,
}

/// One of the hosts.
pub struct Host {
    /// From 1 on; the server is [`SERVER`].
    pub number: usize,
    space: Space,
    switch: u32,
    is_cut: AtomicBool,
}

/// The hosts of this program, for one test at a time; `None` after a message with the reason.
pub fn hosts() -> Option<MutexGuard<'static, Hosts>> {
    static HOSTS: OnceLock<Option<Result<Mutex<Hosts>, String>>> = OnceLock::new();
    // A failed start fails once, not for each test.
    let up = || std::panic::catch_unwind(|| Hosts::up(3).map(Mutex::new)).ok();
    match HOSTS.get_or_init(up).as_ref().expect("hosts that start") {
        Ok(hosts) => {
            // A test that failed leaves them as they are.
            let hosts = hosts.lock().unwrap_or_else(PoisonError::into_inner);
            let all = hosts.hosts.iter().chain([&hosts.server]);
            all.filter(|host| host.is_cut.load(Ordering::Relaxed)).for_each(Host::join);
            if !hosts.server.redis_answers() {
                hosts.server.start_redis();
            }
            Some(hosts)
        }
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

fn missing() -> Option<&'static str> {
    let tools = ["glusterd", "gluster", "glusterfs", "redis-server", "redis-cli", "ip", "unshare", "nsenter"];
    let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    tools.into_iter().find(|tool| !places.iter().any(|place| Path::new(place).join(tool).exists()))
}

impl Hosts {
    /// Starts `count` hosts.
    ///
    /// # Errors
    /// The missing tool or permission.
    pub fn up(count: usize) -> Result<Hosts, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("needs root for namespaces".into());
        }
        if let Some(tool) = missing() {
            return Err(format!("{tool} is not installed (scripts/setup.sh test installs it)"));
        }
        std::fs::File::options().read(true).write(true).open("/dev/fuse").map_err(|e| format!("/dev/fuse: {e}"))?;
        let seconds = std::env::var(SECONDS).ok().and_then(|seconds| seconds.parse().ok());
        let longest = seconds.map_or(PROGRAM, Duration::from_secs) + soak::wanted().unwrap_or_default();
        std::thread::spawn(move || {
            std::thread::sleep(longest);
            eprintln!("cluster: not over after {longest:?}");
            std::process::abort();
        });
        let began = Instant::now();
        let switch = Space::start(&["--net"], "ip link add switch type bridge; ip link set switch up")?;
        let start = |number| Host::start(number, switch.pid);
        let hosts = (1..=count).map(start).collect::<Result<Vec<_>, _>>()?;
        let hosts = Hosts { hosts, server: start(SERVER)?, _switch: switch };
        if ceph::is_wanted() {
            ceph::start(&hosts.server, &hosts.hosts);
        } else {
            gluster::start(&hosts.server, &hosts.hosts);
        }
        hosts.server.start_redis();
        println!("{count} hosts were up after {:.1?}", began.elapsed());
        Ok(hosts)
    }

    /// A new directory that all share.
    pub fn directory(&self, name: &str) -> String {
        let path = format!("{SHARED}/{name}");
        self.hosts[0].must("mkdir", &["-p", &path]);
        path
    }

    /// Mounts the shared file system once more on a host; the process of its client there.
    pub fn another_client(&self, host: &Host, at: &str) -> String {
        let pid_file = format!("{at}.pid");
        host.must("mkdir", &[at]);
        if ceph::is_wanted() {
            ceph::mount(host, at, &pid_file);
        } else {
            gluster::mount(host, &self.server.address(), at, &pid_file);
        }
        host.must("cat", &[&pid_file]).trim().to_owned()
    }

    /// The `state` of a volume of these hosts.
    pub fn redis_url(&self) -> String {
        format!("redis://{}:{REDIS_PORT}", self.server.address())
    }

    /// Ends Redis as a crash would.
    pub fn kill_redis(&self) {
        // Until it is dead, its port is taken.
        let dead = "while grep -q '^State:[[:space:]]*[^ZX]' /proc/$p/status 2>/dev/null; do sleep 0.01; done";
        self.server.must("sh", &["-c", &format!("p=$(cat {REDIS_PID}); kill -9 $p; {dead}")]);
    }

    /// Stops Redis as a host does that has too much to do, or has it go on: no connection breaks.
    pub fn signal_redis(&self, signal: &str) {
        self.server.must("sh", &["-c", &format!("kill {signal} $(cat {REDIS_PID})")]);
    }

    /// Remembers what Redis has on disk now.
    pub fn keep_redis(&self) {
        self.server.must("sh", &["-c", &format!("rm -rf {LOCAL}/redis.old; cp -a {LOCAL}/redis {LOCAL}/redis.old")]);
    }

    /// Starts Redis, which was killed, with what was remembered.
    pub fn put_redis_back(&self) {
        self.server.must("sh", &["-c", &format!("rm -rf {LOCAL}/redis; mv {LOCAL}/redis.old {LOCAL}/redis")]);
        self.server.start_redis();
    }

    /// One process on each host that does calls.
    pub fn agents(&self) -> Vec<Agent<'_>> {
        self.hosts.iter().map(Agent::start).collect()
    }
}

impl Host {
    fn start(number: usize, switch: u32) -> Result<Host, String> {
        let script = format!(
            "mount -t proc proc /proc
            hostname host{number}
            mount -t tmpfs -o mode=755 tmpfs /run
            mkdir /run/gluster /run/lib /run/log /run/brick {SHARED} {LOCAL} {MOUNTS}
            mount -t tmpfs -o mode=755 tmpfs /var/lib
            mkdir /var/lib/glusterd
            mount --bind /run/lib /var/lib/glusterd
            mount --bind /run/log /var/log/glusterfs
            sed s/^......../{number:08}/ /proc/sys/kernel/random/boot_id >/run/boot_id
            mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
            mount -t tmpfs tmpfs /run/brick
            if ! setfattr -n user.test -v 1 /run/brick 2>/dev/null; then # before Linux 6.6
                umount /run/brick
                truncate -s 1G /run/disk
                mkfs.ext4 -q -O ^has_journal /run/disk
                mount -o loop /run/disk /run/brick
            fi
            ip link set lo up"
        );
        let own = ["--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--propagation", "private"];
        let space = Space::start(&own, &script)?;
        let host = Host { number, switch, space, is_cut: AtomicBool::new(false) };
        let (pid, address) = (host.space.pid, host.address());
        host.at_switch(&format!(
            "ip link add v{number} type veth peer name eth0 netns {pid}; ip link set v{number} master switch up"
        ))?;
        host.must("sh", &["-c", &format!("ip addr add {address}/24 dev eth0; ip link set eth0 up")]);
        Ok(host)
    }

    fn at_switch(&self, script: &str) -> Result<(), String> {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.switch.to_string(), "-n", "timeout", "-s", "KILL", COMMAND_SECONDS]);
        let done = command.args(["sh", "-ec", script]).output().map_err(|error| format!("nsenter: {error}"))?;
        let said = || format!("network: {}", String::from_utf8_lossy(&done.stderr).trim());
        if done.status.success() { Ok(()) } else { Err(said()) }
    }

    /// Takes its cable out.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
        self.at_switch(&format!("ip link set v{} nomaster", self.number)).expect("cut");
    }

    /// Puts its cable back.
    pub fn join(&self) {
        self.at_switch(&format!("ip link set v{} master switch", self.number)).expect("join");
        self.is_cut.store(false, Ordering::Relaxed);
    }

    pub fn address(&self) -> String {
        format!("10.79.0.{}", self.number)
    }

    /// Process in the host's namespaces, as a pid of the outside.
    pub fn pid(&self) -> u32 {
        self.space.pid
    }

    /// A path of the host as this process can open it. Calls there have no time limit: not for a mount that may hang.
    pub fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.space.pid))
    }

    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.space.pid.to_string(), "-m", "-n", "-u", "-p", "--"]).stdin(Stdio::null());
        command
    }

    /// A command there, killed when it takes too long.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.enter();
        command.args(["timeout", "-s", "KILL", COMMAND_SECONDS, program]);
        command
    }

    /// A process there that lives as long as its owner wants, or the host does.
    pub fn process(&self, program: &Path) -> Command {
        let mut command = self.enter();
        command.arg(program);
        command
    }

    pub fn run(&self, program: &str, words: &[&str]) -> Output {
        self.command(program).args(words).output().expect("nsenter")
    }

    /// Runs a command that must succeed; returns its output.
    pub fn must(&self, program: &str, words: &[&str]) -> String {
        let done = self.run(program, words);
        let (said, wrong) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        let number = self.number;
        assert!(done.status.success(), "host {number}: {program} {words:?}: {}: {said}{wrong}", done.status);
        said.into_owned()
    }

    /// Starts something that goes to the background by itself.
    pub fn daemon(&self, program: &str, words: &[&str]) {
        let done = self.command(program).args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(done.expect("nsenter").success(), "host {}: {program} {words:?}", self.number);
    }

    pub fn start_redis(&self) {
        let (address, dir) = (self.address(), format!("{LOCAL}/redis"));
        self.must("mkdir", &["-p", &dir]);
        let (port, network) = (["--port", REDIS_PORT], ["--bind", &address, "--protected-mode", "no"]);
        let files = ["--dir", &dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always"];
        self.daemon(
            "redis-server",
            &[&port[..], &network, &files, &["--daemonize", "yes", "--pidfile", REDIS_PID]].concat(),
        );
        until("Redis answers", || self.redis_answers());
    }

    fn redis_answers(&self) -> bool {
        self.run("redis-cli", &["-h", &self.address(), "ping"]).stdout.starts_with(b"PONG")
    }
}

const REDIS_PORT: &str = "6379";
const REDIS_PID: &str = "/run/redis.pid";
