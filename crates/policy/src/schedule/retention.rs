//! Retention of finished jobs: each user has a bound in number and bytes, and all users together have another.
//!
//! ```text
//! per user   the newest stay, as far as they fit; a user's newest always fits
//! in total   the user who keeps most loses the oldest, until the rest fits
//! ```
//!
//! So the jobs of one user never push out another user's before that user has less.

use std::collections::{BTreeMap, VecDeque};

/// A bound in number and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Jobs at most.
    pub n_max: usize,
    /// Bytes of their scripts and logs.
    pub bytes_max: u64,
}

impl Bound {
    fn holds(&self, n: usize, bytes: u64) -> bool {
        n <= self.n_max && bytes <= self.bytes_max
    }
}

/// Bounds of finished jobs that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Bound of each user.
    pub per_user: Bound,
    /// Bound of all users together.
    pub total: Bound,
}

/// A finished job. Their order is that of their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finished {
    /// End in milliseconds since 1970.
    pub ended_ms: u64,
    /// Number of the job.
    pub id: u64,
    /// User that submitted it.
    pub user: u32,
    /// Bytes of its script and logs.
    pub bytes: u64,
}

/// Jobs of one user that stay so far, the oldest first.
#[derive(Default)]
struct RetainedJobs {
    jobs: VecDeque<Finished>,
    bytes: u64,
}

impl RetainedJobs {
    fn push(&mut self, job: Finished) {
        self.bytes = self.bytes.saturating_add(job.bytes);
        self.jobs.push_back(job);
    }

    fn drop_oldest(&mut self) -> Option<Finished> {
        let job = self.jobs.pop_front()?;
        // The sum is computed again, since it may have saturated.
        self.bytes = self.jobs.iter().fold(0, |sum: u64, job| sum.saturating_add(job.bytes));
        Some(job)
    }
}

impl Retention {
    /// Numbers of the jobs to forget.
    pub fn excess(&self, mut finished: Vec<Finished>) -> Vec<u64> {
        finished.sort_unstable();
        let mut users: BTreeMap<u32, RetainedJobs> = BTreeMap::new();
        let mut forgotten = Vec::new();
        for job in finished {
            let kept = users.entry(job.user).or_default();
            kept.push(job);
            while kept.jobs.len() > 1 && !self.per_user.holds(kept.jobs.len(), kept.bytes) {
                forgotten.extend(kept.drop_oldest());
            }
        }
        loop {
            let n: usize = users.values().map(|kept| kept.jobs.len()).sum();
            let bytes = users.values().fold(0, |sum: u64, kept| sum.saturating_add(kept.bytes));
            if self.total.holds(n, bytes) {
                break;
            }
            let by_number = n > self.total.n_max;
            let most =
                users.values_mut().max_by_key(|kept| if by_number { kept.jobs.len() as u64 } else { kept.bytes });
            match most.and_then(RetainedJobs::drop_oldest) {
                Some(job) => forgotten.push(job),
                None => break,
            }
        }
        forgotten.into_iter().map(|job| job.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETENTION: Retention =
        Retention { per_user: Bound { n_max: 3, bytes_max: 100 }, total: Bound { n_max: 5, bytes_max: 150 } };

    fn jobs(of: &[(u64, u32, u64)]) -> Vec<Finished> {
        of.iter().map(|&(id, user, bytes)| Finished { ended_ms: id, id, user, bytes }).collect()
    }

    #[test]
    fn of_each_user_the_newest_stay() {
        let all: Vec<_> = (1..=5).map(|id| (id, 7, 1)).chain([(6, 8, 1)]).collect();
        assert_eq!(RETENTION.excess(jobs(&all)), [1, 2]);
        assert_eq!(RETENTION.excess(jobs(&[(1, 7, 60), (2, 7, 50), (3, 7, 50)])), [1], "by bytes, too");
        assert_eq!(RETENTION.excess(jobs(&[(1, 7, 1), (2, 7, 140)])), [1], "the newest always stays");
    }

    /// [S-343]
    #[test]
    fn one_user_does_not_push_out_another() {
        let mut all = vec![(1, 8, 1), (2, 8, 1)];
        all.extend((3..1000).map(|id| (id, 7, 1)));
        let excess = RETENTION.excess(jobs(&all));
        assert!(!excess.contains(&1) && !excess.contains(&2), "the other user's two are older and stay");
        assert_eq!(excess.len(), 994);
    }

    #[test]
    fn in_total_those_who_keep_most_lose_their_oldest() {
        let all = [(1, 9, 1), (2, 7, 1), (3, 7, 1), (4, 7, 1), (5, 8, 1), (6, 8, 1), (7, 8, 1)];
        assert_eq!(RETENTION.excess(jobs(&all)), [5, 2]);
        let all = [(1, 9, 10), (2, 7, 40), (3, 7, 60), (4, 8, 50)];
        assert_eq!(RETENTION.excess(jobs(&all)), [2], "by bytes, too");
        let many: Vec<_> = (0..9).map(|id| (id, id as u32, u64::MAX)).collect();
        assert_eq!(RETENTION.excess(jobs(&many)).len(), 9, "one too large for all together");
    }

    #[test]
    fn what_stays_is_within_bounds_and_nothing_more_is_forgotten() {
        let mut x = 1_u64;
        let mut random = |n: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) % n
        };
        for _ in 0..500 {
            let all: Vec<_> = (0..random(20)).map(|id| (id, random(4) as u32, random(60))).collect();
            let excess = RETENTION.excess(jobs(&all));
            let stay: Vec<_> = all.iter().filter(|job| !excess.contains(&job.0)).collect();
            let bytes: u64 = stay.iter().map(|job| job.2).sum();
            assert!(RETENTION.total.holds(stay.len(), bytes), "{all:?}");
            for user in 0..4 {
                let of_user: Vec<_> = stay.iter().filter(|job| job.1 == user).collect();
                let bytes = of_user.iter().map(|job| job.2).sum();
                assert!(of_user.len() <= 1 || RETENTION.per_user.holds(of_user.len(), bytes), "{all:?}");
                let newest_gone =
                    all.iter().filter(|job| job.1 == user && excess.contains(&job.0)).map(|job| job.0).max();
                let oldest_left = of_user.iter().map(|job| job.0).min();
                assert!(newest_gone.zip(oldest_left).is_none_or(|(gone, left)| gone < left), "the oldest go first");
            }
        }
    }
}
