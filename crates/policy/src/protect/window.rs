//! The replication window `w`: number of jobs at the head of the queue whose input should have a replica.
//!
//! ```text
//!   nodes of the waiting jobs, in the order in which they will be dispatched
//!   |-- 64 --|---- 128 ----|-------- 256 --------|---------------- 512 ----------------|- 32 -|
//!                                 ^ max(R, alpha S) lies here: w = 3
//! ```
//! `w` is the smallest number of jobs whose nodes sum up to *more* than `max(R, alpha * S)`. `R` is the size of the
//! largest running job, since its end may free as many nodes at once; `S` is the whole system. If the whole queue does
//! not reach this sum, all of it is the window. `alpha` is the eagerness of replication; infinite replicates the input
//! of all waiting jobs.
//!
//! Shares are computed in whole millionths, so that "more than" is exact.
//!
//! Source: Zhang, section 4.5.2; the reference, section 6.7 (the strict sum and the length of the prefix are its
//! reading A-16 of a damaged formula).

use std::fmt;
use std::str::FromStr;

/// A factor of the system's size: `alpha` and the shortcut's `T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u64);

/// Error for text that is no [`Share`].
const NO_SHARE: &str = "not a number from 0 with at most six digits behind the point, nor `inf`";

const ONE: u64 = 1_000_000;

impl Share {
    /// The share zero.
    pub const ZERO: Share = Share(0);
    /// The whole system.
    pub const ONE: Share = Share(ONE);
    /// More than any queue can hold.
    pub const INFINITE: Share = Share(u64::MAX);

    /// Makes a share of `n` millionths.
    pub const fn millionths(n: u64) -> Share {
        Share(n)
    }

    /// Whether it exceeds any number of nodes.
    pub fn is_infinite(self) -> bool {
        self == Share::INFINITE
    }

    /// Returns this share of `nodes`, in millionths of a node.
    fn of(self, nodes: u32) -> u128 {
        if self.is_infinite() { u128::MAX } else { u128::from(self.0) * u128::from(nodes) }
    }
}

impl FromStr for Share {
    type Err = &'static str;

    /// Parses `0.2`, `2`, `inf`; at most six digits after the point.
    fn from_str(text: &str) -> Result<Share, &'static str> {
        if text.eq_ignore_ascii_case("inf") {
            return Ok(Share::INFINITE);
        }
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(part) || part.len() > 6 || whole.len() + part.len() == 0 {
            return Err(NO_SHARE);
        }
        let number = |s: &str| if s.is_empty() { Ok(0) } else { s.parse::<u64>() };
        let (whole, part) =
            (number(whole).map_err(|_| NO_SHARE)?, number(&format!("{part:0<6}")).map_err(|_| NO_SHARE)?);
        let millionths = whole.checked_mul(ONE).and_then(|w| w.checked_add(part)).ok_or(NO_SHARE)?;
        if millionths == u64::MAX { Err(NO_SHARE) } else { Ok(Share(millionths)) }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_infinite() {
            return f.write_str("inf");
        }
        let part = format!("{:06}", self.0 % ONE);
        match part.trim_end_matches('0') {
            "" => write!(f, "{}", self.0 / ONE),
            part => write!(f, "{}.{part}", self.0 / ONE),
        }
    }
}

/// Limit that the sum of the window's nodes must exceed: `max(R, alpha * S)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach(u128);

impl Reach {
    /// Makes the limit from `R` and `S`, in the unit of the jobs' nodes. `R` is 0 if no job runs.
    pub fn new(largest_running: u32, system: u32, alpha: Share) -> Reach {
        Reach(Share::ONE.of(largest_running).max(alpha.of(system)))
    }

    /// Whether `nodes` nodes exceed the limit.
    pub fn exceeded_by(self, nodes: u64) -> bool {
        u128::from(nodes) * u128::from(ONE) > self.0
    }
}

/// Returns the length of the window, given the nodes of the waiting jobs in the expected order of their starts.
///
/// ```
/// use policy::protect::window::{Reach, window};
/// let reach = Reach::new(200, 1000, "0.5".parse().unwrap());
/// assert_eq!(window([64, 128, 256, 512, 32], reach), 4);
/// ```
pub fn window(queue: impl IntoIterator<Item = u32>, reach: Reach) -> usize {
    let (mut sum, mut length) = (0u64, 0);
    for nodes in queue {
        (sum, length) = (sum + u64::from(nodes), length + 1);
        if reach.exceeded_by(sum) {
            break;
        }
    }
    length
}

/// Whether a job is small enough to be replicated at once, at any place: it requests at most `T * S` nodes.
///
/// Backfilling starts such jobs out of their turn, where a window over the order of arrival misses them.
pub fn takes_shortcut(nodes: u32, system: u32, threshold: Share) -> bool {
    Share::ONE.of(nodes) <= threshold.of(system)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn share(text: &str) -> Share {
        text.parse().expect("a share")
    }

    #[test]
    fn the_reference_s_values() {
        let queue = [64, 128, 256, 512, 32];
        for (alpha, w) in [("0", 3), ("0.2", 3), ("0.5", 4), ("1", 5), ("2", 5), ("inf", 5)] {
            assert_eq!(window(queue, Reach::new(200, 1000, share(alpha))), w, "alpha {alpha}");
        }
        assert_eq!(window([100, 100], Reach::new(100, 1000, Share::ZERO)), 2, "the sum must be more, not as much");
        assert_eq!(window([7, 7], Reach::new(0, 1000, Share::ZERO)), 1, "an idle system");
        assert_eq!(window([], Reach::new(0, 1000, Share::INFINITE)), 0);
    }

    #[test]
    fn shortcuts_of_the_reference() {
        let taken = |t| [64, 128, 256, 512, 32].into_iter().filter(|n| takes_shortcut(*n, 1000, share(t))).collect();
        let (none, two): (Vec<u32>, Vec<u32>) = (taken("0.01"), taken("0.1"));
        assert_eq!((none, two), (vec![], vec![64, 32]));
        assert!(takes_shortcut(100, 1000, share("0.1")), "at most");
    }

    #[test]
    fn shares_read_and_write() {
        for text in ["0", "0.2", "0.01", "1", "2", "inf", "0.000001", "12.5"] {
            assert_eq!(share(text).to_string(), text);
        }
        assert_eq!(share(".5"), share("0.50"));
        assert_eq!(share("INF"), Share::INFINITE);
        for text in ["", ".", "-1", "1e3", "0.0000001", "a", "99999999999999999999", "1.2.3", "nan"] {
            assert_eq!(text.parse::<Share>(), Err(NO_SHARE), "{text}");
        }
    }

    proptest! {
        #[test]
        fn smallest_prefix_that_exceeds_and_monotone_in_alpha(
            queue in prop::collection::vec(1u32..500, 0..40),
            running in 0u32..600,
            (low, high) in (0u64..3_000_000, 0u64..3_000_000),
        ) {
            let (low, high) = (low.min(high), low.max(high));
            let w = |alpha| window(queue.iter().copied(), Reach::new(running, 1000, Share::millionths(alpha)));
            let goal = f64::from(running).max(low as f64 / 1000.0);
            let sum = |n: usize| queue[..n].iter().map(|n| f64::from(*n)).sum::<f64>();
            let length = w(low);
            prop_assert!(length == queue.len() || sum(length) > goal);
            prop_assert!(length == 0 || sum(length - 1) <= goal + 1e-9);
            prop_assert!(w(low) <= w(high) && w(high) <= queue.len());
        }
    }
}
