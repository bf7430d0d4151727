//! Identity of a volume, as recorded by its targets, its state and its namespace, and other unique names.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt;

/// The identity of a volume: random, made when it is formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VolumeId(pub u128);

impl VolumeId {
    /// Returns an identity that no other volume has.
    pub fn random() -> Result<VolumeId, Errno> {
        let mut bytes = [0; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
        }
        Ok(VolumeId(u128::from_be_bytes(bytes)))
    }
}

/// Returns a unique name.
pub fn unique() -> Result<String, Errno> {
    VolumeId::random().map(|id| id.to_string())
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
