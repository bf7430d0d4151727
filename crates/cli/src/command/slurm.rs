//! `entrepot slurm`: jobs of a real Slurm with their data.

mod hook;
mod install;

use crate::answer;
use crate::command::job::{ask_all, print_log, show, watch};
use crate::connect::Context;
use crate::failure::{Failure, Result};
use crate::shown::{self, Output};
use crate::values::word;
use clap::builder::TypedValueParser;
use clap::{Args, Subcommand};
use jobs::request::{self, JobId, OneJob, PartKind, Stream};
use jobs::slurm::wire::{Detail, Log, Summary};
use node::control::exit;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Time within which Slurm hands over a new job. By default the next pass of its scheduler follows within half a
/// minute.
const NAMED_WITHIN: Duration = Duration::from_secs(60);
const NAMED_LOOK_EVERY: Duration = Duration::from_millis(500);

/// Stage data in and out for jobs of Slurm
///
/// A script for sbatch has lines `#STAGEIN entrepot stage in URI PATH` and `#STAGEOUT entrepot stage out PATH URI`
/// above its first command. `squeue` shows BurstBufferStageIn during a stage-in, and the reason of a failed one.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot slurm install --dry-run          files and lines to change
  sbatch job.sh && scontrol show bbstat     where the data of all jobs stand
  entrepot slurm show 4711                  why job 4711 does not start
  entrepot slurm watch 4711                 progress of its data
  entrepot slurm retry 4711                 once the cause is gone
  entrepot slurm forget 4711                if you give it up")]
