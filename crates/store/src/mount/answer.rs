//! Answers to the kernel: given once, here or on another thread, as what was asked for or as an error.

use super::convert::{errno, kind};
use super::counted::Counted;
use crate::file::{File, InTheWay};
use crate::namespace::times::SetTime;
use crate::namespace::{Listing, Namespace, Node, NodeId};
use crate::stub::locks::Kind;
use fuser::{
    BackingId, FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLock, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};
use rustix::fs::{Stat, StatVfs};
use rustix::io::{Errno, Result};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// A node whose reference was counted, with its attributes below.
pub type Made = Result<(Arc<Node>, Stat)>;

/// A reply of FUSE's, by what it says when all went well.
pub trait Reply: Send + 'static {
    /// What that is.
    type Good<'a>;
    /// Says it.
    fn good(self, good: Self::Good<'_>, ttl: Ttl);
    /// Bytes of files that were read or written for it.
    fn moved(_good: &Self::Good<'_>) -> u64 {
        0
    }
    /// Says what went wrong.
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

    /// Whose operation it is, where the kernel did not say: it closes files, and writes pages back, for no user.
    pub fn is_of(&mut self, user: u32) {
        if let Some(counted) = &mut self.counted {
            counted.is_of(user);
        }
    }

    /// It reads or writes that file, and so counts for the file, too.
    pub fn is_on(&mut self, file: &File) {
        if let Some(counted) = &mut self.counted {
            counted.is_on(file.usage().clone());
        }
    }

    /// Gives it, counted before: who has the answer finds it among the numbers.
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
    /// Tells the kernel of a file that it may read and write by itself.
    pub fn register(&self, fd: BorrowedFd<'_>) -> io::Result<BackingId> {
        self.reply.open_backing(fd)
    }
}

impl Answer<ReplyCreate> {
    /// Tells the kernel of a file that it may read and write by itself.
    pub fn register(&self, fd: BorrowedFd<'_>) -> io::Result<BackingId> {
        self.reply.open_backing(fd)
    }
}

/// How something was opened.
pub struct Opened {
    /// Its handle.
    pub handle: u64,
    /// How the kernel is to treat it.
    pub flags: FopenFlags,
    /// The file that the kernel reads and writes by itself.
    pub backing: Option<Arc<BackingId>>,
}

impl Opened {
    /// A handle of which nothing is to be said.
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
        reply.entry_with_ttls(&ttl.of(&attr), &ttl.entry, &attr, generation);
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
        let (Opened { handle, flags, backing }, ttl) = (opened, &ttl.both());
        match backing {
            Some(backing) => {
                reply.created_passthrough(ttl, &attr, generation, FileHandle(handle), flags, &backing);
            }
            None => reply.created(ttl, &attr, generation, FileHandle(handle), flags),
        }
    };
}

/// What SETATTR is to change.
#[derive(Clone, Copy, Debug)]
pub struct Changes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// Time of the last access.
    pub accessed: Option<SetTime>,
    /// Time of the last modification.
    pub modified: Option<SetTime>,
}

impl Changes {
    /// Whether a time is set.
    pub fn sets_times(&self) -> bool {
        self.accessed.is_some() || self.modified.is_some()
    }

    /// Whether the owner is to be set. chown(-1, -1) arrives as no change at all; the file system below does with it what it does.
    pub fn sets_owner(&self) -> bool {
        let nothing_said = self.mode.is_none() && self.size.is_none() && !self.sets_times();
        self.uid.is_some() || self.gid.is_some() || nothing_said
    }
}

/// Asks for what this kernel's FUSE can do of `wanted`, and goes on without the rest.
pub fn ask_capabilities(config: &mut KernelConfig, wanted: impl IntoIterator<Item = InitFlags>) {
    for flag in wanted {
        if config.add_capabilities(flag).is_err() {
            tracing::info!(?flag, "this kernel's FUSE cannot do that; going on without");
        }
    }
}

/// An extended attribute, or the names of all of them.
pub enum Value {
    /// How long it is, where no room was offered.
    Length(u32),
    /// All of it.
    Bytes(Vec<u8>),
}

impl Value {
    /// As much as `room` takes: all or, if none was offered, its length.
    pub fn in_room(value: Vec<u8>, room: u32) -> Result<Value> {
        match room {
            0 => Ok(Value::Length(value.len() as u32)),
            room if value.len() > room as usize => Err(Errno::RANGE),
            _ => Ok(Value::Bytes(value)),
        }
    }
}

/// How long the kernel may believe what it is told.
#[derive(Clone, Copy, Debug)]
pub struct Ttl {
    /// Of names.
    pub entry: Duration,
    /// Of attributes.
    pub attr: Duration,
    /// Of those of directories.
    pub directory: Duration,
}

impl Ttl {
    /// For replies that have one time for both.
    pub fn both(&self) -> Duration {
        self.entry.min(self.attr)
    }

    fn of(&self, attr: &FileAttr) -> Duration {
        if attr.kind == FileType::Directory { self.directory } else { self.attr }
    }
}

impl Answer<ReplyDirectory> {
    /// Fills it from `offset` on, which is moved behind what it took.
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
    /// Fills it likewise: every name but `.` and `..` counts as looked up. `attr` says what is shown of a node.
    pub fn fill(
        &mut self,
        listing: &mut Listing,
        namespace: &Namespace,
        offset: &mut u64,
        attr: impl Fn(NodeId, Stat) -> FileAttr,
    ) -> Result<()> {
        while let Some(entry) = listing.at(namespace, *offset)? {
            let dots = entry.name == "." || entry.name == "..";
            let known = match listing.stat(&entry.name) {
                Ok(stat) if dots => Some((entry.id, 0, stat)),
                Ok(stat) => {
                    let node = listing.found(namespace, &entry.name, &stat)?;
                    Some((node.id, node.generation(), stat))
                }
                Err(Errno::NOENT) => None,
                Err(error) => return Err(error),
            };
            // A name that is gone since it was read is left out.
            if let Some((id, generation, stat)) = known {
                let (attr, ttl) = (attr(id, stat), self.ttl.both());
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
