//! `entrepot source`: shows and sets the sources of a file.

use crate::answer;
use crate::command::work;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown::Output;
use clap::{Args, Subcommand};
use node::control::Request;
use node::control::answers;
use std::path::PathBuf;

/// Show or set the sources of a file, from which lost bytes are fetched again
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot source get /mnt/scratch/big.dat
  entrepot source set /mnt/scratch/big.dat https://example.org/big.dat
  entrepot source set /mnt/scratch/big.dat           forget it")]
pub struct Source {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show the sources of a file
    #[command(
        after_help = "EXAMPLES:\n  entrepot source get /mnt/scratch/big.dat\n  entrepot source get --output json /mnt/scratch/big.dat"
    )]
    Get {
        /// File in the volume.
        file: PathBuf,
        /// Format of the output.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Set the sources of a file; without a URI, remove them
    ///
    /// The present bytes are checksummed. A source with other bytes is refused when it is needed, or at once with
    /// `--verify`. A URI must not contain a password.
    #[command(
        after_help = "EXAMPLES:\n  entrepot source set /mnt/scratch/big.dat https://example.org/big.dat --verify"
    )]
    Set {
        /// File in the volume.
        file: PathBuf,
        /// URIs of the same bytes, the preferred one first.
        uris: Vec<String>,
        /// Compare all bytes now.
        #[arg(long)]
        verify: bool,
        /// A file of mode 0600 with credentials.
        #[arg(long, value_name = "FILE")]
        credentials: Option<PathBuf>,
    },
}

impl Source {
    pub fn run(self, context: &Context) -> Result<u8> {
        match self.verb {
            Verb::Get { file, output } => {
                let answer = context.ask_about(&file, |path| Request::Source { path }, &mut |_| {})?;
                answer::show(output, answer, render)?;
            }
            Verb::Set { file, uris, verify, credentials } => {
                let identity = super::stage::identity(credentials)?;
                let set = |path| Request::SetSource { path, uris, verify, identity };
                let ask = |progress: &mut dyn FnMut(_)| context.ask_about(&file, set, progress);
                answer::show(Output::Text, work::follow(ask, Some("run the same command again"))?, render)?;
            }
        }
        Ok(0)
    }
}

fn render(answer: &Option<answers::Source>) -> String {
    let Some(source) = answer else { return "no source\n".into() };
    let mut text: String = source.sources.iter().map(|place| format!("{}\n", place.uri)).collect();
    text.push_str(&format!("{} bytes\n", source.size));
    if source.modified {
        text.push_str("the file was written to since: it is not recovered from its source\n");
    }
    text
}
