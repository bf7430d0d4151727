//! A runner with real processes in a temporary directory, and a volume that records its requests.

use jobs::request::*;
use jobs::runner::Runner;
use jobs::volume::Volume;
use jobs::{Config, Error, notice};
use meta::state::{SqliteState, State};
use node::adapt::burst::Mark;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Time limit for the slowest machine; reached only after a failure.
const PATIENCE: Duration = Duration::from_secs(120);

/// A volume mounted at a plain directory.
pub struct FakeVolume {
    mount: PathBuf,
    /// Requests so far, in order.
    pub asked: Mutex<Vec<String>>,
    /// Signals a failure in a thread without a join.
    pub came: Condvar,
    /// Result of the check before dispatch.
    pub check: Mutex<Result<CheckReport, String>>,
}

impl Volume for FakeVolume {
    fn mount_point(&self) -> Option<PathBuf> {
        Some(self.mount.clone())
    }
    fn check_before_job(&self, _: Caller, paths: &[PathBuf]) -> Result<CheckReport, String> {
        let names: Vec<_> = paths.iter().map(|p| p.strip_prefix(&self.mount).unwrap().display().to_string()).collect();
        self.asked.lock().unwrap().push(format!("check {}", names.join(" ")));
        self.check.lock().unwrap().clone()
    }
    fn verify_staged(&self, _: Caller, _: &[PathBuf]) -> Result<u64, String> {
        Ok(0)
    }
    fn forget_staging(&self, _: Caller, _: &Path) -> Result<(), String> {
        Ok(())
    }
    fn record_source(&self, _: Caller, path: &Path, uri: &str) -> Result<PathBuf, String> {
        let name = path.strip_prefix(&self.mount).unwrap().display().to_string();
        self.asked.lock().unwrap().push(format!("source {name} {uri}"));
        Ok(path.into())
    }
    fn free_bytes(&self) -> Option<u64> {
        Some(1 << 40)
    }
    fn mark_checkpoints(&self, _: Caller, job: &str, marks: Vec<Mark>) -> Result<bool, String> {
        for mark in marks {
            let numbers = (mark.nodes, mark.mtbf_s, mark.interval_s);
            self.asked.lock().unwrap().push(format!("mark {job}: {} {} {numbers:?}", mark.app, mark.path));
        }
        Ok(true)
    }
    fn job_not_told(&self, of: &str, id: JobId, _: Caller, what: &str, why: &str) {
        self.asked.lock().unwrap().push(format!("not told {of} {id}: {what}: {why}"));
        self.came.notify_all();
    }
    fn unmark_checkpoints(&self, job: &str) {
        self.asked.lock().unwrap().push(format!("unmark {job}"));
    }
    fn transfers(&self, _: Caller, paths: &[PathBuf]) -> Vec<Transfer> {
        let one = |path: &PathBuf| Transfer {
            path: path.clone(),
            done_bytes: 1,
            total_bytes: 4,
            rate_bytes_s: 0,
            left_s: None,
            limit: None,
        };
        paths.iter().map(one).collect()
    }
    fn recoveries(&self, _: Caller, paths: &[PathBuf], from_ms: u64, to_ms: u64) -> Vec<RecoveryEvent> {
        assert!(from_ms <= to_ms);
        let event = |path: &PathBuf| RecoveryEvent {
            at_ms: from_ms,
            path: path.clone(),
            what: "recovered".into(),
            n_stripes: 1,
            fetched_bytes: 1,
            reader_wait_ms_max: 1,
        };
        paths.iter().map(event).collect()
    }
}

/// Runner, volume and directories of a test.
pub struct World {
    pub dir: tempfile::TempDir,
    pub volume: Arc<FakeVolume>,
    pub state: Arc<dyn State>,
    pub runner: Runner,
    pub cores: u32,
    tune: fn(&mut Config),
}

impl World {
    pub fn new() -> World {
        World::tuned(2, |_| {})
    }

    pub fn tuned(cores: u32, tune: fn(&mut Config)) -> World {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path, bits| std::fs::set_permissions(path, PermissionsExt::from_mode(bits)).unwrap();
        mode(dir.path(), 0o755);
        for name in ["mnt", "home"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            mode(&dir.path().join(name), 0o777);
        }
        let volume = Arc::new(FakeVolume {
            mount: dir.path().join("mnt"),
            asked: Mutex::default(),
            came: Condvar::new(),
            check: Mutex::new(Ok(CheckReport::default())),
        });
        let state: Arc<dyn State> = Arc::new(SqliteState::in_memory().unwrap());
        let runner = open(dir.path(), &state, &volume, cores, tune);
        World { dir, volume, state, runner, cores, tune }
    }

    /// Ends the runner and starts another with the same state, as a restart of the daemon does.
    pub fn restart(&mut self) {
        self.stop();
        self.start();
    }

