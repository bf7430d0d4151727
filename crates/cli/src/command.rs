//! The command line: what there is, and which file serves it.

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
mod up;
mod work;

pub use up::detach as up_in_background;

use crate::connect::Context;
use crate::failure::Result;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use store::control::Problem;
use terminal::EXIT_CODES;
use terminal::completions::Completions;
use terminal::man::Man;

/// One scratch file system of the storage that is already there, which knows about the jobs that use it.
///
/// A volume is described by a `volume.toml`: a directory for names, directories on devices (targets) for bytes, a
/// directory for state. `entrepot up` mounts it and serves it; all other commands talk to that daemon. They find it by
/// `--volume`, by the environment variable ENTREPOT_VOLUME, by the mount that a path (or the working directory) lies in, or because
/// there is only one.
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
    /// The volume's file or its mount point; only needed when several volumes are mounted or none is.
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

/// Commands of the laboratory, which has a binary of its own.
const LABORATORY: [&str; 6] = ["sim", "trace", "rules", "patterns", "bench", "emulate-disk"];

impl Cli {
    /// The command line, read; the end of the process if it asks for help or makes no sense.
    pub fn read() -> Result<Cli> {
        let error = match Cli::try_parse() {
            Ok(cli) => return Ok(cli),
            Err(error) => error,
        };
        match error.get(ContextKind::InvalidSubcommand) {
            Some(ContextValue::String(name)) if LABORATORY.contains(&&**name) => {
                Err(Problem::wrong(format!("`{name}` is no command of `entrepot`: it belongs to the laboratory"))
                    .try_this(format!("use the other binary: `entrepot-lab {name}`"))
                    .into())
            }
            _ => error.exit(),
        }
    }

    /// Carries it out; gives the exit code.
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

/// The supervisor of jobs speaks in `ExitCode`, which tells its number to the process alone.
fn code_of(code: ExitCode) -> u8 {
    u8::from(code != ExitCode::SUCCESS)
}
