//! A volume: what `volume.toml` says, opened: namespace, state store, targets, numbers.
//!
//! One daemon at a time: a lock in the state directory sees to it.

mod config;
mod problem;
mod template;

pub use config::{
    Config, Health, Io, Jobs, LayoutConfig, MirrorWrites, Mount, Mover, Passthrough, Recovery, TargetConfig,
};
pub use problem::{Problem, Problems};
pub use template::{init, template};

use crate::Result;
use crate::state::State;
use crate::stats::Stats;
use crate::target::Targets;
use policy::layout::Placement;
use rustix::fd::BorrowedFd;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The identity of a volume: random, made when it is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VolumeId(pub u128);

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// An open volume.
pub struct Volume {}

impl Volume {
    /// Formats what is new, takes the lock and opens everything.
    pub fn open(config: Config) -> std::result::Result<Volume, Problems> {
        let _ = config;
        todo!()
    }
    /// What `volume.toml` says.
    pub fn config(&self) -> &Config {
        todo!()
    }
    /// Its identity.
    pub fn id(&self) -> VolumeId {
        todo!()
    }
    /// What the mount shows: directories, stubs, symlinks, devices.
    pub fn tree(&self) -> BorrowedFd<'_> {
        todo!()
    }
    /// Layout records and checksums that outgrew their attribute.
    pub fn side(&self) -> BorrowedFd<'_> {
        todo!()
    }
    /// Hard links to stubs that are written in a way the daemon cannot follow.
    pub fn open_links(&self) -> BorrowedFd<'_> {
        todo!()
    }
    /// Stubs of files being staged in.
    pub fn staging(&self) -> BorrowedFd<'_> {
        todo!()
    }
    /// The state directory, where the control socket lives.
    pub fn state_dir(&self) -> &Path {
        todo!()
    }
    /// The targets.
    pub fn targets(&self) -> &Arc<Targets> {
        todo!()
    }
    /// The state store.
    pub fn state(&self) -> &Arc<dyn State> {
        todo!()
    }
    /// The metrics.
    pub fn stats(&self) -> &Arc<Stats> {
        todo!()
    }
    /// The placement of new files that nobody asked otherwise for.
    pub fn placement(&self) -> Placement {
        todo!()
    }
    /// A number that was never given before, for an object or a file.
    pub fn next_id(&self) -> Result<u64> {
        todo!()
    }
    /// Formats a directory as a new target, uses it at once and appends it to `volume.toml`.
    pub fn add_target(&self, name: &str, path: &Path, tier: &str) -> std::result::Result<(), Problems> {
        let _ = (name, path, tier);
        todo!()
    }
    /// Forgets a target that is empty (or failed, with `force`) and removes its block from `volume.toml`.
    pub fn remove_target(&self, name: &str, force: bool) -> std::result::Result<(), Problems> {
        let _ = (name, force);
        todo!()
    }
}