    pub fn stop(&self) {
        self.runner.shut_down();
    }

    pub fn start(&mut self) {
        self.runner = open(self.dir.path(), &self.state, &self.volume, self.cores, self.tune);
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn request(&self, script: &str) -> Submit {
        Submit {
            file_name: "job.sh".into(),
            script: Script::Text(script.replace("HOME", self.home().to_str().unwrap())),
            cwd: self.home(),
            umask: 0o022,
            environment: [("PATH".to_string(), std::env::var("PATH").unwrap())].into(),
            overrides: Overrides::default(),
        }
    }

    pub fn submit(&self, script: &str) -> JobId {
        self.runner.submit(me(), self.request(script)).unwrap().id
    }

    /// Waits for the job's end.
    pub fn end(&self, id: JobId) -> JobDetail {
        let until = std::time::Instant::now() + PATIENCE;
        let last = self.runner.watch(me(), id, &mut |_| std::time::Instant::now() < until).unwrap().summary;
        assert!(last.state.is_final(), "job {id} still {}: {}", last.state, last.detail);
        self.runner.show(me(), id).unwrap()
    }

    pub fn log(&self, id: JobId, part: PartKind, stream: Stream) -> String {
        let piece = self.runner.log(me(), &Log { id, part, stream, offset: 0 }).unwrap();
        assert!(piece.ended);
        String::from_utf8_lossy(piece.data.as_bytes()).into_owned()
    }

    pub fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.home().join(name)).ok()
    }

    /// Makes a fifo in the home directory.
    pub fn fifo(&self, name: &str) {
        let path = self.home().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o666.into(), 0).unwrap();
    }

    /// Reads the text that a job writes into a fifo.
    pub fn hear(&self, name: &str) -> String {
        let path = self.home().join(name);
        bounded(move || {
            let mut text = String::new();
            std::fs::File::open(path).unwrap().read_to_string(&mut text).unwrap();
            text.trim().to_string()
        })
    }

    /// Waits for a request to the volume with this prefix.
    pub fn hear_of(&self, what: &str) -> String {
        let none = |asked: &mut Vec<String>| !asked.iter().any(|one| one.starts_with(what));
        let asked = self.volume.asked.lock().unwrap();
        let (asked, _) = self.volume.came.wait_timeout_while(asked, PATIENCE, none).unwrap();
        asked.iter().find(|one| one.starts_with(what)).expect("the volume must be told").clone()
    }

    /// Releases a job that reads from a fifo.
    pub fn tell(&self, name: &str) {
        let path = self.home().join(name);
        bounded(move || writeln!(std::fs::OpenOptions::new().write(true).open(path).unwrap(), "go").unwrap());
    }
}

fn bounded<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(work()));
    receive.recv_timeout(PATIENCE).expect("the job must come to this point")
}

fn open(dir: &Path, state: &Arc<dyn State>, volume: &Arc<FakeVolume>, cores: u32, tune: fn(&mut Config)) -> Runner {
    let mut config = Config::new(dir.join("jobs")).unwrap();
    config.cores = cores;
    config.grace_ms = 200;
    config.retry_pause_ms = 1;
    config.program = supervisor();
    config.supervisor_args = Vec::new();
    let on_end = dir.join("home/on_end");
    let notices = notice::Settings {
        on_end: if on_end.exists() { vec![on_end.display().to_string(), "a b".into()] } else { Vec::new() },
        sendmail: dir.join("home/sendmail"),
        program: supervisor(),
        supervisor_args: Vec::new(),
        dir: dir.join("jobs/notices"),
    };
    config.notices = Some(Arc::new(notice::Notices::new(notices, volume.clone(), config.threads.clone())));
    tune(&mut config);
    let recogniser = |argv: &[String]| match argv {
        [cp, from, to] if cp == "cp" => vec![NamedSource { uri: format!("file://{from}"), path: to.clone() }],
        _ => Vec::new(),
    };
    Runner::open(config, state.clone(), volume.clone(), Arc::new(recogniser)).map_err(|e: Error| e.to_string()).unwrap()
}

pub fn supervisor() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples/job_exec");
    assert!(path.exists(), "build it first: cargo build -p entrepot-jobs --examples");
    path
}

/// A request to retry a job, with an environment of its own.
pub fn again(id: JobId) -> Retry {
    let variables = [("PATH", std::env::var("PATH").unwrap()), ("NOW", "retried".into())];
    Retry { id, umask: 0o022, environment: variables.map(|(name, value)| (name.to_string(), value)).into() }
}

/// The user who runs the tests.
pub fn me() -> Caller {
    Caller { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() }
}

/// Whether a process is alive; a zombie is not.
pub fn is_alive(pid: &str) -> bool {
    jobs::exec::process::identify(pid.parse().unwrap()).is_some_and(|who| who.is_alive())
}
