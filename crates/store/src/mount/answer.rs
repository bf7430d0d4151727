//! What every FUSE server over a namespace asks of the kernel at first and answers alike: capabilities, names, directories, attributes.

use super::convert::{errno, kind};
use crate::namespace::times::SetTime;
use crate::namespace::{Listing, Namespace, Node, NodeId};
use fuser::{
    FileAttr, Generation, INodeNo, InitFlags, KernelConfig, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyXattr,
};
use rustix::fs::Stat;
use rustix::io::{Errno, Result};
use std::sync::Arc;
use std::time::Duration;

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

/// Done, or why not.
pub fn done(done: Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

/// No file here has controls of its own, and whoever asks whether one is a terminal is told so without a line in the log.
pub fn no_controls(command: u32, reply: ReplyIoctl) {
    tracing::debug!(command, "an ioctl that no file here has");
    reply.error(fuser::Errno::ENOTTY);
}

/// The value of an extended attribute, or its length if no room was offered.
pub fn value(value: Result<Vec<u8>>, room: u32, reply: ReplyXattr) {
    match value {
        Ok(value) if room == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > room as usize => reply.error(fuser::Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(error)),
    }
}

/// How long the kernel may believe what it is told.
#[derive(Clone, Copy, Debug)]
pub struct Ttl {
    /// Of names.
    pub entry: Duration,
    /// Of attributes.
    pub attr: Duration,
}

impl Ttl {
    /// For replies that have one time for both.
    pub fn both(&self) -> Duration {
        self.entry.min(self.attr)
    }
}

/// A node whose reference was counted; `attr` says what is shown of it.
pub fn entry(
    made: Result<(Arc<Node>, Stat)>,
    ttl: Ttl,
    attr: impl FnOnce(NodeId, Stat) -> FileAttr,
    reply: ReplyEntry,
) {
    match made {
        Ok((node, stat)) => {
            let attr = attr(node.id, stat);
            reply.entry_with_ttls(&ttl.entry, &ttl.attr, &attr, Generation(node.generation()));
        }
        Err(error) => reply.error(errno(error)),
    }
}

/// Fills READDIR's reply from `offset` on, which is moved behind what it took.
pub fn fill(listing: &mut Listing, namespace: &Namespace, offset: &mut u64, reply: &mut ReplyDirectory) -> Result<()> {
    while let Some(entry) = listing.at(namespace, *offset)? {
        if reply.add(INodeNo(entry.id), entry.next, kind(entry.kind), &entry.name) {
            break;
        }
        listing.advance();
        *offset = entry.next;
    }
    Ok(())
}

/// Fills READDIRPLUS' reply likewise: every name but `.` and `..` counts as looked up. `attr` says what is shown of a node.
pub fn fill_plus(
    listing: &mut Listing,
    namespace: &Namespace,
    offset: &mut u64,
    ttl: Ttl,
    attr: impl Fn(NodeId, Stat) -> FileAttr,
    reply: &mut ReplyDirectoryPlus,
) -> Result<()> {
    let ttl = ttl.both();
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
            let attr = attr(id, stat);
            if reply.add(INodeNo(id), entry.next, &entry.name, &ttl, &attr, Generation(generation)) {
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
