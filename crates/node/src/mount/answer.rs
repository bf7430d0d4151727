//! Answers to the kernel: sent once, on any thread, as the requested result or as an error.

use super::convert::{errno, kind, no_attributes};
use super::counted::Counted;
use engine::file::{File, InTheWay};
use engine::stats::Position;
use fuser::{
    BackingId, FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};
use meta::namespace::times::SetTime;
use meta::namespace::{Listing, Namespace, Node, NodeId, ROOT};
use meta::stub::locks::Kind;
use rustix::fs::{Stat, StatVfs};
use rustix::io::{Errno, Result};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// A node whose reference was counted, with its attributes below.
pub type Made = Result<(Arc<Node>, Stat)>;

/// A FUSE reply, with the type of its successful result.
pub trait Reply: Send + 'static {
    /// Content of a successful reply.
    type Good<'a>;
    /// Sends the result.
    fn good(self, good: Self::Good<'_>, ttl: Ttl);
    /// Bytes of file data that were read or written for the reply.
    fn moved(_good: &Self::Good<'_>) -> u64 {
        0
    }
    /// Sends an error.
    fn bad(self, error: fuser::Errno);
}

/// An answer that the kernel waits for.
pub struct Answer<R> {
    reply: R,
    ttl: Ttl,
    counted: Option<Counted>,
}

impl<R: Reply> Answer<R> {
    pub(super) fn new(reply: R, ttl: Ttl, counted: Option<Counted>) -> Answer<R> {
        Answer { reply, ttl, counted }
    }

    /// Sets the user of the operation where the kernel names none (close, write-back).
    pub fn is_of(&mut self, user: u32) {
        if let Some(counted) = &mut self.counted {
            counted.is_of(user);
        }
    }

    /// Sets the file that the operation reads or writes, so that it counts for the file, too.
    pub fn is_on(&mut self, file: &File) {
        if let Some(counted) = &mut self.counted {
            counted.is_on(file.usage().clone());
        }
    }

    /// Sets the position of a read or write, so that a recording has it.
    pub fn is_at(&mut self, position: Position) {
        if let Some(counted) = &mut self.counted {
            counted.is_at(position);
        }
    }

    /// Sends the answer. The operation is counted first, so that a caller with an answer finds it in the statistics.
    pub fn give(self, done: Result<R::Good<'_>>) {
        let Answer { reply, ttl, counted } = self;
        match done {
            Ok(good) => {
                if let Some(counted) = counted {
                    counted.went_well(R::moved(&good));
                }
                reply.good(good, ttl);
            }
            Err(error) => {
                drop(counted);
                reply.bad(errno(error));
            }
        }
    }
}

impl Answer<ReplyOpen> {
    /// Registers a file that the kernel may read and write by itself.
    pub fn register(&self, fd: BorrowedFd<'_>) -> io::Result<BackingId> {
        self.reply.open_backing(fd)
    }
}

impl Answer<ReplyCreate> {
    /// Registers a file that the kernel may read and write by itself.
    pub fn register(&self, fd: BorrowedFd<'_>) -> io::Result<BackingId> {
        self.reply.open_backing(fd)
    }
}

/// Result of an open.
pub struct Opened {
    /// Number of the open in later requests.
    pub handle: u64,
    /// Caching flags for the kernel.
    pub flags: FopenFlags,
    /// The file that the kernel reads and writes by itself.
    pub backing: Option<Arc<BackingId>>,
}

impl Opened {
    /// A handle with default flags.
    pub fn plain(handle: u64) -> Opened {
        Opened { handle, flags: FopenFlags::empty(), backing: None }
    }
}

