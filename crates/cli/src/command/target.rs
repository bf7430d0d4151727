//! `entrepot target`: lists and changes the targets of a volume.

use crate::answer;
use crate::command::work;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output};
use clap::{Args, Subcommand};
use node::control::Request;
use node::control::answers::{self, Targets};
use std::path::PathBuf;

/// List, add, remove, fail, restore or drain targets
#[derive(Debug, Args)]
#[command(after_help = "\
STATES:
  ok         used
  suspect    answers late or badly; probed, and read where no other mirror is
  failed     not used; files on it are read from mirrors or recovered from their sources
  read-only  cannot be written or synced; readable, nothing new goes there
  draining   being emptied; readable, nothing new goes there

EXAMPLES:
  entrepot target list
  entrepot target add fast2 /nvme2/entrepot --tier fast
  entrepot target drain t3 && entrepot target remove t3")]
pub struct Target {
    #[command(subcommand)]
    verb: Verb,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text", global = true)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show all targets with state, space and objects
    #[command(after_help = "EXAMPLES:\n  entrepot target list\n  entrepot target list --output json")]
    List,
    /// Format a directory as a new target, and use it at once
    #[command(after_help = "EXAMPLES:\n  entrepot target add t7 /mnt/disk7/entrepot --tier capacity")]
    Add {
        /// Name of the target.
        name: String,
        /// An existing directory on the device.
        dir: PathBuf,
        /// Its tier, one of the volume's.
        #[arg(long)]
        tier: String,
    },
    /// Remove an empty target from the volume
    #[command(
        after_help = "EXAMPLES:\n  entrepot target drain t3 && entrepot target remove t3\n  entrepot target remove t3 --force     also loses the bytes that only it has"
    )]
    Remove {
        /// Name of the target.
        name: String,
        /// Remove it with its objects: files keep only the bytes that mirrors and sources have.
        #[arg(long)]
        force: bool,
    },
    /// Stop the use of a target, as if it had failed
    #[command(after_help = "EXAMPLES:\n  entrepot target fail t3")]
    Fail {
        /// Name of the target.
        name: String,
    },
    /// Use a failed or draining target again, after a probe
    #[command(after_help = "EXAMPLES:\n  entrepot target restore t3")]
    Restore {
        /// Name of the target.
        name: String,
    },
    /// Move all data off a target while it stays in use
    #[command(
        after_help = "EXAMPLES:\n  entrepot target drain t3\n  entrepot target drain t3 --no-wait   and look at `entrepot status`"
    )]
    Drain {
        /// Name of the target.
        name: String,
        /// Return at once; the drain continues in the background.
        #[arg(long)]
        no_wait: bool,
    },
}

impl Target {
    pub fn run(self, context: &Context) -> Result<u8> {
        let request = match self.verb {
            Verb::List => {
                let answer = context.ask_store(&Request::Targets {})?;
                answer::show(self.output, answer, |answer: &Targets| table(&answer.targets))?;
                return Ok(0);
            }
            Verb::Add { name, dir, tier } => {
                // The path is made absolute, since the daemon has another working directory.
                let dir = std::path::absolute(dir)?;
                Request::AddTarget { name, dir, tier }
            }
            Verb::Remove { name, force } => Request::RemoveTarget { name, force },
            Verb::Fail { name } => Request::FailTarget { name },
            Verb::Restore { name } => Request::RestoreTarget { name },
            Verb::Drain { name, no_wait } => Request::DrainTarget { name, wait: !no_wait },
        };
        work::order(context, &request, self.output)
    }
}

/// Formats the targets as columns.
pub fn table(targets: &[answers::Target]) -> String {
    let row = |t: &answers::Target| {
        // A failed target that was not reached since the start was never measured.
        let space = match t.total_bytes {
            0 => "not known".into(),
            total => format!("{} of {}", shown::bytes(t.free_bytes), shown::bytes(total)),
        };
        let path = t.path.as_ref().map_or(String::new(), |path| path.display().to_string());
        vec![t.name.clone(), t.tier.clone().unwrap_or_default(), t.state.clone(), space, path]
    };
    let kept = targets.iter().filter(|t| t.order_kept).map(|t| {
        let (name, state) = (&t.name, &t.state);
        format!("target {name} is {state} on this node only: other nodes get the order when the state is back\n")
    });
    shown::table(&["target", "tier", "state", "free", "directory"], targets.iter().map(row).collect())
        + &kept.collect::<String>()
}
