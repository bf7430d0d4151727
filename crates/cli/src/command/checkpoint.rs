//! `entrepot checkpoint`: versions of applications' checkpoints, restarts from them, and advice on their interval.

mod advise;
mod restart;
mod versions;

use crate::connect::Context;
use crate::failure::Result;
use advise::Advise;
use clap::{Args, Subcommand};
use restart::Restart;
pub use versions::burst_line;
use versions::{Begin, Commit, List, Status};

/// Begin, commit and list checkpoint versions, restart from them, and get advice on their interval
///
/// On a volume with a burst buffer (`[burst]` in volume.toml) files whose paths match one of its patterns are
/// checkpoints, complete when they are closed. `begin` and `commit` are for other paths, and for explicit versions: a
/// version that was begun counts after its commit.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot checkpoint begin wave --path run7/state --size 80GB --nodes 512
  entrepot checkpoint commit wave
  entrepot checkpoint list wave
  entrepot checkpoint restart wave
  entrepot checkpoint advise wave
  entrepot checkpoint status")]
pub struct Checkpoint {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Begin(Begin),
    Commit(Commit),
    List(List),
    Restart(Restart),
    Status(Status),
    Advise(Advise),
}

impl Checkpoint {
    pub fn run(self, context: &Context) -> Result<u8> {
        match self.verb {
            Verb::Begin(verb) => verb.run(context),
            Verb::Commit(verb) => verb.run(context),
            Verb::List(verb) => verb.run(context),
            Verb::Restart(verb) => verb.run(context),
            Verb::Status(verb) => verb.run(context),
            Verb::Advise(verb) => verb.run(context),
        }
    }
}
