//! Ownership: choice of the mechanism that decides on a file's layout, if several have a claim.
//!
//! The only table of claims. The first row that decides the aspect and has a claim on the file wins; the other
//! mechanisms leave the file unchanged:
//!
//! ```text
//!              where its   its width and
//!              segments    its further    has a claim on
//!              lie         mirrors
//!   Burst         x            x          files of checkpoints, running or complete
//!   Repair                     x          files with a stale mirror or an object under recovery
//!   Replicas                   x          files that have, or are to have, a mirror for the time of a job
//!   User                       x          files with a layout that a user set, or with shared objects
//!   Tiers         x            x          files with segments that can be moved between two tiers
//!   Stripes                    x          all others
//! ```
//! Segments move between tiers also while their file is repaired or replicated: the mirror stays as it is.

use crate::named;

named! {
    /// A mechanism that decides on layouts.
    #[derive(PartialOrd, Ord, Hash)]
    Mechanism {
        /// The shared burst buffer.
        Burst = "burst",
        /// Failover, recovery and resync.
        Repair = "repair",
        /// Temporal replication of jobs' input.
        Replicas = "replication",
        /// A user or the operator.
        User = "user",
        /// Working-set reorganisation between tiers.
        Tiers = "tiering",
        /// Adaptive striping and forks.
        Stripes = "stripes",
    }
}

/// An aspect of a file's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// Tier of its segments.
    Tier,
    /// Width of its striping, and its further mirrors.
    Shape,
}

const TABLE: [(Mechanism, &[Aspect]); 6] = [
    (Mechanism::Burst, &[Aspect::Tier, Aspect::Shape]),
    (Mechanism::Repair, &[Aspect::Shape]),
    (Mechanism::Replicas, &[Aspect::Shape]),
    (Mechanism::User, &[Aspect::Shape]),
    (Mechanism::Tiers, &[Aspect::Tier, Aspect::Shape]),
    (Mechanism::Stripes, &[Aspect::Shape]),
];

/// Returns the mechanism that decides an aspect of a file, given the claims on it. Evaluates no more claims than
/// needed.
pub fn owner(aspect: Aspect, has_claim: impl Fn(Mechanism) -> bool) -> Option<Mechanism> {
    let mut rows = TABLE.iter().filter(|(_, aspects)| aspects.contains(&aspect));
    rows.find(|(mechanism, _)| has_claim(*mechanism)).map(|(mechanism, _)| *mechanism)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mechanism::*;

    fn of(aspect: Aspect, claims: &[Mechanism]) -> Option<Mechanism> {
        owner(aspect, |mechanism| claims.contains(&mechanism))
    }

    #[test]
    fn a_checkpoint_is_the_burst_buffers_whatever_else_it_is() {
        let all = [Stripes, Tiers, Replicas, User, Repair, Burst];
        assert_eq!((of(Aspect::Tier, &all), of(Aspect::Shape, &all)), (Some(Burst), Some(Burst)));
    }

    #[test]
    fn segments_move_whatever_is_asked_of_the_shape_and_the_shape_waits_for_all_others() {
        for first in [Repair, User, Replicas] {
            let claims = [first, Tiers, Stripes];
            assert_eq!((of(Aspect::Tier, &claims), of(Aspect::Shape, &claims)), (Some(Tiers), Some(first)));
        }
        assert_eq!(of(Aspect::Shape, &[Tiers, Stripes]), Some(Tiers));
        assert_eq!((of(Aspect::Tier, &[Stripes]), of(Aspect::Shape, &[Stripes])), (None, Some(Stripes)));
    }

    #[test]
    fn it_asks_no_further_than_it_must() {
        let asked = std::cell::RefCell::new(Vec::new());
        let has = |mechanism| {
            asked.borrow_mut().push(mechanism);
            mechanism == User
        };
        assert_eq!(owner(Aspect::Shape, has), Some(User));
        assert_eq!(*asked.borrow(), [Burst, Repair, Replicas, User]);
    }
}
