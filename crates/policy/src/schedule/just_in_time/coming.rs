//! Bytes of a running transfer that have yet to arrive: arrived bytes count as used space, no longer as promised.
//!
//! ```text
//!   left
//!    |‾‾‾‾‾\                 what the transfer says
//!    |______\____            what is still promised: no less than was said at any time in the last [`SURE_AFTER`]
//!    |       \___\____
//!    '----------------> time
//! ```
//! It errs to the safe side. Bytes that a transfer reports as written may not be on the devices yet, so they count
//! some seconds later. A transfer without a report, or one that starts again, counts wholly and at once.

use crate::time::Time;

/// Delay after which written bytes are on the devices: a transfer syncs its data every second. A guess with a margin.
pub const SURE_AFTER: Time = Time(5_000_000_000);

/// One part of the data of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coming {
    promised: u64,
    left: u64,
    /// Time of the last decrease, and the most that was left since.
    less: Option<(Time, u64)>,
}

impl Coming {
    /// Starts with all promised bytes still to arrive.
    pub fn new(promised: u64) -> Coming {
        Coming { promised, left: promised, less: None }
    }

    /// Bytes promised at first.
    pub fn promised(&self) -> u64 {
        self.promised
    }

    /// Bytes still promised.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Records the bytes to come, as its transfer reports; `None` if unknown.
    pub fn told(&mut self, now: Time, left: Option<u64>) {
        let left = left.map_or(self.promised, |left| left.min(self.promised));
        if left >= self.left {
            (self.left, self.less) = (left, None);
            return;
        }
        let (since, most) = self.less.unwrap_or((now, 0));
        let most = most.max(left);
        if now.since(since) < SURE_AFTER {
            self.less = Some((since, most));
        } else {
            (self.left, self.less) = (most, (left < most).then_some((now, left)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn s(secs: u64) -> Time {
        Time::from_secs(secs)
    }

    #[test]
    fn what_landed_is_promised_no_more_some_seconds_later() {
        let mut coming = Coming::new(100);
        let mut told = |at, left| {
            coming.told(s(at), left);
            coming.left()
        };
        assert_eq!([told(0, None), told(1, Some(90)), told(3, Some(70)), told(5, Some(60))], [100; 4]);
        assert_eq!(told(6, Some(50)), 90, "which was so five seconds ago");
        assert_eq!([told(10, Some(20)), told(11, Some(10))], [90, 50]);
        assert_eq!(told(16, Some(0)), 10);
        assert_eq!([told(18, Some(80)), told(19, None)], [80, 100], "it begins anew, and nobody knows");
        assert_eq!(told(20, Some(1000)), 100, "no more than was promised");
    }

    proptest! {
        /// Compares the promise with all earlier reports.
        #[test]
        fn no_less_is_promised_than_was_left_at_any_time_in_the_last_seconds(
            steps in prop::collection::vec((0u64..4, prop::option::of(0u64..120)), 1..100)
        ) {
            let (mut coming, mut now, mut said) = (Coming::new(100), 0, vec![(0, 100)]);
            for (later, left) in steps {
                now += later;
                coming.told(s(now), left);
                said.push((now, left.map_or(100, |left| left.min(100))));
                // The last report before those seconds was valid in them, too.
                let first = said.iter().rposition(|(at, _)| at + 5 <= now).unwrap_or(0);
                let most = said[first..].iter().map(|(_, left)| *left).max().unwrap_or(100);
                prop_assert!(coming.left() >= most && coming.left() <= 100, "{} {most} {said:?}", coming.left());
            }
        }
    }
}
