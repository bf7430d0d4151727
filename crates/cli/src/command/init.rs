//! `entrepot init`: a new volume.

use crate::failure::Result;
use crate::shown;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Write a commented volume.toml with working defaults, and the directories that it names
///
/// The defaults are a namespace, a state directory and some targets in two tiers, all below DIR. Edit the file to
/// point the targets at real devices before the first `entrepot up`. Nothing that exists is overwritten.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot init scratch
  entrepot init scratch --listen 127.0.0.1:9469     metrics and a dashboard there, with a token
  entrepot init /srv/scratch && editor /srv/scratch/volume.toml")]
pub struct Init {
    /// Directory of the new volume; made if it does not exist.
    dir: PathBuf,
    /// Show metrics and a dashboard by HTTP at this address and port, to whoever has the token that is made in DIR/endpoint.token.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

impl Init {
    pub fn run(self) -> Result<u8> {
        let file = store::volume::init(&self.dir, self.listen)?;
        let token = self.listen.map(|listen| {
            format!(
                "wrote {}: the dashboard at http://{listen}/ asks for it\n",
                file.with_file_name("endpoint.token").display()
            )
        });
        shown::text(&format!(
            "wrote {0}\n{1}next: look it over, then\n  entrepot up {0} --at MOUNTPOINT\n",
            file.display(),
            token.unwrap_or_default()
        ))?;
        Ok(0)
    }
}
