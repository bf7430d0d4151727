//! `entrepot job`: jobs with their data.

pub mod directives;
mod elsewhere;
pub mod show;
pub mod watch;

use crate::answer;
use crate::command::work::say_at_interrupt;
use crate::connect::Context;
use crate::failure::{Failure, Result};
use crate::shown::{self, Output};
use crate::values::word;
use clap::{Args, Subcommand};
use jobs::request::{
    Complaint, JobDetail, JobId, JobState, JobSummary, Kind, List, Log, LogPiece, NamedSource, OneJob, Overrides,
    PartKind, Retry, Script, SilentHosts, Stream, Submit,
};
use node::control::answers::read;
use node::control::{Client, Problem, exit};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Run job scripts with #STAGEIN and #STAGEOUT lines, on this machine or through Slurm or PBS
///
/// A script becomes up to three parts: stage-in, compute, stage-out, each started when the one before succeeded. The
/// queue is first come, first served with backfilling. Jobs run as the user who submits them and outlive a restart of
/// the daemon.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot job plan job.sh                what would be submitted
  entrepot job submit job.sh --cores 4
  entrepot job list && entrepot job log 3 && entrepot job wait 3")]
pub struct Job {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Args)]
struct ResourceOptions {
    /// Name of the job.
    #[arg(long)]
    name: Option<String>,
    /// Cores of the script.
    #[arg(long, short = 'n')]
    cores: Option<u32>,
    /// Longest run of the script, such as `90s`, `2h`.
    #[arg(long, short = 't', value_parser = humantime::parse_duration)]
    walltime: Option<Duration>,
    /// Retries of the staging commands.
    #[arg(long)]
    retry: Option<u32>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print the parts of a job and all mistakes, without a daemon and without submitting it
    #[command(after_help = "EXAMPLES:\n  entrepot job plan job.sh\n  entrepot job plan job.sh --output json")]
    Plan {
        /// The script; `-` is standard input.
        script: PathBuf,
        #[command(flatten)]
        resources: ResourceOptions,
        /// Format of the output.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Submit a job; prints its number
    #[command(
        after_help = "EXAMPLES:\n  entrepot job submit job.sh\n  entrepot job submit job.sh --cores 2 --walltime 10min --name assembly\n  entrepot job submit job.sh --scheduler slurm"
    )]
    Submit {
        /// The script; `-` is standard input.
        script: PathBuf,
        #[command(flatten)]
        resources: ResourceOptions,
        /// Scheduler of the job: the built-in one, or Slurm or PBS with three dependent jobs.
        #[arg(long, value_enum, default_value = "local")]
        scheduler: By,
        /// The scheduler's queue (partition) for stage-in and stage-out.
        #[arg(long, value_name = "QUEUE", default_value = "dataxfer")]
        data_queue: String,
        /// Wait for its end, as `entrepot job wait` does; the exit code is 0 when it completed.
        #[arg(long)]
        wait: bool,
        /// Format of the output.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Show your unfinished jobs (root: everybody's)
    #[command(after_help = "EXAMPLES:\n  entrepot job list\n  entrepot job list --all --output json")]
    List {
        /// Finished jobs too.
        #[arg(long)]
        all: bool,
        /// Format of the output.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Show all about a job: parts, times, sources, recoveries
    #[command(after_help = "EXAMPLES:\n  entrepot job show 3\n  entrepot job show 3 --output json")]
    Show(OneId),
    /// Watch a job to its end: why it waits, when it starts, the progress of its data
    ///
    /// A terminal shows a bar for each transfer; any other output gets a line for each change. The exit code is that of
    /// `job wait`. Ctrl-C ends the watching, not the job.
    #[command(after_help = "EXAMPLES:\n  entrepot job watch\n  entrepot job watch 3 --output json")]
    Watch {
        /// Number of the job; default: your last unfinished one.
        id: Option<u64>,
        /// Format of the output.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Cancel a job
    #[command(after_help = "EXAMPLES:\n  entrepot job cancel 3")]
    Cancel(OneId),
    /// Resume a failed job at the part that failed; earlier parts are not repeated
    ///
    /// A stage-out runs in the environment of the submission. A stage-in or a script runs in your present environment,
    /// in the directory of the job; the script is the submitted one.
    #[command(after_help = "EXAMPLES:\n  entrepot job retry 3")]
    Retry(OneId),
    /// Print the output of a part of a job
    #[command(
        after_help = "EXAMPLES:\n  entrepot job log 3\n  entrepot job log 3 --part stage-in --stderr\n  entrepot job log 3 --follow"
    )]
    Log {
        /// Number of the job.
        id: u64,
        /// Part of the job: stage-in, compute, stage-out.
        #[arg(long, default_value = "compute", value_parser = word::<PartKind>(PartKind::ALL.map(PartKind::name)))]
        part: PartKind,
        /// Standard error instead of standard output.
        #[arg(long)]
        stderr: bool,
        /// Continue until the end of the part.
        #[arg(long, short)]
        follow: bool,
    },
    /// Begin a stage-in that another scheduler runs: wait until space is promised to its data
    #[command(hide = true)]
    Admit {
        /// Entrepot's number of the job.
        id: u64,
    },
    /// End a stage-in that another scheduler ran: record its sources and check its data
    #[command(hide = true)]
    Staged {
        /// Entrepot's number of the job.
        id: u64,
    },
    /// Wait for the end of a job; the exit code is 0 when it completed
    #[command(after_help = "EXAMPLES:\n  entrepot job wait 3 && cat result.txt")]
    Wait(OneId),
}

