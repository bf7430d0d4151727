//! The threads that wait: for a part's processes to end, and for the check before dispatch.

use super::core::Core;
use super::record::{Phase, Record};
use super::spool;
use crate::exec::process::{self, Identity};
use crate::exec::{self, Processes, Status, now_ms};
use crate::request::*;
use crate::volume::CheckReport;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Weak};

/// How much longer than its grace a supervisor may take to end a part before it is killed with it.
const SUPERVISOR_PATIENCE_MS: u64 = 15_000;

/// Starts a part's supervisor and a thread that waits for it.
pub(super) fn spawn(core: &Arc<Core>, id: JobId, kind: PartKind) -> std::io::Result<Arc<OwnedFd>> {
    let dir = spool::dir(&core.config, id);
    let complaints = exec::private().truncate(true).open(exec::file(&dir, kind, "supervisor"))?;
    let mut child = Command::new(&core.config.program)
        .args(&core.config.supervisor_args)
        .arg("--spec")
        .arg(exec::file(&dir, kind, "spec"))
        .env_clear()
        .current_dir("/")
        // Out of reach of the signals of the daemon's terminal.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(complaints)
        .spawn()?;
    let opened = Pid::from_raw(child.id() as i32)
        .ok_or(rustix::io::Errno::SRCH)
        .and_then(|p| pidfd_open(p, PidfdFlags::empty()));
    match opened {
        Ok(process) => Ok(wait(core, id, kind, Arc::new(process), Some(child))),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error.into())
        }
    }
}

/// Takes over a part that another daemon started, if it still runs.
pub(super) fn adopt(core: &Arc<Core>, id: JobId, kind: PartKind) -> Option<Arc<OwnedFd>> {
    let who = processes(core, id, kind)?.supervisor;
    let process = pidfd_open(Pid::from_raw(who.pid)?, PidfdFlags::empty()).ok()?;
    // Looked at after it is held: now it cannot be another process of the same number.
    who.is_alive().then(|| wait(core, id, kind, Arc::new(process), None))
}

