//! `entrepot tiering`: pauses and resumes moves between the tiers.

use crate::answer;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown::Output;
use clap::{Args, Subcommand};
use node::control::Request;

/// Pause and resume moves of data between the tiers
///
/// During a pause accesses are counted and moves are planned. `entrepot status` shows the moves and the pause. On a
/// volume of several nodes the leader moves data, whichever node runs the command, and its `status` shows the pause. A
/// restart of its daemon ends a pause, and so does a change of the leader.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot tiering pause      before work that moves must not disturb
  entrepot tiering resume")]
pub struct Tiering {
    #[command(subcommand)]
    verb: Verb,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text", global = true)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start no more moves and slow copies; those under way finish
    #[command(after_help = "EXAMPLES:\n  entrepot tiering pause")]
    Pause,
    /// Resume the moves
    #[command(after_help = "EXAMPLES:\n  entrepot tiering resume")]
    Resume,
}

impl Tiering {
    pub fn run(self, context: &Context) -> Result<u8> {
        let request = match self.verb {
            Verb::Pause => Request::PauseTiering {},
            Verb::Resume => Request::ResumeTiering {},
        };
        answer::show_text(self.output, context.ask_store(&request)?)?;
        Ok(0)
    }
}
