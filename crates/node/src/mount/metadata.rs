//! Names and attributes.

use super::answer::{Answer, Made, Opened};
use super::convert::{attributes, no_attributes};
use super::front::Make;
use super::open::{Open, is_writable};
use super::{Server, holders};
use crate::{Error, Result};
use engine::file::Happened;
use fuser::{FileAttr, Generation, ReplyCreate, ReplyEmpty};
use meta::namespace::attributes::REQUEST;
use meta::namespace::{Caller, Node, NodeId, ROOT};
use object::admission::Held;
use object::host::fstat;
use policy::layout::Placement;
use rustix::fs::{OFlags, Stat, XattrFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::sync::Arc;

/// Name of the virtual file at the root with the mount's statistics.
pub const STATS_NAME: &str = ".stats";
/// Node number of that file, which no file system assigns.
pub const STATS_ID: NodeId = u64::MAX - 1;

/// Limit of attempts to create a file whose name other nodes create and remove. A guess.
const CREATIONS_MAX: usize = 4;

/// A file that was created, and its new user.
type Created<'a> = (Arc<Node>, Stat, super::open::User<'a>);

impl Server {
    /// Attributes to show to the kernel.
    pub fn shown(&self, id: NodeId, mut stat: Stat) -> FileAttr {
        match self.open.get(id) {
            Some(open) => self.shown_open(&open, &mut stat),
            None => {
                if stat.st_nlink > 1 && stat.st_size as u64 > self.parts.pool.inline_bytes_max {
                    // The mark may have been counted just before the last user left, and is removed by now.
                    stat.st_nlink = self.parts.namespace.stat(id).map_or(stat.st_nlink, |now| now.st_nlink);
                }
                self.shown_closed(id, &mut stat);
            }
        }
        attributes(id, &stat)
    }

    /// Current attributes; through the open stub if there is one, which works for a file without a name too.
    pub fn stat(&self, id: NodeId) -> Result<FileAttr> {
        if id == STATS_ID {
            return Ok(no_attributes(STATS_ID));
        }
        if let Some(open) = self.open.get(id) {
            let shown = self.stat_open(&open);
            if shown.as_ref().is_err_and(Error::is_gone) {
                self.parts.namespace.lost_name(id);
            }
            return shown;
        }
        let mut stat = self.parts.namespace.stat(id)?;
        self.shown_closed(id, &mut stat);
        Ok(attributes(id, &stat))
    }

    pub fn stat_open(&self, open: &Open) -> Result<FileAttr> {
        let mut stat = open.stat()?;
        self.shown_open(open, &mut stat);
        Ok(attributes(open.id, &stat))
    }

    /// Attributes of an inode that was looked up or made.
    pub fn entry(&self, made: Made) -> rustix::io::Result<(FileAttr, Generation)> {
        made.map(|(node, stat)| (self.shown(node.id, stat), Generation(node.generation())))
    }

    pub fn make(&self, parent: NodeId, name: &OsStr, what: Make<'_>) -> rustix::io::Result<(FileAttr, Generation)> {
        if is_virtual(parent, name) {
            return Err(Errno::EXIST);
        }
        let reserved = match what {
            Make::Link(id) => self.may_link(id, parent).map(|()| None)?,
            Make::Directory(caller, _) | Make::Node(caller, ..) | Make::Symlink(caller, _) => {
                self.reserve_inode(caller, parent)?
            }
        };
        let made = what.in_namespace(&self.parts.namespace, parent, name);
        if let Ok((_, stat)) = &made {
            self.keep_inode(reserved, parent, stat);
        }
        if let (Make::Directory(..), Ok((node, _))) = (what, &made) {
            self.inherit_request(parent, name, node);
        }
        self.entry(made)
    }

    /// Sets a new directory's layout request from its parent.
    fn inherit_request(&self, parent: NodeId, name: &OsStr, node: &Node) {
        let Some(text) = self.request_text(parent) else { return };
        let (attribute, none) = (OsStr::new(REQUEST), XattrFlags::empty());
        match self.parts.namespace.set_attribute(node.id, attribute, text.as_bytes(), none) {
            Ok(()) => node.set_request(Some(text)),
            Err(Errno::NOENT | Errno::STALE) => {} // it was removed at once
            Err(error) => tracing::warn!(?name, %error, "a new directory does not inherit its parent's layout request"),
        }
    }

    /// Runs an operation that may leave objects to be removed: here or, if too many wait, on the user's threads of the
    /// slow pool.
    pub fn with_room_for_removal(
        self: &Arc<Self>,
        uid: u32,
        answer: Answer<ReplyEmpty>,
        act: impl FnOnce(&Arc<Server>) -> rustix::io::Result<()> + Send + 'static,
    ) {
        if self.removal.has_room(uid) {
            return answer.give(act(self));
        }
        let server = self.clone();
        self.hand_over(uid, answer, move |answer| {
            server.removal.wait_for_room(uid);
            answer.give(act(&server));
        });
    }