/// The processes that a part's supervisor noted.
pub(super) fn processes(core: &Core, id: JobId, kind: PartKind) -> Option<Processes> {
    let file = exec::file(&spool::dir(&core.config, id), kind, "pid");
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

fn wait(core: &Arc<Core>, id: JobId, kind: PartKind, process: Arc<OwnedFd>, child: Option<Child>) -> Arc<OwnedFd> {
    let (weak, held) = (Arc::downgrade(core), process.clone());
    let closing = core.closing.try_clone();
    std::thread::spawn(move || {
        let Ok(closing) = closing else { return };
        let ended = loop {
            let mut fds = [PollFd::new(&*held, PollFlags::IN), PollFd::new(&closing, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) => break !fds[0].revents().is_empty(),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break true,
            }
        };
        if !ended {
            return;
        }
        if let Some(mut child) = child {
            let _ = child.wait();
        }
        take_report(&weak, id, kind);
    });
    process
}

fn take_report(core: &Weak<Core>, id: JobId, kind: PartKind) {
    let Some(core) = core.upgrade() else { return };
    let report = report(&core, id, kind);
    let recoveries = recoveries(&core, id, &report);
    let mut book = core.book.lock();
    if book.closed {
        return;
    }
    if let Some(record) = book.jobs.get_mut(&id) {
        record.recoveries.extend(recoveries);
    }
    core.ended(&mut book, id, kind, report);
    core.pump(&mut book);
}

fn recoveries(core: &Core, id: JobId, report: &PartReport) -> Vec<crate::volume::RecoveryEvent> {
    let staged = core.book.lock().jobs.get(&id).map(|record| (record.owner, record.staged_paths()));
    let Some((owner, paths)) = staged.filter(|(_, paths)| !paths.is_empty() && report.kind == PartKind::Compute) else {
        return Vec::new();
    };
    core.volume.recoveries(owner, &paths, report.started_ms, report.ended_ms)
}

/// How a part ended, from what its supervisor left; without that, what is left of the part is ended now.
pub(super) fn report(core: &Core, id: JobId, kind: PartKind) -> PartReport {
    let dir = spool::dir(&core.config, id);
    let status = std::fs::read(exec::file(&dir, kind, "status")).ok();
    if let Some(status) = status.and_then(|bytes| serde_json::from_slice::<Status>(&bytes).ok()) {
        let Status { started_ms, ended_ms, ending, steps } = status;
        return PartReport { kind, started_ms, ended_ms, ending, steps };
    }
    kill_orphans(processes(core, id, kind).and_then(|p| p.command).as_ref());
    let said = std::fs::read_to_string(exec::file(&dir, kind, "supervisor")).unwrap_or_default();
    let cause = match said.trim() {
        "" => "its supervisor was killed or the machine restarted".to_string(),
        said => said.to_string(),
    };
    lost_report(kind, cause)
}

fn kill_orphans(command: Option<&Identity>) {
    // The leader may be gone while others of its session live; its number is not reused as long as they do.
    if let Some(command) = command.filter(|c| c.is_alive() || process::identify(c.pid).is_none()) {
        process::signal_all(&process::session(command.pid), Signal::KILL);
    }
}

/// The report of a part that nothing is known of.
pub(super) fn lost_report(kind: PartKind, cause: String) -> PartReport {
    let now = now_ms();
    PartReport { kind, started_ms: now, ended_ms: now, ending: Ending::Lost { cause }, steps: Vec::new() }
}

/// Tells a supervisor to end its part, and ends both if it does not.
pub(super) fn stop(core: &Arc<Core>, id: JobId, kind: PartKind, held: Arc<OwnedFd>) {
    // If it is gone already, its end is on the way to us.
    let _ = pidfd_send_signal(&*held, Signal::TERM);
    // Where a second supervisor waits for a first, the first is the one to tell.
    if let Some(noted) = processes(core, id, kind).map(|p| p.supervisor).filter(Identity::is_alive) {
        process::signal_all(&[noted.pid], Signal::TERM);
    }
    let patience_ms = core.config.grace_ms + SUPERVISOR_PATIENCE_MS;
    let weak = Arc::downgrade(core);
    std::thread::spawn(move || {
        let timeout = Timespec { tv_sec: (patience_ms / 1000) as i64, tv_nsec: 0 };
        let mut fds = [PollFd::new(&*held, PollFlags::IN)];
        if poll(&mut fds, Some(&timeout)).is_ok_and(|n| n > 0) {
            return;
        }
        if let Some(core) = weak.upgrade() {
            tracing::warn!("the supervisor of job {id} does not end its {kind} part; both are killed");
            kill_orphans(processes(&core, id, kind).and_then(|p| p.command).as_ref());
        }
        let _ = pidfd_send_signal(&*held, Signal::KILL);
    });
}

/// Starts the check before dispatch on a thread of its own; the compute part follows it.
pub(super) fn check(core: &Arc<Core>, id: JobId) {
    let core = core.clone();
    std::thread::spawn(move || {
        let Some(record) = core.book.lock().jobs.get(&id).cloned() else { return };
        let sources = record_sources(&core, &record);
        let paths = record.staged_paths();
        let checked =
            if paths.is_empty() { Ok(None) } else { core.volume.check_before_job(record.owner, &paths).map(Some) };
        let mut book = core.book.lock();
        if book.closed {
            return;
        }
        checked_job(&core, &mut book, id, sources, checked);
        core.pump(&mut book);
    });
}

fn checked_job(
    core: &Arc<Core>,
    book: &mut super::core::Book,
    id: JobId,
    sources: Vec<RecordedSource>,
    checked: Result<Option<CheckReport>, String>,
) {
    let Some(record) = book.jobs.get_mut(&id) else { return };
    record.sources = sources;
    let failure = match checked {
        _ if record.cancelled => Some(Ending::Cancelled),
        Ok(report) => {
            record.check = report;
            None
        }
        Err(reason) => Some(Ending::Lost { cause: format!("its data are not all there: {reason}") }),
    };
    match failure {
        None => core.launch(book, id, PartKind::Compute),
        Some(ending) => {
            let now = now_ms();
            let kind = PartKind::Compute;
            core.ended(book, id, kind, PartReport { kind, started_ms: now, ended_ms: now, ending, steps: Vec::new() });
        }
    }
}

/// Records the sources of what ordinary stage-in commands fetched into the volume.
fn record_sources(core: &Core, record: &Record) -> Vec<RecordedSource> {
    let brought = record.part(PartKind::StageIn).is_some_and(|part| part.phase == Phase::Ended);
    let commands = record.plan.parts.iter().filter(|part| brought && part.kind == PartKind::StageIn);
    let found = commands.flat_map(|part| &part.commands).flat_map(|command| &command.sources);
    found
        .filter_map(|found| Some((record.in_volume(&found.path)?, found.uri.clone())))
        .map(|(path, uri)| match core.volume.record_source(record.owner, &path, &uri) {
            Ok(path) => RecordedSource { path, uri, error: None },
            Err(error) => RecordedSource { path, uri, error: Some(error) },
        })
        .collect()
}
