//! A supervisor as seen by the daemon: starting it, finding it after a restart, ending it, and reading its status.

use super::process::{self, Identity};
use super::{Processes, Spec, file, private, write_whole};
use crate::request::{Ending, PartKind, PartReport};
use object::now_ms;
use object::workers::Pool;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time after the grace period until a supervisor is killed with its part.
const PATIENCE_MS: u64 = 15_000;

pub(crate) struct Supervisor {
    /// Readable when it has ended.
    pub process: Arc<OwnedFd>,
    /// The child process of this daemon, which must be reaped; `None` for a process of an earlier daemon.
    pub child: Option<Child>,
}

/// Starts the supervisor of the part whose spec lies in `dir`.
pub(crate) fn start(program: &Path, args: &[OsString], dir: &Path, kind: PartKind) -> std::io::Result<Supervisor> {
    let complaints = private().truncate(true).open(file(dir, kind, "supervisor"))?;
    let mut command = Command::new(program);
    command.args(args).arg("--spec").arg(file(dir, kind, "spec")).env_clear().current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(complaints);
    // The process group of its own keeps signals of the daemon's terminal away.
    let mut child = command.process_group(0).spawn()?;
    match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
        Ok(process) => Ok(Supervisor { process: Arc::new(process), child: Some(child) }),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error.into())
        }
    }
}

/// Runs a part under its own supervisor in its own directory, and waits for its end. The directory then holds the
/// environment of a user.
///
/// # Errors
/// The outcome if it failed, with the last line of its output.
pub(crate) fn run_to_end(program: &Path, args: &[OsString], spec: Spec, dir: &Path) -> Result<(), String> {
    let (text, kind) = (|e: std::io::Error| e.to_string(), spec.kind);
    let spec = Spec { dir: dir.to_path_buf(), ..spec };
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(dir).map_err(text)?;
    write_whole(&file(dir, kind, "spec"), &serde_json::to_vec(&spec).map_err(|e| e.to_string())?).map_err(text)?;
    let supervisor = start(program, args, dir, kind).map_err(text)?;
    supervisor.child.map_or(Ok(()), |mut child| child.wait().map(drop)).map_err(text)?;
    let report = report(dir, kind);
    if report.ending.is_success() {
        return Ok(());
    }
    let said = report.steps.last().map(|s| s.stderr_tail.trim().replace('\n', "; ")).unwrap_or_default();
    Err(format!("{}: {said}", report.ending))
}

/// Takes over a supervisor that another daemon started, if it still runs.
pub(crate) fn adopt(dir: &Path, kind: PartKind) -> Option<Supervisor> {
    let who = processes(dir, kind)?.supervisor;
    let process = pidfd_open(Pid::from_raw(who.pid)?, PidfdFlags::empty()).ok()?;
    // Checked after the descriptor is open: the process id cannot belong to another process now.
    who.is_alive().then(|| Supervisor { process: Arc::new(process), child: None })
}

/// Whether a supervisor has begun that part. False also for a supervisor that is just starting.
pub(crate) fn was_begun(dir: &Path, kind: PartKind) -> bool {
    ["pid", "status"].iter().any(|suffix| file(dir, kind, suffix).exists())
}

/// The processes that a part's supervisor recorded.
pub(crate) fn processes(dir: &Path, kind: PartKind) -> Option<Processes> {
    serde_json::from_slice(&std::fs::read(file(dir, kind, "pid")).ok()?).ok()
}

/// Returns a part's end from its status file. Without that file, its remaining processes are killed.
pub(crate) fn report(dir: &Path, kind: PartKind) -> PartReport {
    let status = std::fs::read(file(dir, kind, "status")).ok();
    if let Some(report) = status.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
        return report;
    }
    kill_orphans(processes(dir, kind).and_then(|p| p.command).as_ref());
    let said = std::fs::read_to_string(file(dir, kind, "supervisor")).unwrap_or_default();
    let cause = match said.trim() {
        "" => "its supervisor was killed or the machine restarted".to_string(),
        said => said.to_string(),
    };
    lost_report(kind, cause)
}

fn kill_orphans(command: Option<&Identity>) {
    // The leader may be gone while others of its session live. Its number is not reused before they end.
    if let Some(command) = command.filter(|c| c.is_alive() || process::identify(c.pid).is_none()) {
        process::signal_all(&process::session(command.pid), Signal::KILL);
    }
}

/// The report of a part whose outcome is unknown.
pub(crate) fn lost_report(kind: PartKind, cause: String) -> PartReport {
    report_without_steps(kind, Ending::Lost { cause })
}

/// The report of a part that ends now without a step of its own.
pub(crate) fn report_without_steps(kind: PartKind, ending: Ending) -> PartReport {
    let now = now_ms();
    PartReport { kind, started_ms: now, ended_ms: now, ending, steps: Vec::new() }
}

/// Signals a supervisor to end its part, and kills both if it does not within its grace. Returns at once.
pub(crate) fn stop(threads: &Pool, dir: &Path, kind: PartKind, process: Arc<OwnedFd>, grace_ms: u64) {
    // A process that has ended reports its end through its supervisor.
    let _ = pidfd_send_signal(&*process, Signal::TERM);
    // If a second supervisor waits for a first, signal the first.
    if let Some(noted) = processes(dir, kind).map(|p| p.supervisor).filter(Identity::is_alive) {
        process::signal_all(&[noted.pid], Signal::TERM);
    }
    let dir = dir.to_path_buf();
    let killed_at = Instant::now() + Duration::from_millis(grace_ms + PATIENCE_MS);
    drop(threads.at(killed_at, move || {
        let mut fds = [PollFd::new(&*process, PollFlags::IN)];
        if poll(&mut fds, Some(&Timespec::default())).is_ok_and(|n| n > 0) {
            return;
        }
        tracing::warn!("the supervisor in {} does not end its {kind} part; both are killed", dir.display());
        kill_orphans(processes(&dir, kind).and_then(|p| p.command).as_ref());
        let _ = pidfd_send_signal(&*process, Signal::KILL);
    }));
}
