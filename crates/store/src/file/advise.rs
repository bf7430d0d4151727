//! Advisers: they hear what applications do with files, and have a say in how files lie.
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

/// A read or a write of an application, as it came in. What the kernel answers from its own cache, or does by itself on a
/// passed-through object, is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether it writes.
    pub write: bool,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes asked for.
    pub len: u64,
}

/// What happened to a file in the hands of applications.
#[derive(Clone, Copy)]
pub enum Happened<'a> {
    /// It is opened, or created.
    Opened {
        /// The file.
        file: &'a Arc<File>,
        /// Gives its path relative to the mount's root.
        path: &'a dyn Fn() -> Option<PathBuf>,
        /// Whether the handle may write.
        write: bool,
    },
    /// Such a handle is closed.
    Closed {
        /// Whether it might write.
        write: bool,
    },
    /// It is read or written.
    Accessed(Access),
    /// A write is done.
    Written(Access),
    /// A write failed. What was held and failed is not told: the adviser that held it knows.
    WriteFailed(Access),
    /// It was cut to nothing, or was empty when that was to be done.
    Emptied,
    /// It has its first segments, or more of them.
    LaidOut,
    /// Its last name went away, and it is not open.
    Removed,
}

/// What goes on with a write that was held: with it, or with the error that the application gets.
pub type Resume = Box<dyn FnOnce(Result<()>) + Send>;

/// Hears of accesses and has a say in layouts. Called on the threads that serve applications: must be quick, must not
/// wait, and must not call back into the file.
pub trait Adviser: Send + Sync {
    /// Records what happened.
    fn record(&self, _file: &File, _what: Happened<'_>) {}
    /// Whether it must hear of every access to this file; such a file is not passed through.
    fn watches(&self, _file: &File) -> bool {
        false
    }
    /// Whether a mechanism that it speaks for has a claim on the file. Which wins is said in
    /// [`policy::volume::ownership`].
    fn claims(&self, _file: &File, _mechanism: Mechanism) -> bool {
        false
    }
    /// The file is to get a segment that starts with the byte `from`: changes how it will lie, or leaves it. Asked once
    /// for each segment (and mirror), not when a user asked for a layout.
    fn place(&self, _file: &File, _from: u64, _place: &mut Placement) {}
    /// What a write to this file does with several mirrors, if it is to differ from what the volume says.
    fn mirror_writes(&self, _file: &File) -> Option<MirrorWrites> {
        None
    }
    /// Whether a write may go on at once. If not it is held.
    fn may_write(&self, _file: &File, _access: Access) -> bool {
        true
    }
    /// Whether it holds writes of this file for which the devices have no room, too.
    fn tries_again(&self, _file: &File) -> bool {
        false
    }
    /// Holds a write that may not go on at once, or for which the devices have had no room for so long: keeps `resume`
    /// and calls it, on a thread of its own, when the write may go on or must fail. Never for long without bound.
    fn hold(&self, _file: &Arc<File>, _access: Access, _no_room_for: Option<Duration>, resume: Resume) {
        resume(Ok(()));
    }
}

impl Pool {
    /// The advisers of the volume, in the order in which they are asked.
    pub(crate) fn advisers(&self) -> &[Arc<dyn Adviser>] {
        self.advisers.get().map_or(&[], Vec::as_slice)
    }
}

impl File {
    /// Tells the advisers what happened.
    pub(crate) fn tell(&self, what: Happened<'_>) {
        self.pool.advisers().iter().for_each(|adviser| adviser.record(self, what));
    }

    /// Tells them how a write of an application went.
    pub(crate) fn tell_written(&self, access: Access, done: &Result<()>) {
        self.tell(if done.is_ok() { Happened::Written(access) } else { Happened::WriteFailed(access) });
    }

    /// Whether a mechanism has a claim on the file, as the advisers say.
    pub(crate) fn is_claimed(&self, by: Mechanism) -> bool {
        self.pool.advisers().iter().any(|adviser| adviser.claims(self, by))
    }

    /// Whether tiers decide where the segments lie, of a file that they have a claim on.
    pub(crate) fn follows_tiers(&self) -> bool {
        let owner = owner(Aspect::Tier, |mechanism| mechanism == Mechanism::Tiers || self.is_claimed(mechanism));
        owner == Some(Mechanism::Tiers)
    }

    /// Whether somebody must hear of every access.
    pub(crate) fn is_watched(&self) -> bool {
        self.pool.advisers().iter().any(|adviser| adviser.watches(self))
    }

    /// What a write does with several mirrors.
    pub(super) fn mirror_writes(&self) -> MirrorWrites {
        let advised = self.pool.advisers().iter().find_map(|adviser| adviser.mirror_writes(self));
        advised.unwrap_or(self.pool.mirror_writes)
    }

    /// Lets the devices begin with what was written to a range; waits for nothing.
    pub(crate) fn begin_sync(&self, range: Range<u64>) {
        let view = self.view();
        let Some(layout) = &view.layout else { return };
        let len = range.end.saturating_sub(range.start);
        for piece in view.in_sync().flat_map(|m| layout.mirrors[m].pieces(m, range.start, len)) {
            let (at, len) = (piece.object_offset, piece.len);
            let begin = move |h: &dyn crate::target::Handle| {
                h.begin_sync(at, len);
                Ok(())
            };
            // What is not begun now is found by the sync at the end.
            drop(view.slot(piece.at).try_submit(&self.pool, Class::Awaited, begin));
        }
    }

    /// The adviser that wants a write to wait.
    pub(crate) fn holder(&self, access: Access) -> Option<&Arc<dyn Adviser>> {
        self.pool.advisers().iter().find(|adviser| !adviser.may_write(self, access))
    }

    /// The adviser that has a write tried again which went so: the devices had no room for it, which may change.
    pub(crate) fn retries(&self, done: &Result<()>) -> Option<&Arc<dyn Adviser>> {
        let error = done.as_ref().err()?;
        let is_full = !matches!(error, Error::NoTarget) && error.errno() == Errno::NOSPC;
        self.pool.advisers().iter().find(|adviser| is_full && adviser.tries_again(self))
    }

    /// How the segment that starts with the byte `from` is to lie, where `place` says how without anybody's advice.
    pub(super) fn advised(&self, from: u64, mut place: Placement) -> Placement {
        for adviser in self.pool.advisers() {
            adviser.place(self, from, &mut place);
        }
        place
    }
}
