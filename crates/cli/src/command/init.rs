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
    /// Directory of the new volume; created if it does not exist.
    dir: PathBuf,
    /// Serve metrics and a dashboard by HTTP at this address and port; clients need the token in DIR/endpoint.token.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    listen: Option<SocketAddr>,
}

impl Init {
    pub fn run(self) -> Result<u8> {
        let file = engine::volume::init(&self.dir, self.listen)?;
        let token = self.listen.map(|listen| {
            let clear = if listen.ip().is_loopback() {
                ""
            } else {
                "  without a `certificate` in [endpoint] it travels in clear\n"
            };
            let token = file.with_file_name("endpoint.token");
            format!("wrote {}: the dashboard at http://{}/ asks for it\n{clear}", token.display(), reached(listen))
        });
        shown::text(&format!(
            "wrote {0}\n{1}next: look it over, then\n  entrepot up {0} --at MOUNTPOINT\n",
            file.display(),
            token.unwrap_or_default()
        ))?;
        Ok(0)
    }
}

fn address(given: &str) -> std::result::Result<SocketAddr, String> {
    let wrong = "give a numeric address of this machine and a port, such as 127.0.0.1:9469";
    given.parse().map_err(|_| wrong.to_owned())
}

/// Address for a browser; the host name replaces an unspecified address.
fn reached(listen: SocketAddr) -> String {
    if listen.ip().is_unspecified() {
        format!("{}:{}", object::host::name(), listen.port())
    } else {
        listen.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dashboard_is_said_to_be_where_a_browser_finds_it() {
        let at = |given| reached(address(given).expect("an address"));
        assert_eq!(at("127.0.0.1:9469"), "127.0.0.1:9469");
        assert_eq!(at("0.0.0.0:9469"), format!("{}:9469", object::host::name()));
        assert_eq!(at("[::]:9469"), format!("{}:9469", object::host::name()));
        for wrong in ["9469", "localhost:9469", "127.0.0.1"] {
            assert!(address(wrong).expect_err("refused").contains("such as 127.0.0.1:9469"), "{wrong}");
        }
    }
}
