//! Results that leave early: what a `#STAGEOUT` line names starts on its way as soon as it is closed, while the script runs,
//! whoever runs it: the built-in runner, Slurm with hooks, or another scheduler as one of three dependent jobs.
//!
//! A result is sent by the very command of its line, as the job's owner, under a supervisor of its own. What was sent
//! so and not written to since is not sent again by the stage-out part; what failed, or changed, is. So the part decides
//! about success as ever, and is over the sooner the more has left before. Of jobs of another scheduler the daemon does not
//! know the environment: a destination that wants credentials from it is reached by the part alone.

use crate::config::Config;
use crate::exec::{self, Spec, Status, now_ms};
use crate::request::{Caller, Early, PartKind};
use crate::volume::Volume;
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Between two looks at the results of running jobs. A result must be closed and unchanged from one look to the next.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A job whose script runs.
pub(crate) struct Running {
    /// Its number.
    pub id: u64,
    /// Its owner.
    pub owner: Caller,
    /// What its own stage-out commands take out: the number of the command and the path.
    pub results: Vec<(usize, PathBuf)>,
}

/// Whose jobs these are. Nothing is called while the caller holds a lock.
pub(crate) trait Jobs: Send + Sync + 'static {
    /// A name for the directory of its early transfers.
    const NAME: &'static str;
    fn config(&self) -> &Config;
    fn volume(&self) -> &Arc<dyn Volume>;
    /// The jobs whose script runs now.
    fn running(&self) -> Vec<Running>;
    /// How one of a job's stage-out commands is run.
    fn spec(&self, job: u64, command: usize) -> Result<Spec, String>;
    /// A result left, or did not.
    fn left(&self, job: u64, early: Early);
    /// Waits; whether to go on.
    fn nap(&self, span: Duration) -> bool;
}

/// A line of a job.
type Line = (u64, usize);

/// What is known of a result between two looks.
#[derive(Default)]
struct Seen {
    /// Its version at the last look.
    last: Option<String>,
    /// The version that was sent, or tried.
    tried: Option<String>,
    sending: bool,
}

type Lines = Arc<parking_lot::Mutex<BTreeMap<Line, Seen>>>;

/// Starts looking, on a thread of its own that ends with the jobs, if the operator wants results to leave early.
pub(crate) fn start<J: Jobs>(jobs: &Arc<J>) {
    if !jobs.config().offload_on_close {
        return;
    }
    // What transfers of an earlier daemon left behind; they hold the environment of users.
    let _ = std::fs::remove_dir_all(root::<J>(jobs.config()));
    let weak = Arc::downgrade(jobs);
    let looking = move || {
        let seen = Lines::default();
        while let Some(jobs) = weak.upgrade() {
            if !jobs.nap(LOOK_EVERY) {
                return;
            }
            look(&jobs, &seen);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("offload".into()).spawn(looking) {
        tracing::error!("no thread for results that leave early; they leave at the end: {error}");
    }
}

fn root<J: Jobs>(config: &Config) -> PathBuf {
    config.jobs_dir.join(format!("early-{}", J::NAME))
}

fn look<J: Jobs>(jobs: &Arc<J>, seen: &Lines) {
    let running = jobs.running();
    seen.lock().retain(|(id, _), s| s.sending || running.iter().any(|r| r.id == *id));
    for Running { id, owner, results } in running {
        for (command, path) in results {
            let version = jobs.volume().closed_version(owner, &path);
            let start = {
                let mut seen = seen.lock();
                let busy = seen.values().filter(|s| s.sending).count() >= jobs.config().n_transfers_max as usize;
                let line = seen.entry((id, command)).or_default();
                let rested = version.is_some() && line.last == version;
                line.last = version.clone();
                let start = rested && line.tried != version && !line.sending && !busy;
                if start {
                    (line.sending, line.tried) = (true, version.clone());
                }
                start
            };
            if start {
                let (weak, seen) = (Arc::downgrade(jobs), seen.clone());
                std::thread::spawn(move || {
                    send(&weak, (id, command), path);
                    if let Some(line) = seen.lock().get_mut(&(id, command)) {
                        line.sending = false;
                    }
                });
            }
        }
    }
}

/// Sends one result and notes how that ended.
fn send<J: Jobs>(jobs: &Weak<J>, (id, command): Line, path: PathBuf) {
    let Some(jobs) = jobs.upgrade() else { return };
    let at_ms = now_ms();
    let dir = root::<J>(jobs.config()).join(format!("{id}-{command}-{at_ms}"));
    let failed = jobs.spec(id, command).and_then(|spec| attempt(jobs.config(), spec, &dir)).err();
    // It holds the user's environment.
    let _ = std::fs::remove_dir_all(&dir);
    if let Some(cause) = &failed {
        tracing::info!("job {id}: {} did not leave early: {cause}", path.display());
    }
    jobs.left(id, Early { path, at_ms, lasted_ms: now_ms().saturating_sub(at_ms), failed });
}

fn attempt(config: &Config, spec: Spec, dir: &Path) -> Result<(), String> {
    let text = |e: std::io::Error| e.to_string();
    let spec = Spec { kind: PartKind::StageOut, dir: dir.to_path_buf(), ..spec };
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(dir).map_err(text)?;
    let file = exec::file(dir, PartKind::StageOut, "spec");
    exec::write_whole(&file, &serde_json::to_vec(&spec).map_err(|e| e.to_string())?).map_err(text)?;
    let mut command = Command::new(&config.program);
    command.args(&config.supervisor_args).arg("--spec").arg(file).env_clear().current_dir("/").process_group(0);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.and_then(|mut child| child.wait()).map_err(text)?;
    let status = std::fs::read(exec::file(dir, PartKind::StageOut, "status")).map_err(text)?;
    let status: Status = serde_json::from_slice(&status).map_err(|e| e.to_string())?;
    if status.ending.is_success() {
        return Ok(());
    }
    let said = status.steps.last().map(|s| s.stderr_tail.trim().replace('\n', "; ")).unwrap_or_default();
    Err(format!("{}: {said}", status.ending))
}
