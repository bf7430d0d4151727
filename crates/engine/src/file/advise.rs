//! Advisers: observers of applications' accesses that also influence the layout of files.
//!
//! The parts that adapt the volume to its load (tiers, stripes, the burst buffer) are advisers. A volume without any pays
//! for one look at an empty list.

use super::{File, MirrorWrites, Pool};
use crate::{Error, Result};
use policy::layout::Placement;
use policy::precedence::Class;
use policy::volume::ownership::{Aspect, Mechanism, owner};
use rustix::io::Errno;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A read or write of an application that reaches the daemon. Reads from the kernel's cache, and the kernel's I/O on a
/// passed-through object, do not.
pub use policy::pattern::Request as Access;

/// Event of a file that applications use.
#[derive(Clone, Copy)]
pub enum Happened<'a> {
    /// The file is opened or created.
    Opened {
        /// The opened file.
        file: &'a Arc<File>,
        /// Returns its path relative to the mount's root.
        path: &'a dyn Fn() -> Option<PathBuf>,
        /// Whether the handle may write.
        write: bool,
    },
    /// A handle of the file is closed.
    Closed {
        /// Whether the handle could write.
        write: bool,
    },
    /// The file is read or written.
    Accessed(Access),
    /// A write succeeded.
    Written(Access),
    /// A write failed, for this reason. A failed held write is not reported: the adviser that held it has the reason.
    WriteFailed(Access, &'a str),
    /// The file was truncated to nothing, or already empty when that was requested.
    Emptied,
    /// The file got its first segments, or more of them.
    LaidOut,
    /// The last name was removed, and the file is not open.
    Removed,
}

/// Continuation of a held write: performs it, or returns the error to the application.
pub type Resume = Box<dyn FnOnce(Result<()>) + Send>;

/// Observer of accesses that also influences layouts. Called on the threads that serve applications: must be quick,
/// must not wait, and must not call back into the file.
pub trait Adviser: Send + Sync {
    /// Records an event of a file.
    fn record(&self, _file: &File, _what: Happened<'_>) {}
    /// Whether the adviser needs every access to this file; such a file is not passed through.
    fn watches(&self, _file: &File) -> bool {
        false
    }
    /// Whether a mechanism of this adviser has a claim on the file. [`policy::volume::ownership`] decides between
    /// claims.
    fn claims(&self, _file: &File, _mechanism: Mechanism) -> bool {
        false
    }
    /// Changes the placement of a segment that starts at the byte `from`. Called once for each segment (and mirror),
    /// unless a user requested the layout.
    fn place(&self, _file: &File, _from: u64, _place: &mut Placement) {}
    /// Handling of several mirrors in a write to this file; `None`: the volume's setting.
    fn mirror_writes(&self, _file: &File) -> Option<MirrorWrites> {
        None
    }
    /// Whether a write may proceed at once. Otherwise `hold` is called.
    fn may_write(&self, _file: &File, _access: Access) -> bool {
        true
    }
    /// Whether the adviser also holds writes of this file that found no room on the devices.
    fn tries_again(&self, _file: &File) -> bool {
        false
    }
    /// Holds a write that may not proceed, or for which the devices had no room for the given time. Calls `resume` on a
    /// thread of its own when the write may proceed or must fail. The wait must be bounded.
    fn hold(&self, _file: &Arc<File>, _access: Access, _no_room_for: Option<Duration>, resume: Resume) {
        resume(Ok(()));
    }
}

impl Pool {
    /// The advisers of the volume, in the order of their calls.
    pub(crate) fn advisers(&self) -> &[Arc<dyn Adviser>] {
        self.advisers.get().map_or(&[], Vec::as_slice)
    }
}

impl File {
    /// Sends an event to all advisers.
    pub fn tell(&self, what: Happened<'_>) {
        self.pool.advisers().iter().for_each(|adviser| adviser.record(self, what));
    }

    /// Sends the result of an application's write to all advisers.
    pub fn tell_written(&self, access: Access, done: &Result<()>) {
        match done {
            Ok(()) => self.tell(Happened::Written(access)),
            Err(error) => self.tell(Happened::WriteFailed(access, &error.to_string())),
        }
    }

    /// Whether any adviser has a claim of this mechanism on the file.
    pub fn is_claimed(&self, by: Mechanism) -> bool {
        self.pool.advisers().iter().any(|adviser| adviser.claims(self, by))
    }

    /// Whether tiers decide the placement of a file that they have a claim on.
    pub fn follows_tiers(&self) -> bool {
        let owner = owner(Aspect::Tier, |mechanism| mechanism == Mechanism::Tiers || self.is_claimed(mechanism));
        owner == Some(Mechanism::Tiers)
    }

    /// Whether an adviser needs every access.
    pub fn is_watched(&self) -> bool {
        self.pool.advisers().iter().any(|adviser| adviser.watches(self))
    }

    /// Handling of several mirrors in a write to this file.
    pub(super) fn mirror_writes(&self) -> MirrorWrites {
        let advised = self.pool.advisers().iter().find_map(|adviser| adviser.mirror_writes(self));
        advised.unwrap_or(self.pool.mirror_writes)
    }

    /// Starts writing a range to the devices; waits for nothing.
    pub fn begin_sync(&self, range: Range<u64>) {
        let view = self.view();
        let Some(layout) = &view.layout else { return };
        let len = range.end.saturating_sub(range.start);
        for piece in view.in_sync().flat_map(|m| layout.mirrors[m].pieces(m, range.start, len)) {
            let (at, len) = (piece.object_offset, piece.len);
            let begin = move |h: &dyn object::target::Handle| {
                h.begin_sync(at, len);
                Ok(())
            };
            // Ranges that are not started here are covered by the sync at the end.
            drop(view.slot(piece.at).try_submit(&self.pool, Class::Awaited, begin));
        }
    }

    /// The first adviser that holds the write.
    pub fn holder(&self, access: Access) -> Option<&Arc<dyn Adviser>> {
        self.pool.advisers().iter().find(|adviser| !adviser.may_write(self, access))
    }

    /// The adviser that retries a write which failed for lack of room, since room may come back.
    pub fn retries(&self, done: &Result<()>) -> Option<&Arc<dyn Adviser>> {
        let error = done.as_ref().err()?;
        let is_full = !matches!(error, Error::NoTarget) && error.errno() == Errno::NOSPC;
        self.pool.advisers().iter().find(|adviser| is_full && adviser.tries_again(self))
    }

    /// Placement of the segment that starts at the byte `from`; `place` is the placement without advice.
    pub(super) fn advised(&self, from: u64, mut place: Placement) -> Placement {
        for adviser in self.pool.advisers() {
            adviser.place(self, from, &mut place);
        }
        place
    }
}
