//! Sums over the files that a search found.

use super::answers::File;
use serde::{Deserialize, Serialize};

/// Sums over some files, ordered by bytes on targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// Sums of one file, from the answer of [`super::Find`] with `with_mirrors`.
    pub fn of(file: &File) -> Sum {
        let bytes = file.bytes;
        Sum { on_targets: bytes.saturating_mul(file.mirrors.unwrap_or(0)), bytes, files: 1 }
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
        let of = |bytes, mirrors| Sum::of(&File { bytes, mirrors: Some(mirrors), ..File::default() });
        let (mut sum, in_its_stub) = (of(100, 2), of(70, 0));
        assert!(in_its_stub < sum);
        sum.add(in_its_stub);
        assert_eq!(serde_json::json!(sum), serde_json::json!({"files": 2, "bytes": 170, "on_targets_bytes": 200}));
        sum.add(of(u64::MAX, 3));
        assert_eq!((sum.files, sum.bytes, sum.on_targets), (3, u64::MAX, u64::MAX), "a size may be any");
    }
}
