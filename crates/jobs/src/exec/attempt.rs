//! One attempt at one command: started, watched for its end, its time limit and a cancel, and cleaned up.

use super::{Spec, file, process, pump};
use crate::request::Ending;
use object::workers::apart;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

/// Longest wait for processes after SIGKILL: one that hangs in the kernel must not hang the supervisor.
const KILL_WAIT_MAX: Duration = Duration::from_secs(10);
/// Interval between two searches for remaining processes.
const KILL_AGAIN: Duration = Duration::from_millis(20);
/// Longest wait for the end of output when all processes are gone.
const DRAIN_MAX: Duration = Duration::from_secs(2);

pub(super) enum Event {
    /// The daemon requests the end of the part.
    Cancel,
    Ended(Ending),
    /// No process of the attempt is left.
    AllGone,
}

/// Events for the supervisor, from the signal handler and from the threads of all attempts.
pub(super) struct Ears {
    pub send: SyncSender<Event>,
    pub receive: Receiver<Event>,
    /// Whether a cancel was received; then no further command starts.
    pub cancelled: bool,
}

/// How an attempt ended, and the last lines of its standard error.
pub(super) struct Outcome {
    pub ending: Ending,
    pub stderr_tail: String,
}

fn lost(cause: String) -> Outcome {
    Outcome { ending: Ending::Lost { cause }, stderr_tail: String::new() }
}

/// Runs a command to its end. `started` receives its process id.
pub(super) fn run(spec: &Spec, step: usize, deadline: Instant, ears: &mut Ears, started: impl FnOnce(i32)) -> Outcome {
    // This path is the running binary, even if its file was replaced since.
    let mut command = Command::new("/proc/self/exe");
    command.args(std::env::args_os().skip(1)).arg("--step").arg(step.to_string());
    command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The child stays in the supervisor's group, since the leader of a group could not start a session.
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return lost(format!("cannot start a process: {error}")),
    };
    let pid = child.id() as i32;
    started(pid);
    // The step waits for this byte: the user's command starts only after its process is recorded for a clean-up.
    if let Some(mut go) = child.stdin.take() {
        let _ = go.write_all(b"g");
    }
    let log = |suffix| open_log(spec, suffix);
    let out = child.stdout.take().and_then(|pipe| pump::start(pipe, log("out"), spec.log_bytes_max).ok());
    let err = child.stderr.take().and_then(|pipe| pump::start(pipe, log("err"), spec.log_bytes_max).ok());
    reap(pid, ears.send.clone());
    let (ending, gone) = wait(spec, deadline, ears);
    let ending = if gone || end_all(ears) {
        ending
    } else {
        Ending::Lost { cause: "its processes hang in the kernel and cannot be killed".into() }
    };
    let tail = |pipe: Option<Receiver<String>>| pipe.and_then(|p| p.recv_timeout(DRAIN_MAX).ok()).unwrap_or_default();
    tail(out);
    Outcome { ending, stderr_tail: tail(err) }
}

pub(super) fn open_log(spec: &Spec, suffix: &str) -> Option<File> {
    let log = super::private().append(true).open(file(&spec.dir, spec.kind, suffix)).ok()?;
    if let Some(user) = &spec.user {
        // If this fails, the user can still read the log through the daemon.
        let _ = std::os::unix::fs::fchown(&log, Some(user.uid), Some(user.gid));
    }
    Some(log)
}

/// Reaps the command and all orphans that the supervisor inherits, until none is left.
fn reap(pid: i32, send: SyncSender<Event>) {
    drop(apart("reaper", move || {
        loop {
            match rustix::process::wait(WaitOptions::empty()) {
                Ok(Some((who, status))) if who.as_raw_pid() == pid => {
                    let _ = send.send(Event::Ended(ending(status)));
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        let _ = send.send(Event::AllGone);
    }));
}

fn ending(status: WaitStatus) -> Ending {
    match status.terminating_signal() {
        Some(signal) => Ending::Signalled { signal },
        None => Ending::Exited { code: status.exit_status().unwrap_or(-1) },
    }
}

/// Waits for the end of the command, and ends it at the deadline or on a cancel. Returns also whether no process of it
/// is left.
fn wait(spec: &Spec, deadline: Instant, ears: &mut Ears) -> (Ending, bool) {
    match ears.receive.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(Event::Ended(ending)) => return (ending, false),
        Ok(Event::AllGone) => return (Ending::Lost { cause: "the process vanished".into() }, true),
        Ok(Event::Cancel) => ears.cancelled = true,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
    }
    process::signal_all(&ours(), Signal::TERM);
    let killed_at = Instant::now() + Duration::from_millis(spec.grace_ms);
    let mut gone = false;
    // The grace period is for all processes, not just the first.
    while let Ok(event) = ears.receive.recv_timeout(killed_at.saturating_duration_since(Instant::now())) {
        match event {
            Event::Cancel => ears.cancelled = true,
            Event::Ended(_) => {}
            Event::AllGone => {
                gone = true;
                break;
            }
        }
    }
    let ending = if ears.cancelled { Ending::Cancelled } else { Ending::OutOfTime { walltime_s: spec.walltime_s } };
    (ending, gone)
}

fn ours() -> Vec<i32> {
    process::descendants(Pid::as_raw(Some(rustix::process::getpid())))
}

/// Kills the remaining processes repeatedly, since the supervisor inherits the children of killed ones.
fn end_all(ears: &mut Ears) -> bool {
    let until = Instant::now() + KILL_WAIT_MAX;
    while Instant::now() < until {
        process::signal_all(&ours(), Signal::KILL);
        match ears.receive.recv_timeout(KILL_AGAIN) {
            Ok(Event::AllGone) => return true,
            Ok(Event::Cancel) => ears.cancelled = true,
            Ok(Event::Ended(_)) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
    false
}
