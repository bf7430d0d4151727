//! Record of data that may be lost because it could not be made durable.
//!
//! After a failed sync the kernel drops the unwritten pages, so reads return old bytes and the next sync succeeds. So
//! this record keeps the failure: every later sync fails too, on any handle and after a restart of the daemon. It ends
//! when all lost bytes were written again, cut off, or removed.

use super::ByteRanges;
use crate::Result;
use meta::records;
use meta::state::State;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of objects and stubs with losses; beyond it the lowest numbers are dropped. A guess: a device with
/// that many failed syncs has long been replaced.
const THINGS_MAX: usize = 65_536;

/// Kind of the records in the state store: objects, with the length and the error of each.
const RECORDS: &str = "failed-syncs";

/// Possible losses, by number of the object or stub.
#[derive(Default)]
pub struct Lost {
    /// State store that records the losses, locked during updates, so that their order is the order of events.
    state: Option<Mutex<Arc<dyn State>>>,
    of: Mutex<BTreeMap<u64, Loss>>,
    /// Number of losses so far; 0 is the fast path of volumes without any.
    noted: AtomicU64,
}

struct Loss {
    /// Number of this loss; writes that began before it may be part of it.
    number: u64,
    errno: Errno,
    /// Lost length, from the first byte.
    len: u64,
    ranges: ByteRanges,
}

impl Lost {
    /// Losses recorded in the state store, which also records later ones.
    pub fn remembered(state: &Arc<dyn State>) -> Result<Lost> {
        let lost = Lost::default();
        for (key, (len, errno)) in records::all::<(u64, i32)>(&**state, RECORDS)? {
            if let Ok(thing) = u64::from_str_radix(&key, 16) {
                lost.note(thing, len, Errno::from_raw_os_error(errno));
            }
        }
        Ok(Lost { state: Some(Mutex::new(state.clone())), ..lost })
    }

    /// Whether anything may be lost.
    pub fn any(&self) -> bool {
        self.noted() > 0 && !self.of.lock().is_empty()
    }

    /// Number of losses so far: read before a write and passed to [`Lost::written`] after it.
    pub(super) fn noted(&self) -> u64 {
        self.noted.load(Ordering::Acquire)
    }

    /// Records a failed sync: the thing's first `len` bytes may be lost.
    pub(super) fn note(&self, thing: u64, len: u64, errno: Errno) {
        let mut of = self.of.lock();
        let number = self.noted.fetch_add(1, Ordering::AcqRel) + 1;
        let loss = of.entry(thing).or_insert_with(|| Loss { number, errno, len: 0, ranges: ByteRanges::default() });
        let is_news = loss.len < len.max(1);
        (loss.number, loss.errno, loss.len) = (number, errno, loss.len.max(len.max(1)));
        loss.ranges.add(0, len.max(1));
        let forgotten = (of.len() > THINGS_MAX).then(|| of.pop_first()).flatten();
        drop(of);
        if is_news {
            self.remember(thing);
        }
        if let Some((thing, _)) = forgotten {
            self.remember(thing);
        }
    }

    /// Updates the record of a thing.
    fn remember(&self, thing: u64) {
        let Some(state) = &self.state else { return };
        let (state, key) = (state.lock(), format!("{thing:016x}"));
        let now = self.of.lock().get(&thing).map(|loss| (loss.len, loss.errno.raw_os_error()));
        match now {
            Some(loss) => {
                if let Err(error) = records::put(&**state, RECORDS, &key, &loss) {
                    tracing::warn!("the failed sync of object {key} cannot be saved for the next start: {error}");
                }
            }
            None => {
                if let Err(error) = state.record_remove(RECORDS, &key) {
                    tracing::warn!(
                        "after the next start object {key} counts as not synced, until it is written again: {error}"
                    );
                }
            }
        }
    }

    /// Reason why a part of the thing may be lost.
    pub(super) fn of(&self, thing: u64) -> Option<Errno> {
        if self.noted() == 0 {
            return None;
        }
        self.of.lock().get(&thing).map(|loss| loss.errno)
    }

    /// Removes a written range from the losses recorded before the write began.
    pub(super) fn written(&self, thing: u64, offset: u64, len: u64, noted_before: u64) {
        if noted_before == 0 {
            return; // with no loss before the write, it repairs none
        }
        self.take_out(thing, offset, offset.saturating_add(len), noted_before);
    }

    /// Removes the bytes beyond a truncation from the losses.
    pub(crate) fn cut(&self, thing: u64, len: u64) {
        if self.noted() > 0 {
            self.take_out(thing, len, u64::MAX, u64::MAX);
        }
    }

    fn take_out(&self, thing: u64, start: u64, end: u64, noted_before: u64) {
        let mut of = self.of.lock();
        let Some(loss) = of.get(&thing).filter(|loss| loss.number <= noted_before) else { return };
        loss.ranges.remove(start, end);
        if loss.ranges.is_empty() {
            of.remove(&thing);
            drop(of);
            self.remember(thing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_stays_until_all_of_it_was_written_again() {
        let lost = Lost::default();
        let before = lost.noted();
        lost.note(1, 100, Errno::IO);
        lost.written(1, 0, 100, before);
        assert_eq!(lost.of(1), Some(Errno::IO), "a write that had begun before the loss may be part of it");
        assert_eq!(lost.of(2), None);
        lost.written(1, 0, 60, lost.noted());
        lost.written(1, 60, 39, lost.noted());
        assert_eq!(lost.of(1), Some(Errno::IO));
        lost.written(1, 99, 1, lost.noted());
        assert_eq!(lost.of(1), None);
    }

    #[test]
    fn what_is_cut_off_is_not_missed() {
        let lost = Lost::default();
        lost.note(1, 100, Errno::IO);
        lost.cut(1, 50);
        assert_eq!(lost.of(1), Some(Errno::IO));
        lost.cut(1, 0);
        assert_eq!(lost.of(1), None);
        lost.note(1, 0, Errno::NOSPC);
        assert_eq!(lost.of(1), Some(Errno::NOSPC), "of an empty thing its length may be lost");
    }

    #[test]
    fn the_losses_that_are_remembered_are_bounded() {
        let lost = Lost::default();
        (0..THINGS_MAX as u64 + 5).for_each(|thing| lost.note(thing, 1, Errno::IO));
        assert_eq!(lost.of.lock().len(), THINGS_MAX);
        assert_eq!((lost.of(4), lost.of(5)), (None, Some(Errno::IO)));
    }
}
