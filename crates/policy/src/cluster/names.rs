//! Names that other nodes replace: retries of a lookup. A shared file system may report a name as absent while another
//! node renames a file over it.

use crate::time::Time;

/// Age up to which a name counts as known after it was found. A guess: longer than any rename takes.
pub const KNOWN_MAX: Time = Time::from_secs(2);

/// Pauses in milliseconds before the retries of a lookup: 350 ms in all. A rename in GlusterFS takes 10 ms. On a loaded
/// machine 150 ms were too short in 2 of 500 cases.
const PAUSES_MS: [u64; 5] = [5, 15, 40, 90, 200];

/// Failed lookup of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// The name is absent.
    Absent {
        /// Time since this node saw it.
        seen: Option<Time>,
    },
    /// The file behind it was replaced during the lookup.
    Stale,
}

/// Returns the pause before the next lookup after `tries` retries; `None`: the result is final.
pub fn pause(tries: usize, miss: Miss) -> Option<Time> {
    let may_be_there = match miss {
        Miss::Absent { seen } => seen.is_some_and(|age| age <= KNOWN_MAX),
        Miss::Stale => true,
    };
    PAUSES_MS.get(tries).filter(|_| may_be_there).map(|ms| Time::from_millis(*ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [S-410]
    #[test]
    fn only_a_name_that_was_there_is_looked_up_again_and_only_for_a_moment() {
        assert_eq!(pause(0, Miss::Absent { seen: None }), None, "a name that was never there costs nothing");
        assert_eq!(pause(0, Miss::Absent { seen: Some(Time::from_secs(3)) }), None);
        for miss in [Miss::Absent { seen: Some(KNOWN_MAX) }, Miss::Stale] {
            let pauses: Vec<Time> = (0..).map_while(|tries| pause(tries, miss)).collect();
            assert!(pauses.is_sorted() && pauses.len() == 5);
            assert!(pauses.iter().map(|pause| pause.0).sum::<u64>() <= Time::from_millis(400).0);
        }
    }
}
