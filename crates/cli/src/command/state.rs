//! `entrepot state`: backups of a volume's state, which is kept besides its files.

mod rebuild;

use crate::connect::Context;
use crate::failure::{Failure, Result};
use crate::shown::{self, Output};
use ::connect::Servers;
use clap::{Args, Subcommand};
use engine::volume::{self, Config};
use node::control::answers::Dump;
use node::control::{Request, exit};
use node::renewal::{self, Wish};
use policy::TargetId;
use std::path::{Path, PathBuf};

/// Back up, restore or rebuild the state of the volume
///
/// The state contains moves under way, jobs, orders for targets, and checkpoint versions. Names and small files are in
/// the namespace, which needs a backup of its own: docs/guide/operate/backup.md, "Back up and restore".
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot state dump /backup/state        while the volume is in use, or not
  entrepot --volume scratch/volume.toml state load /backup/state
  entrepot --volume scratch/volume.toml state rebuild   the state is lost, and there is no backup")]
pub struct State {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Write a backup of the state as it is now
    #[command(after_help = "EXAMPLES:\n  entrepot state dump /backup/state")]
    Dump {
        /// File of the backup; an existing one is replaced.
        file: PathBuf,
    },
    /// Restore the state from a backup, while the volume is down
    ///
    /// Objects that are newer than the backup and belong to no file stay until `entrepot check --repair
    /// --drop-unknown`.
    #[command(after_help = "EXAMPLES:\n  entrepot --volume scratch/volume.toml state load /backup/state")]
    Load {
        /// Replace a state that was in use; it is lost.
        #[arg(long)]
        replace: bool,
        /// Output of `entrepot state dump`.
        file: PathBuf,
    },
    /// Rebuild a lost state from the namespace and the targets, while the volume is down
    ///
    /// No file is changed. Targets keep their numbers, and new files and objects get unused numbers. A state that may
    /// still be needed is never replaced. The command is refused if this host cannot read a target that files name,
    /// unless `--lost` or `--number` describes that target. After an interruption the same command continues. It lists
    /// the losses: jobs, orders for targets, and moves and stagings under way are in the state only.
    #[command(after_help = "\
EXAMPLES:
  entrepot --volume scratch/volume.toml state rebuild --dry-run
  entrepot --volume scratch/volume.toml state rebuild
  entrepot --volume scratch/volume.toml state rebuild --lost fast1       its device is lost
  entrepot --volume scratch/volume.toml state rebuild --lost 7           number 7 is lost
  entrepot --volume scratch/volume.toml state rebuild --number local2=5  on another host")]
    Rebuild {
        /// Show the new state and write nothing.
        #[arg(long)]
        dry_run: bool,
        /// A target that will not come back, by its name or by its number in files; it is recorded as failed.
        #[arg(long, value_name = "TARGET")]
        lost: Vec<String>,
        /// Number of a target that this host cannot read, from its `target.id`.
        #[arg(long, value_name = "NAME=NUMBER", value_parser = number_of)]
        number: Vec<(String, TargetId)>,
        /// Format of the output.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Accept the present state for a namespace that was used with another one, while the volume is down
    ///
    /// An empty state is refused: `entrepot state rebuild` fills it first.
    #[command(after_help = "EXAMPLES:\n  entrepot --volume scratch/volume.toml state adopt")]
    Adopt,
}

impl State {
    pub fn run(self, context: &Context) -> Result<u8> {
        match self.verb {
            Verb::Dump { file } => {
                let file = std::path::absolute(file)?;
                let rows = match dump_running(context, &file) {
                    Err(Failure::Problem(problem)) if problem.exit_code == exit::NO_DAEMON => {
                        volume::dump_state(&config(context)?, &file)?
                    }
                    done => done?,
                };
                shown::text(&format!("{rows} rows are in {}\n", file.display()))?;
            }
            Verb::Load { replace, file } => {
                let rows = volume::load_state(&config(context)?, &file, replace)?;
                shown::text(&format!("{rows} rows were loaded; `entrepot up`, then `entrepot check`\n"))?;
            }
            Verb::Rebuild { dry_run, lost, number, output } => {
                let wish = Wish { lost, numbers: number };
                let config = Config::read(&context.file())?;
                let servers = Servers::default();
                let rebuilt = renewal::rebuild_state(&config, &servers, &wish, !dry_run);
                servers.end();
                let rebuilt = rebuilt?;
                shown::value(output, &rebuild::json(&rebuilt), |_| rebuild::text(&rebuilt))?;
                if rebuilt.unread.1 > 0 {
                    return Ok(exit::INCOMPLETE);
                }
            }
            Verb::Adopt => {
                volume::adopt_state(&config(context)?)?;
                shown::text("the namespace goes with this state now\n")?;
            }
        }
        Ok(0)
    }
}

fn dump_running(context: &Context, file: &Path) -> Result<usize> {
    let dump: Dump = context.ask_store(&Request::DumpState { file: file.to_owned() })?;
    Ok(dump.rows)
}

fn config(context: &Context) -> Result<Config> {
    Ok(Config::load(&context.file())?)
}

fn number_of(text: &str) -> std::result::Result<(String, TargetId), String> {
    let wrong = || "write NAME=NUMBER, such as local2=5".to_owned();
    let (name, number) = text.split_once('=').ok_or_else(wrong)?;
    Ok((name.to_owned(), number.parse().map(TargetId).map_err(|_| wrong())?))
}
