//! Numbers of targets, objects and files. All are opaque to the policies.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// Number of a target: one directory on one device or file system. It is part of the on-disk format and is never given
/// to another target of the same volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub u16);

/// Number of an object: one plain file on a target. Unique in the volume and never reused: the upper 32 bits are the
/// epoch (one per start of the daemon), the lower 32 a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u64);

/// Number of a file with a layout. It shares the number space of objects, so it is unique in the volume and never
/// reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

impl ObjectId {
    /// Upper half of the number: the daemon start that allocated it.
    pub fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Text form of these numbers: 16 hexadecimal digits.
macro_rules! hexadecimal {
    ($($id:ident)+) => {
        $(impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}", self.0)
            }
        }

        impl FromStr for $id {
            type Err = ParseIntError;
            fn from_str(digits: &str) -> Result<$id, ParseIntError> {
                u64::from_str_radix(digits, 16).map($id)
            }
        })+
    };
}
hexadecimal! { ObjectId FileId }
