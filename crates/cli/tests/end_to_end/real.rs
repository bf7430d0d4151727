//! A volume of the real binary in a temporary directory; unmounted and ended whatever the test did.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A volume that is up.
pub struct Volume {
    pub dir: tempfile::TempDir,
    /// Path of its `volume.toml`.
    pub toml: PathBuf,
    /// Mount point of the volume.
    pub at: PathBuf,
    /// A copy of the binary where every user may run it.
    pub binary: PathBuf,
    /// Variables of the daemon and of all commands.
    pub environment: Vec<(String, String)>,
}

impl Volume {
    /// Sets a volume up and mounts it; `None` after a message if that is not possible.
    pub fn up() -> Option<Volume> {
        Volume::up_with(|toml| toml)
    }

    /// `up` with edits of the `volume.toml` that `init` writes.
    pub fn up_with(edit: impl FnOnce(String) -> String) -> Option<Volume> {
        Volume::up_in(Vec::new(), edit)
    }

    /// `up_with` in another environment.
    pub fn up_in(environment: Vec<(String, String)>, edit: impl FnOnce(String) -> String) -> Option<Volume> {
        Volume::make(environment, None, edit)
    }

    /// `up_with` in a directory that is not there yet.
    pub fn up_at(home: PathBuf, edit: impl FnOnce(String) -> String) -> Option<Volume> {
        Volume::make(Vec::new(), Some(home), edit)
    }

    fn make(
        environment: Vec<(String, String)>,
        home: Option<PathBuf>,
        edit: impl FnOnce(String) -> String,
    ) -> Option<Volume> {
        let dir = tempfile::Builder::new().prefix("entrepot-test").tempdir().expect("temp dir");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).expect("chmod");
        if let Err(e) = std::fs::File::options().read(true).write(true).open("/dev/fuse") {
            eprintln!("skipped: /dev/fuse: {e}");
            return None;
        }
        let at = dir.path().canonicalize().expect("real path").join("mnt");
        std::fs::create_dir(&at).expect("mount point");
        let binary = dir.path().join("entrepot");
        // By another process: a child that another test forks just now would keep ours open for writing, and busy.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_entrepot")).arg(&binary).status();
        assert!(copied.expect("cp").success());
        let home = home.unwrap_or_else(|| dir.path().join("vol"));
        let volume = Volume { toml: home.join("volume.toml"), at, binary, environment, dir };
        volume.ok(&["init", home.to_str().expect("UTF-8")]);
        let text = std::fs::read_to_string(&volume.toml).expect("volume.toml");
        std::fs::write(&volume.toml, edit(text)).expect("volume.toml");
        let up = volume.run(&volume.up_words());
        if !up.status.success() && (err(&up).contains("not permitted") || err(&up).contains("fusermount3")) {
            eprintln!("skipped: {}", err(&up));
            return None;
        }
        assert!(up.status.success(), "{}", err(&up));
        Some(volume)
    }

    fn up_words(&self) -> Vec<&str> {
        let (toml, at) = (self.toml.to_str().expect("UTF-8"), self.at.to_str().expect("UTF-8"));
        vec!["up", toml, "--at", at, "--detach"]
    }

    /// Mounts it once more.
    pub fn up_again(&self) {
        self.ok(&self.up_words());
    }

    /// Runs a command in the mount.
    pub fn run(&self, words: &[&str]) -> Output {
        let inside = std::fs::metadata(&self.at).is_ok() && !matches!(words[0], "up" | "down" | "init");
        self.run_in(if inside { &self.at } else { Path::new("/") }, words)
    }

    /// Runs a command somewhere.
    pub fn run_in(&self, dir: &Path, words: &[&str]) -> Output {
        let mut command = Command::new(&self.binary);
        command.env("ENTREPOT_VOLUME", &self.toml).args(words).current_dir(dir);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.output().expect("the binary runs")
    }

    /// Runs a command in the mount as an ordinary user, who finds the volume by where she is.
    pub fn run_as_nobody(&self, words: &[&str]) -> Output {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(&self.binary);
        command.args(words).env_remove("ENTREPOT_VOLUME").current_dir(&self.at);
        command.output().expect("setpriv runs")
    }

    /// Runs a command that must succeed.
    pub fn ok(&self, words: &[&str]) {
        let output = self.run(words);
        if !output.status.success() {
            panic!("{words:?}: {}{}\n{}", out(&output), err(&output), self.log_if_any());
        }
    }

    /// JSON output of a command.
    pub fn json(&self, words: &[&str]) -> Value {
        let output = self.run(&[words, &["--output", "json"]].concat());
        if !output.status.success() {
            let log = std::fs::read_to_string(self.log_file()).unwrap_or_default();
            panic!("{words:?}: {}\n{log}", err(&output));
        }
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Value of a counter of the metrics.
    pub fn counted(&self, name: &str) -> u64 {
        let metrics = out(&self.run(&["stats", "--prometheus"]));
        let line = metrics.lines().find(|line| line.starts_with(&format!("entrepot_{name}_total{{")));
        let value = line.unwrap_or_else(|| panic!("{name} in {metrics}")).rsplit(' ').next().expect("a value");
        value.parse().expect("a number")
    }

    /// The state of a target.
    pub fn state_of(&self, target: &str) -> String {
        let all = self.json(&["target", "list"]);
        let found = all["targets"].as_array().expect("targets").iter().find(|t| t["name"] == target).cloned();
        found.expect("the target")["state"].as_str().expect("a state").to_string()
    }

    /// Value of a count of `status`.
    pub fn count(&self, part: &str, name: &str) -> u64 {
        let status = self.run_in(Path::new("/"), &["status", "--output", "json"]);
        let status: Value = serde_json::from_slice(&status.stdout).expect("JSON");
        status[part][name].as_u64().unwrap_or_else(|| panic!("{part}.{name} in {status}"))
    }

    /// Value of a field in a part of `status` that can be missing.
    pub fn count_if_any(&self, part: &str, name: &str) -> Option<u64> {
        self.json(&["status"])[part][name].as_u64()
    }

    /// Waits until `check` finds nothing. The objects of a removed file go a little after its name.
    pub fn until_nothing_is_left(&self) {
        until("check finds nothing", || code(&self.run(&["check"])) == 0);
    }

    /// Log of the daemon.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).expect("the log")
    }

    /// Log of the daemon; empty if there is none.
    pub fn log_if_any(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.toml.parent().expect("a directory").join("state/daemon.log")
    }

    /// The ranges of a file that lie on a target and in no other in-sync mirror.
    pub fn ranges_on(&self, file: &str, target: &str) -> Vec<Range<usize>> {
        let layout = self.json(&["layout", file]);
        let size = layout["size"].as_u64().expect("size") as usize;
        let mut ranges = Vec::new();
        for segment in layout["mirrors"][0]["segments"].as_array().expect("segments") {
            let number = |name: &str| segment[name].as_u64().map(|n| n as usize);
            let (start, end) = (number("start").expect("start"), number("end").unwrap_or(size).min(size));
            let objects = segment["objects"].as_array().expect("objects");
            let stripe = number("stripe_size").expect("stripe size");
            for (k, from) in (start..end).step_by(stripe).enumerate() {
                if objects[k % objects.len()]["target"] == target {
                    ranges.push(from..(from + stripe).min(end));
                }
            }
        }
        ranges
    }

    /// Process id of the daemon.
    pub fn pid(&self) -> Option<Pid> {
        let status = self.run_in(Path::new("/"), &["status", "--output", "json"]);
        let status: Value = serde_json::from_slice(&status.stdout).ok()?;
        Pid::from_raw(i32::try_from(status["pid"].as_i64()?).ok()?)
    }

    /// Kills the daemon as a crash would, and waits until it is gone.
    pub fn kill(&self) {
        let pid = self.pid().expect("a daemon");
        kill_process(pid, Signal::KILL).expect("kill");
        while !is_over(pid) {
            std::thread::yield_now();
        }
    }
}

