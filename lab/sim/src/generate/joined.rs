//! Requests of single pages joined to system calls of several pages.
//!
//! The published traces hold `read()` calls: Zhang's OLTP has 18.6 KB a request, and section 3.5 has random reads of one
//! or two blocks. The generators issue pages, as a device behind a cache sees them.

use super::Rng;
use crate::trace::{Op, Record};
use std::collections::BTreeMap;

const PAGE_BYTES: u32 = 4096;

/// Joins a read to an earlier one of its client and file that ended where it begins. A call takes from 1 to `most` such
/// reads, drawn evenly. A page that stays alone begins half a page earlier, and so has two blocks, with probability
/// `crossing`.
pub fn joined(
    records: impl Iterator<Item = Record>,
    most: u64,
    crossing: f64,
    seed: u64,
) -> std::vec::IntoIter<Record> {
    let mut rng = Rng::new(seed, u64::MAX);
    let mut calls: Vec<Record> = Vec::new();
    // By client, file and end: the call, and how many reads it may still take.
    let mut ends: BTreeMap<(u32, u32, u64), (usize, u64)> = BTreeMap::new();
    for record in records {
        let key = |end: u64| (record.client, record.file, end);
        let end = record.offset + u64::from(record.length);
        let open = ends.remove(&key(record.offset)).filter(|(_, left)| *left > 0 && record.op == Op::Read);
        let (at, left) = match open {
            Some((at, left)) => {
                calls[at].length += record.length;
                (at, left - 1)
            }
            None => {
                calls.push(record);
                (calls.len() - 1, rng.below(most.max(1)))
            }
        };
        if record.op == Op::Read {
            ends.insert(key(end), (at, left));
        }
    }
    for call in calls.iter_mut().filter(|call| call.length == PAGE_BYTES && call.offset > 0) {
        if rng.chance(crossing) {
            call.offset -= u64::from(PAGE_BYTES / 2);
        }
    }
    calls.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_become_calls_of_at_most_so_many_pages_and_no_byte_is_lost() {
        let page = |n: u64, file| Record { offset: n * 4096, length: PAGE_BYTES, file, ..Record::default() };
        let runs = || (0..200).flat_map(|n| [page(n, 1), page(2 * n, 2)]);
        let calls: Vec<_> = joined(runs(), 7, 0.0, 1).collect();
        let bytes = |file| calls.iter().filter(|c| c.file == file).map(|c| u64::from(c.length)).sum::<u64>();
        assert_eq!((bytes(1), bytes(2)), (200 * 4096, 200 * 4096));
        let of_run: Vec<_> = calls.iter().filter(|c| c.file == 1).map(|c| c.length / PAGE_BYTES).collect();
        assert!(of_run.len() < 100 && of_run.iter().all(|pages| (1..=7).contains(pages)), "{of_run:?}");
        assert!(calls.iter().filter(|c| c.file == 2).all(|c| c.length == PAGE_BYTES));
        let crossing = joined(runs(), 1, 0.5, 1).filter(|c| !c.offset.is_multiple_of(4096)).count();
        assert!((150..250).contains(&crossing), "{crossing} of 398");
    }
}
