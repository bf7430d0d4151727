//! The command line: what there is, and which file serves it.

mod bench;
mod check;
mod checkpoint;
mod completions;
mod connect;
mod down;
mod emulate_disk;
mod explain;
mod init;
mod job;
mod layout;
mod man;
mod patterns;
mod purge;
mod rules;
mod sim;
mod slurm;
mod source;
mod stage;
mod state;
mod stats;
mod status;
mod target;
mod tiering;
mod trace;
mod up;
mod work;

pub use up::detach as up_in_background;

use crate::connect::Context;
use crate::failure::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

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
    after_help = "\
EXAMPLES:
  entrepot init scratch                               write scratch/volume.toml and its directories
  entrepot up scratch/volume.toml --at /mnt/scratch --detach
  entrepot stage in https://example.org/big.dat /mnt/scratch/big.dat
  entrepot layout /mnt/scratch/big.dat                where the bytes lie
  entrepot job submit job.sh                          run a job with #STAGEIN and #STAGEOUT lines
  entrepot down

EXIT CODES (the same cause has the same code in every command):
  0 done   1 failed   2 wrong input or configuration   3 no daemon answers   4 not allowed (also by permissions)
  5 not found (a file or a name)   6 in use, nothing changed   7 incomplete or data lost
  130 interrupted, can be resumed"
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
    Status(status::Status),
    Stats(stats::Stats),
    Target(target::Target),
    Tiering(tiering::Tiering),
    Layout(layout::Layout),
    Explain(explain::Explain),
    Stage(stage::Stage),
    Source(source::Source),
    Check(check::Check),
    State(state::State),
    Purge(purge::Purge),
    Job(job::Job),
    Slurm(slurm::Slurm),
    Checkpoint(checkpoint::Checkpoint),
    Sim(sim::Sim),
    Trace(trace::Trace),
    Rules(rules::Rules),
    Connect(connect::Connect),
    Bench(bench::Bench),
    Patterns(patterns::Patterns),
    EmulateDisk(emulate_disk::EmulateDisk),
    Completions(completions::Completions),
    Man(man::Man),
    #[command(hide = true)]
    JobExec(job::JobExec),
}

impl Cli {
    /// Carries it out; gives the exit code.
    pub fn run(self) -> Result<u8> {
        let context = Context { volume: self.volume };
        match self.command {
            Command::Init(c) => c.run(),
            Command::Up(c) => c.run(&context),
            Command::Down(c) => c.run(&context),
            Command::Status(c) => c.run(&context),
            Command::Stats(c) => c.run(&context),
            Command::Target(c) => c.run(&context),
            Command::Tiering(c) => c.run(&context),
            Command::Layout(c) => c.run(&context),
            Command::Explain(c) => c.run(&context),
            Command::Stage(c) => c.run(&context),
            Command::Source(c) => c.run(&context),
            Command::Check(c) => c.run(&context),
            Command::State(c) => c.run(&context),
            Command::Purge(c) => c.run(&context),
            Command::Job(c) => c.run(&context),
            Command::Slurm(c) => c.run(&context),
            Command::Checkpoint(c) => c.run(&context),
            Command::Sim(c) => c.run(),
            Command::Trace(c) => c.run(),
            Command::Rules(c) => c.run(),
            Command::Connect(c) => c.run(),
            Command::Bench(c) => c.run(&context),
            Command::Patterns(c) => c.run(),
            Command::EmulateDisk(c) => c.run(),
            Command::Completions(c) => c.run(),
            Command::Man(c) => c.run(),
            Command::JobExec(c) => Err(crate::failure::Failure::Said(code_of(c.run()))),
        }
    }
}

/// The supervisor of jobs speaks in `ExitCode`, which tells its number to the process alone.
fn code_of(code: ExitCode) -> u8 {
    u8::from(code != ExitCode::SUCCESS)
}
