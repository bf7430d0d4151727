//! Sums over all quotas of a volume, for monitoring and without names.

use crate::control::answers::QuotaCounts;
use policy::quota::{Both, Limit, Resource};

/// Numbers of subjects with limits by state, and the largest usage.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub subjects: QuotaCounts,
    /// Largest used share of a limit: of the hard limit, or of the soft one where there is no hard one.
    pub fullest: Both<f64>,
}

impl Counts {
    /// Adds a subject with these limits and this usage.
    pub fn add(&mut self, limits: Both<Limit>, used: Both<u64>) {
        let is_full = |resource| limits.of(resource).hard.is_some_and(|hard| *used.of(resource) >= hard);
        self.subjects.full += usize::from(Resource::ALL.into_iter().any(is_full));
        let most = |resource| {
            let Limit { soft, hard } = *limits.of(resource);
            let share = hard.or(soft).map_or(0.0, |limit| *used.of(resource) as f64 / limit.max(1) as f64);
            self.fullest.of(resource).max(share)
        };
        self.fullest = Both::each(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both<T>(bytes: T, files: T) -> Both<T> {
        Both { bytes, files }
    }

    #[test]
    fn one_that_is_full_in_any_way_counts_once_and_the_fullest_is_of_its_hard_limit() {
        let limit = |soft, hard| Limit { soft, hard };
        let mut counts = Counts::default();
        counts.add(both(limit(Some(50), Some(100)), limit(None, None)), both(60, 7));
        assert_eq!((counts.subjects.full, counts.fullest), (0, both(0.6, 0.0)));
        counts.add(both(limit(Some(100), None), limit(None, Some(4))), both(90, 2));
        assert_eq!((counts.subjects.full, counts.fullest), (0, both(0.9, 0.5)));
        counts.add(both(limit(None, Some(10)), limit(None, Some(8))), both(10, 12));
        assert_eq!(
            (counts.subjects.full, counts.fullest),
            (1, both(1.0, 1.5)),
            "what was there before a limit may be more"
        );
        counts.add(both(limit(None, Some(0)), limit(None, None)), both(0, 0));
        assert_eq!((counts.subjects.full, counts.fullest), (2, both(1.0, 1.5)), "whoever may have nothing is full");
    }
}
