//! Reader of binary formats with consecutive records: keeps the accounts, and reports the position of a failure.

use super::bytes::Bytes;
use super::intake::{Intake, within};
use super::lines::Line;
use super::origin::Origin;
use super::{Accounting, Error, Reader, Reason, Record};

/// A binary format.
pub(super) trait RecordFormat: Send {
    /// Description of a record.
    const EXPECTED: &'static str;

    /// Reads the next record; returns its size as well. `None` at a proper end. An error ends the trace unless the size
    /// is known.
    fn record(&mut self, bytes: &mut Bytes) -> Result<Option<Step>, Error>;

    /// Returns whether the requests read so far have times.
    fn has_times(&self) -> bool {
        true
    }
}

/// A parsed record, and its size.
pub(super) struct Step {
    /// The record, or the reason why it is malformed.
    pub(super) what: Result<Line, Reason>,
    /// Its bytes; `None` if the damage hides the start of the next record.
    pub(super) used: Option<usize>,
}

impl Step {
    /// Creates the step of a torn or invalid record: the following ones cannot be found.
    pub(super) fn lost(reason: Reason) -> Step {
        Step { what: Err(reason), used: None }
    }
}

/// Reader of a binary format.
pub(super) struct Fixed<F> {
    bytes: Bytes,
    format: F,
    intake: Intake,
    done: bool,
}

impl<F: RecordFormat> Fixed<F> {
    pub(super) fn new(bytes: Bytes, format: F, lenient: bool, origin: Origin) -> Fixed<F> {
        let intake = Intake::new(bytes.path(), lenient, origin);
        Fixed { bytes, format, intake, done: false }
    }

    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        while !self.done {
            let Some(step) = self.format.record(&mut self.bytes)? else { return Ok(None) };
            match step.used {
                Some(used) => self.bytes.advance(used),
                None => self.done = true,
            }
            if let Some(record) = self.intake.take(within(step.what), F::EXPECTED, String::new)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

impl<F: RecordFormat> Iterator for Fixed<F> {
    type Item = Result<Record, Error>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.next_record().transpose();
        self.done |= !matches!(next, Some(Ok(_)));
        next
    }
}

impl<F: RecordFormat> Reader for Fixed<F> {
    fn accounting(&self) -> &Accounting {
        &self.intake.accounting
    }

    fn has_times(&self) -> bool {
        self.format.has_times()
    }
}

/// Reads a little-endian number at a position of a record; the record is long enough.
pub(super) fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(record[at..at + 2].try_into().expect("two bytes"))
}

/// Reads 32 bits, as `u16_at`.
pub(super) fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"))
}

/// Reads 64 bits, as `u16_at`.
pub(super) fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"))
}
