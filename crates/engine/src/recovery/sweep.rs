//! A source without ranges: it is read once from its start, and every row that passes is kept.
//!
//! The first requested row starts the sweep; further requests wait for the same one. A sweep that ends early reports
//! the reason to all waiters, and the next request starts another.

use super::case::{RecordedSource, Spare};
use super::driver::Driver;
use super::fetch::Failure;
use crate::source::Source;
use crate::stats::Metric;
use parking_lot::{Condvar, Mutex};
use policy::layout::{Chunk, missing_chunks};
use policy::protect::recovery::FetchError;
use std::collections::{BTreeMap, BTreeSet};

/// Rows that the sweep of one source has read.
#[derive(Default)]
pub(super) struct Sweep {
    state: Mutex<Progress>,
    bell: Condvar,
}

#[derive(Default)]
struct Progress {
    running: bool,
    done: BTreeSet<u64>,
    /// Rows that passed with wrong bytes.
    bad: BTreeSet<u64>,
    /// Number of sweeps that ended.
    ended: u64,
    failed: Option<Failure>,
}

/// Callback of a sweep for each row that passed: the row, and whether it was kept.
pub(super) type Passed<'a> = &'a dyn Fn(u64, bool);

impl Sweep {
    /// Waits for a row, or runs the sweep.
    pub fn row(&self, row: u64, sweep: impl FnOnce(Passed) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut state = self.state.lock();
        let seen = state.ended;
        loop {
            if state.done.contains(&row) {
                return Ok(());
            }
            if state.bad.contains(&row) {
                return Err(Failure::new(FetchError::BadChecksum, "the checksum of the stripe does not match"));
            }
            if state.ended > seen
                && let Some(failure) = &state.failed
            {
                return Err(failure.clone());
            }
            if !state.running {
                break;
            }
            self.bell.wait(&mut state);
        }
        state.running = true;
        drop(state);
        let result = sweep(&|row, kept| {
            let mut state = self.state.lock();
            if kept {
                state.done.insert(row)
            } else {
                state.bad.insert(row)
            };
            self.bell.notify_all();
        });
        let mut state = self.state.lock();
        state.running = false;
        state.ended += 1;
        state.failed = Some(result.clone().err().unwrap_or_else(ended_early));
        self.bell.notify_all();
        if state.done.contains(&row) { Ok(()) } else { result.and(Err(ended_early())) }
    }
}

fn ended_early() -> Failure {
    Failure::new(FetchError::Passing, "the source ended before the stripe")
}

impl Driver {
    /// Reads the source from its start and keeps the rows of the spare.
    pub(super) fn sweep_all(
        &self,
        spare: &Spare,
        source: &RecordedSource,
        remote: &dyn Source,
        passed: Passed,
    ) -> Result<(), Failure> {
        let unit = spare.sums.as_ref().map_or(spare.segment.stripe_size, |s| s.stripe_bytes());
        let chunks = missing_chunks(&spare.segment, spare.index, spare.size).enumerate();
        let mut wanted: BTreeMap<u64, (Chunk, u64)> = chunks.map(|(row, c)| (row as u64, (c, c.len))).collect();
        let (mut block, mut start, mut failed) = (Vec::new(), 0, None);
        remote.read_all(&source.place.version, &mut |mut bytes| {
            while !bytes.is_empty() {
                let room = (unit.min(spare.size - start) as usize).saturating_sub(block.len());
                let take = room.min(bytes.len());
                if take == 0 {
                    failed = Some(Failure::new(FetchError::Changed, "the source is longer than it was"));
                    return false;
                }
                block.extend_from_slice(&bytes[..take]);
                bytes = &bytes[take..];
                if take == room {
                    if let Err(e) = self.keep(spare, start, &block, &mut wanted, passed) {
                        failed = Some(e);
                        return false;
                    }
                    start += block.len() as u64;
                    block.clear();
                }
            }
            !wanted.is_empty()
        })?;
        self.stats.add(Metric::RecoveryBytes, start);
        spare.tally.count(|cost| cost.fetched_bytes += start);
        failed.map_or(Ok(()), Err)
    }

    /// Writes the parts of missing rows that lie in a verified block.
    fn keep(
        &self,
        spare: &Spare,
        start: u64,
        block: &[u8],
        wanted: &mut BTreeMap<u64, (Chunk, u64)>,
        passed: Passed,
    ) -> Result<(), Failure> {
        let end = start + block.len() as u64;
        let touches = |c: &Chunk| c.file_offset < end && c.file_offset + c.len > start;
        let rows: Vec<u64> = wanted.iter().filter(|(_, (c, _))| touches(c)).map(|(row, _)| *row).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let verified = self.verify(spare, start, block);
        for row in rows {
            let Some((chunk, left)) = wanted.get_mut(&row) else { continue };
            if verified.is_err() {
                wanted.remove(&row);
                passed(row, false);
                continue;
            }
            let from = chunk.file_offset.max(start);
            let to = (chunk.file_offset + chunk.len).min(end);
            let part = block[(from - start) as usize..(to - start) as usize].to_vec();
            *left -= to - from;
            let whole = *left == 0;
            let len = part.len();
            self.write(spare, chunk.object_offset + (from - chunk.file_offset), part, 0..len)?;
            if whole {
                wanted.remove(&row);
                passed(row, true);
            }
        }
        Ok(())
    }
}
