//! `entrepot explain`: why a file lies where it lies.

use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output, list};
use clap::Args;
use std::path::PathBuf;
use store::control::Request;

/// Say in plain words where a file lies and why, and what would happen if a target failed
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot explain /mnt/scratch/big.dat
  entrepot explain --output json /mnt/scratch/big.dat")]
pub struct Explain {
    /// File in the volume.
    file: PathBuf,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Explain {
    pub fn run(self, context: &Context) -> Result<u8> {
        let answer = context.ask_about(&self.file, |path| Request::Explain { path }, &mut |_| {})?;
        match self.output {
            Output::Json => shown::json(&answer)?,
            Output::Text => {
                let sentences: Vec<_> = list(&answer, "sentences").iter().filter_map(|s| s.as_str()).collect();
                shown::text(&sentences.join("\n"))?;
            }
        }
        Ok(0)
    }
}
