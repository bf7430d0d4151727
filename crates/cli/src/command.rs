//! The subcommands of `entrepot`, and the modules that run them.

mod accounting;
mod balance;
mod check;
mod checkpoint;
pub mod complete;
mod connect;
mod df;
mod doctor;
mod down;
mod events;
mod explain;
mod find;
mod init;
mod job;
mod layout;
mod node;
mod purge;
mod quota;
mod scrub;
mod slurm;
mod source;
mod stage;
mod state;
mod stats;
mod status;
mod target;
mod tiering;
mod top;
mod trace;
mod up;
mod work;

pub use up::detach as up_in_background;

use crate::connect::Context;
use crate::failure::Result;
use ::node::control::{Problem, exit};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use terminal::EXIT_CODES;
use terminal::completions::Completions;
use terminal::man::Man;

/// One scratch file system over existing storage, with staging for the jobs that use it.
///
/// A volume is described by a `volume.toml`: a directory for names, directories on devices (targets) for bytes, a
/// directory for state. `entrepot up` mounts and serves it; the other commands send requests to that daemon. A command
/// finds the volume by `--volume`, by the environment variable ENTREPOT_VOLUME, or by the mount that its path or the
/// working directory lies in. Otherwise it takes the only volume that is mounted.
#[derive(Debug, Parser)]
#[command(
    name = "entrepot",
    version,
    after_help = format!("\
EXAMPLES:
  entrepot init scratch                               write scratch/volume.toml and its directories
  entrepot up scratch/volume.toml --at /mnt/scratch --detach
  entrepot stage in https://example.org/big.dat /mnt/scratch/big.dat
  entrepot layout /mnt/scratch/big.dat                where the bytes lie
  entrepot job submit job.sh                          run a job with #STAGEIN and #STAGEOUT lines
  entrepot down

{EXIT_CODES}")
)]
pub struct Cli {
    /// `volume.toml` of the volume, or its mount point; needed unless exactly one volume is mounted.
    #[arg(long, global = true, value_name = "VOLUME")]
    volume: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Init),
    Up(up::Up),
    Down(down::Down),
    Doctor(doctor::Doctor),
    Status(status::Status),
    Accounting(accounting::Accounting),
    Events(events::Events),
    Stats(stats::Stats),
    Top(top::Top),
    Trace(trace::Trace),
    Node(node::Node),
    Target(target::Target),
    Balance(balance::Balance),
    Tiering(tiering::Tiering),
    Layout(layout::Layout),
    Explain(explain::Explain),
    Stage(stage::Stage),
    Source(source::Source),
    Check(check::Check),
    Df(df::Df),
    Find(find::Find),
    State(state::State),
    Purge(purge::Purge),
    Quota(quota::Quota),
    Scrub(scrub::Scrub),
    Job(job::Job),
    Slurm(slurm::Slurm),
    Checkpoint(checkpoint::Checkpoint),
    Connect(connect::Connect),
    #[command(after_help = "\
EXAMPLES:
  entrepot completions bash > /etc/bash_completion.d/entrepot
  entrepot completions zsh > ~/.zfunc/_entrepot
  entrepot completions fish > ~/.config/fish/completions/entrepot.fish")]
    Completions(Completions),
    #[command(after_help = "\
EXAMPLES:
  entrepot man /usr/local/share/man/man1
  entrepot man . && man ./entrepot-up.1")]
    Man(Man),
    #[command(hide = true)]
    JobExec(job::JobExec),
}

/// Commands of `entrepot-lab`; an error names that binary.
const LABORATORY: [&str; 6] = ["sim", "tune", "rules", "patterns", "bench", "emulate-disk"];

