//! Starts of waiting jobs if every job runs to its limit and none overtakes: the estimate of the built-in runner. Slurm
//! has its own planner.
//!
//! First come, first served: each job starts when enough cores are free, and not before the jobs ahead of it.
//! Backfilling only makes starts earlier. So the estimate is exact for the first job, and may be too late for the
//! others.

use std::collections::BTreeMap;

/// Starts of the waiting jobs, in their order.
///
/// `running` has (end, size) of the running jobs, `waiting` (size, length) of the waiting ones, in order; times in
/// milliseconds. A job larger than `capacity` never starts: `None`.
pub fn forecast(now_ms: u64, capacity: u32, running: &[(u64, u32)], waiting: &[(u32, u64)]) -> Vec<Option<u64>> {
    let used: u32 = running.iter().map(|(_, size)| size).sum();
    let mut free = capacity.saturating_sub(used);
    let mut ends: BTreeMap<u64, u32> = BTreeMap::new();
    for (end, size) in running {
        *ends.entry((*end).max(now_ms)).or_default() += size;
    }
    let mut clock = now_ms;
    let mut start = |&(size, length): &(u32, u64)| {
        if size > capacity {
            return None;
        }
        while free < size {
            let (end, given_back) = ends.pop_first()?;
            clock = clock.max(end);
            free += given_back;
        }
        free -= size;
        *ends.entry(clock.saturating_add(length)).or_default() += size;
        Some(clock)
    };
    waiting.iter().map(&mut start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_follow_the_order_and_what_is_free() {
        // Four cores; two are busy until 10, one until 20.
        let running = [(10, 2), (20, 1)];
        let waiting = [(1, 100), (3, 5), (1, 5), (9, 1), (1, 1)];
        // One core is free now, three from 20 on; the first job occupies the fourth until 100.
        assert_eq!(forecast(0, 4, &running, &waiting), [Some(0), Some(20), Some(25), None, Some(25)]);
        assert_eq!(forecast(15, 2, &[(10, 2)], &[(2, 1)]), [Some(15)], "what ran over its time ends any moment");
        assert!(forecast(0, 4, &[], &[]).is_empty());
    }
}
