//! Several files as one trace: the earliest record next, ties in the order of the files.

use super::origin::Origin;
use super::{Accounting, Error, Reader, Record};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Merges readers that are each in order (blktrace writes one file per CPU); may give each reader a client number.
pub(super) struct Merged {
    readers: Vec<Box<dyn Reader>>,
    /// Next record of each reader, by time and number of the reader.
    next: BinaryHeap<Reverse<(u64, usize, Record)>>,
    /// Readers that must be read before the next record is returned.
    behind: Vec<usize>,
    /// Whether records of the n-th file get n as client.
    number_clients: bool,
    origin: Origin,
    accounting: Accounting,
    done: bool,
}

impl Merged {
    pub(super) fn new(readers: Vec<Box<dyn Reader>>, number_clients: bool, origin: Origin) -> Merged {
        let behind = (0..readers.len()).rev().collect();
        let (next, accounting) = (BinaryHeap::new(), Accounting::default());
        Merged { readers, next, behind, number_clients, origin, accounting, done: false }
    }

    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        while let Some(n) = self.behind.pop() {
            if let Some(record) = self.readers[n].next() {
                let record = record?;
                self.next.push(Reverse((record.time_ns, n, record)));
            }
        }
        let Some(Reverse((_, n, mut record))) = self.next.pop() else { return Ok(None) };
        self.behind.push(n);
        if self.number_clients {
            record.client = n as u32;
        }
        self.origin.apply(&mut record);
        Ok(Some(record))
    }
}

impl Iterator for Merged {
    type Item = Result<Record, Error>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.next_record().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.done = true;
            self.readers.iter().for_each(|r| self.accounting.add(r.accounting()));
        }
        next
    }
}

impl Reader for Merged {
    /// Returns the sum over the files, once the end is reached.
    fn accounting(&self) -> &Accounting {
        &self.accounting
    }

    fn has_times(&self) -> bool {
        self.readers.iter().all(|reader| reader.has_times())
    }
}
