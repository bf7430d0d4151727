//! Queue of reports from other nodes.

use crate::messages::AccessReport;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Limit of the bytes in the queue; the oldest reports beyond it are dropped. A guess: the reports of a thousand busy
/// nodes in a second or two.
const BYTES_MAX: usize = 64 << 20;

/// Reports in the order of their arrival. Bounded.
#[derive(Default)]
pub struct Inbox(Mutex<Reports>);

#[derive(Default)]
struct Reports {
    reports: VecDeque<(AccessReport, usize)>,
    bytes: usize,
}

impl Inbox {
    /// Adds a report that arrived in so many bytes.
    pub fn put(&self, report: AccessReport, bytes: usize) {
        let mut inbox = self.0.lock();
        inbox.bytes += bytes;
        inbox.reports.push_back((report, bytes));
        while inbox.bytes > BYTES_MAX
            && let Some((_, oldest)) = inbox.reports.pop_front()
        {
            inbox.bytes -= oldest;
        }
    }

    /// Takes all reports.
    pub fn take(&self) -> Vec<AccessReport> {
        std::mem::take(&mut *self.0.lock()).reports.into_iter().map(|(report, _)| report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_the_newest_stay() {
        let inbox = Inbox::default();
        let report = |file: u64| AccessReport { removed: vec![file], ..AccessReport::default() };
        (1..=6).for_each(|n| inbox.put(report(n), BYTES_MAX / 4));
        assert_eq!(inbox.take(), [3, 4, 5, 6].map(report));
        assert!(inbox.take().is_empty());
        inbox.put(report(1), 1);
        assert_eq!(inbox.take(), [report(1)]);
    }
}
