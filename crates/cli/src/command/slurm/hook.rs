//! Commands of Slurm's plug-in: one step of one job, requested from the daemon until it is done or has failed.
//!
//! Slurm shows the printed text to the user, at `sbatch` and in `squeue`. The daemon may restart during the step.

use crate::command::job;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown;
use clap::{Args, Subcommand};
use jobs::request::{JobId, OneJob, Overrides, PartKind, Script};
use jobs::slurm::original;
use jobs::slurm::wire::{OnePart, SetUp, Standing, Summary, read_environment};
use node::control::{Client, Problem, exit};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Do one step of a job; called by Slurm's plug-in, not by users
#[derive(Debug, Args)]
pub struct Hook {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Checks the directives of a submitted script.
    Process { script: PathBuf },
    /// Hands a job over.
    Setup { job: u64, uid: u32, gid: u32, script: PathBuf },
    /// Stages its data in.
    DataIn { job: u64 },
    /// Prints the variables that name its directories.
    Variables { job: u64 },
    /// Checks its data just before its start.
    PreRun { job: u64 },
    /// Stages its results out.
    DataOut { job: u64 },
    /// Reports the end of the job in Slurm.
    Teardown { job: u64 },
    /// Checks whether the daemon expects a data part that a user submits.
    Part {
        uid: u32,
        job: u64,
        #[arg(value_parser = super::data_part())]
        kind: PartKind,
    },
    /// Prints the jobs for `scontrol show bbstat`; the words are ignored.
    Status { words: Vec<String> },
}

/// Time limit for a daemon without an answer: it may be restarting. Slurm's own limit of these steps is longer.
const DAEMON_WAIT_MAX: Duration = Duration::from_secs(60);
/// Shortest and longest pause between two requests.
const ASK_FIRST: Duration = Duration::from_millis(100);
const ASK_LAST: Duration = Duration::from_secs(2);
/// Longest silence of a daemon for which slurmctld, and so every user of Slurm, waits. A guess: it answers in
/// milliseconds.
const BLOCKING_MAX: Duration = Duration::from_secs(5);

impl Hook {
    pub fn run(self, context: &Context) -> Result<u8> {
        let answered = match self.step {
            Step::Process { script } => process(&script),
            Step::Setup { job, uid, gid, script } => set_up(context, job, uid, gid, &script),
            Step::DataIn { job } => until_done(context, "slurm.data-in", job),
            Step::Variables { job } => variables(context, job),
            Step::PreRun { job } => until_done(context, "slurm.pre-run", job),
            Step::DataOut { job } => until_done(context, "slurm.data-out", job),
            Step::Teardown { job } => ask(context, "slurm.teardown", &OneJob { id: JobId(job) }).map(|_| String::new()),
            // Slurm blocks during this step, so it is requested once, without retries.
            Step::Part { uid, job, kind } => at_once(context, "slurm.part", &OnePart { uid, job: JobId(job), kind })
                .map(|_| String::new())
                .map_err(|p| p.cause),
            Step::Status { .. } => status(context),
        };
        match answered {
            Ok(text) => {
                shown::text(&text)?;
                Ok(0)
            }
            Err(why) => {
                shown::text(&why)?;
                Ok(exit::FAILED)
            }
        }
    }
}

fn process(script: &Path) -> std::result::Result<String, String> {
    let script = std::fs::read(script).map_err(|e| format!("{}: {e}", script.display()))?;
    let limits = jobs::plan::Limits { cores: u32::MAX, walltime_default_s: 1, arrays: true };
    // The directory of the submission is not known here, so destinations outside the volume cannot be found.
    let planned = job::directives::plan(&original(&script), "job", &Overrides::default(), limits, None);
    let Err(complaints) = planned else { return Ok(String::new()) };
    Err(complaints.iter().map(|c| format!("entrepot: {c}")).collect::<Vec<_>>().join("\n"))
}

