//! Events and actions of admission.

use crate::burst::buffer;
use crate::time::Time;

/// Events that drivers report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A write of a checkpoint waits for admission. `write` is unique among held writes.
    Hold {
        /// The checkpoint's request.
        request: u64,
        /// Number of the write.
        write: u64,
        /// Size of the write.
        len: u64,
    },
    /// The files of a checkpoint are ready to be written.
    Prepared {
        /// The checkpoint's request.
        request: u64,
    },
    /// The devices had no room for an admitted write.
    NoRoom {
        /// The checkpoint's request.
        request: u64,
        /// Number of the write.
        write: u64,
        /// Size of the write.
        len: u64,
        /// Time that it has waited so far.
        waited: Time,
    },
    /// The volume stops: all held writes fail.
    Close,
    /// Another node, or this one, takes over admission without earlier state. Held writes go on, and the state is
    /// dropped.
    HandOver,
    /// An event of the buffer.
    Buffer(buffer::Event),
}

/// Actions that the driver carries out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// End the wait of a held write.
    Release {
        /// Number of the write.
        write: u64,
        /// Result for the write.
        verdict: Verdict,
    },
    /// Prepare the files of a checkpoint for writing on its tier; answer with [`Event::Prepared`].
    Prepare {
        /// The checkpoint's request.
        request: u64,
    },
    /// An action of the buffer; [`buffer::Action::Go`] is sent as [`Action::Prepare`].
    Buffer(buffer::Action),
}

/// Result for a held write, and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The write goes on.
    Go,
    /// The write fails: no room became free in time.
    NoRoom,
    /// The write fails: the volume stops.
    Closed,
}
