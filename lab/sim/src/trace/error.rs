//! Errors of a trace file, with line, consequence and remedy.

use super::Reason;
use std::path::PathBuf;

/// A line that does not match its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Path of the file.
    pub path: PathBuf,
    /// Number of the line, or of the binary record; from 1.
    pub line: u64,
    /// Error in the line.
    pub reason: Reason,
    /// Description of a correct line.
    pub expected: &'static str,
    /// Beginning of the line, made printable.
    pub seen: String,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: line {}: {}", self.path.display(), self.line, self.reason.text())?;
        if !self.seen.is_empty() {
            write!(f, ": \"{}\"", self.seen)?;
        }
        write!(f, "; expected {}", self.expected)
    }
}

/// Reason why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line does not match its format.
    #[error("{0}; nothing after it is read. Mend the line, or skip and count such lines with `--lenient`")]
    Malformed(Box<Malformed>),
    /// The operating system or the decompressor failed.
    #[error("{}: {source}; the rest of the trace is not read. Check that the file can be read", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system or decompressor.
        source: std::io::Error,
    },
    /// The content matches no format, or more than one.
    #[error(
        "{}: its format cannot be detected: {}; nothing was read. Name the columns of a text, such as `--columns \
         time:ms,offset:sectors,length,op`, or choose `--format`, one of: {}",
        path.display(), why, super::Format::names()
    )]
    Unrecognised {
        /// Path of the file.
        path: PathBuf,
        /// Description of the content.
        why: &'static str,
    },
    /// The columns of a text trace are not valid.
    #[error("{}: {why}; nothing was read. Name them like `--columns time:ms,offset:sectors,length,op`", path.display())]
    Columns {
        /// Path of the file.
        path: PathBuf,
        /// The wrong word, and valid ones.
        why: String,
    },
    /// The format has no unit of time.
    #[error(
        "{}: {format} has no unit of time (DiskSim writes milliseconds, MQSim and SSDsim nanoseconds); \
         nothing was read, since a guess would be wrong by powers of ten. Give it with `--time-unit s|ms|us|ns`",
        path.display()
    )]
    NoTimeUnit {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        format: super::Format,
    },
    /// The records that must be sorted are too many.
    #[error(
        "more than {max} records must be sorted by time, more than fit into memory; nothing was given out. Cut the trace into parts"
    )]
    TooManyToSort {
        /// Maximum of records in memory.
        max: usize,
    },
}
