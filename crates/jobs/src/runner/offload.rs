//! Results that leave early: what a `#STAGEOUT` line names starts on its way as soon as it is closed, while the script runs.
//!
//! A result is sent by the very command of its line, as the job's owner, under a supervisor of its own. What was sent
//! so and not written to since is not sent again by the stage-out part; what failed, or changed, is. So the part decides
//! about success as ever, and is over the sooner the more has left before.

use super::core::Core;
use super::record::{Phase, Record};
use super::spool;
use crate::exec::{self, Spec, Status, now_ms};
use crate::request::*;
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Between two looks at the results of running jobs. A result must be closed and unchanged from one look to the next.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Directories of early transfers begin with this.
const PREFIX: &str = "early-";

/// A line of a job.
type Line = (JobId, usize);

/// What is known of a result between two looks.
#[derive(Default)]
struct Seen {
    /// Its version at the last look.
    last: Option<String>,
    /// The version that was sent, or tried.
    tried: Option<String>,
    sending: bool,
}

/// Starts looking, on a thread of its own that ends with the runner.
pub(super) fn start(core: &Arc<Core>) {
    sweep(core);
    let weak = Arc::downgrade(core);
    let looking = move || {
        let seen = Arc::new(parking_lot::Mutex::new(BTreeMap::new()));
        while let Some(core) = weak.upgrade() {
            if !nap(&core) {
                return;
            }
            look(&core, &seen);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("offload".into()).spawn(looking) {
        tracing::error!("no thread for results that leave early; they leave at the end: {error}");
    }
}

fn nap(core: &Core) -> bool {
    let mut book = core.book.lock();
    let until = std::time::Instant::now() + LOOK_EVERY;
    while !book.closed && !core.changed.wait_until(&mut book, until).timed_out() {}
    !book.closed
}

/// What transfers of an earlier daemon left behind; they hold the environment of users.
fn sweep(core: &Core) {
    let ids: Vec<JobId> = core.book.lock().jobs.keys().copied().collect();
    for id in ids {
        let entries = std::fs::read_dir(spool::dir(&core.config, id)).into_iter().flatten().flatten();
        for entry in entries.filter(|e| e.file_name().to_string_lossy().starts_with(PREFIX)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn look(core: &Arc<Core>, seen: &Arc<parking_lot::Mutex<BTreeMap<Line, Seen>>>) {
    let running: Vec<Record> = {
        let book = core.book.lock();
        let runs = |r: &&Record| {
            r.part(PartKind::Compute).is_some_and(|p| p.phase == Phase::Started) && !r.cancelled && r.external.is_none()
        };
        book.jobs.values().filter(runs).cloned().collect()
    };
    seen.lock().retain(|(id, _), s| s.sending || running.iter().any(|r| r.id == *id));
    for record in running {
        for (step, path) in record.results() {
            let version = core.volume.closed_version(record.owner, &path);
            let start = {
                let mut seen = seen.lock();
                let busy = seen.values().filter(|s| s.sending).count() >= core.config.n_transfers_max as usize;
                let line = seen.entry((record.id, step)).or_default();
                let rested = version.is_some() && line.last == version;
                line.last = version.clone();
                let start = rested && line.tried != version && !line.sending && !busy;
                if start {
                    (line.sending, line.tried) = (true, version.clone());
                }
                start
            };
            if start {
                let (weak, seen, id) = (Arc::downgrade(core), seen.clone(), record.id);
                std::thread::spawn(move || {
                    send(&weak, id, step, path);
                    if let Some(line) = seen.lock().get_mut(&(id, step)) {
                        line.sending = false;
                    }
                });
            }
        }
    }
}

/// Sends one result and notes how that ended.
fn send(core: &Weak<Core>, id: JobId, step: usize, path: PathBuf) {
    let Some(core) = core.upgrade() else { return };
    let at_ms = now_ms();
    let dir = spool::dir(&core.config, id).join(format!("{PREFIX}{step}-{at_ms}"));
    let failed = attempt(&core, id, step, &dir).err();
    // It holds the user's environment.
    let _ = std::fs::remove_dir_all(&dir);
    if let Some(cause) = &failed {
        tracing::info!("job {id}: {} did not leave early: {cause}", path.display());
    }
    let mut book = core.book.lock();
    if let Some(record) = book.jobs.get_mut(&id) {
        record.early.push(Early { path, at_ms, lasted_ms: now_ms().saturating_sub(at_ms), failed });
        core.keep(record);
    }
    core.changed.notify_all();
}

fn attempt(core: &Core, id: JobId, step: usize, dir: &Path) -> Result<(), String> {
    let text = |e: std::io::Error| e.to_string();
    let part = exec::file(&spool::dir(&core.config, id), PartKind::StageOut, "spec");
    let spec: Spec = serde_json::from_slice(&std::fs::read(part).map_err(text)?).map_err(|e| e.to_string())?;
    let steps = spec.steps.get(step).cloned().into_iter().collect();
    let spec = Spec { steps, dir: dir.to_path_buf(), ..spec };
    std::fs::DirBuilder::new().mode(0o700).create(dir).map_err(text)?;
    let file = exec::file(dir, PartKind::StageOut, "spec");
    exec::write_whole(&file, &serde_json::to_vec(&spec).map_err(|e| e.to_string())?).map_err(text)?;
    let mut command = Command::new(&core.config.program);
    command.args(&core.config.supervisor_args).arg("--spec").arg(file).env_clear().current_dir("/").process_group(0);
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
