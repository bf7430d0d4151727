//! Describes a window of requests by seven numbers from 0 to 1.

use super::Request;
use std::collections::BTreeMap;

/// Number of requests of a full window.
pub const WINDOW: usize = 64;
/// Smallest window that allows a statement.
pub const WINDOW_MIN: usize = 8;
/// Number of features.
pub const FEATURES: usize = 7;

/// Features in this order: share of reads; share that begin at the end of the last; share of the most common step
/// between starts; share of the most common size; distinct sizes and distinct steps as shares of the window; share that
/// go forward.
pub type Features = [f64; FEATURES];

/// Returns the share of the most common item, and the number of different ones as a share.
fn common<T: Ord>(all: impl Iterator<Item = T>) -> (f64, f64) {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    let mut n = 0usize;
    for one in all {
        *counts.entry(one).or_default() += 1;
        n += 1;
    }
    let most = counts.values().copied().max().unwrap_or(0);
    (most as f64 / n.max(1) as f64, (counts.len().saturating_sub(1)) as f64 / n.saturating_sub(1).max(1) as f64)
}

/// Returns the features of a window, oldest request first; `None` for fewer than [`WINDOW_MIN`].
pub fn features(window: &[Request]) -> Option<Features> {
    if window.len() < WINDOW_MIN {
        return None;
    }
    let n = window.len() as f64;
    let pairs = || window.windows(2).map(|pair| (pair[0], pair[1]));
    let of_pairs =
        |holds: fn(Request, Request) -> bool| pairs().filter(|(a, b)| holds(*a, *b)).count() as f64 / (n - 1.0);
    let (same_size, sizes) = common(window.iter().map(|request| request.len));
    let (same_step, steps) = common(pairs().map(|(a, b)| i128::from(b.offset) - i128::from(a.offset)));
    Some([
        window.iter().filter(|request| !request.write).count() as f64 / n,
        of_pairs(|a, b| a.offset.saturating_add(a.len) == b.offset),
        same_step,
        same_size,
        sizes,
        steps,
        of_pairs(|a, b| b.offset > a.offset),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequential_window_and_a_strided_one() {
        let at = |offset, len| Request { write: false, offset, len };
        let sequential: Vec<_> = (0..10).map(|n| at(n * 4096, 4096)).collect();
        assert_eq!(features(&sequential), Some([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0]));
        let strided: Vec<_> = (0..10).map(|n| at(n * 100_000, 4096)).collect();
        assert_eq!(features(&strided), Some([1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0]));
        let written: Vec<_> = (0..10).map(|n| Request { write: n < 5, ..at(n * n * 8192, 512 * (n + 1)) }).collect();
        let [reads, sequential, step, size, sizes, steps, forward] = features(&written).unwrap();
        assert_eq!((reads, sequential, forward, sizes, steps), (0.5, 0.0, 1.0, 1.0, 1.0));
        assert!(step < 0.2 && size < 0.2);
        assert_eq!(features(&strided[..7]), None);
    }
}
