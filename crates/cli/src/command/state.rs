//! `entrepot state`: backups of a volume's state, which is kept besides its files.

mod rebuild;

use crate::connect::Context;
use crate::failure::{Failure, Result};
use crate::shown::{self, Output};
use ::connect::Servers;
use clap::{Args, Subcommand};
use engine::volume::{self, Config};
use node::control::answers::{Dump, read};
use node::control::{ENVIRONMENT, Request, exit};
use node::renewal::{self, Wish};
use policy::TargetId;
use std::path::{Path, PathBuf};

/// Back up what the volume remembers besides its files, and put it back
///
/// It contains moves under way, jobs, orders about targets, checkpoints. Names and small files are in the namespace,
/// which has a backup of its own; docs/guide/operate/backup.md, "Back up and restore", has both in ten lines.
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
        /// The file to write; one that is there is replaced.
        file: PathBuf,
    },
    /// Put a backup in the place of the state, while the volume is down
    ///
    /// Newer objects on targets that no file names then stay until `entrepot check --repair --drop-unknown`.
    #[command(after_help = "EXAMPLES:\n  entrepot --volume scratch/volume.toml state load /backup/state")]
    Load {
        /// Also when there is a state that was in use; it is lost.
        #[arg(long)]
        replace: bool,
        /// Output of `entrepot state dump`.
        file: PathBuf,
    },
    /// Make a new state of what namespace and targets say, when it is lost and there is no backup, while the volume is
    /// down
    ///
    /// No file is touched. Targets keep their numbers, and new files and objects get numbers that none had. A state
    /// that may still be needed is never replaced. A target that this host cannot read is refused, with the files that
    /// name it, unless `--lost` or `--number` describes it. Killed at any moment, the same command goes on. Losses are
    /// listed: jobs, orders about targets, moves and stagings under way, which only the state had.
    #[command(after_help = "\
EXAMPLES:
  entrepot --volume scratch/volume.toml state rebuild --dry-run
  entrepot --volume scratch/volume.toml state rebuild
  entrepot --volume scratch/volume.toml state rebuild --lost fast1           its device is gone for ever
  entrepot --volume scratch/volume.toml state rebuild --lost 7               and so is the one that files know as 7
  entrepot --volume scratch/volume.toml state rebuild --number local2=5      only another host reaches it")]
    Rebuild {
        /// Only say what the new state would be.
        #[arg(long)]
        dry_run: bool,
        /// A target that will not come back, by its name or the number that files name: it is recorded as failed.
        #[arg(long, value_name = "TARGET")]
        lost: Vec<String>,
        /// The number of a target that this host cannot look at, as its `target.id` has it.
        #[arg(long, value_name = "NAME=NUMBER", value_parser = number_of)]
        number: Vec<(String, TargetId)>,
        /// How to write it.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Take the state that is there, though the namespace was used with another, while the volume is down
    ///
    /// An empty one is refused: `entrepot state rebuild` fills it first.
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
                let config = Config::read(&file(context))?;
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
    let dump: Dump = read(context.ask_store(&Request::DumpState { file: file.to_owned() })?)?;
    Ok(dump.rows)
}

fn config(context: &Context) -> Result<Config> {
    Ok(Config::load(&file(context))?)
}

/// The volume's file, as `up` finds it.
fn file(context: &Context) -> PathBuf {
    let file = context.volume.clone().or_else(|| std::env::var_os(ENVIRONMENT).map(PathBuf::from));
    file.unwrap_or_else(|| "volume.toml".into())
}

fn number_of(text: &str) -> std::result::Result<(String, TargetId), String> {
    let wrong = || "write NAME=NUMBER, such as local2=5".to_owned();
    let (name, number) = text.split_once('=').ok_or_else(wrong)?;
    Ok((name.to_owned(), number.parse().map(TargetId).map_err(|_| wrong())?))
}
