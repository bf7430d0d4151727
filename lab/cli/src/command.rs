//! The subcommands of `entrepot-lab`, and the modules that run them.

mod bench;
mod emulate_disk;
mod executor;
mod patterns;
mod plot;
mod reproduce;
mod rules;
mod sim;
mod trace;
mod tune;

use crate::failure::{Failure, Result};
use crate::table::Answer;
use clap::{CommandFactory, Parser, Subcommand};
use node::control::Problem;
use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsString;
use std::path::Path;
use terminal::EXIT_CODES;
use terminal::completions::Completions;
use terminal::man::Man;

/// The laboratory of Entrepot: its policies in virtual time, the traces and devices to try them on
///
/// It needs no volume and changes none; only `bench device` writes what it has measured into a volume.toml.
#[derive(Debug, Parser)]
#[command(
    name = "entrepot-lab",
    version,
    after_help = format!("\
EXAMPLES:
  entrepot-lab trace generate oltp:scale=0.01 oltp.trace
  entrepot-lab trace stats oltp.trace
  entrepot-lab sim cache --trace oltp.trace --l1 linux --l2 sarc --l2-size 200% --coordinator pfc
  entrepot-lab sim tier --generate zipf --fast-size 20%
  entrepot-lab tune volume.toml --trace recorded.csv
  entrepot-lab reproduce --quick
  entrepot-lab emulate-disk --model cheetah9lp /srv/data /mnt/disk
  entrepot-lab bench device /mnt/disk0

{EXIT_CODES}")
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Sim(sim::Sim),
    Reproduce(reproduce::Reproduce),
    Trace(trace::Trace),
    Tune(tune::Tune),
    Rules(rules::Rules),
    Patterns(patterns::Patterns),
    Plot(plot::Plot),
    Bench(bench::Bench),
    EmulateDisk(emulate_disk::EmulateDisk),
    #[command(after_help = "\
EXAMPLES:
  entrepot-lab completions bash > /etc/bash_completion.d/entrepot-lab
  entrepot-lab completions zsh > ~/.zfunc/_entrepot-lab
  entrepot-lab completions fish > ~/.config/fish/completions/entrepot-lab.fish")]
    Completions(Completions),
    #[command(after_help = "\
EXAMPLES:
  entrepot-lab man /usr/local/share/man/man1
  entrepot-lab man . && man ./entrepot-lab-sim-cache.1")]
    Man(Man),
}

impl Command {
    /// Parses the words of a command, without `entrepot-lab`.
    fn parse(words: impl Iterator<Item: Into<OsString> + Clone>) -> std::result::Result<Command, clap::Error> {
        let name = std::iter::once(OsString::from("entrepot-lab"));
        Ok(Cli::try_parse_from(name.chain(words.map(Into::into)))?.command)
    }

    /// The answer of a simulation, of a plot or of a census, without remarks.
    fn answer(&self) -> Result<Answer> {
        match self {
            Command::Sim(c) => c.quiet_answer(),
            Command::Rules(c) => c.answer(),
            Command::Trace(c) => c.answer(),
            _ => Err(no_answer()),
        }
    }
}

fn no_answer() -> Failure {
    let problem = Problem::wrong("the command has no answer for programs").so("nothing was run");
    problem.try_this("run it with `entrepot-lab`").into()
}

/// Returns the answer of a command instead of printing it, without remarks. Help is an answer, too.
pub fn answer(words: &[OsString]) -> Result<Answer> {
    match Command::parse(words.iter()) {
        Ok(command) => command.answer(),
        Err(help) if !help.use_stderr() => Ok(Answer::Text(help.to_string())),
        Err(error) => {
            let text = error.to_string();
            let cause = text.trim_start_matches("error: ").split("\n\nUsage:").next().unwrap_or_default();
            let cause = cause.split_whitespace().collect::<Vec<_>>().join(" ");
            Err(Problem::wrong(cause).so("nothing was simulated").try_this("see the `--help` of the command").into())
        }
    }
}

impl Cli {
    /// Runs the command; returns the exit code.
    pub fn run(self) -> Result<u8> {
        match self.command {
            Command::Sim(c) => c.run(),
            Command::Reproduce(c) => c.run(),
            Command::Trace(c) => c.run(),
            Command::Tune(c) => c.run(),
            Command::Rules(c) => c.run(),
            Command::Patterns(c) => c.run(),
            Command::Plot(c) => c.run(),
            Command::Bench(c) => c.run(),
            Command::EmulateDisk(c) => c.run(),
            Command::Completions(c) => c.run(Cli::command(), false),
            Command::Man(c) => c.run(Cli::command()),
        }
    }
}

/// Converts the message of an error of `sim`, which has cause, consequence and next step, to a [`Problem`].
fn said(message: &str, wrong: bool) -> Problem {
    let (cause, rest) = message.rsplit_once("; ").unwrap_or((message, "nothing was simulated"));
    let (so, next) = rest.split_once(". ").unwrap_or((rest, "see the `--help` of the command"));
    let problem = if wrong { Problem::wrong(cause) } else { Problem::failed(cause) };
    problem.so(so).try_this(next)
}

/// Writes a file.
fn write_file(path: &Path, text: &str) -> Result<()> {
    Ok(std::fs::write(path, text).map_err(|error| Failure::of_io(&path.display().to_string(), &error))?)
}

/// Seconds of a clock, such as the processor time of a thread.
fn seconds(clock: ClockId) -> f64 {
    let now = clock_gettime(clock);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
