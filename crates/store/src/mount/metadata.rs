//! Names and attributes.

use super::convert::{attributes, device, errno};
use super::open::{Open, is_writable};
use super::{Server, answer, holders};
use crate::Result;
use crate::admission::Held;
use crate::namespace::attributes::REQUEST;
use crate::namespace::{Caller, Node, NodeId, ROOT};
use fuser::{FileAttr, FileHandle, FileType, Generation, INodeNo, ReplyAttr, ReplyCreate, ReplyEmpty, ReplyEntry};
use policy::layout::Placement;
use rustix::fs::{OFlags, RenameFlags, Stat, XattrFlags, fstat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// Name of the virtual file at the root that shows what the mount does.
pub const STATS_NAME: &str = ".stats";
/// Its node number, which no file system gives.
pub const STATS_ID: NodeId = u64::MAX - 1;

/// A file that was created, or found (`true`), and whoever opened it with that.
type Created<'a> = (Arc<Node>, Stat, super::open::User<'a>, bool);

impl Server {
    /// What the kernel hears about a node.
    pub fn shown(&self, id: NodeId, mut stat: Stat) -> FileAttr {
        match self.open.get(id) {
            Some(open) => self.shown_open(&open, &mut stat),
            None => {
                if stat.st_nlink > 1 && stat.st_size as u64 > self.parts.pool.inline_bytes_max {
                    // Its mark may have been counted just before the last user left; now it is gone.
                    stat.st_nlink = self.parts.namespace.stat(id).map_or(stat.st_nlink, |now| now.st_nlink);
                }
                self.shown_closed(id, &mut stat);
            }
        }
        attributes(id, &stat)
    }

    /// Attributes now; through the open stub if there is one, which works for a file without a name too.
    pub fn stat(&self, id: NodeId) -> Result<FileAttr> {
        if id == STATS_ID {
            return Ok(self.stats_attributes(0));
        }
        if let Some(open) = self.open.get(id) {
            let mut stat = fstat(open.stub())?;
            self.shown_open(&open, &mut stat);
            return Ok(attributes(id, &stat));
        }
        let mut stat = self.parts.namespace.stat(id)?;
        self.shown_closed(id, &mut stat);
        Ok(attributes(id, &stat))
    }