fn set_up(context: &Context, job: u64, uid: u32, gid: u32, script: &Path) -> std::result::Result<String, String> {
    let text = std::fs::read(script).map_err(|e| format!("entrepot: {}: {e}", script.display()))?;
    // Slurm keeps the file beside the script. Without it a job only lacks credentials from its environment.
    let environment = std::fs::read(script.with_file_name("environment")).unwrap_or_default();
    let conf = std::env::var_os("SLURM_CONF").map(PathBuf::from).filter(|path| path.is_absolute());
    let environment = read_environment(&environment);
    let asked = SetUp { job: JobId(job), uid, gid, script: Script::from(text), environment, conf };
    ask(context, "slurm.setup", &asked).map(|_| String::new())
}

/// Repeats the request until the step is over. The daemon does the work, so a kill of this process loses nothing.
fn until_done(context: &Context, command: &str, job: u64) -> std::result::Result<String, String> {
    let mut wait = ASK_FIRST;
    loop {
        let answer = ask(context, command, &OneJob { id: JobId(job) })?;
        match serde_json::from_value(answer) {
            Ok(Standing::Done { note }) => return Ok(note),
            Ok(Standing::Failed { cause }) => return Err(cause),
            Ok(Standing::UnderWay) => {}
            Err(e) => return Err(format!("entrepot: the daemon's answer is not valid: {e}")),
        }
        std::thread::sleep(wait);
        wait = (wait * 3 / 2).min(ASK_LAST);
    }
}

/// Requested once, without retries, since Slurm blocks during this step.
fn variables(context: &Context, job: u64) -> std::result::Result<String, String> {
    let answer = at_once(context, "slurm.variables", &OneJob { id: JobId(job) }).map_err(|p| p.cause)?;
    let variables: Vec<(String, String)> = serde_json::from_value(answer).map_err(|e| format!("entrepot: {e}"))?;
    Ok(variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect())
}

fn status(context: &Context) -> std::result::Result<String, String> {
    let answer = at_once(context, "slurm.status", &Value::Null).map_err(|p| p.cause)?;
    let jobs: Vec<Summary> = serde_json::from_value(answer).map_err(|e| format!("entrepot: {e}"))?;
    Ok(if jobs.is_empty() { "no job is being staged\n".into() } else { super::table(&jobs) })
}

fn ask(context: &Context, command: &str, args: &impl Serialize) -> std::result::Result<Value, String> {
    let until = Instant::now() + DAEMON_WAIT_MAX;
    loop {
        match once(context, None, command, args) {
            Ok(answer) => return Ok(answer),
            // The daemon may be restarting, or has no free connection.
            Err(p) if matches!(p.exit_code, exit::NO_DAEMON | exit::BUSY) && Instant::now() < until => {
                std::thread::sleep(ASK_LAST);
            }
            Err(p) => return Err(format!("entrepot: {}; {}", p.cause, p.next_step)),
        }
    }
}

/// Sends a request for which slurmctld waits: once, and with a limit.
fn at_once(context: &Context, command: &str, args: &impl Serialize) -> std::result::Result<Value, Problem> {
    once(context, Some(BLOCKING_MAX), command, args)
}

/// Sends a request once. `silence_max`: the longest silence of the daemon.
fn once(
    context: &Context,
    silence_max: Option<Duration>,
    command: &str,
    args: &impl Serialize,
) -> std::result::Result<Value, Problem> {
    let found = node::control::find(context.volume.as_deref(), None)?;
    within(silence_max, &found.socket(), command, args)
}

fn within(
    silence_max: Option<Duration>,
    socket: &Path,
    command: &str,
    args: &impl Serialize,
) -> std::result::Result<Value, Problem> {
    let mut client = Client::connect(socket)?;
    client.set_timeout(silence_max)?;
    client.request(command, args, &mut |_| {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_is_silent_does_not_hold_slurmctld() {
        let dir = tempfile::tempdir().expect("dir");
        let socket = dir.path().join("control.sock");
        let _silent = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
        let answer = within(Some(Duration::from_millis(20)), &socket, "slurm.part", &Value::Null);
        assert_eq!(answer.expect_err("silence").exit_code, exit::NO_DAEMON);
    }
}
