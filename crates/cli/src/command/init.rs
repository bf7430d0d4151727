//! `entrepot init`: a new volume.

use crate::failure::Result;
use crate::shown;
use clap::Args;
use std::path::PathBuf;

/// Write a commented volume.toml with working defaults, and the directories that it names
///
/// The defaults are a namespace, a state directory and some targets in two tiers, all below DIR. Edit the file to
/// point the targets at real devices before the first `entrepot up`. Nothing that exists is overwritten.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot init scratch
  entrepot init /srv/scratch && editor /srv/scratch/volume.toml")]
pub struct Init {
    /// Directory of the new volume; made if it does not exist.
    dir: PathBuf,
}

impl Init {
    pub fn run(self) -> Result<u8> {
        let file = store::volume::init(&self.dir)?;
        shown::text(&format!(
            "wrote {0}\nnext: look it over, then\n  entrepot up {0} --at MOUNTPOINT\n",
            file.display()
        ))?;
        Ok(0)
    }
}
