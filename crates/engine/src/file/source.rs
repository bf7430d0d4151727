//! The source of a file, and the rule that a modified file is never recovered from it.

use super::File;
use crate::source::Record;
use crate::{Error, Result};
use policy::layout::{ObjectState, Position, object_len};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The stub's record was not read since another node may have changed it.
const UNKNOWN: u32 = 3;
const NONE: u32 = 0;
const PRISTINE: u32 = 1;
const MODIFIED: u32 = 2;
/// Bits of a state. The others count how often it was forgotten, so that a record that was read before is not taken.
const STATE: u32 = 3;

/// State of the source from which the file's bytes could be recovered.
pub(super) struct SourceState(AtomicU32);

impl SourceState {
    pub fn of(record: Option<&str>) -> SourceState {
        SourceState(AtomicU32::new(Self::value(record)))
    }

    fn value(record: Option<&str>) -> u32 {
        match record.map(Record::parse) {
            None => NONE,
            Some(Ok(record)) if record.modified => MODIFIED,
            Some(Ok(_)) => PRISTINE,
            Some(Err(_)) => NONE, // an unreadable record allows no recovery
        }
    }

    fn set(&self, state: u32) {
        self.change(|before| before & !STATE | state);
    }

    /// Forgets the record, which another node may have changed.
    pub fn forget(&self) {
        self.change(|before| (before & !STATE).wrapping_add(STATE + 1) | UNKNOWN);
    }

    fn change(&self, to: impl Fn(u32) -> u32) {
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |before| Some(to(before)));
    }
}

impl File {
    /// State of the source; reads the record if it is not known.
    fn source_state(&self) -> Result<u32> {
        loop {
            let seen = self.source.0.load(Ordering::Acquire);
            if seen & STATE != UNKNOWN {
                return Ok(seen & STATE);
            }
            let read = seen & !STATE | SourceState::value(self.stub.source()?.as_deref());
            let _ = self.source.0.compare_exchange(seen, read, Ordering::AcqRel, Ordering::Acquire);
        }
    }

    /// Whether the source may have to be marked as modified before a change.
    pub(super) fn may_be_pristine(&self) -> bool {
        !matches!(self.source_state(), Ok(NONE | MODIFIED))
    }

    /// Whether the file has no source.
    pub(super) fn has_no_source(&self) -> bool {
        matches!(self.source_state(), Ok(NONE))
    }

    /// The source record (text), as in the stub.
    pub fn source(&self) -> Result<Option<String>> {
        self.stub.source()
    }

    /// Whether the file can be recovered from its source: it has one and was not modified since.
    pub fn is_recoverable(&self) -> bool {
        matches!(self.source_state(), Ok(PRISTINE))
    }

    /// Replaces or (with `None`) removes the source record.
    pub fn set_source(&self, record: Option<&str>) -> Result<()> {
        let _io = self.io.write();
        let set = self.stub.set_source(record);
        self.stub_changed();
        set?;
        self.source.set(SourceState::value(record));
        Ok(())
    }

    /// Prepares a change of the bytes: recovers lost objects, since no source has them after the change, and marks the
    /// source modified. The caller doesn't hold `io`.
    pub(super) fn ready_to_modify(self: &Arc<Self>) -> Result<()> {
        self.ready_to_change(false)
    }

    /// As `ready_to_modify`; with `discard` all bytes are about to be dropped, and nothing is recovered.
    pub(super) fn ready_to_change(self: &Arc<Self>, discard: bool) -> Result<()> {
        while self.source_state()? == PRISTINE {
            if !discard && let Some((at, rows)) = self.lost_object().or_else(|| self.partial_object()) {
                let recovery = self.pool.recovery.get().ok_or_else(|| {
                    Error::Unrecoverable("a part of the file is lost and recovery is not running".into())
                })?;
                recovery.recover(self, at, 0..rows)?;
                continue;
            }
            let _io = self.io.write();
            if self.source_state()? != PRISTINE || (!discard && self.view().has_partial()) {
                continue;
            }
            if let Some(text) = self.stub.source()? {
                let mut record = Record::parse(&text).map_err(|e| Error::Invalid(e.to_string()))?;
                record.modified = true;
                self.stub.set_source(Some(&record.to_text()))?;
                self.stub.sync()?;
            }
            self.source.set(MODIFIED);
        }
        self.void_sums()
    }

    /// The first lost or recovering object that has bytes of the file and no healthy counterpart in another mirror,
    /// with its number of rows.
    fn lost_object(&self) -> Option<(Position, u64)> {
        let view = self.view();
        let layout = view.layout.as_ref()?;
        let size = self.size();
        let lost = |m: usize| {
            layout.objects().find_map(|(at, o)| {
                let segment = &layout.mirrors[at.mirror].segments[at.segment];
                let bytes = object_len(segment, at.index, size);
                let gone = o.state == ObjectState::Partial || !self.target_state(o.target).accepts_io();
                (at.mirror == m && bytes > 0 && gone).then(|| (at, bytes.div_ceil(segment.stripe_size)))
            })
        };
        let mut first = None;
        for mirror in view.in_sync() {
            let found = lost(mirror)?;
            first.get_or_insert(found);
        }
        first
    }

    /// The first object under recovery, with its number of rows. It is completed before a change even if another mirror
    /// has its bytes: its recovery would overwrite new ones.
    fn partial_object(&self) -> Option<(Position, u64)> {
        let view = self.view();
        let layout = view.layout.as_ref()?;
        let (at, _) = layout.objects().find(|(_, o)| o.state == ObjectState::Partial)?;
        let segment = &layout.mirrors[at.mirror].segments[at.segment];
        Some((at, object_len(segment, at.index, self.size()).div_ceil(segment.stripe_size).max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_was_read_before_it_was_forgotten_is_not_taken() {
        let state = SourceState::of(None);
        state.forget();
        let seen = state.0.load(Ordering::Acquire);
        state.forget();
        let taken = state.0.compare_exchange(seen, seen & !STATE | NONE, Ordering::AcqRel, Ordering::Acquire);
        assert!(taken.is_err());
        state.set(PRISTINE);
        assert_eq!(state.0.load(Ordering::Acquire) & STATE, PRISTINE);
    }
}
