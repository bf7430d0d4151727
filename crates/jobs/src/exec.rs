//! The supervisor that each part of a job runs under: `entrepot job-exec --spec FILE [--step N]`.
//!
//! ```text
//! daemon -- supervisor (own process group, reads the spec, keeps time, writes logs and status)
//!              `-- step (own session: becomes the user, then the command)
//! ```
//!
//! The supervisor outlives the daemon, so a restart of the daemon does not touch running jobs. It keeps the daemon's
//! user, so jobs of other users cannot signal it; the step drops all privileges before it becomes the user's command.
//! Processes that the command leaves behind become the supervisor's, which ends them: nothing of a part outlives the
//! part.

mod attempt;
mod become_user;
pub(crate) mod outside;
pub mod process;
mod pump;
mod supervise;

use crate::request::{Ending, PartKind};
use node::control::exit;
use object::host::rename_durably;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Everything that a part needs to run, fixed at submission. Holds the user's environment: mode 0600, removed when the
/// job ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Stage-in, compute or stage-out.
    pub kind: PartKind,
    /// Commands of the part, in order.
    pub steps: Vec<Vec<String>>,
    /// Number of retries of a failed command.
    pub retries: u32,
    /// Pause before the first retry, in milliseconds; each further one is twice as long, up to a minute.
    #[serde(default = "pause_ms")]
    pub retry_pause_ms: u64,
    /// User that the commands run as; `None` for the supervisor's own.
    pub user: Option<User>,
    /// Working directory of the commands.
    pub cwd: PathBuf,
    /// File creation mask of the commands.
    pub umask: u32,
    /// Complete environment of the commands.
    pub environment: BTreeMap<String, String>,
    /// Longest run of the part in seconds.
    pub walltime_s: u64,
    /// Time between SIGTERM and SIGKILL in milliseconds.
    pub grace_ms: u64,
    /// Largest log of a stream.
    pub log_bytes_max: u64,
    /// Standard input of the commands; `None` for an empty one.
    pub input: Option<String>,
    /// Whether each attempt is announced in the log.
    pub announce: bool,
    /// Directory of status, pid and logs.
    pub dir: PathBuf,
}

/// A user to become.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Login name, for the groups.
    pub name: String,
    /// Numeric user id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
}

/// The processes of a part, as the supervisor records them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processes {
    /// Identity of the supervisor.
    pub supervisor: process::Identity,
    /// The command, which leads a session of its own.
    pub command: Option<process::Identity>,
}

/// Default of [`Spec::retry_pause_ms`].
pub fn pause_ms() -> u64 {
    policy::schedule::staging::PAUSE_MIN.0 / 1_000_000
}

/// Permanent statuses of our own commands: wrong usage, permission denied, not found, damaged.
pub(crate) const OURS_FOR_GOOD: [u8; 4] = [exit::WRONG_INPUT, exit::DENIED, exit::NOT_FOUND, exit::INCOMPLETE];
/// Statuses of foreign commands that are permanent: a shell's "not found" and "not executable". Other statuses have no
/// common meaning.
pub(crate) const FOREIGN_FOR_GOOD: [u8; 2] = [126, 127];

/// Whether a retry of a command with this end may succeed. `ours`: the command is this program.
pub(crate) fn may_pass(ours: bool, ending: &Ending) -> bool {
    let for_good: &[u8] = if ours { &OURS_FOR_GOOD } else { &FOREIGN_FOR_GOOD };
    match ending {
        Ending::Exited { code } => !for_good.iter().any(|good| i32::from(*good) == *code),
        Ending::OutOfTime { .. } => false,
        _ => true,
    }
}

/// A file of a part: `DIR/PART.SUFFIX`.
pub fn file(dir: &Path, kind: PartKind, suffix: &str) -> PathBuf {
    dir.join(format!("{kind}.{suffix}"))
}

/// Runs the part that the file describes. With a step, it becomes the command of that step, as the user.
pub fn main(spec: &Path, step: Option<usize>) -> ExitCode {
    let read = std::fs::read(spec).map_err(|e| e.to_string());
    let spec: Spec = match read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|e| e.to_string())) {
        Ok(spec) => spec,
        Err(error) => {
            eprintln!("entrepot: cannot read {}: {error}; this command is started by the daemon only", spec.display());
            return ExitCode::FAILURE;
        }
    };
    match step {
        Some(step) => become_user::run(&spec, step),
        None => supervise::run(&spec),
    }
}

/// Replaces a file atomically: a reader gets the old bytes or the new ones.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let mut file = private().truncate(true).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    rename_durably(&new, path)
}

/// Options for files of the spool: private, never through a symbolic link.
pub(crate) fn private() -> std::fs::OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    options
}
