//! A mount point with several connections to a directory or to a GlusterFS server of the test's own.

use connect::set::{BytesOver, SetOptions};
use connect::{Connected, Options, Recipe, Status};
use node::control::Problem;
use policy::Time;
use policy::connections::{LinkConfig, Policy};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The mount point, removed at the end.
pub struct Behind {
    pub connected: Connected,
    dir: tempfile::TempDir,
}

pub fn options(connections: u16, policy: Policy, kind: &str) -> Options {
    let moment = Duration::from_millis(100);
    Options {
        set: SetOptions {
            connections,
            policy,
            link: LinkConfig {
                probe_interval: Time::from_millis(200),
                deadline: Time::from_secs(2),
                ..LinkConfig::default()
            },
            patience: Duration::from_secs(60),
            bytes_over: BytesOver::Mount,
            kind: kind.into(),
        },
        timeout: moment,
        passthrough: true,
        write_behind_bytes: connect::options::WRITE_BEHIND_BYTES,
        name: "test".into(),
    }
}

impl Behind {
    /// Runs over bind mounts of a directory; does nothing where mounts are not permitted.
    pub fn bind(connections: u16, policy: Policy) -> Option<Behind> {
        let dir = tempfile::tempdir().unwrap();
        let backing = dir.path().join("backing");
        fs::create_dir(&backing).unwrap();
        let recipe = Recipe { kind: "bind".into(), servers: vec![backing.display().to_string()], options: Vec::new() };
        Behind::start(dir, recipe, options(connections, policy, "bind"))
    }

    pub fn start(dir: tempfile::TempDir, recipe: Recipe, options: Options) -> Option<Behind> {
        Behind::try_start(dir, recipe, options).unwrap()
    }

    pub fn try_start(dir: tempfile::TempDir, recipe: Recipe, options: Options) -> Result<Option<Behind>, Problem> {
        if !rustix::process::geteuid().is_root()
            || fs::File::options().read(true).write(true).open("/dev/fuse").is_err()
        {
            eprintln!("skipped: root and /dev/fuse are needed");
            return Ok(None);
        }
        let at = dir.path().join("mnt");
        fs::create_dir(&at).unwrap();
        let connected = Connected::start(recipe, &at, options)?;
        Ok(Some(Behind { connected, dir }))
    }

    pub fn at(&self) -> &Path {
        self.connected.path()
    }

    /// The directory behind a mount point of [`Behind::bind`].
    pub fn backing(&self) -> PathBuf {
        self.dir.path().join("backing")
    }

    pub fn status(&self) -> Status {
        self.connected.status()
    }

    /// Waits until all connections are in use again and `times` mounts were repeated.
    pub fn whole_again(&self, times: u64) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let status = self.status();
            let again: u64 = status.connections.iter().map(|c| c.mounted_again).sum();
            if again >= times && status.connections.iter().all(|c| c.state == "in use") {
                return;
            }
            assert!(Instant::now() < until, "not whole again: {status:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.connected.unmount().or_else(|_| self.connected.detach()).unwrap();
        self.connected.wait().unwrap();
    }
}

/// A GlusterFS server in a network namespace; gone at the end.
pub struct Gluster {
    pub volume: String,
    shell: Child,
    said: BufReader<std::process::ChildStdout>,
    _dir: tempfile::TempDir,
    /// One at a time: tests kill clients by this process's number, and mounting is slow enough alone.
    _alone: std::sync::MutexGuard<'static, ()>,
}

static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

impl Gluster {
    /// Starts a server; `None` if that is not possible here.
    pub fn start() -> Option<Gluster> {
        let there = |tool: &&str| {
            Command::new("sh").args(["-c", &format!("command -v {tool} >/dev/null")]).status().unwrap().success()
        };
        let missing = ["glusterd", "gluster", "glusterfs", "ip", "tc", "ss"].into_iter().find(|tool| !there(tool));
        if !rustix::process::geteuid().is_root() || missing.is_some() {
            eprintln!("skipped: root and GlusterFS are needed; missing: {missing:?}");
            return None;
        }
        let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        let helper = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../benches/connections/server.sh");
        let script = ". \"$1\"; trap server_down EXIT; server_up \"$2\" >&2 && echo \"$server:/$volume\"; while read -r line; do $line >&2; echo done; done";
        let mut shell = Command::new("bash");
        shell.args(["-c", script, "bash"]).arg(helper).arg(dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut said = BufReader::new(shell.stdout.take().unwrap());
        let mut volume = String::new();
        said.read_line(&mut volume).unwrap();
        if volume.trim().is_empty() {
            eprintln!("skipped: no GlusterFS server starts here");
            drop(shell.stdin.take());
            shell.wait().unwrap();
            return None;
        }
        Some(Gluster { volume: volume.trim().into(), shell, said, _dir: dir, _alone: alone })
    }

    /// Runs a function of the helper.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.shell.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.said.read_line(&mut String::new()).unwrap();
    }

    pub fn behind(&self, connections: u16, policy: Policy) -> Option<Behind> {
        self.behind_over(connections, policy, BytesOver::Mount)
    }

    /// With bytes over the mounts or the library; nothing where there is none.
    pub fn behind_over(&self, connections: u16, policy: Policy, bytes_over: BytesOver) -> Option<Behind> {
        if bytes_over == BytesOver::Library
            && let Err(why) = connect::gfapi::present()
        {
            eprintln!("skipped: {why}");
            return None;
        }
        let recipe = Recipe { kind: "glusterfs".into(), servers: vec![self.volume.clone()], options: Vec::new() };
        let mut options = options(connections, policy, "glusterfs");
        options.set.bytes_over = bytes_over;
        Behind::start(tempfile::tempdir().unwrap(), recipe, options)
    }
}

impl Drop for Gluster {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        self.shell.wait().unwrap();
    }
}

/// The processes that serve this test's connections, by the number of the connection.
pub fn clients(connections: u16) -> Vec<Option<i32>> {
    let ours = format!("/run/entrepot-connect-{}-", std::process::id());
    let mut found = vec![None; usize::from(connections)];
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if ![&b"glusterfs"[..], b"sshfs", b"/sbin/mount.fuse.sshfs"].iter().any(|name| line.starts_with(name)) {
            continue;
        }
        for word in line.split(|b| *b == 0).map(String::from_utf8_lossy).filter(|word| word.starts_with(&ours)) {
            let number: usize = word.rsplit('/').next().unwrap().parse().unwrap();
            found[number] = Some(pid);
        }
    }
    found
}
