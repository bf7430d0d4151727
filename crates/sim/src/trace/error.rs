//! What can be wrong with a trace file, with the line, the consequence and the mend.

use super::Reason;
use std::path::PathBuf;

/// A line that is not what its format says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The file.
    pub path: PathBuf,
    /// The line of a text file, the record of a binary one; from 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: Reason,
    /// What a line of this format looks like.
    pub expected: &'static str,
    /// The beginning of the line, made printable.
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

/// Why a trace can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A line is not what its format says.
    #[error("{0}; nothing after it is read; mend the line, or skip and count such lines with `--lenient`")]
    Malformed(Box<Malformed>),
    /// The operating system or the decompressor failed.
    #[error("{}: {source}; the rest of the trace is not read; look whether the file is whole and readable", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// The content fits no format, or more than one.
    #[error(
        "{}: the format is not told by the content ({}); nothing was read; say it with `--format`, one of: {}",
        path.display(), why, super::Format::names()
    )]
    Unrecognised {
        /// The file.
        path: PathBuf,
        /// What was seen.
        why: &'static str,
    },
    /// The format does not say its unit of time.
    #[error(
        "{}: {format} does not say its unit of time (DiskSim writes milliseconds, MQSim and SSDsim nanoseconds); \
         nothing was read, for a guess would be wrong by powers of ten; say it with `--time-unit s|ms|us|ns`",
        path.display()
    )]
    NoTimeUnit {
        /// The file.
        path: PathBuf,
        /// The format.
        format: super::Format,
    },
    /// Records that must be sorted are too many to hold.
    #[error(
        "more than {max} records must be sorted by time; that is more memory than allowed; cut the trace into parts"
    )]
    TooManyToSort {
        /// As many may be held.
        max: usize,
    },
}
