//! Commands of Slurm's plug-in: one step of one job, requested from the daemon until it is done or has failed.
//!
//! The answer is for people too: Slurm shows it to the user, at `sbatch` and in `squeue`. The daemon may restart
//! during the step.

use crate::command::job;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown;
use clap::{Args, Subcommand};
use jobs::request::{JobId, Overrides, Script};
use jobs::slurm::original;
use jobs::slurm::wire::{OneJob, OnePart, SetUp, Standing, Summary, read_environment};
use node::control::{Problem, exit};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// One step of a job, called by Slurm's plug-in; not by people
#[derive(Debug, Args)]
pub struct Hook {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// A script was submitted: are its directives good?
    Process { script: PathBuf },
    /// Names a job.
    Setup { job: u64, uid: u32, gid: u32, script: PathBuf },
    /// Brings its data.
    DataIn { job: u64 },
    /// The variables that its script finds its directories by.
    Variables { job: u64 },
    /// Looks whether its data are there, just before it starts.
    PreRun { job: u64 },
    /// Takes its results home.
    DataOut { job: u64 },
    /// Slurm is done with it.
    Teardown { job: u64 },
    /// A user submits a data part of a job that another scheduler runs: does the daemon expect it?
    Part { uid: u32, job: u64, kind: super::Part },
    /// For `scontrol show bbstat`; its words are not looked at.
    Status { words: Vec<String> },
}

/// How long a daemon that does not answer is waited for: it may be restarting. Slurm's own limit for these steps is
/// longer.
const DAEMON_WAIT_MAX: Duration = Duration::from_secs(60);
/// Shortest and longest pause between two requests.
const ASK_FIRST: Duration = Duration::from_millis(100);
const ASK_LAST: Duration = Duration::from_secs(2);

impl Hook {
    pub fn run(self, context: &Context) -> Result<u8> {
        let answered = match self.step {
            Step::Process { script } => process(&script),
            Step::Setup { job, uid, gid, script } => set_up(context, job, uid, gid, &script),
            Step::DataIn { job } => until_done(context, "slurm.data-in", job),
            Step::Variables { job } => variables(context, job),
            Step::PreRun { job } => until_done(context, "slurm.pre-run", job),
            Step::DataOut { job } => until_done(context, "slurm.data-out", job),
            Step::Teardown { job } => {
                ask(context, "slurm.teardown", &OneJob { job: JobId(job) }).map(|_| String::new())
            }
            // Slurm waits for this one: an answer now, or a refusal.
            Step::Part { uid, job, kind } => {
                once(context, "slurm.part", &OnePart { uid, job: JobId(job), kind: kind.into() })
                    .map(|_| String::new())
                    .map_err(|p| p.cause)
            }
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
    // Slurm keeps it beside the script. Without it a job lacks credentials from its environment, and nothing else.
    let environment = std::fs::read(script.with_file_name("environment")).unwrap_or_default();
    let conf = std::env::var_os("SLURM_CONF").map(PathBuf::from).filter(|path| path.is_absolute());
    let environment = read_environment(&environment);
    let asked = SetUp { job: JobId(job), uid, gid, script: Script::from(text), environment, conf };
    ask(context, "slurm.setup", &asked).map(|_| String::new())
}

/// Repeats the request until the step is over. The work is the daemon's: if this process is killed, nothing is lost.
fn until_done(context: &Context, command: &str, job: u64) -> std::result::Result<String, String> {
    let mut wait = ASK_FIRST;
    loop {
        let answer = ask(context, command, &OneJob { job: JobId(job) })?;
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

/// Slurm waits for this one, too.
fn variables(context: &Context, job: u64) -> std::result::Result<String, String> {
    let answer = once(context, "slurm.variables", &OneJob { job: JobId(job) }).map_err(|p| p.cause)?;
    let variables: Vec<(String, String)> = serde_json::from_value(answer).map_err(|e| format!("entrepot: {e}"))?;
    Ok(variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect())
}

fn status(context: &Context) -> std::result::Result<String, String> {
    let jobs: Vec<Summary> = serde_json::from_value(once(context, "slurm.status", &Value::Null).map_err(|p| p.cause)?)
        .map_err(|e| format!("entrepot: {e}"))?;
    Ok(if jobs.is_empty() { "no job is being staged\n".into() } else { super::table(&jobs) })
}

fn ask(context: &Context, command: &str, args: &impl Serialize) -> std::result::Result<Value, String> {
    let until = Instant::now() + DAEMON_WAIT_MAX;
    loop {
        match once(context, command, args) {
            Ok(answer) => return Ok(answer),
            // It may be restarting, or serving as many as it can.
            Err(p) if matches!(p.exit_code, exit::NO_DAEMON | exit::BUSY) && Instant::now() < until => {
                std::thread::sleep(ASK_LAST);
            }
            Err(p) => return Err(format!("entrepot: {}; {}", p.cause, p.next_step)),
        }
    }
}

fn once(context: &Context, command: &str, args: &impl Serialize) -> std::result::Result<Value, Problem> {
    let found = node::control::find(context.volume.as_deref(), None)?;
    node::control::Client::connect(&found.socket())?.request(command, args, &mut |_| {})
}
