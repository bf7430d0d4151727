//! `entrepot completions`: what the shell completes.

use super::Cli;
use crate::failure::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Write the completions of a shell to standard output
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot completions bash > /etc/bash_completion.d/entrepot
  entrepot completions zsh > ~/.zfunc/_entrepot
  entrepot completions fish > ~/.config/fish/completions/entrepot.fish")]
pub struct Completions {
    /// Which shell.
    shell: Shell,
}

impl Completions {
    pub fn run(self) -> Result<u8> {
        // Written at once, so that a reader that goes away is no panic of the generator.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "entrepot", &mut script);
        crate::shown::text(&String::from_utf8_lossy(&script))?;
        Ok(0)
    }
}
