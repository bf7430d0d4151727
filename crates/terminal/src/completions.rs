//! `completions`: what the shell completes.

use crate::failure::Result;
use clap::{Args, Command};
use clap_complete::Shell;

/// Write the completions of a shell to standard output
#[derive(Debug, Args)]
pub struct Completions {
    /// Which shell.
    shell: Shell,
}

impl Completions {
    /// Writes those of the program.
    pub fn run(self, mut program: Command) -> Result<u8> {
        let name = program.get_name().to_owned();
        // Written at once, so that a reader that goes away is no panic of the generator.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, name, &mut script);
        crate::shown::text(&String::from_utf8_lossy(&script))?;
        Ok(0)
    }
}