macro_rules! replies {
    ($($reply:ty, $good:ty $([$moved:expr])?: |$it:ident, $value:pat_param, $ttl:pat_param| $say:expr;)*) => { $(
        impl Reply for $reply {
            type Good<'a> = $good;
            fn good(self, $value: Self::Good<'_>, $ttl: Ttl) {
                let $it = self;
                $say
            }
            fn bad(self, error: fuser::Errno) {
                self.error(error);
            }
            $(fn moved(good: &Self::Good<'_>) -> u64 {
                let moved: fn(&Self::Good<'_>) -> u64 = $moved;
                moved(good)
            })?
        }
    )* };
}

replies! {
    ReplyEmpty, (): |reply, (), _| reply.ok();
    ReplyData, &'a [u8] [|bytes| bytes.len() as u64]: |reply, bytes, _| reply.data(bytes);
    ReplyWrite, usize [|written| *written as u64]: |reply, written, _| reply.written(written as u32);
    ReplyXattr, Value: |reply, value, _| match value {
        Value::Length(length) => reply.size(length),
        Value::Bytes(bytes) => reply.data(&bytes),
    };
    ReplyDirectory, (): |reply, (), _| reply.ok();
    ReplyDirectoryPlus, (): |reply, (), _| reply.ok();
    ReplyLock, Option<InTheWay>: |reply, found, _| match found {
        None => reply.locked(0, 0, libc::F_UNLCK, 0),
        Some(InTheWay { bytes, kind, process }) => {
            let kind = if kind == Kind::Shared { libc::F_RDLCK } else { libc::F_WRLCK };
            reply.locked(*bytes.start(), *bytes.end(), kind, process);
        }
    };
    ReplyLseek, u64: |reply, at, _| reply.offset(at as i64);
    ReplyAttr, FileAttr: |reply, attr, ttl| reply.attr(&ttl.of(&attr), &attr);
    ReplyEntry, (FileAttr, Generation): |reply, (attr, generation), ttl|
        reply.entry_with_ttls(&ttl.of(&attr), &ttl.name_of(&attr), &attr, generation);
    ReplyStatfs, StatVfs: |reply, s, _| {
        let narrow = |wide: u64| u32::try_from(wide).unwrap_or(u32::MAX);
        let (block, fragment, name_max) = (narrow(s.f_bsize), narrow(s.f_frsize), narrow(s.f_namemax));
        reply.statfs(s.f_blocks, s.f_bfree, s.f_bavail, s.f_files, s.f_ffree, block, name_max, fragment);
    };
    ReplyOpen, Opened: |reply, opened, _| {
        let Opened { handle, flags, backing } = opened;
        match backing {
            Some(backing) => reply.opened_passthrough(FileHandle(handle), flags, &backing),
            None => reply.opened(FileHandle(handle), flags),
        }
    };
    ReplyCreate, (FileAttr, Generation, Opened): |reply, (attr, generation, opened), ttl| {
        let (Opened { handle, flags, backing }, ttl) = (opened, &ttl.both(&attr));
        match backing {
            Some(backing) => {
                reply.created_passthrough(ttl, &attr, generation, FileHandle(handle), flags, &backing);
            }
            None => reply.created(ttl, &attr, generation, FileHandle(handle), flags),
        }
    };
}

/// Changes requested by SETATTR.
#[derive(Clone, Copy, Debug)]
pub struct Changes {
    /// New permission bits.
    pub mode: Option<u32>,
    /// Number of the new owner.
    pub uid: Option<u32>,
    /// Number of the new group.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// New time of access.
    pub accessed: Option<SetTime>,
    /// New time of modification.
    pub modified: Option<SetTime>,
}

impl Changes {
    /// Whether a time is set.
    pub fn sets_times(&self) -> bool {
        self.accessed.is_some() || self.modified.is_some()
    }

    /// Whether the owner is to be set. chown(-1, -1) arrives without any change and is left to the file system below.
    pub fn sets_owner(&self) -> bool {
        let nothing_said = self.mode.is_none() && self.size.is_none() && !self.sets_times();
        self.uid.is_some() || self.gid.is_some() || nothing_said
    }
}

/// Requests those capabilities of `wanted` that this kernel's FUSE supports.
pub fn ask_capabilities(config: &mut KernelConfig, wanted: impl IntoIterator<Item = InitFlags>) {
    for flag in wanted {
        if config.add_capabilities(flag).is_err() {
            tracing::info!(?flag, "this kernel's FUSE cannot do that; going on without");
        }
    }
}

/// An extended attribute, or the names of all of them.
pub enum Value {
    /// Length of the value, if the caller offered no room.
    Length(u32),
    /// The whole value.
    Bytes(Vec<u8>),
}

impl Value {
    /// Fits a value into `room`: all of it or, if no room was offered, its length.
    pub fn in_room(value: Vec<u8>, room: u32) -> Result<Value> {
        match room {
            0 => Ok(Value::Length(value.len() as u32)),
            room if value.len() > room as usize => Err(Errno::RANGE),
            _ => Ok(Value::Bytes(value)),
        }
    }
}

/// Validity of names and attributes in the kernel's cache.
#[derive(Clone, Copy, Debug)]
pub struct Ttl {
    /// Validity of names of files.
    pub entry: Duration,
    /// Validity of names of directories.
    pub directory_entry: Duration,
    /// Validity of attributes of files.
    pub attr: Duration,
    /// Validity of attributes of directories.
    pub directory: Duration,
}

impl Ttl {
    /// The shorter time, for replies with one time for both.
    fn both(&self, attr: &FileAttr) -> Duration {
        self.name_of(attr).min(self.of(attr))
    }

    fn name_of(&self, attr: &FileAttr) -> Duration {
        if attr.kind == FileType::Directory { self.directory_entry } else { self.entry }
    }

    fn of(&self, attr: &FileAttr) -> Duration {
        if attr.kind == FileType::Directory { self.directory } else { self.attr }
    }
}

impl Answer<ReplyDirectory> {
    /// Fills the reply from `offset` on, and moves `offset` behind the last entry of the reply.
    pub fn fill(&mut self, listing: &mut Listing, namespace: &Namespace, offset: &mut u64) -> Result<()> {
        while let Some(entry) = listing.at(namespace, *offset)? {
            if self.reply.add(INodeNo(entry.id), entry.next, kind(entry.kind), &entry.name) {
                break;
            }
            listing.advance();
            *offset = entry.next;
        }
        Ok(())
    }
}

impl Answer<ReplyDirectoryPlus> {
    /// Fills the reply likewise. Every name but `.` and `..` counts as looked up; `attr` returns the attributes to
    /// show.
    pub fn fill(
        &mut self,
        listing: &mut Listing,
        namespace: &Namespace,
        offset: &mut u64,
        attr: impl Fn(NodeId, Stat) -> FileAttr,
    ) -> Result<()> {
        while let Some(entry) = listing.at(namespace, *offset)? {
            let dots = entry.name == "." || entry.name == "..";
            let found = |stat: Stat| {
                let node = listing.found(namespace, &entry.name, &stat)?;
                Ok((node.id, node.generation(), attr(node.id, stat)))
            };
            let known = match listing.stat(&entry.name) {
                Ok(stat) if dots => Ok((entry.id, 0, attr(entry.id, stat))),
                examined => examined.and_then(found),
            };
            let known = match known {
                // A name that was removed since it was read is left out.
                Err(Errno::NOENT) => None,
                // An attribute error concerns the name, not the directory: a lookup of the name returns it. The kernel
                // takes no inode from an entry with the number of the root.
                Err(error) => {
                    tracing::debug!("a name in a directory cannot be examined: {error}");
                    Some((ROOT, 0, FileAttr { kind: kind(entry.kind), ..no_attributes(ROOT) }))
                }
                Ok(known) => Some(known),
            };
            if let Some((id, generation, attr)) = known {
                let ttl = self.ttl.both(&attr);
                if self.reply.add(INodeNo(id), entry.next, &entry.name, &ttl, &attr, Generation(generation)) {
                    if !dots {
                        namespace.forget(id, 1);
                    }
                    break;
                }
            }
            listing.advance();
            *offset = entry.next;
        }
        Ok(())
    }
}
