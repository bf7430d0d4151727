//! The FUSE mount: translates the kernel's requests into operations of the namespace and of files. It is independent of
//! layouts.
//!
//! ```text
//! kernel -> FUSE threads -> namespace            names, attributes, small files' bytes: here and now
//!                        -> file, inline         one piece on one healthy target: here, watched
//!                        -> slow pool -> file    everything that may wait
//! ```
//!
//! A FUSE thread that hangs in a target is watched; another thread answers its request. Work that may hang and is not
//! watched never runs on a FUSE thread. So names and attributes are served whatever the targets do.

pub mod answer;
mod attach;
mod bytes;
mod charging;
pub mod convert;
mod counted;
mod durable;
pub mod front;
mod hand_over;
pub mod handles;
mod holders;
mod interrupted;
mod later;
mod layout_text;
mod locking;
mod locks;
mod metadata;
mod mode;
pub mod mountpoint;
mod open;
mod pinned;
mod ranges;
mod removal;
mod request;
mod serve;
mod session;
mod setattr;
pub mod slow;
mod xattr;

pub(crate) use mountpoint::detach;
pub use session::{Mount, MountError};

use crate::Result;
use crate::adapt::Uses;
use engine::file::{File, FileTable, Pool, SyncCursor};
use engine::stats::Stats;
use engine::volume::{Io, Passthrough};
use handles::Handles;
use meta::namespace::Namespace;
use object::admission::{Admission, Held};
use object::descriptors;
use slow::Slow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Parts that the mount is made of.
#[derive(Clone)]
pub struct Parts {
    /// Directory tree that the mount shows.
    pub namespace: Arc<Namespace>,
    /// Files in use.
    pub files: Arc<FileTable>,
    /// Resources that files share.
    pub pool: Arc<Pool>,
    /// Where operations are counted.
    pub stats: Arc<Stats>,
    /// Names of the tiers, fastest first.
    pub tiers: Vec<String>,
    /// Checks of values that users set as `user.entrepot.source`.
    pub sources: Arc<dyn Sources>,
    /// Jobs that open files with a replica, where there are replicas.
    pub uses: Option<Uses>,
}

/// Checks and shows the source records that users set and read as the attribute `user.entrepot.source`.
pub trait Sources: Send + Sync {
    /// Returns the record to keep for a text that a user set. Must refuse credentials.
    fn set(&self, file: &Arc<File>, uid: u32, text: &str) -> Result<()>;
    /// Returns the file's record as a user sees it.
    fn show(&self, file: &Arc<File>) -> Result<Option<String>>;
}

/// Limit of the bytes of writes held for room at the same time. A guess: one user alone has 448 writers of the largest
/// size, more than a node has cores.
const HELD_BYTES_MAX: u64 = 1 << 30;

/// Settings of a mount.
#[derive(Clone, Debug)]
pub struct Options {
    /// FUSE threads; at least 4.
    pub threads: usize,
    /// Time for which the kernel may cache a name.
    pub entry_timeout: Duration,
    /// Time for which the kernel may cache attributes.
    pub attr_timeout: Duration,
    /// Time for which it may cache names and attributes of directories; `None`: as those of files.
    pub directory_timeout: Option<Duration>,
    /// Whether other users may use the mount; `None`: if run by root.
    pub allow_other: Option<bool>,
    /// Whether the kernel may read and write one-object files by itself.
    pub passthrough: Passthrough,
    /// Whether files that nothing writes are read through the kernel's page cache.
    pub io: Io,
    /// Source of the mount in `/proc/mounts`.
    pub name: String,
    /// Limit of descriptors of the process.
    pub descriptors_max: u64,
    /// Limit of the bytes of writes held for room at the same time.
    pub held_bytes_max: u64,
}

impl Default for Options {
    fn default() -> Options {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Options {
            threads: (2 * cores).max(8),
            entry_timeout: Duration::from_secs(1),
            attr_timeout: Duration::from_secs(1),
            directory_timeout: None,
            allow_other: None,
            passthrough: Passthrough::Auto,
            io: Io::Auto,
            name: "entrepot".into(),
            descriptors_max: descriptors::raise(),
            held_bytes_max: HELD_BYTES_MAX,
        }
    }
}

/// State that the FUSE threads share.
struct Server {
    parts: Parts,
    options: Options,
    /// Open files by inode.
    open: Arc<open::OpenFiles>,
    /// Open files by handle.
    handles: Handles<open::Handle>,
    directories: Handles<serve::OpenDirectory>,
    /// Text of each open `.stats`.
    texts: Handles<(Vec<u8>, Held)>,
    /// Admission of open files, by user.
    admission: Arc<Admission>,
    /// Admission of bytes of held writes, by user.
    held: Arc<Admission>,
    /// Lock calls; unused where one node has the volume.
    locks: Arc<locks::Locks>,
    slow: Arc<Slow>,
    /// Delayed work: files kept open, and removals of objects that other nodes may read.
    later: Arc<later::Later>,
    /// Files whose objects are to be removed.
    removal: Arc<removal::Removal<Arc<open::Open>>>,
    /// Whether the kernel permits to register backing files; cleared at the first refusal.
    passthrough: AtomicBool,
    /// Set when all FUSE threads have left.
    ended: mountpoint::Ended,
}
