//! `entrepot state`: backups of what a volume remembers besides its files.

use crate::connect::Context;
use crate::failure::{Failure, Result};
use crate::shown::{self, number};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use store::control::{ENVIRONMENT, Request, exit};
use store::volume::{self, Config};

/// Back up what the volume remembers besides its files, and put it back
///
/// That is: moves under way, jobs, orders about targets, checkpoints. Names and small files are in the namespace, which has a backup of its
/// own; docs/guide/operate/backup.md, "Back up and restore", has both in ten lines.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot state dump /backup/state        while the volume is in use, or not
  entrepot --volume scratch/volume.toml state load /backup/state
  entrepot --volume scratch/volume.toml state adopt     the state is lost, and there is no backup")]
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
    /// What the targets hold of a later time and no file names then stays until `entrepot check --repair --drop-unknown`.
    #[command(after_help = "EXAMPLES:\n  entrepot --volume scratch/volume.toml state load /backup/state")]
    Load {
        /// Also when there is a state that was in use; it is lost.
        #[arg(long)]
        replace: bool,
        /// What `entrepot state dump` wrote.
        file: PathBuf,
    },
    /// Take the state that is there, though the namespace was used with another, while the volume is down
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
                        volume::dump_state(&config(context)?, &file)? as u64
                    }
                    done => done?,
                };
                shown::text(&format!("{rows} rows are in {}\n", file.display()))?;
            }
            Verb::Load { replace, file } => {
                let rows = volume::load_state(&config(context)?, &file, replace)?;
                shown::text(&format!("{rows} rows were loaded; `entrepot up`, then `entrepot check`\n"))?;
            }
            Verb::Adopt => {
                volume::adopt_state(&config(context)?)?;
                shown::text("the namespace goes with this state now\n")?;
            }
        }
        Ok(0)
    }
}

fn dump_running(context: &Context, file: &Path) -> Result<u64> {
    Ok(number(&context.ask_store(&Request::DumpState { file: file.to_owned() })?, "rows"))
}

/// The volume's file, as `up` finds it.
fn config(context: &Context) -> Result<Config> {
    let file = context.volume.clone().or_else(|| std::env::var_os(ENVIRONMENT).map(PathBuf::from));
    Ok(Config::load(&file.unwrap_or_else(|| "volume.toml".into()))?)
}
