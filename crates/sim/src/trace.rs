//! Traces: requests with a time, read from the formats of the field and written in our own.
//!
//! ```text
//!   file -> bytes (gz, zst by magic) -> lines or fixed records -> format -> Record
//! ```
//! All readers stream with bounded memory and close their accounts: every line (or binary record) of the file is a
//! record, was passed over for a stated reason, or was malformed. Formats, units and options are in `docs/reference/traces.md`.

mod accounting;
mod arc;
mod blkparse;
mod blktrace;
mod bytes;
mod census;
mod detect;
mod disksim;
mod dxt;
mod error;
mod fields;
mod fio;
mod fixed;
mod flat;
mod format;
mod intake;
mod interned;
mod lines;
mod lirs;
mod load;
mod merged;
mod msr;
mod native;
mod open;
mod oracle;
mod origin;
mod sorted;
mod spc;
mod windows;
mod write;

pub use accounting::{Accounting, Passed, Reason};
pub use census::{Census, Report};
pub use detect::Identity;
pub use error::{Error, Malformed};
pub use flat::Flat;
pub use format::{Format, Options, TimeUnit};
pub use open::{identify, open, open_all};
pub use windows::{Windows, WindowsReport};
pub use write::{Target, WriteError, Writer, Written};

/// What a request does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    /// Bytes are read.
    #[default]
    Read = 0,
    /// Bytes are written.
    Write = 1,
    /// Bytes are given up (discard).
    Trim = 2,
    /// What was written becomes durable; offset and length are 0.
    Sync = 3,
}

/// Marks of a request: a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// Nothing is known of it.
    pub const NONE: Flags = Flags(0);
    /// Nobody asked for it: it is a prefetch of the traced system (blktrace's `A`).
    pub const SPECULATIVE: Flags = Flags(1);
    /// Somebody waits for it.
    pub const SYNC: Flags = Flags(2);
    /// File-system metadata.
    pub const META: Flags = Flags(4);

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// One request of a trace.
///
/// `offset` counts from the start of the file if `file` is not 0, else from the start of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// When it was issued, from the start of the trace; a format without times gives 0.
    pub time_ns: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes; 0 only for `Sync` and where the trace says so.
    pub length: u32,
    /// Who issued it: rank, process, host, or stream; 0 where the format does not say.
    pub client: u32,
    /// The file, numbered from 1 in the order of appearance; 0 if the trace is one of devices.
    pub file: u32,
    /// The device (unit, disk of a host, mount), as numbered in the trace or in the order of appearance.
    pub device: u16,
    /// What it does.
    pub op: Op,
    /// Marks.
    pub flags: Flags,
}

impl Record {
    /// The byte after the last one.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.length))
    }

    /// The address space that `offset` counts in: the device and the file in one number.
    pub fn space(&self) -> u64 {
        u64::from(self.device) << 32 | u64::from(self.file)
    }
}

/// A stream of records with its accounts. After an error that is not counted (`lenient` off, or the device failed) it
/// ends.
pub trait Reader: Iterator<Item = Result<Record, Error>> + Send {
    /// What was read so far.
    fn accounting(&self) -> &Accounting;

    /// Whether what was read so far says when its requests came.
    fn has_times(&self) -> bool {
        true
    }
}
