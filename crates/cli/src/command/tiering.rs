//! `entrepot tiering`: stop moving data between the tiers for a while.

use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, word};
use clap::{Args, Subcommand};
use store::control::Request;

/// Stop moving data between the tiers for a while, and go on
///
/// Accesses are counted and moves planned all the same. `entrepot status` says what is moved and whether it is paused. Of several
/// nodes the one that leads moves, whichever is asked, and its `status` says so. A restart of its daemon ends a pause, and so
/// does another node that leads.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot tiering pause      before something that moves must not disturb
  entrepot tiering resume")]
pub struct Tiering {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Begin no more moves and slow copies; those under way end
    #[command(after_help = "EXAMPLES:\n  entrepot tiering pause")]
    Pause,
    /// Go on
    #[command(after_help = "EXAMPLES:\n  entrepot tiering resume")]
    Resume,
}

impl Tiering {
    pub fn run(self, context: &Context) -> Result<u8> {
        let request = match self.verb {
            Verb::Pause => Request::PauseTiering {},
            Verb::Resume => Request::ResumeTiering {},
        };
        shown::text(&format!("{}\n", word(&context.ask_store(&request)?, "text")))?;
        Ok(0)
    }
}