/// Arguments of commands about a single job.
#[derive(Debug, Args)]
struct OneId {
    /// Number of the job.
    id: u64,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// Scheduler of a job.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum By {
    Local,
    Slurm,
    Pbs,
}

impl Job {
    pub fn run(self, context: &Context) -> Result<u8> {
        match self.verb {
            Verb::Plan { script, resources, output } => return plan(context, &script, resources.into(), output),
            Verb::Submit { script, resources, scheduler, data_queue, wait: waits, output } => {
                // With `--wait` and JSON the only output is the outcome.
                let printed = (!(waits && output == Output::Json)).then_some(output);
                let id = match scheduler {
                    By::Local => submit(context, &script, resources.into(), printed)?,
                    By::Slurm => {
                        elsewhere::submit(context, &script, resources.into(), Kind::Slurm, &data_queue, printed)?
                    }
                    By::Pbs => elsewhere::submit(context, &script, resources.into(), Kind::Pbs, &data_queue, printed)?,
                };
                return if waits { wait(context, id.0, output) } else { Ok(0) };
            }
            Verb::Admit { id } => {
                context.ask::<Value>("job.admit", OneJob { id: JobId(id) })?;
            }
            Verb::Staged { id } => {
                context.ask::<Value>("job.staged", OneJob { id: JobId(id) })?;
            }
            Verb::List { all, output } => {
                let json = output == Output::Json;
                let answer = ask_all(context, "job.list", all || !json)?;
                if json {
                    shown::json(&answer)?;
                    return Ok(0);
                }
                let is_shown = |job: &JobSummary| all || !job.state.is_final();
                let (shown, over): (Vec<_>, Vec<_>) = read::<Vec<JobSummary>>(answer)?.into_iter().partition(is_shown);
                shown::text(&show::list(&shown))?;
                if let Some(note) = show::not_shown(&over) {
                    eprintln!("note: {note}");
                }
            }
            Verb::Show(OneId { id, output }) => {
                let answer = context.ask("job.show", OneJob { id: JobId(id) })?;
                answer::show(output, answer, |detail| show::detail(detail) + &elsewhere::line(detail))?;
            }
            Verb::Watch { id, output } => return watch::run(context, id, output),
            Verb::Cancel(OneId { id, output }) => {
                let detail: JobDetail = context.ask("job.show", OneJob { id: JobId(id) })?;
                if !detail.summary.state.is_final() {
                    elsewhere::cancel(&detail)?;
                }
                let summary: JobSummary = context.ask("job.cancel", OneJob { id: JobId(id) })?;
                shown::value(output, &summary, |summary| format!("job {id} {}\n", show::after_cancel(summary)))?;
            }
            Verb::Retry(OneId { id, output }) => {
                let summary: JobSummary = context.ask("job.retry", retry_of(id))?;
                shown::value(output, &summary, |summary| format!("{}\n", show::line(summary)))?;
            }
            Verb::Log { id, part, stderr, follow } => return log(context, id, part, stderr, follow),
            Verb::Wait(OneId { id, output }) => return wait(context, id, output),
        }
        Ok(0)
    }
}

