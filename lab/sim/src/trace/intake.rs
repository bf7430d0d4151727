//! Intake of a parsed line or record: it is checked, counted, and its time is shifted.

use super::lines::Line;
use super::origin::Origin;
use super::{Accounting, Error, Malformed, Reason, Record};
use std::path::{Path, PathBuf};

/// Intake shared by readers of lines and of binary records.
pub(super) struct Intake {
    /// Path of the file, for messages.
    path: PathBuf,
    lenient: bool,
    origin: Origin,
    /// Accounts of every line so far.
    pub(super) accounting: Accounting,
}

/// Rejects a request whose end exceeds every disk.
pub(super) fn within(read: Result<Line, Reason>) -> Result<Line, Reason> {
    match read {
        Ok(Line::Record(r)) if r.offset.checked_add(u64::from(r.length)).is_none() => Err(Reason::BeyondEnd),
        other => other,
    }
}

impl Intake {
    pub(super) fn new(path: &Path, lenient: bool, origin: Origin) -> Intake {
        Intake { path: path.to_owned(), lenient, origin, accounting: Accounting::default() }
    }

    /// Returns whether [`Intake::take`] will end the trace with an error here.
    pub(super) fn stops_at(&self, read: &Result<Line, Reason>) -> bool {
        read.is_err() && !self.lenient
    }

    /// Counts one line. Returns its request; `None` if it was passed over, or is malformed and the reader lenient.
    ///
    /// # Errors
    /// The line is malformed and the reader strict: with `expected` and `seen`.
    pub(super) fn take(
        &mut self,
        read: Result<Line, Reason>,
        expected: &'static str,
        seen: impl FnOnce() -> String,
    ) -> Result<Option<Record>, Error> {
        self.accounting.lines += 1;
        let line = self.accounting.lines;
        match read {
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
                let path = self.path.clone();
                Err(Error::Malformed(Box::new(Malformed { path, line, reason, expected, seen: seen() })))
            }
        }
    }
}
