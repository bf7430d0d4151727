//! The layout record of a stub: in an attribute, or in a side file.
//!
//! The record lies in the hidden attribute `user.entrepot.layout`. A record that is too large for an attribute lies in
//! `side/ID.layout`. The attribute is then a pointer to it: the word `side`, the file's number and the generation at
//! which it was written.
//!
//! A side file is replaced by renaming, durable before the pointer is set. So after a crash the attribute and its side
//! file are completely the old record or the new one. A side file newer than its pointer is the new record: the crash
//! was between the two steps.
//!
//! Before a user's own attribute is set on a file without layout, [`ROOM`] is kept for the pointer.

use super::{ATTRIBUTE_BYTES_MAX, FdStub, sync_directory, write_synced};
use crate::stub::{names, records};
use crate::{Error, Result};
use object::host::descriptor_path;
use policy::FileId;
use policy::layout::{CodecError, Layout};
use rustix::fd::AsFd;
use rustix::fs;
use rustix::io::{self, Errno};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The attribute of the layout record.
pub const LAYOUT_ATTRIBUTE: &str = "user.entrepot.layout";

/// Prefix of a pointer to a side file; no layout record has it.
pub(super) const POINTER: &[u8; 4] = b"side";

/// Value that reserves the room of a pointer while there is no layout. It has a pointer's name and length, so a pointer
/// can replace it even where nothing else fits.
pub const ROOM: &[u8; 20] = b"room for the layout\n";

