//! Quota charges of names: new ones, removed ones, and changes of owner. A directory with a limit is like a file system
//! of its own: renames and links into or out of it are refused. So its usage changes only by creation, writes and
//! removal.

use super::Server;
use super::open::Open;
use meta::namespace::{Caller, NodeId, Removed};
use meta::quota::{Payers, Quotas, Reserved, counts};
use object::host::fstat;
use policy::quota::Both;
use rustix::fs::{FileType, Stat};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::path::PathBuf;

impl Server {
    fn quotas(&self) -> Option<&Quotas> {
        Some(&*self.parts.pool.quotas).filter(|quotas| quotas.is_on())
    }

    /// Quotas that an owner's use in a directory counts for.
    fn payers_in(&self, quotas: &Quotas, owner: (u32, u32), directory: NodeId) -> Payers {
        match self.parts.namespace.path(directory) {
            Ok(path) => quotas.payers(owner.0, owner.1, &path),
            Err(_) => quotas.owners(Some(owner.0), Some(owner.1)),
        }
    }

    /// Reserves an inode for a caller that is about to create one.
    ///
    /// # Errors
    /// `DQUOT` if a quota that it counts for has no inode left.
    pub fn reserve_inode(&self, caller: Caller, parent: NodeId) -> Result<Option<Reserved>> {
        let Some(quotas) = self.quotas() else { return Ok(None) };
        let own = rustix::process::geteuid();
        let uid = if own.is_root() { caller.uid } else { own.as_raw() };
        let above = self.parts.namespace.stat(parent)?;
        let gid = if above.st_mode & 0o2000 != 0 { above.st_gid } else { caller.gid };
        let reserved = quotas.reserve(self.payers_in(quotas, (uid, gid), parent), Both { bytes: 0, files: 1 });
        Ok(Some(reserved.map_err(|_| Errno::DQUOT)?))
    }

    /// Charges the reserved inode to the owner that it was created with.
    pub fn keep_inode(&self, reserved: Option<Reserved>, parent: NodeId, stat: &Stat) {
        if let (Some(reserved), Some(quotas)) = (reserved, self.quotas()) {
            reserved.keep(self.payers_in(quotas, (stat.st_uid, stat.st_gid), parent));
        }
    }

    /// Subtracts a removed file. An open file counts until its close.
    pub fn counts_no_more(&self, removed: &Removed, is_in_use: bool, parent: NodeId) {
        let Some(quotas) = self.quotas().filter(|_| removed.last && !is_in_use) else { return };
        let stat = &removed.stat;
        self.payers_in(quotas, (stat.st_uid, stat.st_gid), parent).give(counts(stat));
    }

    /// Subtracts an unused inode if it has no name left.
    pub fn counts_no_more_if_nameless(&self, open: &Open) {
        let elsewhere = open.file.is_shared() && !open.lost_name_here();
        if self.quotas().is_some()
            && !elsewhere
            && open.file.is_nameless(|| fstat(open.stub()).ok().map(|stat| stat.st_nlink))
        {
            open.file.counts_no_more();
        }
    }

    /// # Errors
    /// `XDEV` if a file would get a name under other limits than those of its present name.
    pub fn may_link(&self, id: NodeId, parent: NodeId) -> Result<()> {
        let Some(quotas) = self.quotas() else { return Ok(()) };
        let namespace = &self.parts.namespace;
        let Some((known, _)) = namespace.node(id)?.name() else { return Ok(()) };
        is_one_tree(quotas, (namespace.path(known)?, namespace.path(parent)?))
    }

    /// # Errors
    /// `XDEV` if an inode would come under other limits; `BUSY` for a directory that has limits or contains one that
    /// has.
    pub fn may_rename(&self, from: (NodeId, &OsStr), to: (NodeId, &OsStr)) -> Result<()> {
        let Some(quotas) = self.quotas() else { return Ok(()) };
        let (old, new) = (self.parts.namespace.path(from.0)?, self.parts.namespace.path(to.0)?);
        if quotas.holds_tree(&old.join(from.1)) || quotas.holds_tree(&new.join(to.1)) {
            return Err(Errno::BUSY);
        }
        is_one_tree(quotas, (old, new))
    }

    /// Moves a node's charges to other owners, if their quotas allow it; root may exceed them. `set` changes the owner.
    pub fn change_owner(
        &self,
        caller: Caller,
        (stat, open): (&Stat, Option<&Open>),
        (uid, gid): (Option<u32>, Option<u32>),
        set: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let Some(quotas) = self.quotas() else { return set() };
        let (uid, gid) = (uid.filter(|uid| *uid != stat.st_uid), gid.filter(|gid| *gid != stat.st_gid));
        let before = quotas.owners(uid.map(|_| stat.st_uid), gid.map(|_| stat.st_gid));
        let after = quotas.owners(uid, gid);
        let change = |all| {
            if caller.is_root() {
                after.force(all);
            } else {
                quotas.take(&after, all).map_err(|_| Errno::DQUOT)?;
            }
            set().inspect_err(|_| after.give(all))?;
            before.give(all);
            Ok(())
        };
        match open {
            Some(open) => open.file.change_payers(|bytes| change(Both { bytes, files: 1 })),
            None => change(counts(stat)),
        }
    }

    /// Whether a change of owner needs the file behind a node: its length is charged, and must not change during the
    /// call.
    pub fn needs_length(&self, id: NodeId) -> bool {
        let is_file = |kind| kind == FileType::RegularFile;
        self.quotas().is_some() && self.parts.namespace.node(id).is_ok_and(|node| is_file(node.kind()))
    }
}

fn is_one_tree(quotas: &Quotas, (one, other): (PathBuf, PathBuf)) -> Result<()> {
    if quotas.is_one_tree(&one, &other) { Ok(()) } else { Err(Errno::XDEV) }
}
