//! One attempt at one command: started, watched for its end, its time limit and a cancel, and cleaned up.

use super::{Spec, file, process, pump};
use crate::request::Ending;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::pipe;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Longest wait for processes after SIGKILL: one that hangs in the kernel must not hang the supervisor.
const KILL_WAIT_MAX: Duration = Duration::from_secs(10);
/// Interval between two searches for remaining processes.
const KILL_AGAIN: Duration = Duration::from_millis(20);
/// Longest wait for the end of output when all processes are gone.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Signals of the supervisor: the end of a process, and SIGTERM, by which the daemon cancels the part.
pub(super) struct Signals {
    cancelled: Arc<AtomicBool>,
    /// Readable after a signal.
    came: UnixStream,
}

impl Signals {
    /// Ignores a terminal's signals. They have a handler, since children inherit ignored signals.
    pub fn listen() -> std::io::Result<Signals> {
        let (came, wake) = UnixStream::pair()?;
        came.set_nonblocking(true)?;
        let cancelled = Arc::new(AtomicBool::new(false));
        // Handlers run in this order: the flag is set before the wake.
        flag::register(SIGTERM, cancelled.clone())?;
        for signal in [SIGTERM, SIGCHLD] {
            pipe::register(signal, wake.try_clone()?)?;
        }
        for signal in [SIGINT, SIGHUP] {
            flag::register(signal, Arc::default())?;
        }
        Ok(Signals { cancelled, came })
    }

    /// Whether a cancel was received; then no further command starts.
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Waits for a signal, until `until` at most.
    fn wait(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        // An error ends the wait, and the caller waits again.
        let _ = poll(&mut [PollFd::new(&self.came, PollFlags::IN)], Some(&left));
        while (&self.came).read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
    }

    /// Waits for a cancel, until `until` at most.
    pub fn wait_for_cancel(&self, until: Instant) {
        while !self.cancelled() && Instant::now() < until {
            self.wait(until);
        }
    }
}

/// The command, and the orphans that the supervisor inherits.
struct Children<'a> {
    signals: &'a Signals,
    /// Process id of the command.
    pid: i32,
    ended: Option<Ending>,
    /// Whether no process is left.
    gone: bool,
}

impl Children<'_> {
    /// Waits for a signal until `until` at most, and reaps the ended processes.
    fn wait(&mut self, until: Instant) {
        self.signals.wait(until);
        self.reap();
    }

    fn reap(&mut self) {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((who, status))) if who.as_raw_pid() == self.pid => self.ended = Some(ending(status)),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return,
                Err(_) => return self.gone = true,
            }
        }
    }
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
pub(super) fn run(
    spec: &Spec,
    step: usize,
    deadline: Instant,
    signals: &Signals,
    started: impl FnOnce(i32),
) -> Outcome {
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
    let mut children = Children { signals, pid, ended: None, gone: false };
    let ending = wait(spec, deadline, &mut children);
    let ending = if children.gone || end_all(&mut children) {
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

fn ending(status: WaitStatus) -> Ending {
    match status.terminating_signal() {
        Some(signal) => Ending::Signalled { signal },
        None => Ending::Exited { code: status.exit_status().unwrap_or(-1) },
    }
}

/// Waits for the end of the command, and ends it at the deadline or on a cancel.
fn wait(spec: &Spec, deadline: Instant, children: &mut Children<'_>) -> Ending {
    loop {
        children.reap();
        if let Some(ending) = children.ended.take() {
            return ending;
        }
        if children.gone {
            return Ending::Lost { cause: "the process vanished".into() };
        }
        if children.signals.cancelled() || Instant::now() >= deadline {
            break;
        }
        children.signals.wait(deadline);
    }
    process::signal_all(&ours(), Signal::TERM);
    let killed_at = Instant::now() + Duration::from_millis(spec.grace_ms);
    // The grace period is for all processes, not just the first.
    while !children.gone && Instant::now() < killed_at {
        children.wait(killed_at);
    }
    if children.signals.cancelled() { Ending::Cancelled } else { Ending::OutOfTime { walltime_s: spec.walltime_s } }
}

fn ours() -> Vec<i32> {
    process::descendants(Pid::as_raw(Some(rustix::process::getpid())))
}

/// Kills the remaining processes repeatedly, since the supervisor inherits the children of killed ones. Returns whether
/// none is left.
fn end_all(children: &mut Children<'_>) -> bool {
    let until = Instant::now() + KILL_WAIT_MAX;
    while !children.gone && Instant::now() < until {
        process::signal_all(&ours(), Signal::KILL);
        children.wait(Instant::now() + KILL_AGAIN);
    }
    children.gone
}
