//! Reading of a directory, with positions that stay valid however long it is and despite concurrent changes.

use super::Namespace;
use super::node::{Node, NodeId, ROOT};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom, Stat, openat, seek, statat};
use rustix::io::Result;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// One name in a directory.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Node number of the inode.
    pub id: NodeId,
    /// Its file type; `Unknown` if the namespace does not report it.
    pub kind: FileType,
    /// Name within the directory.
    pub name: OsString,
    /// Position after this entry.
    pub next: u64,
}

/// A directory being read.
#[derive(Debug)]
pub struct Listing {
    fd: OwnedFd,
    id: NodeId,
    /// Entries read from the kernel and not handed out.
    ahead: VecDeque<Listed>,
    /// Position of the front of `ahead`.
    position: u64,
}

/// Bytes requested from the kernel at once.
const READ_BYTES: usize = 32 << 10;

impl Listing {
    /// Entry at `position`: 0, or the `next` of an entry. `None` at the end.
    pub fn at(&mut self, namespace: &Namespace, position: u64) -> Result<Option<Listed>> {
        if position != self.position {
            seek(&self.fd, SeekFrom::Start(position))?;
            self.ahead.clear();
            self.position = position;
        }
        if self.ahead.is_empty() {
            self.read_ahead(namespace)?;
        }
        Ok(self.ahead.front().cloned())
    }

    /// Drops the front entry after it was handed out.
    pub fn advance(&mut self) {
        if let Some(gone) = self.ahead.pop_front() {
            self.position = gone.next;
        }
    }

    fn read_ahead(&mut self, namespace: &Namespace) -> Result<()> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); READ_BYTES];
        let mut raw = RawDir::new(&self.fd, &mut buffer);
        while let Some(entry) = raw.next() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            // The namespace's own parent directory is not part of the tree.
            let id = if self.id == ROOT && name == ".." { ROOT } else { namespace.id_of(entry.ino()) };
            let kind = entry.file_type();
            self.ahead.push_back(Listed { id, kind, name: name.to_owned(), next: entry.next_entry_cookie() });
            if raw.is_buffer_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Attributes of a name in this directory.
    pub fn stat(&self, name: &OsStr) -> Result<Stat> {
        statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Counts the kernel's reference to the inode of a name in this directory, whose attributes are `stat`.
    pub fn found(&self, namespace: &Namespace, name: &OsStr, stat: &Stat) -> Result<Arc<Node>> {
        namespace.found(self.id, name, stat)
    }

    /// Makes names durable.
    pub fn sync(&self) -> Result<()> {
        object::host::sync_directory(&self.fd)
    }
}

impl Namespace {
    /// Starts reading a directory.
    pub fn list(&self, id: NodeId) -> Result<Listing> {
        let (directory, flags) = (self.directory(id)?, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC);
        let open = |more: OFlags| openat(&*directory, ".", flags | more, Mode::empty());
        let fd = open(OFlags::NOATIME).or_else(|_| open(OFlags::empty()))?;
        Ok(Listing { fd, id, ahead: VecDeque::new(), position: 0 })
    }
}
