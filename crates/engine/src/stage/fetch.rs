//! Fetch of one file: units of whole stripes, several in flight, written straight into the striped layout. Each stripe
//! is checksummed on its way.

use super::incoming::Incoming;
use super::progress::Meter;
use super::shared::{Helpers, UNITS_AT_ONCE, work_off, work_off_here};
use super::sources::Sources;
use super::sums::{SUM_BYTES_U64, cut};
use super::{Result, StageError};
use crate::source::SUM_BYTES;
use rustix::io::Errno;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Units in flight. A guess: fills a gigabit line at 100 ms with units of 4 MiB.
const IN_FLIGHT: usize = 8;

/// Minimum size of a unit, which is whole stripes.
pub(super) const UNIT_BYTES_MIN: u64 = 4 << 20;

/// Maximum range per request: bounds the memory to this times [`IN_FLIGHT`].
const RANGE_BYTES_MAX: u64 = 8 << 20;

/// The progress is made durable after this many bytes or this time, so that little is fetched again after a crash, from
/// fast and slow sources. Guesses.
pub(super) const SAVE_EVERY_BYTES: u64 = 256 << 20;
pub(super) const SAVE_EVERY: Duration = Duration::from_secs(1);

/// Fetches the units that are missing, with the help of other nodes if there are any.
pub(super) fn fetch(incoming: &Incoming, sources: &Sources, helpers: Option<&Helpers>, meter: &Meter) -> Result<()> {
    if !sources.any_by_ranges() {
        return fetch_in_order(incoming, sources, meter);
    }
    let left = |unit: &u64| !incoming.is_done(*unit);
    let here = |unit| fetch_unit(incoming, sources, unit, meter).and_then(|()| done(incoming, unit));
    let elsewhere = |helpers: &Helpers, name: &str, units: &mut Vec<u64>| {
        let has_brought = incoming.has_brought(helpers, name, sources, units);
        for unit in has_brought.then(|| units.drain(..)).into_iter().flatten() {
            meter.add(bytes(incoming, unit));
            done(incoming, unit)?;
        }
        Ok(())
    };
    let units = (0..incoming.units()).filter(left).collect();
    work_off(units, IN_FLIGHT, helpers, Helpers::units_of, here, elsewhere).inspect_err(|_| {
        // Earlier units count; if even this save fails, the first error has the cause.
        if let Err(also) = incoming.save() {
            tracing::warn!("the fetched bytes of {} are not kept: {also}", incoming.progress.uri);
        }
    })
}

/// Fetches some units on behalf of another node.
pub(super) fn fetch_some(incoming: &Incoming, sources: &Sources, units: &[u64], meter: &Meter) -> Result<()> {
    work_off_here(units.to_vec(), UNITS_AT_ONCE, |unit| fetch_unit(incoming, sources, unit, meter))
}

fn bytes(incoming: &Incoming, unit: u64) -> u64 {
    let range = incoming.range(unit);
    range.end - range.start
}

fn done(incoming: &Incoming, unit: u64) -> Result<()> {
    if incoming.done(unit, bytes(incoming, unit)) { incoming.save() } else { Ok(()) }
}

fn fetch_unit(incoming: &Incoming, sources: &Sources, unit: u64, meter: &Meter) -> Result<()> {
    let (range, range_bytes) = (incoming.range(unit), incoming.piece_bytes().unwrap_or(RANGE_BYTES_MAX));
    let mut stripes = Stripes::new(incoming, range.start);
    let mut offset = range.start;
    while offset < range.end {
        let len = (range.end - offset).min(range_bytes);
        let bytes = sources.read_at(offset, len as usize, Some(meter))?;
        incoming.write(offset, &bytes)?;
        stripes.take(&bytes)?;
        offset += len;
        meter.add_arrived(len);
    }
    stripes.finish()
}

/// Reads from start to end: for sources without ranges, or whose ranges could be of several versions.
fn fetch_in_order(incoming: &Incoming, sources: &Sources, meter: &Meter) -> Result<()> {
    let (place, _) = &sources.list[0];
    let mut stripes = Stripes::new(incoming, 0);
    let (mut offset, mut failed) = (0, None);
    let read = sources.read_all(&mut |bytes| {
        let mut written = || -> Result<()> {
            incoming.transfer.check_stop()?;
            if offset + bytes.len() as u64 > place.version.size {
                let why = crate::source::SourceError::Changed("it is longer than it was".into());
                return Err(StageError::of_source(&place.uri, why));
            }
            incoming.write(offset, bytes)?;
            stripes.take(bytes)
        };
        failed = written().err();
        offset += bytes.len() as u64;
        meter.add(bytes.len() as u64);
        failed.is_none()
    });
    if let Some(e) = failed {
        return Err(e);
    }
    read.or_else(|e| incoming.transfer.check_stop().and(Err(e)))?;
    if offset != place.version.size {
        let why = crate::source::SourceError::Passing(format!("it ended after {offset} bytes"));
        return Err(StageError::of_source(&place.uri, why));
    }
    stripes.finish()
}

/// Checksums per write: each write is a call of the namespace, which may be remote.
const SUMS_AT_ONCE: usize = 64;

/// Cuts bytes that arrive in order into stripes and records their checksums.
struct Stripes<'a> {
    incoming: &'a Incoming<'a>,
    /// The first stripe without a written checksum, and the pending checksums.
    number: u64,
    sums: Vec<u8>,
    filled: u64,
    hasher: blake3::Hasher,
}

impl<'a> Stripes<'a> {
    fn new(incoming: &'a Incoming<'a>, offset: u64) -> Stripes<'a> {
        let number = offset.checked_div(incoming.stripe_bytes).unwrap_or(0);
        Stripes { incoming, number, sums: Vec::new(), filled: 0, hasher: blake3::Hasher::new() }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        if self.incoming.stripe_bytes == 0 {
            return Ok(());
        }
        while !bytes.is_empty() {
            let room = self.incoming.stripe_bytes - self.filled;
            let (head, tail) = bytes.split_at(bytes.len().min(room as usize));
            self.hasher.update(head);
            self.filled += head.len() as u64;
            if self.filled == self.incoming.stripe_bytes {
                self.put()?;
            }
            bytes = tail;
        }
        Ok(())
    }

    fn put(&mut self) -> Result<()> {
        self.sums.extend(cut(self.hasher.finalize()));
        self.hasher.reset();
        self.filled = 0;
        if self.sums.len() >= SUMS_AT_ONCE * SUM_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let written = self.incoming.sums.write_all_at(&self.sums, self.number * SUM_BYTES_U64);
        written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        self.number += (self.sums.len() / SUM_BYTES) as u64;
        self.sums.clear();
        Ok(())
    }

    /// Records the last stripe, which may be short.
    fn finish(mut self) -> Result<()> {
        if self.filled > 0 {
            self.put()?;
        }
        self.write()
    }
}
