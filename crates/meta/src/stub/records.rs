//! Records of the generations of a layout in a volume of several nodes, for holders.
//!
//! ```text
//! user.entrepot.layout     pointer to a record: `held`, generation, stamp; or the record from a time of one node
//! user.entrepot.layout.G   record of generation G: `made`, stamp, layout; created once, never replaced
//! user.entrepot.cut        size to which a truncation under way shortens the file
//! ```
//! Each publication has its own stamp. So a record that a frozen node creates late differs from the one that the
//! pointer names. Records are removed in ascending order, so a reader that starts at an older pointer meets no gap.

use super::names::texts;
use super::real::{FdStub, LAYOUT_ATTRIBUTE, ROOM, decode, permitted, write_synced};
use crate::{Error, Result};
use policy::FileId;
use policy::layout::Layout;
use rustix::fd::AsFd;
use rustix::fs::{self, XattrFlags};
use rustix::io::Errno;

/// First bytes of a pointer. Generation and stamp follow, as long as [`super::real::ROOM`].
pub(super) const POINTER: &[u8; 4] = b"held";
/// First bytes of a record; the stamp follows.
const MADE: &[u8; 4] = b"made";
/// Attribute of a truncation under way.
const CUT_ATTRIBUTE: &str = "user.entrepot.cut";

/// Record of a generation whose bytes are in the stub.
const IN_STUB: &[u8; 8] = b"in stub\n";
/// Prefix of a record that lies in a file beside the stubs.
const BESIDE: &[u8; 7] = b"beside ";
/// Largest record in an attribute. One of this size has room beside others on every file system of
/// `docs/guide/operate/cluster.md`.
const RECORD_BYTES_MAX: usize = 1024;

/// A published generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Unique number of the publication; 0 for a record from a time of one node.
    pub stamp: u64,
    /// The layout; `None`: the bytes are in the stub.
    pub layout: Option<Layout>,
}

/// The start of the search for the newest generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// The file never had a layout, or the first record is not named yet.
    None,
    /// The record of this generation, with this stamp.
    To {
        /// Generation of the record.
        generation: u64,
        /// Stamp of the record.
        stamp: u64,
    },
    /// The record from a time of one node.
    Plain(Box<Layout>),
}

/// Name of the attribute of a record.
pub(super) fn name_of(generation: u64) -> String {
    format!("{LAYOUT_ATTRIBUTE}.{generation}")
}

/// The highest generation among the names of attributes; `None` if they have no number.
pub(super) fn newest(names: &[u8]) -> Option<u64> {
    let generation = |name: &str| name.strip_prefix(LAYOUT_ATTRIBUTE)?.strip_prefix('.')?.parse().ok();
    texts(names).filter_map(generation).max()
}

/// The number of the file in the record of a generation; `None` while its bytes are in the stub.
pub(super) fn number_in(record: &[u8]) -> rustix::io::Result<Option<FileId>> {
    let (_, record) = parse_record(record);
    if record == IN_STUB {
        return Ok(None);
    }
    let file = match record.strip_prefix(BESIDE) {
        Some(name) => String::from_utf8_lossy(name).split('.').next().and_then(|file| file.parse().ok()),
        None => Layout::decode(record).ok().map(|layout| layout.file),
    };
    file.map(Some).ok_or(Errno::BADMSG)
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
}

/// Generation and stamp in the value of a pointer.
pub(super) fn parse_pointer(value: &[u8]) -> Option<(u64, u64)> {
    let rest = value.strip_prefix(POINTER)?;
    Some((number(rest, 0)?, number(rest, 8)?))
}

/// Stamp and layout in the value of a record; a record without a stamp has stamp 0.
pub(super) fn parse_record(value: &[u8]) -> (u64, &[u8]) {
    match value.strip_prefix(MADE).and_then(|rest| Some((number(rest, 0)?, rest.get(8..)?))) {
        Some(record) => record,
        None => (0, value),
    }
}

