//! The stub of a file: the sparse inode in the namespace that carries name, owner, times, size, the small file's bytes
//! and the layout record.
//!
//! The stub is the one authority on the size. A write that makes a file larger sets the stub's size before it is
//! acknowledged. So a killed daemon leaves a file of the right size behind.

pub mod locks;
#[cfg(any(test, feature = "doubles"))]
pub mod memory;
pub mod names;
pub mod real;
mod records;
mod sums;
mod upgrade;

pub use records::{Pointer, Record, Records};
pub use sums::Sums;

use crate::Result;
use locks::Locker;
use policy::cluster::Node;
use policy::layout::Layout;
use policy::{FileId, Time};
use std::fmt;
use std::path::PathBuf;

/// An inode: device and number.
pub type Inode = (u64, u64);

/// State of a file's in-use mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The file has no mark.
    None,
    /// The mark survives a crash of the daemon.
    Set,
    /// The mark survives a loss of power, too.
    Durable,
}

/// Name of an in-use mark: a file and the node that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InUse {
    /// File that the mark is for.
    pub file: FileId,
    /// The node, where several share the volume.
    pub node: Option<Node>,
}

impl InUse {
    /// Parses a file name in `open/`.
    pub fn parse(name: &str) -> Option<InUse> {
        let (file, node) = match name.split_once('@') {
            Some((file, node)) => (file, Some(Node(node.parse().ok()?))),
            None => (name, None),
        };
        Some(InUse { file: file.parse().ok()?, node })
    }
}

impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Some(node) => write!(f, "{}@{}", self.file, node.0),
            None => write!(f, "{}", self.file),
        }
    }
}

/// Operations on the stub of one file. Real stubs are open files of the namespace; tests use one in memory that can
/// crash.
pub trait Stub: Records + Sums + Send + Sync + 'static {
    /// The layout record; `None` while the bytes are in the stub.
    fn layout(&self) -> Result<Option<Layout>>;
    /// Replaces the layout record in one step. Durable after [`Stub::sync`].
    fn set_layout(&self, layout: &Layout) -> Result<()>;
    /// Raises the size of a file whose bytes lie elsewhere to at least this one. Never lowers it, also when other nodes
    /// raise it at the same time.
    fn grow_to(&self, size: u64) -> Result<()>;
    /// Returns a locker that holds the locks of one user of the file against all nodes.
    fn locker(&self) -> Result<Box<dyn Locker>>;
    /// Returns the source of the file, a text record (see `source::Record`); `None` if it has none.
    fn source(&self) -> Result<Option<String>>;
    /// Replaces or (with `None`) removes the source record.
    fn set_source(&self, record: Option<&str>) -> Result<()>;
    /// Size of the file in bytes.
    fn size(&self) -> Result<u64>;
    /// Sets the size.
    fn set_size(&self, size: u64) -> Result<()>;
    /// Sets the modification time (nanoseconds since 1970) for writes that did not change the size.
    fn touch(&self, modified: Time) -> Result<()>;
    /// Reads bytes of a file that has no layout.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;
    /// As `read_at` from the begin. Fewer bytes in one answer are all that there are.
    fn read_first(&self, buf: &mut [u8]) -> Result<usize> {
        self.read_at(0, buf)
    }
    /// Writes bytes of a file that has no layout.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()>;
    /// Frees a range of the stub's own bytes; the size stays.
    fn punch(&self, offset: u64, len: u64) -> Result<()>;
    /// First data at or after `offset` in the stub's own bytes (`NXIO` as an error if none).
    fn seek_data(&self, offset: u64) -> Result<u64>;
    /// First hole at or after `offset` in the stub's own bytes.
    fn seek_hole(&self, offset: u64) -> Result<u64>;
    /// Sets or removes the in-use mark, which a daemon that starts after a crash finds. It stands for uses that no
    /// record shows: writes by the kernel alone or to several mirrors, and moves. Setting a set mark and removing a
    /// missing one succeed.
    fn mark_in_use(&self, by: InUse, mark: Mark) -> Result<()>;
    /// Whether the in-use mark is a link of this stub.
    fn has_mark(&self, _by: InUse) -> bool {
        false
    }
    /// Number of links, names and marks alike; `None` if unknown.
    fn links(&self) -> Option<u64> {
        None
    }
    /// Whether the inode surely has no link, and so no attributes on some shared file systems.
    fn is_removed(&self) -> bool {
        false
    }
    /// Opens the file again, after the shared file system has lost the descriptor with a server. The error is `STALE` or
    /// `NOENT` if the file does not exist any more.
    fn renew(&self) -> Result<()> {
        Ok(())
    }
    /// Device and inode number, which no other stub in use has; `None` in memory.
    fn inode(&self) -> Option<Inode> {
        None
    }
    /// Owner: user and group.
    fn owner(&self) -> Option<(u32, u32)> {
        None
    }
    /// Current path, as far as it can be found.
    fn path(&self) -> Option<PathBuf> {
        None
    }
    /// Sets or clears the flag that the kernel writes the object by itself: after a crash of the daemon the object's
    /// length is the size. Need not be durable: `sync` settles the size.
    fn set_kernel_writes(&self, writes: bool) -> Result<()>;
    /// Whether the kernel writes the object by itself.
    fn kernel_writes(&self) -> Result<bool>;
    /// Sets or clears the flag that a file larger than an inline one has no layout: its unwritten bytes are a hole.
    /// Without the flag such a stub has lost its attributes.
    fn mark_inline(&self, inline: bool) -> Result<()>;
    /// Whether the flag of [`Stub::mark_inline`] is set.
    fn is_marked_inline(&self) -> Result<bool>;
    /// Removes the in-use mark and everything kept beside the stub, for a removed file.
    fn discard(&self, by: InUse) -> Result<()>;
    /// Makes size, times, layout record and bytes durable.
    fn sync(&self) -> Result<()>;
}
