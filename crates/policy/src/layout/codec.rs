//! The layout record: a layout as bytes.

use super::{Layout, LayoutError};
use std::fmt;

/// Why bytes are no layout record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodecError {
    /// It does not start with the magic bytes.
    NotARecord,
    /// Written by a version this program does not know.
    Version(u8),
    /// The checksum does not match: damaged or cut off.
    Checksum,
    /// The checksum matches but the contents make no sense at this byte.
    Malformed {
        /// Which byte.
        at: usize,
    },
    /// It says what no layout may say.
    Invalid(LayoutError),
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodecError::NotARecord => write!(f, "this is no layout record; the stub was changed by another program"),
            CodecError::Version(v) => {
                write!(f, "the layout record has version {v}, which this program does not know; use a newer one")
            }
            CodecError::Checksum => {
                write!(f, "the layout record is damaged, its checksum does not match; restore the stub from a backup")
            }
            CodecError::Malformed { at } => write!(f, "the layout record makes no sense at byte {at}"),
            CodecError::Invalid(e) => write!(f, "the layout record is invalid: {e}"),
        }
    }
}

impl std::error::Error for CodecError {}

impl Layout {
    /// The record of this layout. See `docs/FORMAT.md`.
    pub fn encode(&self) -> Vec<u8> {
        todo!()
    }

    /// The layout of a record, checked.
    pub fn decode(_record: &[u8]) -> Result<Layout, CodecError> {
        todo!()
    }
}
