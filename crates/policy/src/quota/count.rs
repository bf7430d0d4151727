//! What is used: the count between two looks at all files, and what a look says of it.
//!
//! ```text
//! look      begins |--- a file is met, or not any more, or not yet ---| ends: `found`
//! changes              grown by g, shrunk by s, of files met before and of files met after
//! ```
//! Of what grew during the look each byte is in `found` or is not, and so of what shrank. So what is used in the end lies
//! between `found - s` and `found + g`. A count that lies there is believed; one that does not is brought to the nearest
//! end. A look during which nothing changed is exact.

/// A look at all files, as far as one subject goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// What was met.
    pub found: u64,
    /// What was added while it went on.
    pub grown: u64,
    /// What went while it went on.
    pub shrunk: u64,
}

/// What is used after a look, where `counted` says how much it is if the count is right; `None` where nothing was counted
/// from the beginning.
pub fn corrected(counted: Option<u64>, look: Look) -> u64 {
    let Look { found, grown, shrunk } = look;
    counted.unwrap_or(found).clamp(found.saturating_sub(shrunk), found.saturating_add(grown))
}

/// How much one of `nodes` that count apart may add before all of them have said what they added: what is left, divided by
/// all, and one part that stays for whoever is not known of yet.
pub fn part(left: u64, nodes: u64) -> u64 {
    left / nodes.saturating_add(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_look_at_what_stands_still_is_exact() {
        let look = |found| Look { found, ..Look::default() };
        assert_eq!(corrected(None, look(7)), 7);
        assert_eq!(corrected(Some(9), look(7)), 7, "the count was wrong");
        assert_eq!(corrected(Some(9), Look { found: 7, grown: 2, shrunk: 0 }), 9, "two came after they were met");
        assert_eq!(corrected(Some(4), Look { found: 7, grown: 2, shrunk: 1 }), 6);
    }

    proptest! {
        /// Files change in any order before and after each is met. A right count stays right; any other is off by no more than
        /// what changed.
        /// [S-308]
        #[test]
        fn a_right_count_stays_right_and_a_wrong_one_comes_near(
            files in prop::collection::vec(0u64..100, 1..8),
            steps in prop::collection::vec((0usize..8, 0u64..100, any::<bool>()), 0..40),
            wrong in prop::option::of(0u64..2000),
        ) {
            let mut sizes = files.clone();
            let mut look = Look::default();
            let mut met = 0;
            for (file, size, meets) in steps {
                if meets && met < sizes.len() {
                    look.found += sizes[met];
                    met += 1;
                }
                let file = file % sizes.len();
                look.grown += size.saturating_sub(sizes[file]);
                look.shrunk += sizes[file].saturating_sub(size);
                sizes[file] = size;
            }
            look.found += sizes[met..].iter().sum::<u64>();
            let truth = sizes.iter().sum::<u64>();
            prop_assert_eq!(corrected(Some(truth), look), truth);
            prop_assert!(corrected(wrong, look).abs_diff(truth) <= look.grown + look.shrunk);
        }

        /// Whatever nodes add of their parts, what was left is enough.
        #[test]
        fn parts_are_never_more_than_what_is_left(left in 0u64..10_000, nodes in 0u64..70) {
            prop_assert!(part(left, nodes) * nodes <= left);
        }
    }
}
