//! Usage: the count between two scans of all files, and its correction by a scan.
//!
//! ```text
//! scan      begins |--- a file is scanned, or gone, or still to come ---| ends: `found`
//! changes              grown by g, shrunk by s, of files scanned before and of files scanned after
//! ```
//! Each byte of growth during the scan is in `found` or is not; likewise each byte of shrinkage. A file that gets
//! another name counts as both, since the scan may see it twice, or never. So the final usage lies between `found - s`
//! and `found + g`. A count in this range is kept; another count is set to the nearest end. A scan without concurrent
//! changes is exact.

use crate::time::Time;

/// Result of a scan for one subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanResult {
    /// Usage that the scan found.
    pub found: u64,
    /// Growth during the scan.
    pub grown: u64,
    /// Shrinkage during the scan.
    pub shrunk: u64,
}

/// Returns the usage after a scan. `counted` is the running count; `None` if counting has not begun.
pub fn corrected(counted: Option<u64>, look: ScanResult) -> u64 {
    let ScanResult { found, grown, shrunk } = look;
    counted.unwrap_or(found).clamp(found.saturating_sub(shrunk), found.saturating_add(grown))
}

/// Returns the rest of a scan after it worked for that long. A scan loads the names' file system less than an ordinary
/// user, unless a limit waits for its result.
pub fn rest(worked: Time, is_awaited: bool) -> Time {
    if is_awaited { Time::ZERO } else { worked }
}

/// Whether a running scan ends for a new limit that it does not count for. A scan that other limits wait for goes on.
pub fn yields(is_awaited: bool, has_new: bool) -> bool {
    has_new && !is_awaited
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_look_at_what_stands_still_is_exact() {
        let look = |found| ScanResult { found, ..ScanResult::default() };
        assert_eq!(corrected(None, look(7)), 7);
        assert_eq!(corrected(Some(9), look(7)), 7, "the count was wrong");
        assert_eq!(corrected(Some(9), ScanResult { found: 7, grown: 2, shrunk: 0 }), 9, "two came after they were met");
        assert_eq!(corrected(Some(4), ScanResult { found: 7, grown: 2, shrunk: 1 }), 6);
    }

    /// [S-413]
    #[test]
    fn a_scan_that_a_limit_waits_for_does_not_rest_and_others_yield_to_it() {
        let worked = Time::from_secs(10);
        assert_eq!((rest(worked, false), rest(worked, true)), (worked, Time::ZERO));
        assert!(yields(false, true) && !yields(true, true) && !yields(false, false));
    }

    proptest! {
        /// Files change, and move to places that were scanned or will be, in any order before and after each is
        /// scanned. A right count stays right; a wrong one is off by at most the changes.
        /// [S-308]
        #[test]
        fn a_right_count_stays_right_and_a_wrong_one_comes_near(
            files in prop::collection::vec(0u64..100, 1..8),
            steps in prop::collection::vec((0usize..8, 0u64..100, 0..3), 0..40),
            wrong in prop::option::of(0u64..2000),
        ) {
            let mut sizes = files.clone();
            let mut awaits = vec![true; files.len()];
            let mut look = ScanResult::default();
            for (file, size, step) in steps {
                let file = file % sizes.len();
                match step {
                    0 if awaits[file] => {
                        look.found += sizes[file];
                        awaits[file] = false;
                    }
                    1 => {
                        look.grown += sizes[file];
                        look.shrunk += sizes[file];
                        awaits[file] = !awaits[file];
                    }
                    _ => {
                        look.grown += size.saturating_sub(sizes[file]);
                        look.shrunk += sizes[file].saturating_sub(size);
                        sizes[file] = size;
                    }
                }
            }
            look.found += sizes.iter().zip(awaits).filter(|(_, awaits)| *awaits).map(|(size, _)| size).sum::<u64>();
            let truth = sizes.iter().sum::<u64>();
            prop_assert_eq!(corrected(Some(truth), look), truth);
            prop_assert!(corrected(wrong, look).abs_diff(truth) <= look.grown + look.shrunk);
        }
    }
}
