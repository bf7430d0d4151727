//! What may be tried on another connection after the first one broke.
//!
//! An operation that was never sent may always. One that may have reached the server may if doing it twice is the same as doing it
//! once. For the rest the driver looks what the server has, where that tells; otherwise the application gets the error.

/// What was asked for, as far as it matters for asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Looking: names, attributes, bytes, space.
    Read,
    /// Bytes at a place, a size, attributes with absolute values, making durable, opening what exists.
    Write,
    /// Bytes at whatever the end is.
    Append,
    /// A name that must not be there before: create, make a directory, link.
    Make,
    /// A name that must be there before: remove, rename.
    Unmake,
}

/// How far an operation came before its connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sent {
    /// The server has surely not seen it.
    Never,
    /// Nobody knows.
    Maybe,
}

/// What to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Do it again on another connection.
    Again,
    /// Look through another connection whether it was done; what cannot be told is an error.
    Look,
}

/// Whether an operation whose connection broke may be done again.
pub fn verdict(operation: Operation, sent: Sent) -> Verdict {
    match (operation, sent) {
        (_, Sent::Never) | (Operation::Read | Operation::Write, Sent::Maybe) => Verdict::Again,
        (Operation::Append | Operation::Make | Operation::Unmake, Sent::Maybe) => Verdict::Look,
    }
}
