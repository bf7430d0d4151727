//! The FUSE mount: translates the kernel's requests into operations of the namespace and of files. It knows no layouts.
//!
//! ```text
//! kernel -> FUSE threads -> namespace            names, attributes, small files' bytes: here and now
//!                        -> file, inline         one piece on one healthy target: here, watched
//!                        -> slow pool -> file    everything that may wait
//! ```
//!
//! A FUSE thread that hangs in a target is watched; its request is answered by another. What may hang and is not watched never
//! runs on a FUSE thread, so names and attributes are served whatever the targets do.

pub mod answer;
mod attach;
mod bytes;
mod charging;
pub mod convert;
mod counted;
mod directory;
mod durable;
pub mod front;
mod hand_over;
pub mod handles;
mod holders;
mod interrupted;
mod layout_text;
mod locking;
mod locks;
mod metadata;
mod mode;
pub mod mountpoint;
mod open;
mod ranges;
mod removal;
mod request;
mod serve;
mod session;
mod setattr;
pub mod slow;
mod space;
mod xattr;

pub use layout_text::describe;
pub(crate) use mountpoint::detach;
pub use session::{Mount, MountError};

use crate::Result;
use crate::admission::{Admission, Held};
use crate::descriptors;
use crate::file::{File, FileTable, PassthroughGuard, Pool, SyncCursor};
use crate::namespace::Namespace;
use crate::stats::Stats;
use crate::target::Targets;
use crate::volume::{Io, Passthrough};
use handles::Handles;
use slow::Slow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What the mount is made of.
#[derive(Clone)]
pub struct Parts {
    /// The tree.
    pub namespace: Arc<Namespace>,
    /// The files in use.
    pub files: Arc<FileTable>,
    /// What files share.
    pub pool: Arc<Pool>,
    /// The targets, for their space.
    pub targets: Arc<Targets>,
    /// Where operations are counted.
    pub stats: Arc<Stats>,
    /// Names of the tiers, fastest first.
    pub tiers: Vec<String>,
    /// Who checks what users set as `user.entrepot.source`.
    pub sources: Arc<dyn Sources>,
    /// Who hears which processes open files.
    pub openers: Option<Arc<dyn Openers>>,
}

/// Hears which processes open files.
pub trait Openers: Send + Sync {
    /// A process opens a file; what is given back is dropped when that open ends. The process waits meanwhile.
    fn opened(&self, file: &File, uid: u32, pid: u32) -> Option<Box<dyn Send + Sync>>;
}

/// Checks and shows the source records that users set and read as the attribute `user.entrepot.source`.
pub trait Sources: Send + Sync {
    /// The record to keep for what a user set. Must refuse credentials.
    fn set(&self, file: &Arc<File>, uid: u32, text: &str) -> Result<()>;
    /// What a user sees of the file's record.
    fn show(&self, file: &Arc<File>) -> Result<Option<String>>;
}

/// Keeps the text as it is set. For volumes without staging.
pub struct PlainSources;

impl Sources for PlainSources {
    fn set(&self, file: &Arc<File>, _uid: u32, text: &str) -> Result<()> {
        file.set_source((!text.is_empty()).then_some(text))
    }
    fn show(&self, file: &Arc<File>) -> Result<Option<String>> {
        file.source()
    }
}

/// Bytes of writes that are held for room at the same time. A guess: one user alone has 448 writers of the largest size, more than a node
/// has cores.
const HELD_BYTES_MAX: u64 = 1 << 30;

/// How the mount behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// FUSE threads; at least 4.
    pub threads: usize,
    /// How long the kernel may believe a name.
    pub entry_timeout: Duration,
    /// How long the kernel may believe attributes.
    pub attr_timeout: Duration,
    /// Whether other users may use it; `None`: if run by root.
    pub allow_other: Option<bool>,
    /// Whether the kernel may read and write one-object files by itself.
    pub passthrough: Passthrough,
    /// Whether files that nothing writes are read through the kernel's page cache.
    pub io: Io,
    /// Shown as the source in `/proc/mounts`.
    pub name: String,
    /// Descriptors that the process may have.
    pub descriptors_max: u64,
    /// Bytes of writes that may be held for room at the same time.
    pub held_bytes_max: u64,
}

impl Default for Options {
    fn default() -> Options {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Options {
            threads: (2 * cores).max(8),
            entry_timeout: Duration::from_secs(1),
            attr_timeout: Duration::from_secs(1),
            allow_other: None,
            passthrough: Passthrough::Auto,
            io: Io::Auto,
            name: "entrepot".into(),
            descriptors_max: descriptors::raise(),
            held_bytes_max: HELD_BYTES_MAX,
        }
    }
}

/// Everything the FUSE threads share.
struct Server {
    parts: Parts,
    options: Options,
    /// Open files by inode.
    open: open::OpenFiles,
    /// Open files by handle.
    handles: Handles<open::Handle>,
    directories: Handles<directory::Open>,
    /// What each open `.stats` shows.
    texts: Handles<(Vec<u8>, Held)>,
    /// Who may have how much open.
    admission: Arc<Admission>,
    /// Who may have how many bytes of writes held.
    held: Arc<Admission>,
    /// Calls for locks; none where one node has the volume.
    locks: Arc<locks::Locks>,
    slow: Arc<Slow>,
    /// Files whose objects are to go.
    removal: Arc<removal::Removal<Arc<open::Open>>>,
    /// Whether the kernel lets us register backing files; found out at the first try.
    passthrough: AtomicBool,
    /// Rung when all FUSE threads have left.
    ended: mountpoint::Ended,
}