/// Records of several nodes.
pub trait Records {
    /// Start of the search for the newest record.
    fn pointer(&self) -> Result<Pointer>;
    /// Has the pointer name a record.
    fn point(&self, generation: u64, stamp: u64) -> Result<()>;
    /// Reads the record of a generation by its name; `None` if there is none.
    fn record(&self, generation: u64) -> Result<Option<Record>>;
    /// Creates the record of a generation, once. Returns false if there is one.
    fn create_record(&self, generation: u64, record: &Record) -> Result<bool>;
    /// Removes the records of generations below this one, oldest first.
    fn remove_records(&self, below: u64) -> Result<()>;
    /// The highest generation in a list of records. The list may lack some.
    fn listed_generation(&self) -> Result<Option<u64>>;
    /// Size to which a truncation under way shortens the file; `None` if there is none.
    fn cut_to(&self) -> Result<Option<u64>>;
    /// Marks a truncation under way, or with `None` its end.
    fn set_cut_to(&self, size: Option<u64>) -> Result<()>;
}

impl Records for FdStub {
    fn pointer(&self) -> Result<Pointer> {
        let value = self.attribute(LAYOUT_ATTRIBUTE)?;
        match value.as_deref().and_then(parse_pointer) {
            Some((generation, stamp)) => Ok(Pointer::To { generation, stamp }),
            None => Ok(self.plain_layout_in(value)?.map_or(Pointer::None, |layout| Pointer::Plain(Box::new(layout)))),
        }
    }

    fn point(&self, generation: u64, stamp: u64) -> Result<()> {
        let value = [POINTER.as_slice(), &generation.to_le_bytes(), &stamp.to_le_bytes()].concat();
        self.set_attribute(LAYOUT_ATTRIBUTE, Some(&value))
    }

    fn record(&self, generation: u64) -> Result<Option<Record>> {
        let Some(value) = self.attribute(&name_of(generation))? else { return Ok(None) };
        let (stamp, body) = parse_record(&value);
        if body == IN_STUB {
            return Ok(Some(Record { stamp, layout: None }));
        }
        let Some(name) = body.strip_prefix(BESIDE) else {
            return decode(body).map(|layout| Some(Record { stamp, layout: Some(layout) }));
        };
        let name = String::from_utf8_lossy(name).trim().to_owned();
        match std::fs::read(self.side().join(&name)) {
            Ok(record) => decode(&record).map(|layout| Some(Record { stamp, layout: Some(layout) })),
            // The record was removed between the two calls.
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound && self.attribute(&name_of(generation))?.is_none() =>
            {
                Ok(None)
            }
            Err(error) => Err(Error::BadLayout(format!("side/{name}: {error}"))),
        }
    }

    /// The stamp is in the name of a record that lies beside, so that only one publication uses the name.
    fn create_record(&self, generation: u64, record: &Record) -> Result<bool> {
        let (name, stamp) = (name_of(generation), record.stamp);
        let prefix = [MADE.as_slice(), &stamp.to_le_bytes()].concat();
        let Some(layout) = &record.layout else { return self.create(&name, &[&prefix, IN_STUB.as_slice()].concat()) };
        let record = layout.encode();
        if record.len() <= RECORD_BYTES_MAX {
            match self.create(&name, &[&*prefix, &record].concat()) {
                Err(error) if matches!(error.errno(), Errno::NOSPC | Errno::TOOBIG | Errno::RANGE) => {}
                done => return done,
            }
        }
        let beside = format!("{}.{generation}.{stamp:x}.layout", layout.file);
        let path = self.side().join(&beside);
        write_synced(&path, &record)?;
        let pointer = [&*prefix, BESIDE.as_slice(), beside.as_bytes()].concat();
        let made = match self.create(&name, &pointer) {
            Err(error) if error.errno() == Errno::NOSPC => {
                self.remove_room()?;
                self.create(&name, &pointer)
            }
            made => made,
        };
        if matches!(made, Ok(false)) {
            let _ = fs::unlink(&path); // else `check` finds it
        }
        made
    }