impl From<ResourceOptions> for Overrides {
    fn from(w: ResourceOptions) -> Overrides {
        Overrides { name: w.name, cores: w.cores, walltime_s: w.walltime.map(|t| t.as_secs()), retries: w.retry }
    }
}

/// Requests the jobs of all nodes of the volume.
pub fn ask_all(context: &Context, command: &str, all: bool) -> Result<Value> {
    let mut note = |printed: Value| {
        let SilentHosts { silent } = read(printed).unwrap_or_default();
        if !silent.is_empty() {
            eprintln!("note: {} did not answer; jobs there are not shown", silent.join(", "));
        }
    };
    Ok(context.connect()?.request(command, List { all }, &mut note)?)
}

/// Sources that an ordinary command reads, for the planner.
pub fn recognise(words: &[String]) -> Vec<NamedSource> {
    source::recognise(words).into_iter().map(|r| NamedSource { uri: r.uri, path: r.destination }).collect()
}

fn script_of(path: &Path) -> Result<(Vec<u8>, String)> {
    let mut script = Vec::new();
    let done = if path == Path::new("-") {
        std::io::stdin().read_to_end(&mut script).map(|_| ())
    } else {
        std::fs::read(path).map(|bytes| script = bytes)
    };
    done.map_err(|e| {
        Failure::from(Failure::of_io(&format!("the script {}", path.display()), &e).so("nothing was submitted"))
    })?;
    let name = path.file_name().map_or("stdin".into(), |n| n.to_string_lossy().into_owned());
    Ok((script, name))
}

/// Plans a script for a machine with these cores, in the working directory and the volume that the command acts on.
fn planned(
    context: &Context,
    script: &[u8],
    file_name: &str,
    overrides: &Overrides,
    cores: u32,
) -> std::result::Result<jobs::request::Plan, Vec<Complaint>> {
    let limits = jobs::plan::Limits { cores, walltime_default_s: WALLTIME_DEFAULT_S, arrays: false };
    let cwd = std::env::current_dir().ok();
    let found = cwd.as_deref().and_then(|cwd| node::control::find(context.volume.as_deref(), Some(cwd)).ok());
    let mount = found.and_then(|found| found.mount_point);
    directives::plan(script, file_name, overrides, limits, mount.as_deref().zip(cwd.as_deref()))
}

fn plan(context: &Context, path: &Path, overrides: Overrides, output: Output) -> Result<u8> {
    let (script, name) = script_of(path)?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    match planned(context, &script, &name, &overrides, cores) {
        Ok(plan) if output == Output::Json => shown::json(&plan)?,
        Ok(plan) => shown::text(&shown::inert(&jobs::plan::render(&plan)))?,
        Err(complaints) if output == Output::Json => {
            shown::json(&Complaints { complaints })?;
            return Err(Failure::Said(exit::WRONG_INPUT));
        }
        Err(complaints) => return Err(complain(&complaints)),
    }
    Ok(0)
}

/// Errors of a script in JSON.
#[derive(Serialize)]
struct Complaints {
    complaints: Vec<Complaint>,
}

/// The runner's own default, see `jobs::Config`.
const WALLTIME_DEFAULT_S: u64 = 24 * 3600;

fn complain(complaints: &[Complaint]) -> Failure {
    for c in complaints {
        let place = if c.line > 0 { format!("line {}: ", c.line) } else { String::new() };
        let problem = Problem::wrong(format!("{place}{}", c.cause)).so("the script was not submitted");
        let _ = Failure::Problem(problem.try_this(c.mend.clone())).show();
    }
    Failure::Said(exit::WRONG_INPUT)
}

