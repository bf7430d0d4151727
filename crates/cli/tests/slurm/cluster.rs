//! A Slurm of its own in a temporary directory: munged, slurmctld, two slurmd on pretend nodes. They are children of
//! the test, which restarts each that ends too soon and ends all of them at its end.

use crate::ports::Ports;
use crate::real::{self, Volume, err, out};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Account that submits jobs: every Debian has it, and it has no privileges.
pub const USER: u32 = 65534;

/// From the first start of a daemon to two idle nodes. Takes 2 s on an idle machine.
const START_MAX: Duration = Duration::from_secs(150);
/// Maximum number of restarts of daemons that end before the cluster is up.
const BEGUN_ANEW_MAX: u32 = 3;

/// A cluster that is up, with Entrepot installed in it.
pub struct Cluster {
    dir: tempfile::TempDir,
    ports: Ports,
    /// By name: `munged`, `slurmctld`, `n1`, `n2`.
    daemons: RefCell<BTreeMap<&'static str, Child>>,
    /// The user's own directory.
    pub home: PathBuf,
}

fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root to run slurmd for other users".into());
    }
    let programs = ["slurmctld", "slurmd", "munged", "sbatch", "setpriv"];
    let there = |name: &str| ["/usr/sbin", "/usr/bin"].iter().any(|dir| Path::new(dir).join(name).exists());
    programs.into_iter().find(|name| !there(name)).map(|name| format!("{name} is not installed"))
}

impl Cluster {
    /// Directory for a cluster; `None` after a message if the machine cannot run one.
    pub fn place() -> Option<tempfile::TempDir> {
        if let Some(why) = missing() {
            eprintln!("skipped: {why}");
            return None;
        }
        Some(tempfile::Builder::new().prefix("entrepot-slurm").tempdir().expect("temp dir"))
    }

    /// Starts a cluster.
    pub fn start(dir: tempfile::TempDir, volume: &Volume) -> Cluster {
        let open = |path: &Path, mode| {
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("chmod");
        };
        open(dir.path(), 0o755);
        for name in ["state", "spool-n1", "spool-n2", "home", "munge"] {
            std::fs::create_dir(dir.path().join(name)).expect("directory");
        }
        let home = dir.path().join("home");
        std::os::unix::fs::chown(&home, Some(USER), Some(USER)).expect("chown");
        let cluster = Cluster { home, dir, ports: Ports::take(3), daemons: RefCell::default() };
        cluster.write_conf();
        let conf_dir = cluster.dir.path().to_str().expect("UTF-8");
        volume.ok(&["slurm", "install", "--conf-dir", conf_dir]);
        cluster.make_key();
        cluster.bring_up(&["munged"], "munged answers", || cluster.dir.path().join("munge/socket").exists());
        cluster.controller();
        cluster.bring_up(&["n1", "n2"], "both nodes are idle", || {
            out(&cluster.run(None, &["sinfo", "-h", "-p", "batch", "-t", "idle", "-o", "%D"])).trim() == "2"
        });
        cluster
    }

    fn write_conf(&self) {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        let (at, host) = (self.dir.path().display(), host.trim().split('.').next().unwrap_or_default().to_string());
        let [ctld, one, two] = *self.ports.all() else { unreachable!("three") };
        let text = format!(
            "ClusterName=entrepot\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={ctld}\nSlurmUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={at}/munge/socket\nCredType=cred/munge\nMpiDefault=none\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core\nSchedulerType=sched/backfill\n\
             SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0\nReturnToService=2\n\
             SlurmdParameters=config_overrides\nMessageTimeout=60\n\
             BurstBufferType=burst_buffer/lua\nJobSubmitPlugins=lua\nStateSaveLocation={at}/state\n\
             SlurmdSpoolDir={at}/spool-%n\nSlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd-%n.pid\n\
             SlurmctldLogFile={at}/slurmctld.log\nSlurmdLogFile={at}/slurmd-%n.log\nSlurmctldDebug=info\n\
             JobAcctGatherType=jobacct_gather/none\nKillWait=2\n\
             NodeName=n1 NodeAddr=127.0.0.1 NodeHostname={host} Port={one} CPUs=4 RealMemory=100\n\
             NodeName=n2 NodeAddr=127.0.0.1 NodeHostname={host} Port={two} CPUs=4 RealMemory=100\n\
             PartitionName=batch Nodes=n[1-2] Default=YES State=UP\n\
             PartitionName=dataxfer Nodes=ALL MaxNodes=1 MaxCPUsPerNode=4 MaxTime=1-00:00:00 TRESBillingWeights=\"CPU=0,Mem=0\"\n"
        );
        std::fs::write(self.conf(), text).expect("slurm.conf");
    }

