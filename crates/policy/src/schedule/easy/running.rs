//! The running jobs of one queue by estimated end, in chunks with sums, so that the shadow time takes few steps.

use super::JobId;
use crate::time::Time;

/// A larger chunk is split. Two neighbours with fewer than half of this together are joined.
const CHUNK_MAX: usize = 64;

/// Running job: its end by its estimate, its number, and the capacity that it takes.
type Entry = (Time, JobId, u32);

#[derive(Debug, Default)]
struct Chunk {
    /// Capacity taken by all entries.
    sum: i64,
    /// Ascending by end and number.
    entries: Vec<Entry>,
}

impl Chunk {
    fn new(entries: Vec<Entry>) -> Chunk {
        Chunk { sum: entries.iter().map(|e| i64::from(e.2)).sum(), entries }
    }
}

/// The running jobs of a queue.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// Ascending; none is empty.
    chunks: Vec<Chunk>,
}

impl Running {
    /// Adds a job.
    pub(super) fn insert(&mut self, end: Time, id: JobId, taken: u32) {
        let key = (end, id);
        let n = self.chunk_of(key).min(self.chunks.len().saturating_sub(1));
        let Some(chunk) = self.chunks.get_mut(n) else {
            return self.chunks.push(Chunk::new(vec![(end, id, taken)]));
        };
        let at = chunk.entries.partition_point(|e| (e.0, e.1) < key);
        chunk.entries.insert(at, (end, id, taken));
        chunk.sum += i64::from(taken);
        if chunk.entries.len() > CHUNK_MAX {
            let second = Chunk::new(chunk.entries.split_off(CHUNK_MAX / 2));
            chunk.sum -= second.sum;
            self.chunks.insert(n + 1, second);
        }
    }

    /// Removes a job.
    pub(super) fn remove(&mut self, end: Time, id: JobId) {
        let n = self.chunk_of((end, id));
        let Some(chunk) = self.chunks.get_mut(n) else { return };
        let Ok(at) = chunk.entries.binary_search_by(|e| (e.0, e.1).cmp(&(end, id))) else { return };
        let (_, _, taken) = chunk.entries.remove(at);
        chunk.sum -= i64::from(taken);
        let left = chunk.entries.len();
        if left == 0 {
            self.chunks.remove(n);
        } else if let Some(next) = self.chunks.get_mut(n + 1).filter(|c| c.entries.len() + left < CHUNK_MAX / 2) {
            let mut next = std::mem::take(next);
            self.chunks[n].entries.append(&mut next.entries);
            self.chunks[n].sum += next.sum;
            self.chunks.remove(n + 1);
        }
    }

    /// Time at which at least `lack` (or all capacity, if less) is free, and the capacity freed by the end of that
    /// instant. Jobs that run past their estimate count as ending now.
    pub(super) fn frees(&self, lack: i64, now: Time) -> (Time, i64) {
        let (mut sum, mut at) = (0, now);
        let mut chunks = self.chunks.iter();
        for chunk in chunks.by_ref() {
            if sum + chunk.sum < lack {
                sum += chunk.sum;
                at = chunk.entries.last().map_or(at, |e| e.0.max(now));
                continue;
            }
            let mut entries = chunk.entries.iter();
            for (end, _, taken) in entries.by_ref() {
                sum += i64::from(*taken);
                at = (*end).max(now);
                if sum >= lack {
                    break;
                }
            }
            // All jobs that end at that instant count.
            let rest = entries.chain(chunks.flat_map(|chunk| &chunk.entries));
            let same = rest.take_while(|(end, ..)| (*end).max(now) == at);
            return (at, sum + same.map(|e| i64::from(e.2)).sum::<i64>());
        }
        (at, sum)
    }

    /// Capacity taken by all running jobs.
    pub(super) fn taken(&self) -> i64 {
        self.chunks.iter().map(|chunk| chunk.sum).sum()
    }

    /// Panics if an invariant is broken.
    pub(super) fn check(&self) {
        for chunk in &self.chunks {
            assert!((1..=CHUNK_MAX).contains(&chunk.entries.len()));
            assert_eq!(chunk.sum, chunk.entries.iter().map(|e| i64::from(e.2)).sum::<i64>());
        }
        let all = || self.chunks.iter().flat_map(|chunk| &chunk.entries).map(|e| (e.0, e.1));
        assert!(all().zip(all().skip(1)).all(|(a, b)| a < b), "ascending");
    }

    /// The first chunk whose last entry is not before a key.
    fn chunk_of(&self, key: (Time, JobId)) -> usize {
        self.chunks.partition_point(|chunk| chunk.entries.last().is_some_and(|e| (e.0, e.1) < key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Computes the same by a walk from the earliest end.
    fn walked(running: &BTreeMap<(Time, JobId), u32>, lack: i64, now: Time) -> (Time, i64) {
        let (mut freed, mut at) = (0, now);
        for ((end, _), taken) in running {
            let end = (*end).max(now);
            if freed >= lack && end > at {
                break;
            }
            freed += i64::from(*taken);
            at = end;
        }
        (at, freed)
    }

    proptest! {
        #[test]
        fn frees_as_a_walk_says(
            steps in prop::collection::vec((0u8..5, 0u64..40, 1u32..9, any::<prop::sample::Index>()), 1..500),
        ) {
            let (mut running, mut plain) = (Running::default(), BTreeMap::new());
            for (number, (what, end, taken, which)) in steps.into_iter().enumerate() {
                if what < 3 || plain.is_empty() {
                    running.insert(Time(end), JobId(number as u64), taken);
                    plain.insert((Time(end), JobId(number as u64)), taken);
                } else {
                    let key = *plain.keys().nth(which.index(plain.len())).expect("in range");
                    plain.remove(&key);
                    running.remove(key.0, key.1);
                }
                running.check();
                let all: i64 = plain.values().map(|t| i64::from(*t)).sum();
                prop_assert_eq!(running.taken(), all);
                let lack = 1 + which.index(all as usize + 5) as i64;
                prop_assert_eq!(running.frees(lack, Time(end)), walked(&plain, lack, Time(end)));
                prop_assert_eq!(running.frees(lack, Time(0)), walked(&plain, lack, Time(0)));
            }
        }
    }
}
