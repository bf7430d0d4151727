//! Snapshot of a scheduler's queue: running jobs, waiting jobs in order, their expected starts and their inputs.
//!
//! [`Queue`] is one trait over Slurm, PBS and the built-in runner. Decisions by the queue (when to bring data, what to
//! protect) do not depend on the scheduler. A snapshot is outdated after a few seconds.

mod forecast;
pub mod pbs;
pub mod slurm;
#[cfg(test)]
pub mod told;

pub use forecast::forecast;

use crate::request::Kind;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for the answer of a scheduler's command. A guess: a busy Slurm takes seconds.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A scheduler's queue.
pub trait Queue: Send + Sync {
    /// The queue as it is now. Blocks for as long as the scheduler takes to answer.
    ///
    /// # Errors
    /// The scheduler does not answer, or its answer cannot be parsed. The last snapshot is then the best there is.
    fn snapshot(&self) -> Result<Snapshot, Error>;
}

/// Why there is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The scheduler's command failed or could not be run.
    #[error("{command} failed: {cause}; is the scheduler up, and may this user ask it?")]
    Command {
        /// Command that was run.
        command: String,
        /// Error output of the command, or the reason why it did not run.
        cause: String,
    },
    /// The answer has a form of no known version.
    #[error("{command} returned a line that is not valid: {line:?}")]
    Answer {
        /// Command that was run.
        command: String,
        /// Line that could not be parsed.
        line: String,
    },
}

/// A queue at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Time of the snapshot, in milliseconds since 1970.
    pub taken_ms: u64,
    /// Nodes of the system (cores for the built-in runner, whose one machine has one).
    pub nodes: u32,
    /// Running jobs, then waiting jobs in the order in which the scheduler considers them.
    pub jobs: Vec<QueuedJob>,
}

impl Snapshot {
    /// Jobs that have their nodes.
    pub fn running(&self) -> impl Iterator<Item = &QueuedJob> {
        self.jobs.iter().filter(|job| job.state == State::Running)
    }

    /// Jobs that wait only for nodes, first in line first. The replication window is a prefix of these.
    pub fn in_line(&self) -> impl Iterator<Item = &QueuedJob> {
        self.jobs.iter().filter(|job| job.state == State::Pending && job.waits_for == WaitsFor::Nodes)
    }

    /// Sets the inputs of all jobs. The data of a job with inputs are there: Slurm updates the reason of the first jobs
    /// only, and later ones still have the reason that their data are missing.
    pub(crate) fn set_inputs(&mut self, inputs_of: &InputsOf) {
        for job in &mut self.jobs {
            job.inputs = inputs_of(&job.id);
            if job.waits_for == WaitsFor::Data && !job.inputs.is_empty() {
                job.waits_for = WaitsFor::Nodes;
            }
        }
    }

    /// The job of that number.
    pub fn job(&self, id: &str) -> Option<&QueuedJob> {
        self.jobs.iter().find(|job| job.id == id)
    }
}

/// A job in a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedJob {
    /// Number of the job as the scheduler passes it to programs: one number for each element of a job array.
    pub id: String,
    /// Login name of the owner.
    pub user: String,
    /// Queue (partition) of the job.
    pub queue: String,
    /// Nodes that it requests or has (cores for the built-in runner).
    pub nodes: u32,
    /// Whether it runs or waits.
    pub state: State,
    /// Kind of event that it waits for.
    pub waits_for: WaitsFor,
    /// Why it waits, in the scheduler's words.
    pub reason: String,
    /// Actual or estimated start, in milliseconds since 1970.
    pub start_ms: Option<u64>,
    /// Time limit in seconds; `None` for no limit.
    pub time_limit_s: Option<u64>,
    /// When it was submitted, in milliseconds since 1970.
    pub submitted_ms: Option<u64>,
    /// Files of the volume that the job reads: absolute paths, as far as its directives name them.
    pub inputs: Vec<PathBuf>,
}

/// State of a job in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The job has no nodes yet.
    Pending,
    /// The job has its nodes.
    Running,
    /// The job releases its nodes, or stages out: it reads no input any more.
    Ending,
    /// The job is over, but still listed.
    Ended,
}

