//! The checked contents of `volume.toml`, with every default filled in.

use super::problem::{Problem, Problems, Result};
use super::sections::{
    Accounting, Burst, Cache, Checksums, ConnectionsConfig, Endpoint, Health, Jobs, LayoutConfig, Mount, Mover, Purge,
    Recovery, Replication, Scrub, Stage, StateStore, Stripes, Tiering,
};
use policy::layout::Placement;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The whole of `volume.toml`.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file it came from.
    pub file: PathBuf,
    /// Name of the volume, for people.
    pub name: String,
    /// Directory of the namespace.
    pub namespace: PathBuf,
    /// Line and column of it.
    pub(super) namespace_place: (usize, usize),
    /// The state directory: the control socket, and the state store if it is a file.
    pub state: PathBuf,
    /// `volume.toml` does not name it, so it is made where it is missing.
    pub state_is_derived: bool,
    /// Line and column of it.
    pub(super) state_place: (usize, usize),
    /// Store of the state.
    pub state_store: StateStore,
    /// Address and port at which other nodes connect; `None`: all addresses, any port.
    pub nodes_listen: Option<SocketAddr>,
    /// Tier names, fastest first: a tier's number is its index.
    pub tiers: Vec<String>,
    /// The targets, as they stand in the file.
    pub targets: Vec<TargetConfig>,
    /// How new files are laid out.
    pub layout: LayoutConfig,
    /// Options of the mount.
    pub mount: Mount,
    /// The mount's block cache.
    pub cache: Cache,
    /// Limits after which a target counts as failed.
    pub health: Health,
    /// Options of the mover.
    pub mover: Mover,
    /// Hot data on the fast tier.
    pub tiering: Tiering,
    /// Recovery from sources.
    pub recovery: Recovery,
    /// Options of staging and its sources.
    pub stage: Stage,
    /// The job runner.
    pub jobs: Jobs,
    /// Copies of input files of jobs that start soon.
    pub replication: Replication,
    /// Rules of the purge.
    pub purge: Purge,
    /// `[checksums]`
    pub checksums: Checksums,
    /// `[accounting]`
    pub accounting: Accounting,
    /// `[scrub]`
    pub scrub: Scrub,
    /// Address and rights of the network endpoint.
    pub endpoint: Endpoint,
    /// The fast tier as a buffer for checkpoints.
    pub burst: Burst,
    /// How wide files are striped.
    pub stripes: Stripes,
}

/// One `[[target]]` table.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// Name of the target.
    pub name: String,
    /// Place of the target's objects.
    pub keeping: Keeping,
    /// Its tier, an index into [`Config::tiers`].
    pub tier: u8,
    /// The hosts that reach it; none are all.
    pub only_on: Vec<String>,
    /// The hosts that it lies near.
    pub near: Vec<String>,
    /// Measured cost of the target's device.
    pub device: Option<policy::stripe::device::Measured>,
    /// Line and column of its path, or of its block if it has no path.
    pub(super) place: (usize, usize),
}

/// Place of a target's objects.
#[derive(Clone, Debug, PartialEq)]
pub enum Keeping {
    /// In a directory.
    Directory(PathBuf),
    /// On file servers that the daemon connects to.
    Servers(ConnectionsConfig),
}

impl TargetConfig {
    /// Returns the directory of the target, if it has one.
    pub fn directory(&self) -> Option<&Path> {
        match &self.keeping {
            Keeping::Directory(path) => Some(path),
            Keeping::Servers(_) => None,
        }
    }

    /// Whether a host reaches it.
    pub fn is_on(&self, host: &str) -> bool {
        self.only_on.is_empty() || self.only_on.iter().any(|one| one == host)
    }

    /// Whether it lies near a host.
    pub fn is_near(&self, host: &str) -> bool {
        self.only_on.iter().chain(&self.near).any(|one| one == host)
    }

    /// Whether some host reaches both targets.
    pub fn meets(&self, other: &TargetConfig) -> bool {
        self.only_on.is_empty() || other.only_on.is_empty() || self.only_on.iter().any(|host| other.is_on(host))
    }

    /// Options of its server connections, if its table has them.
    pub fn connections(&self) -> Option<&ConnectionsConfig> {
        match &self.keeping {
            Keeping::Directory(_) => None,
            Keeping::Servers(connections) => Some(connections),
        }
    }
}

impl Config {
    /// Reads and checks a `volume.toml`: its text alone, no directory is looked at. `file` is the path for messages
    /// and for relative paths.
    pub fn parse(file: &Path, text: &str) -> Result<Config> {
        super::parse::parse(file, text)
    }

    /// Reads and checks a `volume.toml` and all directories that it names. Touches nothing.
    pub fn load(file: &Path) -> Result<Config> {
        let config = Config::read(file)?;
        super::check::check(&config)?;
        Ok(config)
    }

    /// Reads and checks a `volume.toml`, and no directory. A link is the file that it leads to: paths are relative to that,
    /// and that is what changes.
    pub fn read(file: &Path) -> Result<Config> {
        let unreadable = |error: std::io::Error| {
            let problem = Problem::new(
                format!("{} cannot be read: {error}", file.display()),
                "there is no volume to open",
                "Name the right file, or make a volume with `entrepot init DIR`",
            );
            Problems::one(problem.of_io(&error))
        };
        let text = std::fs::read_to_string(file).map_err(unreadable)?;
        if file.is_symlink() {
            return Config::parse(&file.canonicalize().map_err(unreadable)?, &text);
        }
        Config::parse(file, &text)
    }

    /// Makes the state directory if its path is the default.
    pub fn make_state_dir(&self) -> std::io::Result<()> {
        if !self.state_is_derived || self.state.is_dir() {
            return Ok(());
        }
        // Others may pass to the control socket of a mount that is for them, too.
        std::fs::create_dir_all(self.state.parent().unwrap_or(Path::new("/")))?;
        std::fs::DirBuilder::new().mode(0o700).create(&self.state)
    }

    /// Returns root's state directory of this volume, which a client of another user may have to look in.
    pub fn roots_state_dir(&self) -> Option<PathBuf> {
        self.state_is_derived.then(|| super::sections::roots_directory(&self.name)).flatten()
    }

    /// Whether several nodes may have the volume, which needs a state store on a server.
    pub fn is_shared(&self) -> bool {
        self.state_store != super::sections::StateStore::Embedded
    }

    /// Default placement of new files.
    pub fn placement(&self) -> Placement {
        Placement {
            stripe_size: self.layout.stripe_size,
            stripe_count: self.layout.stripe_count,
            single_bytes_max: self.layout.single_max,
            segment_bytes: self.layout.segment,
            mirrors: self.layout.mirrors,
            tier: None,
        }
    }
}
