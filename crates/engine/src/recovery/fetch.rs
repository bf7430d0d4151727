//! Fetches one row, from an interrupted recovery or from a source; verifies it, and writes it to the spare.
//!
//! Checksums cover stripes of the file at the time of its stage-in. The mover may have striped it differently since.
//! So the fetched range is the row's range widened to whole checksum stripes.

use super::case::{RecordedSource, Spare};
use super::driver::Driver;
use crate::source::SourceError;
use crate::stats::Metric;
use object::target::Medium;
use policy::layout::Chunk;
use policy::protect::recovery::{Event, FetchError, Key};
use std::cell::Cell;
use std::ops::Range;

thread_local! {
    /// Buffer for a row, as large as the largest so far.
    static BLOCK: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Reason why a row could not be fetched.
#[derive(Clone)]
pub(super) struct Failure {
    pub kind: FetchError,
    pub text: String,
}

impl Failure {
    pub fn new(kind: FetchError, text: impl Into<String>) -> Failure {
        Failure { kind, text: text.into() }
    }
}

impl From<SourceError> for Failure {
    fn from(e: SourceError) -> Failure {
        let kind = match &e {
            SourceError::Passing(_) => FetchError::Passing,
            SourceError::Permanent(_) | SourceError::Denied(_) => FetchError::Permanent,
            SourceError::Changed(_) => FetchError::Changed,
        };
        Failure::new(kind, e.to_string())
    }
}

impl Driver {
    /// Fetches a row from one source.
    pub(super) fn fetch(&self, key: Key, row: u64, source_index: usize) {
        let spare = self.case(key).and_then(|case| case.spare());
        let Some(spare) = spare else {
            return self.handle(Event::FetchFailed { key, row, kind: FetchError::Permanent });
        };
        let fetched = match (spare.chunk(row), spare.sources.get(source_index)) {
            (Some(chunk), _) if self.take_over(&spare, &chunk) => Ok(()),
            (Some(chunk), Some(source)) => self.fetch_chunk(&spare, source, row, &chunk),
            (None, _) => Ok(()), // beyond the end there is nothing to fetch
            (_, None) => Err(Failure::new(FetchError::Permanent, "there is no such source")),
        };
        match fetched {
            Ok(()) => {
                self.stats.add(Metric::RecoveryStripes, 1);
                spare.tally.count(|cost| cost.recovered_stripes += 1);
                self.handle(Event::Patched { key, row });
            }
            Err(Failure { kind, text }) => {
                let uri = spare.sources.get(source_index).map_or("", |s| s.place.uri.as_str());
                if kind == FetchError::Passing {
                    self.stats.add(Metric::RecoveryRetries, 1);
                }
                self.warn(key, |name| format!("stripe {row} of {name} from {uri}: {text}"));
                self.handle(Event::FetchFailed { key, row, kind });
            }
        }
    }

    /// Takes a row over from an interrupted recovery, if its checksum proves that it was patched. Returns whether the
    /// row is complete.
    fn take_over(&self, spare: &Spare, chunk: &Chunk) -> bool {
        let Some((target, handle)) = &spare.earlier else { return false };
        // Only a row of whole checksum stripes can be verified.
        if widened(spare, chunk) != (chunk.file_offset..chunk.file_offset + chunk.len) {
            return false;
        }
        let (handle, offset, len) = (handle.clone(), chunk.object_offset, chunk.len as usize);
        let read = target.run(move |_| {
            let mut bytes = vec![0; len];
            let read = handle.read_at(offset, &mut bytes)?;
            Ok((read == len).then_some(bytes))
        });
        let Ok(Some(bytes)) = read else { return false };
        self.verify(spare, chunk.file_offset, &bytes).is_ok() && self.write(spare, offset, bytes, 0..len).is_ok()
    }

    fn fetch_chunk(&self, spare: &Spare, source: &RecordedSource, row: u64, chunk: &Chunk) -> Result<(), Failure> {
        if spare.sums.is_none() && !source.place.version.tells_apart() {
            let text = "the checksums are gone, and the file cannot be verified without them";
            return Err(Failure::new(FetchError::Permanent, text));
        }
        let remote = source.open(&*self.opener)?;
        if !source.has_ranges(&*remote)? {
            return source.sweep.row(row, |done| self.sweep_all(spare, source, &*remote, done));
        }
        let range = widened(spare, chunk);
        let mut bytes = BLOCK.take();
        bytes.resize((range.end - range.start) as usize, 0);
        remote.read_at(&source.place.version, range.start, &mut bytes)?;
        self.stats.add(Metric::RecoveryBytes, bytes.len() as u64);
        spare.tally.count(|cost| cost.fetched_bytes += bytes.len() as u64);
        self.verify(spare, range.start, &bytes)?;
        let skip = (chunk.file_offset - range.start) as usize;
        BLOCK.set(self.write(spare, chunk.object_offset, bytes, skip..skip + chunk.len as usize)?);
        Ok(())
    }

    /// Verifies whole checksum stripes that begin at `offset`.
    pub(super) fn verify(&self, spare: &Spare, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let Some(sums) = &spare.sums else { return Ok(()) };
        for (k, stripe) in bytes.chunks(sums.stripe_bytes() as usize).enumerate() {
            let number = offset / sums.stripe_bytes() + k as u64;
            match sums.matches(number, stripe) {
                Ok(true) => {}
                Ok(false) => {
                    let text = format!("the checksum of bytes from {} does not match", number * sums.stripe_bytes());
                    return Err(Failure::new(FetchError::BadChecksum, text));
                }
                Err(e) => {
                    return Err(Failure::new(FetchError::Permanent, format!("the checksums cannot be read: {e}")));
                }
            }
        }
        Ok(())
    }

    /// Writes `part` of the bytes to the spare, and returns the buffer.
    pub(super) fn write(
        &self,
        spare: &Spare,
        offset: u64,
        bytes: Vec<u8>,
        part: Range<usize>,
    ) -> Result<Vec<u8>, Failure> {
        let handle = spare.handle.clone();
        let write = move |_: &dyn Medium| {
            let part = &bytes[part];
            handle.write_at(offset, part)?;
            // The device starts to write now, rather than all at the end.
            handle.begin_sync(offset, part.len() as u64);
            Ok(bytes)
        };
        let failed = |e| format!("target {} cannot take it: {e}", spare.target.name());
        spare.target.run(write).map_err(|e| Failure::new(FetchError::Permanent, failed(e)))
    }
}

/// The range of a row, widened to whole checksum stripes.
fn widened(spare: &Spare, chunk: &Chunk) -> Range<u64> {
    let (start, end) = (chunk.file_offset, chunk.file_offset + chunk.len);
    let Some(stripe) = spare.sums.as_ref().map(|s| s.stripe_bytes()) else { return start..end };
    start - start % stripe..(end.div_ceil(stripe) * stripe).min(spare.size)
}
