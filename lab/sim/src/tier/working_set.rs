//! Size of the working set: the distinct locations of each window, one after the other.
//!
//! The working set fits if the fast tier has space for the largest of them.

use crate::volume::Requests;
use policy::tier::machine::Window;
use policy::time::Time;
use std::collections::BTreeSet;

/// Returns the number of locations accessed in each window of the trace. The last window may be shorter.
pub fn working_sets(requests: &Requests, window: Window) -> Vec<u64> {
    let mut sets = Vec::new();
    let mut now: BTreeSet<u32> = BTreeSet::new();
    let (mut counted, mut began) = (0, Time::ZERO);
    for n in 0..requests.len() {
        let ends = match window {
            Window::Requests(requests) => counted >= requests.max(1),
            Window::Span(span) => requests.get(n).time.since(began) >= span,
        };
        if ends {
            sets.push(now.len() as u64);
            now.clear();
            (counted, began) = (0, requests.get(n).time);
        }
        counted += 1;
        now.extend(requests.pieces(n).iter().map(|piece| piece.at));
    }
    if !now.is_empty() {
        sets.push(now.len() as u64);
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Record;

    #[test]
    fn each_window_counts_its_distinct_locations() {
        let mut requests = Requests::default();
        for (time_ns, block) in [(0, 1), (1, 1), (2, 2), (10, 3), (11, 3)] {
            requests.add(0, &Record { time_ns, offset: block * 64, length: 64, ..Record::default() }, 64);
        }
        assert_eq!(working_sets(&requests, Window::Requests(2)), [1, 2, 1]);
        assert_eq!(working_sets(&requests, Window::Span(Time(10))), [2, 1]);
    }
}
