//! A reader of any binary format of records one after the other: keeps the accounts, says where it broke off.

use super::bytes::Bytes;
use super::intake::{Intake, within};
use super::lines::Line;
use super::origin::Origin;
use super::{Accounting, Error, Reader, Reason, Record};

/// A binary format.
pub(super) trait RecordFormat: Send {
    /// What a record is.
    const EXPECTED: &'static str;

    /// Reads the next record; gives also the bytes to use up. None at a proper end. An error ends the trace unless the
    /// bytes to use up are known.
    fn record(&mut self, bytes: &mut Bytes) -> Result<Option<Step>, Error>;
}

/// What a record is, and how long.
pub(super) struct Step {
    /// The record, or why it is none.
    pub(super) what: Result<Line, Reason>,
    /// Its bytes; None if the damage hides where the next one begins.
    pub(super) used: Option<usize>,
}

impl Step {
    /// A record that is cut off or not one: what follows can't be found.
    pub(super) fn lost(reason: Reason) -> Step {
        Step { what: Err(reason), used: None }
    }
}

/// The reader.
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
}

/// A little-endian number at a place of a record; the record is known to be long enough.
pub(super) fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(record[at..at + 2].try_into().expect("two bytes"))
}

/// As `u16_at`, 32 bits.
pub(super) fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"))
}

/// As `u16_at`, 64 bits.
pub(super) fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"))
}