/// A daemon whose parent is a process that reaps nothing stays as a zombie.
pub fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

/// Whether a daemon that was killed holds nothing any more: its first thread may be over before the others are, and
/// with them the socket and the locks.
pub fn is_over(pid: Pid) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let is_alone = threads.map_or(true, |threads| threads.count() <= 1);
    rustix::process::test_kill_process(pid).is_err() || (is_zombie(pid) && is_alone)
}

impl Drop for Volume {
    fn drop(&mut self) {
        let down = self.run_in(Path::new("/"), &["down", "--force"]);
        if down.status.success()
            || !std::fs::read_to_string("/proc/mounts").is_ok_and(|m| m.contains(&*self.at.to_string_lossy()))
        {
            return;
        }
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
        let _ = Command::new("fusermount3").arg("-uzq").arg(&self.at).status();
    }
}

/// The exit code.
pub fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

/// Standard output as text.
pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Bytes that no hole and no other place in the file looks like.
pub fn noise(len: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64 ^ len as u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        bytes.extend_from_slice(&x.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Waits until something is so; a minute is for ever.
pub fn until(what: &str, so: impl FnMut() -> bool) {
    until_within(60, what, so);
}

/// `until` with a time limit of its own, for conditions that depend on other programs.
pub fn until_within(seconds: u64, what: &str, mut so: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !so() {
        assert!(began.elapsed() < std::time::Duration::from_secs(seconds), "it never came to pass: {what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// The kernel forgets the pages of a file, so that the next read asks the daemon.
pub fn drop_caches_of(path: &Path) {
    let file = std::fs::File::open(path).expect("open");
    file.sync_all().expect("sync");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("fadvise");
}