    fn conf(&self) -> PathBuf {
        self.dir.path().join("slurm.conf")
    }

    fn make_key(&self) {
        let at = self.dir.path().join("munge");
        std::fs::write(at.join("key"), real::noise(128)).expect("key");
        std::fs::set_permissions(at.join("key"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("chmod");
        std::fs::set_permissions(&at, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
    }

    /// Program and arguments of a daemon, which stays in the foreground.
    fn words(&self, daemon: &str) -> Vec<String> {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_string()).collect();
        match daemon {
            "munged" => {
                let file = |name: &str| self.dir.path().join("munge").join(name).display().to_string();
                let files = [("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("seed-file", "seed")];
                let mut words: Vec<String> = own(&["munged", "--foreground", "--force", "--num-threads=2"]);
                words.extend(files.map(|(option, name)| format!("--{option}={}", file(name))));
                words
            }
            "slurmctld" => own(&["slurmctld", "-D"]),
            node => own(&["slurmd", "-D", "-N", node]),
        }
    }

    fn start_daemon(&self, daemon: &'static str) {
        let log = || {
            let path = self.dir.path().join(format!("{daemon}.out"));
            std::fs::File::options().create(true).append(true).open(path).expect("log")
        };
        let words = self.words(daemon);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("SLURM_CONF", self.conf()).env("TZ", "UTC").env_remove("ENTREPOT_VOLUME");
        command.current_dir(self.dir.path()).stdin(Stdio::null()).stdout(log()).stderr(log());
        self.daemons.borrow_mut().insert(daemon, command.spawn().expect("it starts"));
    }

    /// Starts daemons and waits for a condition. A daemon that ends before is restarted.
    fn bring_up(&self, daemons: &[&'static str], what: &str, so: impl Fn() -> bool) {
        let (began, mut begun_anew) = (Instant::now(), 0);
        daemons.iter().for_each(|daemon| self.start_daemon(daemon));
        while !so() {
            for daemon in daemons {
                let ended = self.daemons.borrow_mut().get_mut(daemon).expect("started").try_wait().expect("wait");
                let Some(status) = ended else { continue };
                begun_anew += 1;
                assert!(begun_anew <= BEGUN_ANEW_MAX, "{daemon} ended with {status}\n{}", self.told());
                eprintln!("{daemon} ended with {status} and is begun anew");
                self.start_daemon(daemon);
            }
            assert!(began.elapsed() < START_MAX, "it never came to pass: {what}\n{}", self.told());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The cluster's own diagnosis, for failures to start.
    fn told(&self) -> String {
        let nodes = self.run(None, &["sinfo", "-N", "-o", "%N %T %E"]);
        let mut told = format!("{}{}", out(&nodes), err(&nodes));
        let entries = std::fs::read_dir(self.dir.path()).expect("logs").flatten().map(|entry| entry.path());
        for path in entries.filter(|path| path.extension().is_some_and(|e| e == "out" || e == "log")) {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let tail: Vec<&str> = text.lines().rev().take(15).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            told += &format!("--- {}\n{}\n", path.display(), tail.join("\n"));
        }
        told
    }

    /// Starts the controller.
    pub fn controller(&self) {
        self.bring_up(&["slurmctld"], "slurmctld answers", || self.run(None, &["scontrol", "ping"]).status.success());
    }

    /// Ends the controller and waits until it is gone.
    pub fn end_controller(&self) {
        self.end("slurmctld");
    }

    fn end(&self, daemon: &'static str) {
        let Some(mut child) = self.daemons.borrow_mut().remove(daemon) else { return };
        let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM);
        let began = Instant::now();
        while child.try_wait().is_ok_and(|status| status.is_none()) {
            if began.elapsed() > Duration::from_secs(20) {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs a command with this cluster's configuration, as root or as a user.
    pub fn run(&self, user: Option<u32>, words: &[&str]) -> Output {
        let id = user.map(|user| user.to_string()).unwrap_or_default();
        let mut command = if user.is_some() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).args(words);
            command
        } else {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]);
            command
        };
        let command = command.env("SLURM_CONF", self.conf()).env("TZ", "UTC").env_remove("ENTREPOT_VOLUME");
        command.current_dir(&self.home).output().expect("it runs")
    }

    /// Submits a script as the user, with `sbatch`.
    pub fn sbatch(&self, name: &str, script: &str) -> Output {
        let path = self.home.join(name);
        std::fs::write(&path, script).expect("script");
        self.run(Some(USER), &["sbatch", "--parsable", path.to_str().expect("UTF-8")])
    }

    /// Submits a script that must be taken; its number.
    pub fn submit(&self, name: &str, script: &str) -> u64 {
        let done = self.sbatch(name, script);
        assert!(done.status.success(), "{}", err(&done));
        out(&done).trim().parse().unwrap_or_else(|_| panic!("{}", out(&done)))
    }

    /// A field of a job, as `squeue -o` names it; empty when Slurm's queue has it no more.
    pub fn queue(&self, job: u64, field: &str) -> String {
        let id = job.to_string();
        out(&self.run(Some(USER), &["squeue", "-h", "-j", &id, "-o", field])).trim().to_string()
    }

    /// `JobState` of a job, also when it is over.
    pub fn state(&self, job: u64) -> String {
        let shown = out(&self.run(None, &["scontrol", "-o", "show", "job", &job.to_string()]));
        let state = shown.split_whitespace().find_map(|word| word.strip_prefix("JobState="));
        state.unwrap_or("none").to_string()
    }

    /// Waits until a job is in that state.
    pub fn until_state(&self, volume: &Volume, job: u64, state: &str) {
        let began = std::time::Instant::now();
        while self.state(job) != state {
            if began.elapsed() > std::time::Duration::from_secs(60) {
                let ours = out(&volume.run(&["slurm", "show", &job.to_string()]));
                let log = std::fs::read_to_string(self.dir.path().join("slurmctld.log")).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(30).collect();
                panic!(
                    "job {job} is {} {}, not {state}\n{ours}\n{}",
                    self.state(job),
                    self.queue(job, "%r"),
                    tail.join("\n")
                );
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// Entrepot's view of a job, as its owner; nothing before Slurm has named it.
    pub fn ours(&self, volume: &Volume, job: u64) -> Value {
        let binary = volume.binary.to_str().expect("UTF-8");
        let toml = volume.toml.to_str().expect("UTF-8");
        let words = ["--volume", toml, "slurm", "show", &job.to_string(), "--output", "json"];
        let shown = self.run(Some(USER), &[&[binary][..], &words].concat());
        if real::code(&shown) == 5 {
            return Value::Null;
        }
        assert!(shown.status.success(), "{}", err(&shown));
        serde_json::from_slice(&shown.stdout).expect("JSON")
    }

    /// Runs our command as the user.
    pub fn user(&self, volume: &Volume, words: &[&str]) -> Output {
        let (binary, toml) = (volume.binary.to_str().expect("UTF-8"), volume.toml.to_str().expect("UTF-8"));
        self.run(Some(USER), &[&[binary, "--volume", toml][..], words].concat())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.run(None, &["scancel", "--full", "-u", "nobody"]);
        for daemon in ["slurmctld", "n1", "n2", "munged"] {
            self.end(daemon);
        }
    }
}
