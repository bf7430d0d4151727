//! Extended attributes: those of the namespace, with ours shown as text or hidden.
//!
//! `user.entrepot.layout` and `user.entrepot.source` are virtual: the values stored under these names are records for
//! the daemon. All other names beginning with `user.entrepot.` do not exist. Special attributes of the file system
//! underneath are refused ([`is_foreign`]).

use super::Server;
use super::answer::Answer;
use super::layout_text::describe;
use super::metadata::STATS_ID;
use crate::{Error, Result};
use fuser::ReplyEmpty;
use meta::namespace::attributes::{ACL, LAYOUT, OURS, REQUEST, is_foreign};
use meta::namespace::request::{check_mirrors, parse_request};
use meta::namespace::{Caller, NodeId};
use meta::stub::names::{list, value};
use meta::stub::real::ROOM;
use rustix::fs::{FileType, XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// The virtual attribute with a file's source.
const SOURCE: &str = "user.entrepot.source";

enum Name {
    Layout,
    Source,
    Hidden,
    Foreign,
    Other,
}

fn sort(name: &OsStr) -> Name {
    if name == LAYOUT {
        Name::Layout
    } else if name == SOURCE {
        Name::Source
    } else if name.as_bytes().starts_with(OURS) {
        Name::Hidden
    } else if is_foreign(name.as_bytes()) {
        Name::Foreign
    } else {
        Name::Other
    }
}

impl Server {
    pub fn attribute(&self, id: NodeId, name: &OsStr) -> Result<Vec<u8>> {
        if id == STATS_ID {
            return Err(Errno::NODATA.into());
        }
        match sort(name) {
            Name::Layout => Ok(self.layout_text(id)?.ok_or(Errno::NODATA)?.into_bytes()),
            Name::Source => {
                // Most stubs have no record, so the check opens no stub.
                if self.open.get(id).is_none() {
                    self.stored(id, name)?;
                }
                let shown = self.parts.sources.show(&self.user(id)?.open.file)?;
                Ok(shown.ok_or(Errno::NODATA)?.into_bytes())
            }
            Name::Hidden => Err(Errno::NODATA.into()),
            Name::Foreign => Err(Errno::OPNOTSUPP.into()),
            Name::Other => Ok(self.stored(id, name)?),
        }
    }

    fn stored(&self, id: NodeId, name: &OsStr) -> rustix::io::Result<Vec<u8>> {
        match self.open.get(id) {
            Some(open) => value(|value| fgetxattr(open.stub(), name, value)),
            None => self.parts.namespace.attribute(id, name),
        }
    }

    fn layout_text(&self, id: NodeId) -> Result<Option<String>> {
        match self.parts.namespace.node(id)?.kind() {
            FileType::Directory => Ok(self.request_text(id).map(|text| text.to_string())),
            FileType::RegularFile => {
                Ok(self.user(id)?.open.file.layout().map(|layout| describe(&layout, &self.parts.pool.targets)))
            }
            _ => Ok(None),
        }
    }

    pub fn set_attribute(
        self: &Arc<Self>,
        caller: Caller,
        id: NodeId,
        (name, value): (&OsStr, &[u8]),
        flags: XattrFlags,
        answer: Answer<ReplyEmpty>,
    ) {
        if id == STATS_ID {
            return answer.give(Err(Errno::PERM));
        }
        let ours = !matches!(sort(name), Name::Other);
        let (name, value) = (name.to_owned(), value.to_vec());
        let server = self.clone();
        let work = move |answer: Answer<ReplyEmpty>| {
            let done = match sort(&name) {
                Name::Layout => server.set_layout(caller.uid, id, &value),
                Name::Source => server.set_source(caller.uid, id, &value),
                Name::Hidden => Err(Errno::PERM.into()),
                Name::Foreign => Err(Errno::OPNOTSUPP.into()),
                Name::Other => {
                    let room = server.keep_room(id);
                    let store = || server.store(id, &name, &value, flags);
                    let set = room.and_then(|()| store());
                    let done = set.and_then(|()| if name == ACL { server.drop_setgid(caller, id) } else { Ok(()) });
                    done.map_err(Error::from)
                }
            };
            let done = done.inspect_err(|error| tracing::debug!(%error, ?name, "attribute not set"));
            answer.give(done.map_err(|error| error.errno()));
        };
        if ours {
            // The layout of a file is made with its objects.
            return self.hand_over(caller.uid, answer, work);
        }
        work(answer);
    }

    /// Reserves the room for a layout's pointer before a user's attribute is set. Users' attributes may fill the file
    /// system's space for them, so that the file could not get a layout any more.
    fn keep_room(&self, id: NodeId) -> rustix::io::Result<()> {
        if self.parts.namespace.node(id)?.kind() != FileType::RegularFile {
            return Ok(());
        }
        match self.store(id, OsStr::new(LAYOUT), ROOM, XattrFlags::CREATE) {
            Err(Errno::NOSPC | Errno::DQUOT) => Err(Errno::NOSPC),
            _ => Ok(()),
        }
    }

    fn store(&self, id: NodeId, name: &OsStr, value: &[u8], flags: XattrFlags) -> rustix::io::Result<()> {
        match self.open.get(id) {
            Some(open) => fsetxattr(open.stub(), name, value, flags),
            None => self.parts.namespace.set_attribute(id, name, value, flags),
        }
    }

    fn drop_setgid(&self, caller: Caller, id: NodeId) -> rustix::io::Result<()> {
        let open = self.open.get(id);
        self.parts.namespace.hold(id, open.as_ref().map(|open| open.stub()))?.drop_setgid(caller)
    }

    fn set_layout(&self, uid: u32, id: NodeId, value: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(value).map_err(|_| Errno::INVAL)?.trim_end_matches('\0').trim();
        let placement = parse_request(text, &self.parts.pool.placement, &self.parts.tiers)?;
        check_mirrors(&placement, &self.parts.tiers, &self.parts.pool.targets)?;
        self.only_owner(uid, id)?;
        let node = self.parts.namespace.node(id)?;
        match node.kind() {
            FileType::Directory => {
                self.store(id, OsStr::new(REQUEST), text.as_bytes(), XattrFlags::empty())?;
                node.set_request(Some(Arc::from(text)));
                Ok(())
            }
            FileType::RegularFile => self.user(id)?.open.file.set_layout_request(&placement),
            _ => Err(Errno::OPNOTSUPP.into()),
        }
    }

    fn set_source(&self, uid: u32, id: NodeId, value: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(value).map_err(|_| Errno::INVAL)?;
        self.only_owner(uid, id)?;
        if self.parts.namespace.node(id)?.kind() != FileType::RegularFile {
            return Err(Errno::OPNOTSUPP.into());
        }
        self.parts.sources.set(&self.user(id)?.open.file, uid, text)
    }

    fn only_owner(&self, uid: u32, id: NodeId) -> Result<()> {
        if uid == 0 || uid == self.stat(id)?.uid { Ok(()) } else { Err(Errno::PERM.into()) }
    }

    pub fn remove_attribute(&self, uid: u32, id: NodeId, name: &OsStr) -> Result<()> {
        if id == STATS_ID {
            return Err(Errno::PERM.into());
        }
        let node = self.parts.namespace.node(id)?;
        match sort(name) {
            Name::Layout if node.kind() == FileType::Directory => {
                self.only_owner(uid, id)?;
                self.parts.namespace.remove_attribute(id, OsStr::new(REQUEST))?;
                node.set_request(None);
                Ok(())
            }
            Name::Layout => Err(Errno::PERM.into()),
            Name::Source => {
                self.only_owner(uid, id)?;
                self.user(id)?.open.file.set_source(None)
            }
            Name::Hidden => Err(Errno::NODATA.into()),
            Name::Foreign => Err(Errno::OPNOTSUPP.into()),
            Name::Other => {
                match self.open.get(id) {
                    Some(open) => fremovexattr(open.stub(), name)?,
                    None => self.parts.namespace.remove_attribute(id, name)?,
                }
                Ok(())
            }
        }
    }

    pub fn attribute_names(&self, id: NodeId) -> Result<Vec<u8>> {
        if id == STATS_ID {
            return Ok(Vec::new());
        }
        let stored = match self.open.get(id) {
            Some(open) => list(|names| flistxattr(open.stub(), names))?,
            None => self.parts.namespace.attributes(id)?,
        };
        let mut shown = Vec::with_capacity(stored.len());
        for name in stored.split(|b| *b == 0).filter(|name| !name.is_empty()) {
            let name = match sort(OsStr::from_bytes(name)) {
                Name::Hidden if name == REQUEST.as_bytes() => LAYOUT.as_bytes(),
                // The attribute is shown on request only: a copy of its text is no layout, and would confuse tools that
                // copy attributes.
                Name::Hidden | Name::Layout | Name::Foreign => continue,
                _ => name,
            };
            shown.extend_from_slice(name);
            shown.push(0);
        }
        Ok(shown)
    }
}