/// Reason why a pending job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitsFor {
    /// Its turn and its nodes.
    Nodes,
    /// The end or start of another job.
    Dependency,
    /// Release by a user or the operator.
    Release,
    /// A start time.
    Time,
    /// Staging of its data.
    Data,
    /// The job does not wait.
    Nothing,
}

/// Returns the input files of a job by its number, since the schedulers do not have them.
pub type InputsOf = std::sync::Arc<dyn Fn(&str) -> Vec<PathBuf> + Send + Sync>;

/// Queue of a scheduler, with the inputs of its jobs. It is polled only while it is needed.
pub struct WithInputs {
    /// Scheduler that is polled.
    pub kind: Kind,
    /// Lookup of the inputs.
    pub inputs_of: InputsOf,
    /// Whether the queue is needed now; without it the snapshot is empty.
    pub is_needed: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Queue for WithInputs {
    fn snapshot(&self) -> Result<Snapshot, Error> {
        if !(self.is_needed)() {
            return Ok(Snapshot::default());
        }
        let mut snapshot = self.kind.queue().snapshot()?;
        snapshot.set_inputs(&self.inputs_of);
        Ok(snapshot)
    }
}

/// Seconds of a time such as `1:30:00`.
fn clock(text: &str) -> Option<u64> {
    text.split(':').try_fold(0u64, |sum, field| Some(sum * 60 + field.parse::<u64>().ok()?))
}

/// Runs a scheduler's command in the time zone in which its output is parsed; returns the output.
pub(crate) fn ask(program: &str, args: &[&str], environment: &[(&str, &str)]) -> Result<String, Error> {
    let failed = |cause| Error::Command { command: format!("{program} {}", args.join(" ")), cause };
    let mut command = Command::new(program);
    command.args(args).envs(environment.iter().copied()).env("TZ", "UTC").env("LC_ALL", "C");
    let done = output(command, ANSWER_MAX).map_err(|e| failed(e.to_string()))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(failed(said.lines().next().map_or_else(|| done.status.to_string(), str::to_string)));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Runs a command, and ends it if it takes longer than `answer_max`.
fn output(mut command: Command, answer_max: Duration) -> io::Result<Output> {
    // The process group has the processes that the command starts, which may hold its output open.
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let read = read_to_end(&mut child, Instant::now() + answer_max);
    if read.is_err() {
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    }
    let status = child.wait()?;
    let [stdout, stderr] = read?;
    Ok(Output { status, stdout, stderr })
}

/// Reads both outputs of a command until it has ended.
///
/// # Errors
/// The command runs at the deadline.
fn read_to_end(child: &mut Child, deadline: Instant) -> io::Result<[Vec<u8>; 2]> {
    let end = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let mut open = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from), Some(end)];
    let (mut texts, mut block) = ([Vec::new(), Vec::new()], vec![0; 1 << 16]);
    while open.iter().any(Option::is_some) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time, so it was ended"));
        }
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut fds: Vec<_> = open.iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let watched = open.iter_mut().enumerate().filter(|(_, fd)| fd.is_some());
        for ((n, fd), _) in watched.zip(ready).filter(|(_, is_ready)| *is_ready) {
            let count = match (texts.get_mut(n), &*fd) {
                (Some(text), Some(pipe)) => {
                    let count = rustix::io::read(pipe, &mut block[..])?;
                    text.extend_from_slice(&block[..count]);
                    count
                }
                _ => 0,
            };
            if count == 0 {
                *fd = None;
            }
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_does_not_answer_is_ended() {
        let run = |script: &str, answer_max| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            output(command, answer_max)
        };
        let hanging = run("sleep 1000 & sleep 1000", Duration::from_millis(50));
        assert!(hanging.is_err_and(|error| error.to_string().contains("no answer in time")));
        let large = run("head -c 300000 /dev/zero; echo why >&2; exit 3", ANSWER_MAX).expect("it runs");
        assert_eq!((large.stdout.len(), &*large.stderr, large.status.code()), (300_000, &b"why\n"[..], Some(3)));
    }
}
