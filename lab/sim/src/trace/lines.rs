//! Reader of text formats: finds the lines, calls the format's parser, keeps the accounts.

use super::bytes::Bytes;
use super::intake::{Intake, within};
use super::origin::Origin;
use super::{Accounting, Error, Passed, Reader, Reason, Record};

/// Maximum length of a line in known formats, so that a file without line ends does not fill memory.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;

/// Most bytes of a malformed line in an error message.
const SEEN_BYTES_MAX: usize = 80;

/// A parsed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line with a request.
    Record(Record),
    /// A correct line without a request.
    Passed(Passed),
}

/// A text format: a parser from a line to a record, with its state.
pub(super) trait LineFormat: Send {
    /// Description of a correct line.
    const EXPECTED: &'static str;

    /// Description of a correct line of this file.
    fn expected(&self) -> &'static str {
        Self::EXPECTED
    }

    /// Parses a line, without its end.
    fn line(&mut self, line: &[u8]) -> Result<Line, Reason>;

    /// Returns whether the lines so far have times.
    fn has_times(&self) -> bool {
        true
    }
}

/// Reader of a text format.
pub(super) struct Lines<F> {
    bytes: Bytes,
    format: F,
    intake: Intake,
    done: bool,
}

impl<F: LineFormat> Lines<F> {
    pub(super) fn new(bytes: Bytes, format: F, lenient: bool, origin: Origin) -> Lines<F> {
        let intake = Intake::new(bytes.path(), lenient, origin);
        Lines { bytes, format, intake, done: false }
    }

    /// Finds the next line: its length, and the bytes to consume. `None` at the end of the file.
    fn find(&mut self) -> Result<Option<LineEnd>, Error> {
        let mut searched = 0;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.bytes.held()[searched..]) {
                let length = searched + at;
                return Ok(Some(LineEnd { length, used: length + 1, whole: length <= LINE_BYTES_MAX }));
            }
            searched = self.bytes.held().len();
            if searched > LINE_BYTES_MAX {
                return Ok(Some(LineEnd { length: LINE_BYTES_MAX, used: searched, whole: false }));
            }
            if self.bytes.want(searched + 1)? == searched {
                let found = LineEnd { length: searched, used: searched, whole: true };
                return Ok((searched > 0).then_some(found));
            }
        }
    }

    /// Consumes the rest of a line that was too long.
    fn skip_to_end_of_line(&mut self) -> Result<(), Error> {
        while self.bytes.want(1)? > 0 {
            match memchr::memchr(b'\n', self.bytes.held()) {
                Some(at) => {
                    self.bytes.advance(at + 1);
                    return Ok(());
                }
                None => self.bytes.advance(usize::MAX),
            }
        }
        Ok(())
    }

    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        while let Some(found) = self.find()? {
            let line = &self.bytes.held()[..found.length];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let read = within(if found.whole { self.format.line(line) } else { Err(Reason::LineTooLong) });
            let seen = if self.intake.stops_at(&read) { printable(line) } else { String::new() };
            let line_goes_on = !found.whole && self.bytes.held().get(found.used - 1) != Some(&b'\n');
            self.bytes.advance(found.used);
            if line_goes_on {
                self.skip_to_end_of_line()?;
            }
            if let Some(record) = self.intake.take(read, self.format.expected(), || seen)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

struct LineEnd {
    length: usize,
    used: usize,
    whole: bool,
}

fn printable(line: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&line[..line.len().min(SEEN_BYTES_MAX)]);
    shown.chars().map(|c| if c.is_control() { '\u{b7}' } else { c }).collect()
}

impl<F: LineFormat> Iterator for Lines<F> {
    type Item = Result<Record, Error>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.next_record().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

impl<F: LineFormat> Reader for Lines<F> {
    fn accounting(&self) -> &Accounting {
        &self.intake.accounting
    }

    fn has_times(&self) -> bool {
        self.format.has_times()
    }
}

#[cfg(test)]
mod tests;