impl Cli {
    /// Parses the command line; ends the process after help, or if it is wrong.
    pub fn read() -> Result<Cli> {
        let mut error = match Cli::try_parse() {
            Ok(cli) => return Ok(cli),
            Err(error) => error,
        };
        suggest_no_hidden(&mut error);
        match error.get(ContextKind::InvalidSubcommand) {
            Some(ContextValue::String(name)) if LABORATORY.contains(&&**name) => {
                let cause = format!("`{name}` is no command of `entrepot`: it belongs to the laboratory");
                Err(Problem::wrong(cause).try_this(format!("use the other binary: `entrepot-lab {name}`")).into())
            }
            _ => error.exit(),
        }
    }

    /// Runs the command; returns the exit code.
    pub fn run(self) -> Result<u8> {
        let context = Context { volume: self.volume };
        match self.command {
            Command::Init(c) => c.run(),
            Command::Up(c) => c.run(&context),
            Command::Down(c) => c.run(&context),
            Command::Doctor(c) => c.run(&context),
            Command::Status(c) => c.run(&context),
            Command::Accounting(c) => c.run(&context),
            Command::Events(c) => c.run(&context),
            Command::Stats(c) => c.run(&context),
            Command::Top(c) => c.run(&context),
            Command::Trace(c) => c.run(&context),
            Command::Node(c) => c.run(&context),
            Command::Target(c) => c.run(&context),
            Command::Balance(c) => c.run(&context),
            Command::Tiering(c) => c.run(&context),
            Command::Layout(c) => c.run(&context),
            Command::Explain(c) => c.run(&context),
            Command::Stage(c) => c.run(&context),
            Command::Source(c) => c.run(&context),
            Command::Check(c) => c.run(&context),
            Command::Df(c) => c.run(&context),
            Command::Find(c) => c.run(&context),
            Command::State(c) => c.run(&context),
            Command::Purge(c) => c.run(&context),
            Command::Quota(c) => c.run(&context),
            Command::Scrub(c) => c.run(&context),
            Command::Job(c) => c.run(&context),
            Command::Slurm(c) => c.run(&context),
            Command::Checkpoint(c) => c.run(&context),
            Command::Connect(c) => c.run(),
            Command::Completions(c) => c.run(Cli::command(), true),
            Command::Man(c) => c.run(Cli::command()),
            Command::JobExec(c) => Err(crate::failure::Failure::Said(code_of(c.run()))),
        }
    }
}

/// Removes hidden subcommands from the suggestions of an error: only programs run them.
fn suggest_no_hidden(error: &mut clap::Error) {
    let command = Cli::command();
    let is_hidden = |name: &str| command.get_subcommands().any(|known| known.is_hide_set() && known.get_name() == name);
    let kind = ContextKind::SuggestedSubcommand;
    let left: Vec<String> = match error.remove(kind) {
        Some(ContextValue::String(name)) => vec![name],
        Some(ContextValue::Strings(names)) => names,
        _ => return,
    };
    let left: Vec<String> = left.into_iter().filter(|name| !is_hidden(name)).collect();
    if !left.is_empty() {
        error.insert(kind, ContextValue::Strings(left));
    }
}

/// Reports names that a command could not read. Returns its exit code.
fn code_of_unread(unread: u64) -> u8 {
    if unread > 0 {
        eprintln!("{} could not be read, or have names that are no UTF-8", crate::shown::count(unread, "name"));
    }
    if unread == 0 { 0 } else { exit::INCOMPLETE }
}

/// The supervisor of jobs returns an `ExitCode`, whose number cannot be read.
fn code_of(code: ExitCode) -> u8 {
    u8::from(code != ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_programs_run_is_no_tip() {
        let mut error = Cli::try_parse_from(["entrepot", "job-exe"]).expect_err("no command");
        suggest_no_hidden(&mut error);
        assert!(!error.to_string().contains("job-exec"), "{error}");
        let mut error = Cli::try_parse_from(["entrepot", "statu"]).expect_err("no command");
        suggest_no_hidden(&mut error);
        assert!(error.to_string().contains("status"), "{error}");
    }
}