/// File number in a directory's stub of that name; `None` if it has no layout, or is no stub. Opens nothing.
pub fn number_at(directory: impl AsFd, name: &OsStr) -> io::Result<Option<FileId>> {
    let path = path_at(directory, name);
    match record_at(&path) {
        Ok(value) => match records::parse_pointer(&value) {
            Some((generation, _)) => held_number_at(&path, generation),
            None => number_in(&value),
        },
        Err(Errno::NODATA) => shared_number_at(&path),
        Err(Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Layout in a directory's stub of that name, in a volume of a single node. The outer `None`: only the open stub shows
/// it. Opens nothing.
pub fn layout_at(directory: impl AsFd, name: &OsStr) -> Option<Option<Layout>> {
    match record_at(&path_at(directory, name)) {
        Ok(value) if value == ROOM => Some(None),
        Ok(value) => Layout::decode(&value).ok().map(Some),
        Err(Errno::NODATA) => Some(None),
        Err(_) => None,
    }
}

fn path_at(directory: impl AsFd, name: &OsStr) -> Vec<u8> {
    let mut path = descriptor_path(directory).into_bytes();
    path.push(b'/');
    path.extend_from_slice(name.as_bytes());
    path
}

fn record_at(path: &[u8]) -> io::Result<Vec<u8>> {
    names::value(|value| fs::lgetxattr(path, LAYOUT_ATTRIBUTE, value))
}

/// As [`number_at`], for a stub with this pointer. A newer record has the same number, unless this one has none.
fn held_number_at(path: &[u8], generation: u64) -> io::Result<Option<FileId>> {
    match number_of(path, generation) {
        Ok(Some(file)) => Ok(Some(file)),
        Ok(None) | Err(Errno::NODATA) => shared_number_at(path),
        Err(errno) => Err(errno),
    }
}

/// As [`number_at`], for a volume of several nodes.
fn shared_number_at(path: &[u8]) -> io::Result<Option<FileId>> {
    let names = names::list(|names| fs::llistxattr(path, names))?;
    records::newest(&names).map_or(Ok(None), |generation| number_of(path, generation))
}

fn number_of(path: &[u8], generation: u64) -> io::Result<Option<FileId>> {
    let name = records::name_of(generation);
    records::number_in(&names::value(|value| fs::lgetxattr(path, &name, value))?)
}

/// Whether a stub has a layout, or may have one. Accepts any descriptor of the stub.
pub fn is_laid_out(stub: impl AsFd) -> io::Result<bool> {
    let path = descriptor_path(stub);
    let names = names::list(|names| fs::listxattr(path.as_str(), names))?;
    Ok(records::newest(&names).is_some() || names::texts(&names).any(|name| name == LAYOUT_ATTRIBUTE))
}

fn number_in(value: &[u8]) -> io::Result<Option<FileId>> {
    if value == ROOM {
        return Ok(None);
    }
    let file = match value.strip_prefix(POINTER) {
        Some(pointer) => pointer.first_chunk().map(|file| FileId(u64::from_le_bytes(*file))),
        None => Layout::decode(value).ok().map(|layout| layout.file),
    };
    file.map(Some).ok_or(Errno::BADMSG)
}

pub(in crate::stub) fn decode(record: &[u8]) -> Result<Layout> {
    Layout::decode(record).map_err(|error| match error {
        CodecError::Newer(why) => Error::Newer(why),
        CodecError::Bad(why) => Error::BadLayout(why),
    })
}

impl FdStub {
    pub(super) fn side_file(&self, file: FileId) -> PathBuf {
        self.side.join(format!("{file}.layout"))
    }

    fn write_side(&self, layout: &Layout, record: &[u8]) -> Result<()> {
        let name = self.side_file(layout.file);
        let temporary = self.side.join(format!("{}.layout.new", layout.file));
        write_synced(&temporary, record)?;
        Ok(fs::rename(&temporary, &name)?)
    }

    fn read_side(&self, pointer: &[u8]) -> Result<Layout> {
        let number = |at: usize| pointer.get(at..at + 8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes")));
        let (Some(file), Some(generation)) = (number(4), number(12)) else {
            return Err(Error::BadLayout("the pointer to the side file is cut off".into()));
        };
        let name = self.side_file(FileId(file));
        let record = std::fs::read(&name).map_err(|e| Error::BadLayout(format!("{}: {e}", name.display())))?;
        let layout = decode(&record)?;
        if layout.file != FileId(file) || layout.generation < generation {
            return Err(Error::BadLayout(format!("{} is older than the generation in the stub", name.display())));
        }
        Ok(layout)
    }

    /// Layout in a volume of a single node.
    pub(in crate::stub) fn plain_layout(&self) -> Result<Option<Layout>> {
        self.plain_layout_in(self.attribute(LAYOUT_ATTRIBUTE)?)
    }

    /// Layout in the value of the plain attribute.
    pub(in crate::stub) fn plain_layout_in(&self, value: Option<Vec<u8>>) -> Result<Option<Layout>> {
        match value {
            None => Ok(None),
            Some(other) if other == ROOM || records::parse_pointer(&other).is_some() => Ok(None),
            Some(pointer) if pointer.starts_with(POINTER) => self.read_side(&pointer).map(Some),
            Some(record) => decode(&record).map(Some),
        }
    }

    /// Sets the layout in a volume of a single node.
    pub(super) fn set_plain_layout(&self, layout: &Layout) -> Result<()> {
        let record = layout.encode();
        if record.len() <= ATTRIBUTE_BYTES_MAX {
            match self.set_attribute(LAYOUT_ATTRIBUTE, Some(&record)) {
                Err(error) if matches!(error.errno(), Errno::NOSPC | Errno::TOOBIG | Errno::RANGE) => {}
                done => return done,
            }
        }
        self.write_side(layout, &record)?;
        self.side_unsynced.changed();
        if self.attribute(LAYOUT_ATTRIBUTE)?.is_some_and(|a| a.starts_with(POINTER)) {
            return Ok(()); // the pointer points to the new record since the renaming
        }
        sync_directory(&self.side)?;
        let mut pointer = POINTER.to_vec();
        pointer.extend(layout.file.0.to_le_bytes());
        pointer.extend(layout.generation.to_le_bytes());
        self.set_attribute(LAYOUT_ATTRIBUTE, Some(&pointer))
    }
}
