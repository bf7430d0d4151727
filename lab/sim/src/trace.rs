//! Traces: requests with times, read from common formats and written in our own.
//!
//! ```text
//!   file -> bytes (gz, zst by magic) -> lines or fixed records -> format -> Record
//! ```
//! All readers stream with bounded memory and close their accounts. Every line (or binary record) of the file is a
//! record, was passed over for a stated reason, or is malformed. Formats, units and options are in
//! `docs/reference/traces.md`.

mod accounting;
mod blkparse;
mod blktrace;
mod bytes;
mod census;
mod csv;
mod detect;
mod dxt;
mod error;
mod fields;
mod fio;
mod flat;
mod format;
mod interned;
mod lines;
mod load;
mod merged;
mod msr;
mod native;
mod open;
mod oracle;
mod origin;
mod records;
mod sorted;
mod vscsi;
mod windows;
mod write;

pub use accounting::{Accounting, Passed, Reason};
pub(crate) use bytes::decompressed;
pub use census::{Census, Report};
pub use csv::Columns;
pub use detect::Identity;
pub use error::{Error, Malformed};
pub use flat::Flat;
pub use format::{Format, Options, TimeUnit};
pub use open::{identify, open, open_all};
pub use windows::{Windows, WindowsReport};
pub use write::{Target, WriteError, Writer, Written};

/// Operation of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    /// Read of bytes.
    #[default]
    Read = 0,
    /// Write of bytes.
    Write = 1,
    /// Discard of bytes.
    Trim = 2,
    /// Flush of earlier writes; offset and length are 0.
    Sync = 3,
}

/// Flags of a request: a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No known flag.
    pub const NONE: Flags = Flags(0);
    /// A prefetch of the traced system (blktrace's `A`).
    pub const SPECULATIVE: Flags = Flags(1);
    /// A synchronous request: its issuer waits.
    pub const SYNC: Flags = Flags(2);
    /// A request for file-system metadata.
    pub const META: Flags = Flags(4);

    /// Returns whether all bits of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the union of both sets.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// One request of a trace.
///
/// `offset` counts from the start of the file if `file` is not 0, else from the start of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// Time of issue, from the start of the trace; 0 in a format without times.
    pub time_ns: u64,
    /// First byte of the request.
    pub offset: u64,
    /// Bytes; 0 only for `Sync` and where the trace has it.
    pub length: u32,
    /// Issuer: rank, process, host, or stream; 0 in a format without one.
    pub client: u32,
    /// File, numbered from 1 in the order of appearance; 0 if the trace is one of devices.
    pub file: u32,
    /// Device (unit, disk of a host, mount), as numbered in the trace or in the order of appearance.
    pub device: u16,
    /// Operation of the request.
    pub op: Op,
    /// Flags of the request.
    pub flags: Flags,
}

impl Record {
    /// Returns the offset behind the last byte.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.length))
    }

    /// Returns the address space that `offset` counts in: device and file in one number.
    pub fn space(&self) -> u64 {
        u64::from(self.device) << 32 | u64::from(self.file)
    }
}

/// A stream of records with its accounts. It ends after an error that is not counted (`lenient` off, or a failed
/// device).
pub trait Reader: Iterator<Item = Result<Record, Error>> + Send {
    /// Returns the accounts so far.
    fn accounting(&self) -> &Accounting;

    /// Returns whether the requests read so far have times.
    fn has_times(&self) -> bool {
        true
    }
}