/// File creation mask and environment of this process.
fn surroundings() -> (u32, BTreeMap<String, String>) {
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    // JSON cannot hold variables that are not UTF-8; they are left out.
    let environment = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    (umask.as_raw_mode(), environment.collect())
}

fn retry_of(id: u64) -> Retry {
    let (umask, environment) = surroundings();
    Retry { id: JobId(id), umask, environment }
}

/// Submits a script. `printed`: format of the printed job number, if it is printed.
fn submit(context: &Context, path: &Path, overrides: Overrides, printed: Option<Output>) -> Result<JobId> {
    let (script, file_name) = script_of(path)?;
    // The daemon reports all further errors of the script.
    planned(context, &script, &file_name, &overrides, u32::MAX).map_err(|wrong| complain(&wrong))?;
    let cwd = std::env::current_dir()?;
    let (umask, environment) = surroundings();
    let request = Submit { file_name, script: Script::from(script), cwd: cwd.clone(), umask, environment, overrides };
    let found = node::control::find(context.volume.as_deref(), Some(&cwd))?;
    let answer = Client::connect(&found.socket())?.request("job.submit", request, &mut |_| {})?;
    let submitted: jobs::request::Submitted = read(answer)?;
    if printed != Some(Output::Json) {
        submitted.warnings.iter().for_each(|warning| eprintln!("note: {}", shown::inert(warning)));
    }
    if let Some(output) = printed {
        shown::value(output, &submitted, |submitted| format!("job {}\n", submitted.id))?;
    }
    Ok(submitted.id)
}

/// Interval of requests for a log that is followed.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);

fn log(context: &Context, id: u64, part: PartKind, stderr: bool, follow: bool) -> Result<u8> {
    if elsewhere::log(context, id, part, stderr, follow)? {
        return Ok(0);
    }
    let stream = if stderr { Stream::Err } else { Stream::Out };
    print_log(context, "job.log", follow, |offset| Log { id: JobId(id), part, stream, offset })?;
    Ok(0)
}

/// Prints a log from its start, with a request for each piece; with `follow` until its part has ended.
pub fn print_log<T: Serialize>(
    context: &Context,
    command: &str,
    follow: bool,
    request: impl Fn(u64) -> T,
) -> Result<()> {
    let mut client = context.connect()?;
    let (mut offset, mut out) = (0, std::io::stdout().lock());
    loop {
        let piece: LogPiece = read(client.request(command, request(offset), &mut |_| {})?)?;
        let data = piece.data.as_bytes();
        out.write_all(data)?;
        out.flush()?;
        offset = piece.next_offset;
        if data.is_empty() && (piece.ended || !follow) {
            return Ok(());
        }
        if data.is_empty() {
            std::thread::sleep(FOLLOW_EVERY);
        }
    }
}

fn wait(context: &Context, id: u64, output: Output) -> Result<u8> {
    say_at_interrupt(format!(
        "interrupted: job {id} goes on\n  next: `entrepot job watch {id}` shows it, `entrepot job cancel {id}` ends it"
    ))?;
    let summary = watch::wait(context, id)?;
    shown::value(output, &summary, |summary| format!("{}\n", show::line(summary)))?;
    if output == Output::Text && summary.state == JobState::Failed {
        let next = "has more of it; once the cause is gone,";
        eprintln!("  next: `entrepot job show {id}` {next} `entrepot job retry {id}` goes on at the part that failed");
    }
    Ok(if summary.state == JobState::Completed { 0 } else { exit::FAILED })
}

/// Supervise a part of a job; started by the daemon, not by users
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:\n  entrepot job-exec --spec FILE     as the daemon does")]
pub struct JobExec {
    /// Specification of the command.
    #[arg(long)]
    spec: PathBuf,
    /// Index of the command to become.
    #[arg(long)]
    step: Option<usize>,
}

impl JobExec {
    pub fn run(self) -> ExitCode {
        jobs::exec::main(&self.spec, self.step)
    }
}
