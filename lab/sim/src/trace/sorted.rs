//! Records in order of time: all kept in memory, sorted stably, then returned.

use super::{Accounting, Error, Reader, Record};

/// Reads everything at the first request for a record; then returns records by time.
pub(super) struct Sorted<R> {
    from: R,
    held: Option<std::vec::IntoIter<Record>>,
    max: usize,
    error: Option<Error>,
}

impl<R: Reader> Sorted<R> {
    /// Creates a reader that keeps at most `max` records.
    pub(super) fn new(from: R, max: usize) -> Sorted<R> {
        Sorted { from, held: None, max, error: None }
    }

    fn fill(&mut self) -> std::vec::IntoIter<Record> {
        let mut held = Vec::new();
        for record in self.from.by_ref() {
            match record {
                Ok(_) if held.len() == self.max => {
                    self.error = Some(Error::TooManyToSort { max: self.max });
                    return Vec::new().into_iter();
                }
                Ok(record) => held.push(record),
                Err(e) => {
                    self.error = Some(e);
                    break;
                }
            }
        }
        held.sort_by_key(|r| r.time_ns);
        held.into_iter()
    }
}

impl<R: Reader> Iterator for Sorted<R> {
    type Item = Result<Record, Error>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.held.is_none() {
            self.held = Some(self.fill());
        }
        let next = self.held.as_mut().and_then(Iterator::next);
        next.map(Ok).or_else(|| self.error.take().map(Err))
    }
}

impl<R: Reader> Reader for Sorted<R> {
    fn accounting(&self) -> &Accounting {
        self.from.accounting()
    }

    fn has_times(&self) -> bool {
        self.from.has_times()
    }
}
