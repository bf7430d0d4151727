//! Answer of `space.get`.

use crate::control::SpaceBy;
use serde::{Deserialize, Serialize};

/// Space of files, by a key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Space {
    pub by: SpaceBy,
    /// Largest first; ages in order, the longest first.
    pub rows: Vec<SpaceRow>,
    /// Names that could not be read.
    pub unread: u64,
}

/// Files with one key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpaceRow {
    /// Name of the user, the span of ages, or the directory.
    pub name: String,
    /// User id, in sums by user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    #[serde(flatten)]
    pub sum: Sum,
}

/// Sums over some files, ordered by bytes on targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Sum {
    /// Bytes on targets, in all mirrors; bytes in stubs do not count.
    #[serde(rename = "on_targets_bytes")]
    pub on_targets: u64,
    /// Sum of the file sizes.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
}

impl Sum {
    /// Sums of one file; `mirrors` is 0 if it lies in its stub.
    pub fn of(bytes: u64, mirrors: u64) -> Sum {
        Sum { on_targets: bytes.saturating_mul(mirrors), bytes, files: 1 }
    }

    /// Adds another sum.
    pub fn add(&mut self, other: Sum) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.on_targets = self.on_targets.saturating_add(other.on_targets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_with_its_size_and_each_of_its_mirrors() {
        let (mut sum, in_stub) = (Sum::of(100, 2), Sum::of(70, 0));
        assert!(in_stub < sum);
        sum.add(in_stub);
        assert_eq!(serde_json::json!(sum), serde_json::json!({"files": 2, "bytes": 170, "on_targets_bytes": 200}));
        sum.add(Sum::of(u64::MAX, 3));
        assert_eq!((sum.files, sum.bytes, sum.on_targets), (3, u64::MAX, u64::MAX), "a size may be any");
    }
}