    /// Creates and opens a file. The kernel checks no permission of a file opened by its creation. If the name exists
    /// by now, the kernel has to look it up: `STALE`, or `EXIST` with `O_EXCL`.
    pub fn create(
        self: &Arc<Self>,
        caller: Caller,
        (parent, name): (NodeId, &OsStr),
        mode: u32,
        flags: OFlags,
        answer: Answer<ReplyCreate>,
    ) {
        // Admission comes first, so that no file is created that cannot be opened.
        let held = match self.admission.take(caller.uid, 1) {
            Ok(held) => held,
            Err(refusal) => return answer.give(Err(holders::errno(refusal))),
        };
        if self.inherited_in(parent).is_none_or(|placement| !is_single(&placement)) {
            let created = self.create_new(caller, parent, name, mode, flags);
            return self.answer_created(held, created, flags, answer);
        }
        // An object has to be made.
        let (server, name) = (self.clone(), name.to_owned());
        self.hand_over(caller.uid, answer, move |answer| {
            let created = server.create_new(caller, parent, &name, mode, flags);
            server.answer_created(held, created, flags, answer);
        });
    }

    fn answer_created(&self, held: Held, created: Result<Created<'_>>, flags: OFlags, answer: Answer<ReplyCreate>) {
        let opened = created.and_then(|(node, stat, user)| {
            let entered = self.enter_with(held, &user, flags);
            let entered = entered.inspect_err(|_| self.parts.namespace.forget(node.id, 1))?;
            let (handle, flags) = self.handle(entered, user, flags, |fd| answer.register(fd));
            let attr = self.shown(node.id, stat);
            let backing = handle.backing();
            let opened = Opened { handle: self.handles.insert(Arc::new(handle)), flags, backing };
            Ok((attr, Generation(node.generation()), opened))
        });
        answer.give(opened.map_err(|error| error.errno()));
    }

    fn create_new(
        &self,
        caller: Caller,
        parent: NodeId,
        name: &OsStr,
        mode: u32,
        flags: OFlags,
    ) -> Result<Created<'_>> {
        if is_virtual(parent, name) {
            return Err(Errno::EXIST.into());
        }
        let namespace = &self.parts.namespace;
        let reserved = match self.reserve_inode(caller, parent) {
            Ok(reserved) => reserved,
            // An existing file needs no inode.
            Err(_) if namespace.has(parent, name) => return Err(self.exists(parent, name, flags).into()),
            Err(error) => return Err(error.into()),
        };
        let creation = self.parts.files.begin_creation();
        let mut tries = 1..CREATIONS_MAX;
        let (node, stat, stub) = loop {
            match namespace.create(caller, parent, name, mode) {
                Ok(made) => break made,
                // Another node has removed the file already.
                Err(Errno::EXIST)
                    if !flags.contains(OFlags::EXCL) && !namespace.has(parent, name) && tries.next().is_some() => {}
                Err(Errno::EXIST) => return Err(self.exists(parent, name, flags).into()),
                Err(error) => return Err(error.into()),
            }
        };
        self.keep_inode(reserved, parent, &stat);
        let user = self.user_of_new_stub(node.id, stub, creation);
        let user = user.inspect_err(|_| namespace.forget(node.id, 1))?;
        user.open.is_of(&node);
        let (file, path) = (&user.open.file, || self.path_of(parent, name));
        file.tell(Happened::Opened { file, path: &path, write: is_writable(flags) });
        user.open.made_with(&stat);
        self.lay_out_new(parent, &user.open);
        Ok((node, stat, user))
    }

    /// Errno of a creation whose name exists. With `STALE` the kernel repeats the open with a new lookup, which keeps
    /// the file open: the kernel repeats it only once.
    fn exists(&self, parent: NodeId, name: &OsStr, flags: OFlags) -> Errno {
        if flags.contains(OFlags::EXCL) {
            return Errno::EXIST;
        }
        self.parts.namespace.mark_lost(parent, name);
        Errno::STALE
    }

    /// Sets a new file's layout request from its directory. One object for the whole file is made at once, so that the
    /// kernel can pass the very first write through.
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

/// Whether new files consist of one object from their start.
fn is_single(placement: &Placement) -> bool {
    placement.stripe_count == 1 && placement.mirrors == 1
}

impl Server {
    fn shown_open(&self, open: &Open, stat: &mut Stat) {
        let (size, modified_ns) = open.file.size_and_modified_ns();
        stat.st_size = match open.file.is_shared() {
            true => stat.st_size.max(open.file.held_size() as i64), // other nodes write their sizes into the stub
            false => size as i64,
        };
        if !open.file.is_in_stub() {
            self.with_objects(open.id, stat);
        }
        if stat.st_nlink > 0 && !open.file.is_in_stub() {
            // One link may be a mark, which is hidden from users.
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

    /// Targets are not queried for an object's holes, because `stat` would wait for all of them. The figure of the last
    /// close counts; without one, the whole size.
    fn with_objects(&self, id: NodeId, stat: &mut Stat) {
        let size = stat.st_size as u64;
        let known = self.parts.namespace.node(id).ok().and_then(|node| node.allocated(size));
        stat.st_blocks = stat.st_blocks.saturating_add(known.unwrap_or(size).div_ceil(512) as i64);
    }
}

/// Whether this is the name of the virtual file, which cannot be used otherwise.
pub fn is_virtual(parent: NodeId, name: &OsStr) -> bool {
    parent == ROOT && name == STATS_NAME
}

/// Refuses changes of the virtual file's name.
pub fn not_permitted(parent: NodeId, name: &OsStr) -> rustix::io::Result<()> {
    if is_virtual(parent, name) { Err(Errno::PERM) } else { Ok(()) }
}
