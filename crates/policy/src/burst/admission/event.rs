//! What admission is told, and what it says.

use crate::burst::buffer;
use crate::machine;
use crate::time::Time;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A write of a checkpoint asks to go on. `write` is unique among those that are held.
    Hold {
        /// The checkpoint's request.
        request: u64,
        /// The write.
        write: u64,
        /// Its bytes.
        len: u64,
    },
    /// The files of a checkpoint are ready to be written.
    Prepared {
        /// The checkpoint's request.
        request: u64,
    },
    /// The devices had no room for a write that the buffer had room for.
    NoRoom {
        /// The checkpoint's request.
        request: u64,
        /// The write.
        write: u64,
        /// Its bytes.
        len: u64,
        /// How long it has waited so far.
        waited: Time,
    },
    /// The end: everything that is held fails.
    Close,
    /// Another node decides from now on, or this one without knowing yet what others did: what is held goes on, and
    /// nothing is known any more.
    HandOver,
    /// What the buffer is told.
    Buffer(buffer::Event),
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// A held write is held no longer.
    Release {
        /// The write.
        write: u64,
        /// What becomes of it.
        verdict: Verdict,
    },
    /// Make the files of a checkpoint ready to be written on its tier; then tell [`Event::Prepared`].
    Prepare {
        /// The checkpoint's request.
        request: u64,
    },
    /// What the buffer says; [`buffer::Action::Go`] comes as [`Action::Prepare`].
    Buffer(buffer::Action),
}

/// What becomes of a write, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Go,
    /// It fails: there is no room, and none in time.
    NoRoom,
    /// It fails: the volume goes down.
    Closed,
}

/// A line of admission's log.
pub type Logged = machine::Logged<Event, Action>;