pub struct Slurm {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Install(install::Install),
    /// Show your jobs that have staging directives (root: everybody's)
    #[command(after_help = "EXAMPLES:\n  entrepot slurm list\n  entrepot slurm list --all --output json")]
    List {
        /// Completed jobs too.
        #[arg(long)]
        all: bool,
        /// Format of the output.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Show the staging of a job
    #[command(after_help = "EXAMPLES:\n  entrepot slurm show 4711\n  entrepot slurm show 4711 --output json")]
    Show {
        /// Slurm's number of the job.
        job: u64,
        /// Format of the output.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Watch the staging of a job until its results are at home
    ///
    /// A terminal shows a bar for each transfer; any other output gets a line for each change. The exit code is 0 when
    /// the job and its staging are over, and 1 when its data cannot come in or its results cannot go home. Ctrl-C ends
    /// the watching, not the job.
    #[command(after_help = "EXAMPLES:\n  entrepot slurm watch 4711\n  entrepot slurm watch 4711 --output json")]
    Watch {
        /// Slurm's number of the job.
        job: u64,
        /// Format of the output.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Try a failed stage-in or stage-out again
    ///
    /// A job that Slurm holds because its stage-in failed, or that waits to run again, is released; one that is over
    /// has its results taken home. Staged data is not fetched again.
    #[command(after_help = "EXAMPLES:\n  entrepot slurm retry 4711")]
    Retry {
        /// Slurm's number of the job.
        job: u64,
    },
    /// Drop the record of a job that was cancelled, or whose staging failed for good
    ///
    /// Where Slurm still has the job in its queue, it is cancelled there. Files of the job stay where they are.
    #[command(after_help = "EXAMPLES:\n  entrepot slurm forget 4711")]
    Forget {
        /// Slurm's number of the job.
        job: u64,
    },
    /// Print the output of a staging command of a job
    #[command(
        after_help = "EXAMPLES:\n  entrepot slurm log 4711\n  entrepot slurm log 4711 --part stage-out --command 2 --stderr"
    )]
    Log {
        /// Slurm's number of the job.
        job: u64,
        /// Part of the job: stage-in or stage-out.
        #[arg(long, default_value = "stage-in", value_parser = data_part())]
        part: PartKind,
        /// Number of the command in that part, from 1.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
        command: u64,
        /// Standard error instead of standard output.
        #[arg(long)]
        stderr: bool,
    },
    #[command(hide = true)]
    Hook(hook::Hook),
}

/// A part of a job that moves data.
fn data_part() -> impl TypedValueParser<Value = PartKind> {
    word([PartKind::StageIn, PartKind::StageOut].map(PartKind::name))
}

impl Slurm {
    pub fn run(self, context: &Context) -> Result<u8> {
        match self.verb {
            Verb::Install(c) => return c.run(context),
            Verb::Hook(c) => return c.run(context),
            Verb::List { all, output } => {
                let answer = ask_all(context, "slurm.list", all)?;
                answer::show(output, answer, |jobs: &Vec<Summary>| table(jobs))?;
            }
            Verb::Show { job, output } => {
                let answer = context.ask("slurm.show", OneJob { id: JobId(job) })?;
                answer::show(output, answer, detail)?;
            }
            Verb::Watch { job, output } => {
                return watch_job(context, job, output);
            }
            Verb::Forget { job } => {
                let outcome: String = context.ask("slurm.forget", OneJob { id: JobId(job) })?;
                shown::text(&format!("job {job}: {outcome}\n"))?;
            }
            Verb::Retry { job } => {
                let outcome: String = context.ask("slurm.retry", OneJob { id: JobId(job) })?;
                shown::text(&format!("job {job}: {outcome}\n"))?;
            }
            Verb::Log { job, part, command, stderr } => {
                let stream = if stderr { Stream::Err } else { Stream::Out };
                let (command, id) = (command as usize - 1, JobId(job));
                let piece = |offset| Log { command, piece: request::Log { id, part, stream, offset } };
                print_log(context, "slurm.log", false, piece)?;
            }
        }
        Ok(0)
    }
}

/// Watches a job. Its hand-over is awaited first: it follows some time after `sbatch` has printed the number.
fn watch_job(context: &Context, job: u64, output: Output) -> Result<u8> {
    let until = Instant::now() + NAMED_WITHIN;
    loop {
        match watch::follow(context, "slurm.watch", OneJob { id: JobId(job) }, output) {
            Err(Failure::Problem(p)) if p.exit_code == exit::NOT_FOUND && Instant::now() < until => {
                std::thread::sleep(NAMED_LOOK_EVERY);
            }
            watched => return watched,
        }
    }
}

/// Formats jobs as columns, also for `scontrol show bbstat`.
fn table(jobs: &[Summary]) -> String {
    let row = |s: &Summary| {
        let cells =
            [s.job.to_string(), s.user.clone(), s.phase.to_string(), shown::moment_ms(s.since_ms), s.doing.clone()];
        (s.host.clone(), cells.to_vec())
    };
    show::table(&["job", "user", "state", "since", "doing"], jobs.iter().map(row))
}

fn detail(d: &Detail) -> String {
    let job = &d.job;
    let mut text = format!("job {} of {}: {}\n", job.id, job.user, job.state);
    if let Some(why) = &job.own.why {
        let prospect = if why.passing { "this may pass" } else { "this will not pass by itself" };
        let _ = writeln!(text, "  {} failed: {}", why.part, why.cause);
        let _ = writeln!(text, "  {prospect}; then: entrepot slurm retry {}", job.id);
    }
    if let Some(note) = &job.own.note {
        let _ = writeln!(text, "  {note}");
    }
    let _ = writeln!(text, "  submitted in {}", job.cwd.display());
    for moment in &job.timeline {
        let _ = writeln!(text, "  {}  {}", shown::moment_ms(moment.at_ms), moment.state);
    }
    if let Some(staging) = &d.staging {
        let _ = writeln!(text, "  on its way: {}", show::staging(staging));
    }
    if let Some(arrival) = &job.arrival {
        let _ = writeln!(text, "  {}", show::coming(arrival));
    }
    job.early.iter().for_each(|e| text += &show::left_early(e));
    for p in &d.protection {
        let _ = writeln!(text, "  {}: {}", p.path.display(), show::protection(p));
    }
    for t in &d.transfers {
        let words = t.argv.join(" ");
        let others = t.jobs.len().saturating_sub(1);
        let shared = if others > 0 { format!(", shared with {others} other jobs") } else { String::new() };
        let state = format!("{:?}", t.state).to_lowercase();
        let _ = writeln!(text, "  {} line {}: {words}: {state}{shared}", t.kind, t.line);
        if let Some((cause, _)) = &t.why {
            let _ = writeln!(text, "    {cause}");
        }
    }
    if let Some(check) = &job.check {
        let (files, fetched) = (shown::count(check.n_files, "file"), shown::bytes(check.fetched_bytes));
        let _ = writeln!(text, "  looked at before the start: {files}, {} mended, {fetched} fetched", check.n_repaired);
    }
    text
}
