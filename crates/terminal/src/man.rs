//! `man`: manual pages.

use crate::failure::{Failure, Result};
use clap::{Args, Command};
use std::path::{Path, PathBuf};

/// Write the manual pages of all commands into a directory
#[derive(Debug, Args)]
pub struct Man {
    /// Directory of the pages; created if it does not exist.
    dir: PathBuf,
}

impl Man {
    /// Writes a page for the program and for each of its visible commands.
    pub fn run(self, mut program: Command) -> Result<u8> {
        let unusable = |e| Failure::of_io(&self.dir.display().to_string(), &e);
        std::fs::create_dir_all(&self.dir).map_err(unusable)?;
        // Sets names like `entrepot-target-add`, and the global options in every page.
        program.build();
        write(&program, &self.dir)?;
        Ok(0)
    }
}

fn write(command: &Command, dir: &Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_string();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    let file = dir.join(format!("{name}.1"));
    std::fs::write(&file, page).map_err(|e| Failure::of_io(&file.display().to_string(), &e))?;
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set() && s.get_name() != "help") {
        write(sub, dir)?;
    }
    Ok(())
}
