//! Results of operations and publications of a node, by its lease afterwards.
//!
//! A node acknowledges a write only if its lease held until after it. The record of a generation is created once; a node
//! whose answer got lost finds out whether the record there is its own.

use super::Standing;

/// Outcome of a finished write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The write may be acknowledged.
    Acknowledge,
    /// The lease may still be renewed: check again.
    Wait,
    /// The write must be repeated from the start.
    Again,
}

/// An operation has ended; `lowered`: the hold under which it began has lost its rights since.
pub fn written(standing: Standing, lowered: bool) -> Written {
    match standing {
        _ if lowered => Written::Again,
        Standing::Held => Written::Acknowledge,
        Standing::Lapsed => Written::Wait,
        Standing::Lost => Written::Again,
    }
}

/// The answer to the create of a layout record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// This call created the record.
    Yes,
    /// The record exists.
    Exists {
        /// Whether the record is this very one, from an earlier try.
        mine: bool,
    },
}

/// Outcome of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// The new layout is published, so objects that only older layouts name may be removed.
    Happened,
    /// Another layout is published, so objects that this change made may be removed.
    Not,
    /// The lease may still be renewed: check again.
    Wait,
    /// The outcome is unknown: old and new objects stay, until a check of the volume.
    Unknown,
}

/// Outcome for a changer that has requested the create of its layout record, and looked at its lease since then. After
/// a lost lease even a record of another node proves nothing. Its own, from a try without an answer, may have come and
/// gone before.
pub fn published(created: Created, standing: Standing) -> Published {
    match (standing, created) {
        (Standing::Lapsed, _) => Published::Wait,
        (Standing::Lost, _) => Published::Unknown,
        (Standing::Held, Created::Exists { mine: false }) => Published::Not,
        (Standing::Held, _) => Published::Happened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lease_that_holds_acknowledges() {
        assert_eq!(written(Standing::Held, false), Written::Acknowledge);
        assert_eq!(written(Standing::Lapsed, false), Written::Wait);
        assert_eq!(written(Standing::Lost, false), Written::Again);
        assert_eq!(written(Standing::Held, true), Written::Again);
    }

    #[test]
    fn a_lease_that_holds_after_a_publication_tells_what_became_of_it() {
        let (not, mine) = (Created::Exists { mine: false }, Created::Exists { mine: true });
        for created in [Created::Yes, mine, not] {
            let happened = if created == not { Published::Not } else { Published::Happened };
            assert_eq!(published(created, Standing::Held), happened);
            assert_eq!(published(created, Standing::Lapsed), Published::Wait);
            assert_eq!(published(created, Standing::Lost), Published::Unknown);
        }
    }
}
