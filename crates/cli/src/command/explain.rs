//! `entrepot explain`: the placement of a file, with reasons.

use crate::answer;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown::Output;
use clap::Args;
use node::control::Request;
use node::control::answers::Explanation;
use std::path::PathBuf;

/// Explain where a file lies and why, and the effect of a failed target on it
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot explain /mnt/scratch/big.dat
  entrepot explain --output json /mnt/scratch/big.dat")]
pub struct Explain {
    /// File in the volume.
    file: PathBuf,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Explain {
    pub fn run(self, context: &Context) -> Result<u8> {
        let answer = context.ask_about(&self.file, |path| Request::Explain { path }, &mut |_| {})?;
        answer::show(self.output, answer, |answer: &Explanation| answer.sentences.join("\n"))?;
        Ok(0)
    }
}
