//! Moves for tests: crash points, and verbs with their defaults.

use super::{CrashHook, Mover, Step};
use crate::Result;
use crate::file::File;
use policy::layout::{Layout, Placement};
use std::sync::Arc;

impl Mover {
    /// Calls `hook` at every step; an error of `hook` simulates the death of the daemon at that step.
    pub fn with_crash_hook(mut self, hook: CrashHook) -> Mover {
        self.crash = Some(hook);
        self
    }

    /// Moves a segment of a mirror to other objects, optionally with another stripe size and count.
    pub fn move_segment(
        &self,
        file: &Arc<File>,
        mirror: usize,
        segment: usize,
        place: &Placement,
    ) -> Result<Arc<Layout>> {
        self.move_segment_at(file, (mirror, segment), place, None)
    }
}

impl Step {
    /// All steps, in order.
    pub const ALL: [Step; 11] = [
        Step::Marked,
        Step::Journalled,
        Step::Created,
        Step::ChunkCopied,
        Step::Copied,
        Step::CaughtUp,
        Step::Synced,
        Step::Replaced,
        Step::Durable,
        Step::Finished,
        Step::Removed,
    ];
}
