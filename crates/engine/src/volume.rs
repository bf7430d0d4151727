//! An open volume: the contents of `volume.toml`, namespace, state store, targets, numbers.
//!
//! Only one daemon has it at a time, or one on each node if nodes share the state store. Locks in the state directory
//! and in the namespace ensure that.

mod anew;
mod backup;
mod check;
mod config;
mod edit;
pub(crate) mod identity;
mod ids;
mod joining;
mod keys;
mod lock;
mod machines;
mod namespace;
mod open;
mod orders;
mod parse;
mod problem;
mod real_paths;
mod roster;
mod section;
mod sections;
mod servers;
mod state_store;
mod template;
mod upgrade;

pub use anew::Step;
pub use backup::AtRest;
pub use backup::{adopt_state, dump_state, load_state};
pub use check::{check_as, found_on};
pub use config::{Config, Keeping, TargetConfig};
pub use edit::set_device;
pub use joining::{NODE_FORMAT, had_nodes, nodes_directory};
pub use keys::Key;
pub use open::Found;
pub use problem::{Problem, Problems};
pub use real_paths::real_paths;
pub use roster::Followed;
pub use sections::{
    Accounting, Burst, Cache, Checksums, ConnectionsConfig, Endpoint, Health, Io, Jobs, LayoutConfig, Mount, Mover,
    Names, Offload, Passthrough, Purge, PurgeRule, QueueName, Recovery, Replication, ReplicationPolicy, SECTIONS,
    Scrub, StateStore, Stripes, Summed, Tiering, TieringPolicy,
};
#[cfg(any(test, feature = "doubles"))]
pub use servers::NoServers;
pub use servers::{FileServer, FileServers};
pub use template::{init, template};

pub use object::volume_id::VolumeId;

use crate::Result;
use crate::stats::Stats;
use meta::state::State;
use object::target::Targets;
use parking_lot::Mutex;
use policy::layout::Placement;
use rustix::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

/// An open volume.
pub struct Volume {
    config: Config,
    id: VolumeId,
    directories: namespace::Directories,
    targets: Arc<Targets>,
    state: Arc<dyn State>,
    ids: ids::Ids,
    inline_bytes_ever: u64,
    stats: Arc<Stats>,
    /// Last change of the targets that this daemon has followed.
    followed: Mutex<Option<String>>,
    orders: orders::Orders,
    lock: lock::Lock,
}

impl Volume {
    /// Releases the locks, so that another daemon may open the volume, once nothing uses it.
    pub fn release(&self) {
        self.finish_state();
        self.lock.release();
    }

    fn finish_state(&self) {
        if let Err(error) = self.state.finish() {
            tracing::warn!("the state store is not closed in order, its log stays beside it: {error}");
        }
    }

    /// Returns the checked `volume.toml`.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the volume's identity.
    pub fn id(&self) -> VolumeId {
        self.id
    }

    /// Returns the tree that the mount shows: directories, stubs, symlinks, devices.
    pub fn tree(&self) -> BorrowedFd<'_> {
        self.directories.tree.as_fd()
    }

    /// Directory of layout records and checksums that outgrew their attribute.
    pub fn side(&self) -> BorrowedFd<'_> {
        self.directories.side.as_fd()
    }

    /// Directory of hard links to stubs that are written in a way the daemon cannot follow.
    pub fn open_links(&self) -> BorrowedFd<'_> {
        self.directories.open.as_fd()
    }

    /// Directory of stubs of files being staged in.
    pub fn staging(&self) -> BorrowedFd<'_> {
        self.directories.staging.as_fd()
    }

    /// The state directory, with the control socket.
    pub fn state_dir(&self) -> &Path {
        &self.config.state
    }

    /// Returns the volume's targets.
    pub fn targets(&self) -> &Arc<Targets> {
        &self.targets
    }

    /// The state store.
    pub fn state(&self) -> &Arc<dyn State> {
        &self.state
    }

    /// Returns the daemon's metrics.
    pub fn stats(&self) -> &Arc<Stats> {
        &self.stats
    }

    /// Returns the default placement of new files.
    pub fn placement(&self) -> Placement {
        self.config.placement()
    }

    /// Largest size ever configured for files that are kept in their stub.
    pub fn inline_bytes_ever(&self) -> u64 {
        self.inline_bytes_ever
    }

    object::forward! { ids:
        /// Epoch of this daemon: the upper half of every number that it assigns.
        pub fn epoch(&self) -> u32;
        /// Starts a new epoch: this daemon is another node from now on.
        pub fn new_epoch(&self) -> Result<u32>;
        /// A number that was never given before, for an object or a file.
        pub fn next_id(&self) -> Result<u64>;
    }

    /// The random name of the state directory.
    pub fn node_name(&self) -> Result<String> {
        state_store::own(&self.config)
    }

    /// Epochs whose names may be incomplete, since namespace or state were restored from a backup. Their objects are
    /// not removed even if no file names them.
    pub fn unknown_epochs(&self) -> Result<Option<std::ops::Range<u32>>> {
        identity::unknown(&*self.state)
    }

    /// Whether directories list all their names, as far as can be detected.
    pub fn namespace_is_whole(&self) -> Result<bool> {
        if !self.config.is_shared() {
            return Ok(true);
        }
        identity::is_whole(&*self.state, self.namespace_bytes()?)
    }

    fn namespace_bytes(&self) -> Result<u64> {
        let about = rustix::fs::fstatvfs(self.tree())?;
        Ok(about.f_blocks.saturating_mul(about.f_frsize))
    }

    /// Records the operator's order that no further names will be restored.
    pub fn forget_unknown_epochs(&self) -> Result<()> {
        if self.config.is_shared() {
            identity::is_so_large(&*self.state, self.namespace_bytes()?)?;
        }
        identity::all_known(&*self.state)
    }

    /// Raises new numbers above all epochs of a target that returned.
    pub fn heed_epoch_of(&self, target: policy::TargetId) -> Result<()> {
        // With several nodes, targets have later epochs than this node's: the other nodes' epochs.
        let heeded = self.targets.get(target).filter(|_| !self.config.is_shared());
        heeded.map_or(Ok(()), |target| self.ids.heed(&target))
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.targets.stop();
        self.finish_state();
    }
}
