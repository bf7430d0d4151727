//! Advisers: who sees what applications read and write, and has a say in how files lie.
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

/// What goes on with a write that was held: with it, or with the error that the application gets.
pub type Resume = Box<dyn FnOnce(Result<()>) + Send>;

/// Hears of accesses and has a say in layouts. Called on the threads that serve applications: must be quick, must not
/// wait, and must not call back into the file.
pub trait Adviser: Send + Sync {
    /// Whether it must hear of every access to this file; such a file is not passed through.
    fn watches(&self, _file: &File) -> bool {
        false
    }
    /// An application reads or writes.
    fn accessed(&self, _file: &File, _access: Access) {}
    /// The file is to get a segment that starts with the byte `from`: changes how it will lie, or leaves it. Asked once for each
    /// segment (and mirror), not when a user asked for a layout.
    fn place(&self, _file: &File, _from: u64, _place: &mut Placement) {}
    /// What a write to this file does with several mirrors, if it is to differ from what the volume says.
    fn mirror_writes(&self, _file: &File) -> Option<MirrorWrites> {
        None
    }

    /// An application creates or opens a file; `path` gives its path relative to the mount's root.
    fn opened(&self, _file: &Arc<File>, _path: &dyn Fn() -> Option<PathBuf>, _write: bool) {}
    /// An application closed it.
    fn closed(&self, _file: &File, _write: bool) {}
    /// A write of an application is done.
    fn written(&self, _file: &Arc<File>, _access: Access) {}
    /// A write of an application failed. What was held and failed is not told: who held it knows.
    fn write_failed(&self, _file: &File, _access: Access) {}
    /// An application cut it to nothing, or found it empty when it did so.
    fn emptied(&self, _file: &File) {}
    /// Its last name went away and nobody has it open.
    fn removed(&self, _file: &File) {}
    /// Whether a write may go on at once. If not it is held.
    fn may_write(&self, _file: &File, _access: Access) -> bool {
        true
    }
    /// Holds a write that may not go on at once: keeps `resume` and calls it, on a thread of its own, when the write may
    /// go on or must fail. Never for long without bound.
    fn hold(&self, _file: &Arc<File>, _access: Access, resume: Resume) {
        resume(Ok(()));
    }
    /// Whether it takes writes of this file for which the devices have no room, to have them tried again.
    fn tries_again(&self, _file: &File) -> bool {
        false
    }
    /// The devices have had no room for a write for so long: keeps `resume` and calls it, on a thread of its own, when the write is to be tried
    /// again, or is to fail.
    fn no_room(&self, _file: &Arc<File>, _access: Access, _waited: Duration, resume: Resume) {
        resume(Err(Errno::NOSPC.into()));
    }
    /// Whether a mechanism that it speaks for has a claim on the file. Who wins is said in [`policy::volume::ownership`].
    fn claims(&self, _file: &File, _mechanism: Mechanism) -> bool {
        false
    }
    /// The file has its first segments, or more of them.
    fn laid_out(&self, _file: &File) {}
}

impl Pool {
    /// The advisers of the volume, in the order in which they are asked.
    pub(crate) fn advisers(&self) -> &[Arc<dyn Adviser>] {
        self.advisers.get().map_or(&[], Vec::as_slice)
    }
}

impl File {
    /// An application reads or writes: tells the advisers.
    pub(crate) fn accessed(&self, access: Access) {
        for adviser in self.pool.advisers() {
            adviser.accessed(self, access);
        }
    }

    /// There are new segments: tells the advisers.
    pub(super) fn tell_laid_out(&self) {
        for adviser in self.pool.advisers() {
            adviser.laid_out(self);
        }
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

    /// An application opens it.
    pub(crate) fn tell_opened(self: &Arc<Self>, path: &dyn Fn() -> Option<PathBuf>, write: bool) {
        self.pool.advisers().iter().for_each(|adviser| adviser.opened(self, path, write));
    }

    /// An application closed it.
    pub(crate) fn tell_closed(&self, write: bool) {
        self.pool.advisers().iter().for_each(|adviser| adviser.closed(self, write));
    }

    /// How a write of an application went.
    pub(crate) fn tell_written(self: &Arc<Self>, access: Access, done: &Result<()>) {
        match done {
            Ok(()) => self.pool.advisers().iter().for_each(|adviser| adviser.written(self, access)),
            Err(_) => self.tell_failed(access),
        }
    }

    /// A write of an application failed.
    pub(super) fn tell_failed(&self, access: Access) {
        self.pool.advisers().iter().for_each(|adviser| adviser.write_failed(self, access));
    }

    /// An application cut it to nothing.
    pub(super) fn tell_emptied(&self) {
        self.pool.advisers().iter().for_each(|adviser| adviser.emptied(self));
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

    /// Nothing leads to it any more.
    pub(crate) fn tell_removed(&self) {
        self.pool.advisers().iter().for_each(|adviser| adviser.removed(self));
    }

    /// The adviser who wants a write to wait.
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
