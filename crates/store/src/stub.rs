//! The stub of a file: the sparse inode in the namespace that carries name, owner, times, size, the small file's bytes
//! and the layout record.
//!
//! The stub is the one authority on the size. Every write that makes a file larger sets the stub's size before it is
//! acknowledged, so a killed daemon leaves a file of the right size behind.

pub mod locks;
pub mod marks;
pub mod memory;
pub mod real;

use crate::Result;
use locks::Locker;
use marks::Look;
use policy::cluster::Node;
use policy::cluster::share::{Claim, Mark as NodeMark};
use policy::layout::Layout;
use policy::{FileId, Time};
use rustix::io::Errno;
use std::fmt;
use std::path::PathBuf;

/// An inode: device and number.
pub type Inode = (u64, u64);

/// How a file is marked as in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Not, or no longer.
    None,
    /// A daemon that starts after this one was killed finds the mark.
    Set,
    /// So does one that starts after a loss of power.
    Durable,
}

/// Who has which file in use: the name of a mark, and what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InUse {
    /// The file.
    pub file: FileId,
    /// As which of several nodes.
    pub node: Option<Node>,
}

impl InUse {
    /// Reads a name in `open/`.
    pub fn parse(name: &str) -> Option<InUse> {
        let (file, node) = match name.split_once('@') {
            Some((file, node)) => (file, Some(Node(node.parse().ok()?))),
            None => (name, None),
        };
        Some(InUse { file: FileId(u64::from_str_radix(file, 16).ok()?), node })
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

/// What a file needs of its stub. Real ones are open files of the namespace; tests use one in memory that can crash.
pub trait Stub: Send + Sync + 'static {
    /// The layout record; `None` while the bytes are in the stub.
    fn layout(&self) -> Result<Option<Layout>>;
    /// Replaces the layout record in one step. Durable after [`Stub::sync`].
    fn set_layout(&self, layout: &Layout) -> Result<()>;
    /// The layout record and its generation, 0 if there never was one.
    fn newest(&self) -> Result<(u64, Option<Layout>)> {
        let layout = self.layout()?;
        Ok((layout.as_ref().map_or(0, |layout| layout.generation), layout))
    }
    /// Gives back the space of bytes that are never read, where that costs nothing.
    fn free(&self) {}
    /// What nodes that share the volume wrote on it.
    fn look(&self) -> Result<Look> {
        Err(Errno::OPNOTSUPP.into())
    }
    /// The same for one that relies on what is not there: a claim, another writer.
    fn look_surely(&self) -> Result<Look> {
        self.look()
    }
    /// Makes a generation, with a layout or with the bytes in the stub. Whether it was not there.
    fn publish(&self, _node: Node, _generation: u64, _layout: Option<&Layout>) -> Result<bool> {
        Err(Errno::OPNOTSUPP.into())
    }
    /// Claims a generation. Whether nobody had.
    fn claim(&self, _claim: Claim) -> Result<bool> {
        Err(Errno::OPNOTSUPP.into())
    }
    /// Says what a mark without a value says.
    fn set_mark(&self, _mark: NodeMark) -> Result<()> {
        Err(Errno::OPNOTSUPP.into())
    }
    /// Removes what is over, or said no longer.
    fn remove(&self, _mark: NodeMark) -> Result<()> {
        Err(Errno::OPNOTSUPP.into())
    }
    /// Says that a node copies the file and nobody has changed it since, or no longer. Whether it said so.
    fn set_copy(&self, _node: Node, _copies: bool) -> Result<bool> {
        Err(Errno::OPNOTSUPP.into())
    }
    /// Makes a file whose bytes lie elsewhere at least so long. Never makes it shorter, whoever else makes it longer at the same time.
    fn grow_to(&self, _size: u64) -> Result<()> {
        Err(Errno::OPNOTSUPP.into())
    }
    /// What has locks for one of those who lock the file, on all nodes.
    fn locker(&self) -> Result<Box<dyn Locker>> {
        Err(Errno::NOLCK.into())
    }
    /// Where the file came from; `None` if nobody said so. A text record, see `source::Record`.
    fn source(&self) -> Result<Option<String>>;
    /// Replaces or (with `None`) removes the source record.
    fn set_source(&self, record: Option<&str>) -> Result<()>;
    /// Whether something is said of checksums of what the file holds.
    fn has_sums(&self) -> Result<bool> {
        Ok(false)
    }
    /// The checksums of what the file holds: under which name they were made, and a text of them. `None` if there are none that count.
    fn sums(&self) -> Result<Option<(String, String)>> {
        Ok(None)
    }
    /// Says that checksums are being made under a name that nobody else has.
    fn begin_sums(&self, _id: &str) -> Result<()> {
        Err(Errno::OPNOTSUPP.into())
    }
    /// Those count from now on, unless the file was changed meanwhile. Whether they do.
    fn end_sums(&self, _id: &str, _text: &str) -> Result<bool> {
        Ok(false)
    }
    /// No checksums count any more. Whether something was said of any. Durable after [`Stub::sync`].
    fn void_sums(&self, _file: Option<FileId>) -> Result<bool> {
        Ok(false)
    }
    /// Size of the file in bytes.
    fn size(&self) -> Result<u64>;
    /// Sets the size.
    fn set_size(&self, size: u64) -> Result<()>;
    /// Sets the modification time (nanoseconds since 1970) for writes that did not change the size.
    fn touch(&self, modified: Time) -> Result<()>;
    /// Reads bytes of a file that has no layout.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;
    /// Writes bytes of a file that has no layout.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()>;
    /// Frees a range of the stub's own bytes; the size stays.
    fn punch(&self, offset: u64, len: u64) -> Result<()>;
    /// First data at or after `offset` in the stub's own bytes (`NXIO` as an error if none).
    fn seek_data(&self, offset: u64) -> Result<u64>;
    /// First hole at or after `offset` in the stub's own bytes.
    fn seek_hole(&self, offset: u64) -> Result<u64>;
    /// Sets or removes the mark that says to whoever starts after a crash that this file was in use in a way that a
    /// record cannot tell: written by the kernel alone, in several mirrors, or being moved. Setting a set mark and
    /// removing a missing one succeed.
    fn mark_in_use(&self, by: InUse, mark: Mark) -> Result<()>;
    /// Whether that mark is a link of this stub.
    fn has_mark(&self, _by: InUse) -> bool {
        false
    }
    /// How many links lead to it, names and marks; `None` if that cannot be told.
    fn links(&self) -> Option<u64> {
        None
    }
    /// Its device and inode number, which no other stub in use has; `None` in memory.
    fn inode(&self) -> Option<Inode> {
        None
    }
    /// Whose it is: user and group.
    fn owner(&self) -> Option<(u32, u32)> {
        None
    }
    /// Where it is now, as far as anybody can tell.
    fn path(&self) -> Option<PathBuf> {
        None
    }
    /// Says (or no longer) that the kernel writes the object by itself, so that after the death of the daemon the
    /// object's length is the size. Need not be durable: `sync` settles the size.
    fn set_kernel_writes(&self, writes: bool) -> Result<()>;
    /// Whether that was said.
    fn kernel_writes(&self) -> Result<bool>;
    /// Says (or no longer) that the file has no layout though it is larger than bytes are kept in a stub: what was not written is a hole.
    /// Without it such a stub has lost its attributes.
    fn mark_inline(&self, inline: bool) -> Result<()>;
    /// Whether that was said.
    fn is_marked_inline(&self) -> Result<bool>;
    /// Removes everything that is kept beside the stub for that file, and that mark, for a file that is gone.
    fn discard(&self, by: InUse) -> Result<()>;
    /// Makes size, times, layout record and bytes durable.
    fn sync(&self) -> Result<()>;
}