    /// The virtual file's attributes.
    pub fn stats_attributes(&self, size: u64) -> FileAttr {
        FileAttr {
            ino: INodeNo(STATS_ID),
            size,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: FileType::RegularFile,
            perm: 0o444,
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    pub fn lookup(&self, parent: NodeId, name: &OsStr, reply: ReplyEntry) {
        if parent == ROOT && name == STATS_NAME {
            return reply.entry(&Duration::from_secs(1), &self.stats_attributes(0), Generation(0));
        }
        self.entry(self.parts.namespace.lookup(parent, name), reply);
    }

    /// Answers with a node whose reference was counted.
    fn entry(&self, made: rustix::io::Result<(Arc<Node>, Stat)>, reply: ReplyEntry) {
        answer::entry(made, self.options.ttl(), |id, stat| self.shown(id, stat), reply);
    }

    pub fn getattr(&self, id: NodeId, handle: Option<FileHandle>, reply: ReplyAttr) {
        let stat = match handle.filter(|_| id != STATS_ID).and_then(|h| self.handles.get(h.0)) {
            Some(handle) if handle.open.id == id => fstat(handle.open.stub()).map_err(Into::into).map(|mut stat| {
                self.shown_open(&handle.open, &mut stat);
                attributes(id, &stat)
            }),
            _ => self.stat(id),
        };
        match stat {
            Ok(attr) => reply.attr(&self.options.attr_timeout, &attr),
            Err(error) => reply.error(errno(error.errno())),
        }
    }

    pub fn make_node(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &OsStr,
        mode: u32,
        kernel_device: u32,
        reply: ReplyEntry,
    ) {
        let made = not_virtual(parent, name)
            .and_then(|()| self.parts.namespace.make_node(caller, parent, name, mode, device(kernel_device)));
        self.entry(made, reply);
    }

    pub fn make_directory(&self, caller: Caller, parent: NodeId, name: &OsStr, mode: u32, reply: ReplyEntry) {
        let made =
            not_virtual(parent, name).and_then(|()| self.parts.namespace.make_directory(caller, parent, name, mode));
        if let (Ok((node, _)), Some(text)) = (&made, self.request_text(parent)) {
            let set =
                self.parts.namespace.set_attribute(node.id, OsStr::new(REQUEST), text.as_bytes(), XattrFlags::empty());
            match set {
                Ok(()) => node.set_request(Some(text)),
                // Somebody was quick to remove it.
                Err(Errno::NOENT | Errno::STALE) => {}
                Err(error) => {
                    tracing::warn!(?name, %error, "a new directory does not inherit its parent's layout request")
                }
            }
        }
        self.entry(made, reply);
    }

    pub fn make_symlink(&self, caller: Caller, parent: NodeId, name: &OsStr, target: &OsStr, reply: ReplyEntry) {
        let made =
            not_virtual(parent, name).and_then(|()| self.parts.namespace.make_symlink(caller, parent, name, target));
        self.entry(made, reply);
    }

    pub fn link(&self, id: NodeId, parent: NodeId, name: &OsStr, reply: ReplyEntry) {
        let made = not_virtual(parent, name).and_then(|()| self.parts.namespace.link(id, parent, name));
        self.entry(made, reply);
    }

    pub fn unlink(self: &Arc<Self>, uid: u32, parent: NodeId, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.with_room_for_removal(uid, reply, move |server, reply| server.unlink_now(uid, parent, &name, reply));
    }

    /// Does what may leave objects to be removed: here, or where the user may wait if too many are.
    fn with_room_for_removal(
        self: &Arc<Self>,
        uid: u32,
        reply: ReplyEmpty,
        act: impl FnOnce(&Server, ReplyEmpty) + Send + 'static,
    ) {
        if self.gone.has_room(uid) {
            return act(self, reply);
        }
        let server = self.clone();
        self.hand_over(uid, reply, ReplyEmpty::error, move |reply| {
            server.gone.wait_for_room(uid);
            act(&server, reply);
        });
    }

    fn unlink_now(&self, uid: u32, parent: NodeId, name: &OsStr, reply: ReplyEmpty) {
        match not_permitted(parent, name).and_then(|()| self.parts.namespace.unlink(parent, name)) {
            Ok(removed) => {
                self.unlinked(uid, removed);
                reply.ok();
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    pub fn remove_directory(&self, parent: NodeId, name: &OsStr, reply: ReplyEmpty) {
        match self.parts.namespace.remove_directory(parent, name) {
            Ok(_) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    pub fn rename(
        self: &Arc<Self>,
        uid: u32,
        from: (NodeId, &OsStr),
        to: (NodeId, &OsStr),
        flags: fuser::RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((from.0, from.1.to_owned()), (to.0, to.1.to_owned()));
        self.with_room_for_removal(uid, reply, move |server, reply| {
            server.rename_now(uid, (from.0, &from.1), (to.0, &to.1), flags, reply);
        });
    }

    fn rename_now(
        &self,
        uid: u32,
        from: (NodeId, &OsStr),
        to: (NodeId, &OsStr),
        flags: fuser::RenameFlags,
        reply: ReplyEmpty,
    ) {
        let flags = RenameFlags::from_bits_retain(flags.bits());
        let renamed = not_permitted(from.0, from.1)
            .and_then(|()| not_permitted(to.0, to.1))
            .and_then(|()| self.parts.namespace.rename(from.0, from.1, to.0, to.1, flags));
        match renamed {
            Ok(replaced) => {
                if let Some(removed) = replaced {
                    self.unlinked(uid, removed);
                }
                reply.ok();
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Creates and opens a file; opens it if somebody else was faster and that is allowed.
    pub fn create(
        self: &Arc<Self>,
        caller: Caller,
        (parent, name): (NodeId, &OsStr),
        mode: u32,
        flags: OFlags,
        reply: ReplyCreate,
    ) {
        // Before there is a file that nobody could open.
        let held = match self.admission.take(caller.uid, 1) {
            Ok(held) => held,
            Err(refusal) => return reply.error(errno(holders::errno(refusal))),
        };
        if self.inherited_in(parent).is_some_and(|placement| is_single(&placement)) {
            return self.create_slowly(caller, held, (parent, name), mode, flags, reply); // its object is made at once
        }
        // With O_TRUNC, as nearly everybody creates files, only one that exists has anything to cut.
        let cuts = flags.contains(OFlags::TRUNC);
        let only_new = if cuts { flags | OFlags::EXCL } else { flags };
        match self.create_or_find(caller, parent, name, mode, only_new) {
            Err(error) if error.errno() == Errno::EXIST && only_new != flags => {
                self.create_slowly(caller, held, (parent, name), mode, flags, reply);
            }
            created => self.answer_created(held, created, flags, reply),
        }
    }

    /// Where objects may have to be made or cut.
    fn create_slowly(
        self: &Arc<Self>,
        caller: Caller,
        held: Held,
        (parent, name): (NodeId, &OsStr),
        mode: u32,
        flags: OFlags,
        reply: ReplyCreate,
    ) {
        let (server, name) = (self.clone(), name.to_owned());
        self.hand_over(caller.uid, reply, ReplyCreate::error, move |reply| {
            let created = server.create_or_find(caller, parent, &name, mode, flags);
            server.answer_created(held, created, flags, reply);
        });
    }

    fn answer_created(&self, held: Held, created: Result<Created<'_>>, flags: OFlags, reply: ReplyCreate) {
        let (node, stat, user, found) = match created {
            Ok(created) => created,
            Err(error) => return reply.error(errno(error.errno())),
        };
        let cut = |entered| match found && flags.contains(OFlags::TRUNC) {
            true => user.open.file.truncate(0).map(|()| entered),
            false => Ok(entered),
        };
        let entered = match self.enter_with(held, &user, flags).and_then(cut) {
            Ok(entered) => entered,
            Err(error) => {
                self.parts.namespace.forget(node.id, 1);
                return reply.error(errno(error.errno()));
            }
        };
        let (handle, fopen) = self.handle(entered, user, flags, |fd| reply.open_backing(fd));
        let attr = self.shown(node.id, stat);
        let backing = handle.backing();
        let number = FileHandle(self.handles.insert(Arc::new(handle)));
        let (ttl, generation) = (&self.options.ttl().both(), Generation(node.generation()));
        match backing {
            Some(backing) => reply.created_passthrough(ttl, &attr, generation, number, fopen, &backing),
            None => reply.created(ttl, &attr, generation, number, fopen),
        }
    }

    fn create_or_find(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &OsStr,
        mode: u32,
        flags: OFlags,
    ) -> Result<Created<'_>> {
        not_virtual(parent, name)?;
        match self.parts.namespace.create(caller, parent, name, mode) {
            Ok((node, stat, stub)) => {
                let user = self.user_of_stub(node.id, stub).inspect_err(|_| self.parts.namespace.forget(node.id, 1))?;
                user.open.is_of(&node);
                user.open.file.tell_opened(&|| self.path_of(parent, name), is_writable(flags));
                self.lay_out_new(parent, &user.open);
                Ok((node, stat, user, false))
            }
            Err(Errno::EXIST) if !flags.contains(OFlags::EXCL) => {
                let (node, stat) = self.parts.namespace.lookup(parent, name)?;
                if node.kind() != rustix::fs::FileType::RegularFile {
                    self.parts.namespace.forget(node.id, 1);
                    return Err(Errno::STALE.into());
                }
                let user = self.user(node.id).inspect_err(|_| self.parts.namespace.forget(node.id, 1))?;
                if !user.open.is_of(&node) {
                    self.parts.namespace.forget(node.id, 1);
                    return Err(Errno::STALE.into());
                }
                user.open.file.tell_opened(&|| self.path_of(parent, name), is_writable(flags));
                Ok((node, stat, user, true))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A new file takes what its directory says. One object for the whole file is made at once, so that the kernel can
    /// pass the very first write through.
    fn lay_out_new(&self, parent: NodeId, open: &Open) {
        let Some(placement) = self.inherited_in(parent) else { return };
        if is_single(&placement)
            && let Err(error) = open.file.set_layout_request(&placement)
        {
            tracing::debug!(%error, "a new file's object cannot be made now; it is made when needed");
        }
        open.file.set_placement(placement);
    }
}

/// Whether files shall be one object from their start.
fn is_single(placement: &Placement) -> bool {
    placement.stripe_count == 1 && placement.mirrors == 1
}

impl Server {
    fn shown_open(&self, open: &Open, stat: &mut Stat) {
        let (size, modified_ns) = open.file.size_and_modified_ns();
        stat.st_size = size as i64;
        if !open.file.is_in_stub() {
            self.with_objects(open.id, stat);
        }
        if stat.st_nlink > 0 && !open.file.is_in_stub() {
            // One of them may be a mark, which nobody is to see.
            stat.st_nlink = open.file.names(|| fstat(open.stub()).map_or(stat.st_nlink, |now| now.st_nlink));
        }
        if let Some(ns) = modified_ns {
            let (seconds, rest) = ((ns / 1_000_000_000) as i64, ns % 1_000_000_000);
            if (seconds, rest) > (stat.st_mtime, stat.st_mtime_nsec) {
                (stat.st_mtime, stat.st_mtime_nsec) = (seconds, rest);
            }
            if (seconds, rest) > (stat.st_ctime, stat.st_ctime_nsec) {
                (stat.st_ctime, stat.st_ctime_nsec) = (seconds, rest);
            }
        }
    }

    fn shown_closed(&self, id: NodeId, stat: &mut Stat) {
        let regular = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile;
        if regular && stat.st_size as u64 > self.parts.pool.inline_bytes_max {
            self.with_objects(id, stat);
        }
    }

    /// Targets are not asked how much of an object is holes: `stat` would wait for all of them. What they said when the file
    /// was last closed counts; where nobody knows, all of the size.
    fn with_objects(&self, id: NodeId, stat: &mut Stat) {
        let size = stat.st_size as u64;
        let known = self.parts.namespace.node(id).ok().and_then(|node| node.allocated(size));
        stat.st_blocks = stat.st_blocks.saturating_add(known.unwrap_or(size).div_ceil(512) as i64);
    }
}

/// The virtual file's name is taken.
fn not_virtual(parent: NodeId, name: &OsStr) -> rustix::io::Result<()> {
    if parent == ROOT && name == STATS_NAME { Err(Errno::EXIST) } else { Ok(()) }
}

/// The virtual file stays where it is.
fn not_permitted(parent: NodeId, name: &OsStr) -> rustix::io::Result<()> {
    if parent == ROOT && name == STATS_NAME { Err(Errno::PERM) } else { Ok(()) }
}