    fn remove_records(&self, below: u64) -> Result<()> {
        let mut oldest = below;
        while oldest > 1 && self.attribute(&name_of(oldest - 1))?.is_some() {
            oldest -= 1;
        }
        (oldest..below).try_for_each(|generation| self.remove_record(generation))
    }

    fn listed_generation(&self) -> Result<Option<u64>> {
        Ok(newest(&self.names(1)?))
    }

    fn cut_to(&self) -> Result<Option<u64>> {
        let Some(value) = self.unless_removed(self.attribute(CUT_ATTRIBUTE), None)? else { return Ok(None) };
        let size = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
        size.map(Some).ok_or_else(|| Error::BadLayout("the mark of a truncation has no size".into()))
    }

    fn set_cut_to(&self, size: Option<u64>) -> Result<()> {
        let size = size.map(|size| size.to_string());
        self.unless_removed(self.set_attribute(CUT_ATTRIBUTE, size.as_deref().map(str::as_bytes)), ())
    }
}

impl FdStub {
    /// Layout of the newest record, without holds: other nodes may change it by then.
    pub(super) fn newest_layout(&self) -> Result<Option<Layout>> {
        loop {
            let (mut generation, mut layout) = match self.pointer()? {
                Pointer::None => (0, None),
                Pointer::Plain(layout) => (layout.generation, Some(*layout)),
                Pointer::To { generation, .. } => match self.record(generation)? {
                    Some(record) => (generation, record.layout),
                    None => continue, // the pointer names a newer one by now
                },
            };
            while let Some(record) = self.record(generation + 1)? {
                (generation, layout) = (generation + 1, record.layout);
            }
            return Ok(layout);
        }
    }

    /// Creates an attribute. Returns false if there is one.
    pub(super) fn create(&self, name: &str, value: &[u8]) -> Result<bool> {
        self.put(name, value, XattrFlags::CREATE)
    }

    /// Creates or replaces an attribute. Returns false if there is one, or none.
    pub(super) fn put(&self, name: &str, value: &[u8], flags: XattrFlags) -> Result<bool> {
        let fd = self.fd();
        match permitted(fd.as_fd(), || fs::fsetxattr(&*fd, name, value, flags)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST | Errno::NODATA) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(super) fn take(&self, name: &str) -> Result<bool> {
        let fd = self.fd();
        match permitted(fd.as_fd(), || fs::fremovexattr(&*fd, name)) {
            Ok(()) => Ok(true),
            Err(Errno::NODATA) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes the record of a generation, with the file beside that it names.
    pub(super) fn remove_record(&self, generation: u64) -> Result<()> {
        let name = name_of(generation);
        let record = self.attribute(&name)?;
        if !self.take(&name)? {
            return self.remove_plain();
        }
        let beside = record.as_deref().and_then(|record| parse_record(record).1.strip_prefix(BESIDE));
        if let Some(beside) = beside {
            let _ = fs::unlink(self.side().join(String::from_utf8_lossy(beside).trim())); // else it goes with the file
        }
        Ok(())
    }

    /// Removes the attribute that reserves room, when a pointer needs the room.
    fn remove_room(&self) -> Result<()> {
        if self.attribute(LAYOUT_ATTRIBUTE)?.is_some_and(|value| value == ROOM) {
            self.take(LAYOUT_ATTRIBUTE)?;
        }
        Ok(())
    }

    fn remove_plain(&self) -> Result<()> {
        let is_plain = |value: Vec<u8>| value != ROOM && parse_pointer(&value).is_none();
        if self.attribute(LAYOUT_ATTRIBUTE)?.is_some_and(is_plain) {
            self.take(LAYOUT_ATTRIBUTE)?;
        }
        Ok(())
    }
}
