//! SARC's replacement: a sequential and a random list whose sizes follow their marginal utilities.

/// Parameters of the two lists (section 3.5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoLists {
    /// The bottom of a list, as a fraction of the cache: hits there are what the adaptation sees (A-06: 0.02, a choice).
    pub bottom_fraction: f64,
    /// A hit in the sequential bottom at a ratio above this makes the sequential list grow at full speed.
    pub large_ratio: f64,
}

impl Default for TwoLists {
    fn default() -> TwoLists {
        TwoLists { bottom_fraction: 0.02, large_ratio: 20.0 }
    }
}
