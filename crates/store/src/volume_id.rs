//! The identity of a volume, as its targets, its state and its namespace carry it.

use std::fmt;

/// The identity of a volume: random, made when it is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VolumeId(pub u128);

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
