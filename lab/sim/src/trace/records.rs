//! Reader of a trace: its format finds and parses one record after another, and the reader checks and counts them.

use super::bytes::Bytes;
use super::origin::Origin;
use super::{Accounting, Error, Malformed, Passed, Reader, Reason, Record};

/// A format: finds the next record in a stream.
pub(super) trait RecordFormat: Send {
    /// Description of a correct record.
    const EXPECTED: &'static str;

    /// Description of a correct record of this file.
    fn expected(&self) -> &'static str {
        Self::EXPECTED
    }

    /// Reads the next record; returns its size as well. `None` at a proper end. An error ends the trace unless the size
    /// is known.
    fn record(&mut self, bytes: &mut Bytes) -> Result<Option<Step>, Error>;

    /// Text of the malformed record at the head of the bytes, for the message.
    fn seen(&self, _bytes: &Bytes) -> String {
        String::new()
    }

    /// Returns whether the requests read so far have times.
    fn has_times(&self) -> bool {
        true
    }
}

/// A parsed record of a file, or line of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// One with a request.
    Record(Record),
    /// A correct one without a request.
    Passed(Passed),
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

/// Reader of a format.
pub(super) struct Records<F> {
    bytes: Bytes,
    format: F,
    lenient: bool,
    origin: Origin,
    accounting: Accounting,
    done: bool,
}

impl<F: RecordFormat> Records<F> {
    pub(super) fn new(bytes: Bytes, format: F, lenient: bool, origin: Origin) -> Records<F> {
        Records { bytes, format, lenient, origin, accounting: Accounting::default(), done: false }
    }

    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        while !self.done {
            let Some(step) = self.format.record(&mut self.bytes)? else { return Ok(None) };
            let taken = self.take(step.what)?;
            match step.used {
                Some(used) => self.bytes.advance(used),
                None => self.done = true,
            }
            if taken.is_some() {
                return Ok(taken);
            }
        }
        Ok(None)
    }

    /// Counts one record. Returns its request; `None` if it was passed over, or is malformed and the reader lenient.
    fn take(&mut self, read: Result<Line, Reason>) -> Result<Option<Record>, Error> {
        self.accounting.lines += 1;
        let line = self.accounting.lines;
        match read.and_then(within) {
            Ok(Line::Record(mut record)) => {
                self.accounting.records += 1;
                self.origin.apply(&mut record);
                Ok(Some(record))
            }
            Ok(Line::Passed(why)) => {
                self.accounting.pass(why);
                Ok(None)
            }
            Err(reason) => {
                self.accounting.skip(reason, line);
                if self.lenient {
                    return Ok(None);
                }
                let (path, seen) = (self.bytes.path().to_owned(), self.format.seen(&self.bytes));
                let expected = self.format.expected();
                Err(Error::Malformed(Box::new(Malformed { path, line, reason, expected, seen })))
            }
        }
    }
}

/// Rejects a request whose end exceeds every disk.
fn within(line: Line) -> Result<Line, Reason> {
    match line {
        Line::Record(r) if r.offset.checked_add(u64::from(r.length)).is_none() => Err(Reason::BeyondEnd),
        _ => Ok(line),
    }
}

impl<F: RecordFormat> Iterator for Records<F> {
    type Item = Result<Record, Error>;
    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_record().transpose();
        self.done |= !matches!(next, Some(Ok(_)));
        next
    }
}

impl<F: RecordFormat> Reader for Records<F> {
    fn accounting(&self) -> &Accounting {
        &self.accounting
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
