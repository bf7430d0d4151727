//! Decides whether an operation may be repeated on another connection after the first one broke.
//!
//! An operation that was never sent may always be repeated. One that may have reached the server may be repeated if it
//! is idempotent. For the rest, the driver examines the state of the server, where that shows the outcome. Otherwise
//! the application gets the error.

/// Kind of an operation, for retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Lookups: names, attributes, bytes, space.
    Read,
    /// Idempotent changes: bytes at an offset, a size, absolute attributes, a sync, opening an existing file.
    Write,
    /// Bytes appended at the end of the file.
    Append,
    /// A name that must not be there before: create, make a directory, link.
    Make,
    /// A name that must be there before: remove, rename.
    Unmake,
}

/// Progress of an operation when its connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sent {
    /// The server has certainly not received it.
    Never,
    /// The server may have received it.
    Maybe,
}

/// Decision about a failed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Repeat it on another connection.
    Again,
    /// Examine through another connection whether it was done; an unknown outcome is an error.
    Look,
}

/// Decides about an operation whose connection broke.
pub fn verdict(operation: Operation, sent: Sent) -> Verdict {
    match (operation, sent) {
        (_, Sent::Never) | (Operation::Read | Operation::Write, Sent::Maybe) => Verdict::Again,
        (Operation::Append | Operation::Make | Operation::Unmake, Sent::Maybe) => Verdict::Look,
    }
}
