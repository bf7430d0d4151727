//! Records of the generations of a layout in a volume of several nodes, for holders.
//!
//! ```text
//! user.entrepot.layout     pointer to a record: `held`, generation, stamp; or the record from a time of one node
//! user.entrepot.layout.G   record of generation G: `made`, stamp, layout; created once, never replaced
//! user.entrepot.cut        size to which a truncation under way shortens the file
//! ```
//! Each publication has its own stamp. So a record that a frozen node creates late differs from the one that the
//! pointer names. Records are removed in ascending order, so a reader that starts at an older pointer meets no gap.

use super::marks;
use super::real::{FdStub, LAYOUT_ATTRIBUTE, decode, permitted};
use crate::{Error, Result};
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

impl FdStub {
    pub(super) fn held_pointer(&self) -> Result<Pointer> {
        let value = self.attribute(LAYOUT_ATTRIBUTE)?;
        match value.as_deref().and_then(parse_pointer) {
            Some((generation, stamp)) => Ok(Pointer::To { generation, stamp }),
            None => Ok(self.plain_layout_in(value)?.map_or(Pointer::None, |layout| Pointer::Plain(Box::new(layout)))),
        }
    }

    pub(super) fn set_held_pointer(&self, generation: u64, stamp: u64) -> Result<()> {
        let value = [POINTER.as_slice(), &generation.to_le_bytes(), &stamp.to_le_bytes()].concat();
        let fd = self.fd();
        Ok(permitted(fd.as_fd(), || fs::fsetxattr(&*fd, LAYOUT_ATTRIBUTE, &value, XattrFlags::empty()))?)
    }

    pub(super) fn held_record(&self, generation: u64) -> Result<Option<Record>> {
        let Some(value) = self.attribute(&name_of(generation))? else { return Ok(None) };
        let (stamp, body) = parse_record(&value);
        if body == marks::IN_STUB {
            return Ok(Some(Record { stamp, layout: None }));
        }
        let Some(name) = body.strip_prefix(marks::BESIDE) else {
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

    pub(super) fn create_held_record(&self, generation: u64, record: &Record) -> Result<bool> {
        let prefix = [MADE.as_slice(), &record.stamp.to_le_bytes()].concat();
        self.create_record_of(generation, &prefix, record.layout.as_ref(), &format!("{:x}", record.stamp))
    }

    /// Removes the records below a generation, oldest first.
    pub(super) fn remove_held_records(&self, below: u64) -> Result<()> {
        let mut oldest = below;
        while oldest > 1 && self.attribute(&name_of(oldest - 1))?.is_some() {
            oldest -= 1;
        }
        (oldest..below).try_for_each(|generation| self.remove_record(generation))
    }

    pub(super) fn newest_listed(&self) -> Result<Option<u64>> {
        Ok(marks::newest(&self.names(1)?))
    }

    pub(super) fn held_cut(&self) -> Result<Option<u64>> {
        let Some(value) = self.attribute(CUT_ATTRIBUTE)? else { return Ok(None) };
        let size = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
        size.map(Some).ok_or_else(|| Error::BadLayout("the mark of a truncation has no size".into()))
    }

    pub(super) fn set_held_cut(&self, size: Option<u64>) -> Result<()> {
        let fd = self.fd();
        let set = || match size {
            Some(size) => fs::fsetxattr(&*fd, CUT_ATTRIBUTE, size.to_string().as_bytes(), XattrFlags::empty()),
            None => match fs::fremovexattr(&*fd, CUT_ATTRIBUTE) {
                Err(Errno::NODATA) => Ok(()),
                done => done,
            },
        };
        Ok(permitted(fd.as_fd(), set)?)
    }
}
