//! Ownership: which mechanism decides how a file lies, where several have a claim on it.
//!
//! The one table of it. The first row that decides the aspect and has a claim on the file wins; the others leave the
//! file as it is:
//!
//! ```text
//!              where its   its width and
//!              segments    its further    has a claim on
//!              lie         mirrors
//!   Burst         x            x          files of checkpoints, on their way or complete
//!   Repair                     x          files of which a mirror is stale or an object is being recovered
//!   Replicas                   x          files that have, or are to have, a mirror for the time of a job
//!   User                       x          files whose layout somebody asked for, or that share objects with others
//!   Tiers         x            x          files with segments that can be moved between two tiers
//!   Stripes                    x          all others
//! ```
//! A segment is moved between tiers also while its file is repaired or replicated: its mirror stays as it is.

/// A mechanism that decides how files lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// The burst buffer.
    Burst,
    /// Failover, recovery and bringing up to date.
    Repair,
    /// Temporal replication of jobs' input.
    Replicas,
    /// A user or the operator.
    User,
    /// Working-set reorganisation.
    Tiers,
    /// Adaptive striping and forks.
    Stripes,
}

/// What of a file is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// On which tier its segments lie.
    Tier,
    /// How wide it is striped, and which further mirrors it has.
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

/// The mechanism that decides an aspect of a file, given which have a claim on it. Asks no further than it must.
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
