//! Text formats: finds the lines of a file, and calls the format's parser.

use super::bytes::Bytes;
use super::records::{Line, RecordFormat, Step};
use super::{Error, Reason};

/// Maximum length of a line in known formats, so that a file without line ends does not fill memory.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;

/// Most bytes of a malformed line in an error message.
const SEEN_BYTES_MAX: usize = 80;

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

/// A text format as a format of records.
pub(super) struct Lines<F> {
    format: F,
    /// Whether the end of a line that was too long is still to find.
    in_long_line: bool,
}

impl<F: LineFormat> Lines<F> {
    pub(super) fn of(format: F) -> Lines<F> {
        Lines { format, in_long_line: false }
    }
}

impl<F: LineFormat> RecordFormat for Lines<F> {
    const EXPECTED: &'static str = F::EXPECTED;

    fn expected(&self) -> &'static str {
        self.format.expected()
    }

    fn record(&mut self, bytes: &mut Bytes) -> Result<Option<Step>, Error> {
        if std::mem::take(&mut self.in_long_line) {
            skip_to_end_of_line(bytes)?;
        }
        let Some(LineEnd { length, used, whole }) = find(bytes)? else { return Ok(None) };
        let line = &bytes.held()[..length];
        let what = if whole { self.format.line(without_return(line)) } else { Err(Reason::LineTooLong) };
        self.in_long_line = !whole && bytes.held()[used - 1] != b'\n';
        Ok(Some(Step { what, used: Some(used) }))
    }

    fn seen(&self, bytes: &Bytes) -> String {
        let line = bytes.held().split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = without_return(line);
        let shown = String::from_utf8_lossy(&line[..line.len().min(SEEN_BYTES_MAX)]);
        shown.chars().map(|c| if c.is_control() { '\u{b7}' } else { c }).collect()
    }

    fn has_times(&self) -> bool {
        self.format.has_times()
    }
}

struct LineEnd {
    length: usize,
    /// Bytes to consume.
    used: usize,
    whole: bool,
}

/// Finds the end of the next line. `None` at the end of the file.
fn find(bytes: &mut Bytes) -> Result<Option<LineEnd>, Error> {
    let mut searched = 0;
    loop {
        if let Some(at) = memchr::memchr(b'\n', &bytes.held()[searched..]) {
            let length = searched + at;
            return Ok(Some(LineEnd { length, used: length + 1, whole: length <= LINE_BYTES_MAX }));
        }
        searched = bytes.held().len();
        if searched > LINE_BYTES_MAX {
            return Ok(Some(LineEnd { length: LINE_BYTES_MAX, used: searched, whole: false }));
        }
        if bytes.want(searched + 1)? == searched {
            let found = LineEnd { length: searched, used: searched, whole: true };
            return Ok((searched > 0).then_some(found));
        }
    }
}

/// Consumes the rest of a line that was too long.
fn skip_to_end_of_line(bytes: &mut Bytes) -> Result<(), Error> {
    while bytes.want(1)? > 0 {
        match memchr::memchr(b'\n', bytes.held()) {
            Some(at) => {
                bytes.advance(at + 1);
                return Ok(());
            }
            None => bytes.advance(usize::MAX),
        }
    }
    Ok(())
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests;
