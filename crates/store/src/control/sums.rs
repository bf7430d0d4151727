//! Sums over the files that a search found.

use serde_json::{Value, json};

/// Sums over some files, ordered by bytes on targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sum {
    /// Bytes on targets, in all mirrors; bytes in stubs do not count.
    pub on_targets: u64,
    /// Sum of the file sizes.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
}

impl Sum {
    /// Sums of one file, from the answer of [`super::Find`] with `with_mirrors`.
    pub fn of(file: &Value) -> Sum {
        let number = |key: &str| file[key].as_u64().unwrap_or(0);
        let bytes = number("bytes");
        Sum { on_targets: bytes.saturating_mul(number("mirrors")), bytes, files: 1 }
    }

    /// Adds another sum.
    pub fn add(&mut self, other: Sum) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.on_targets = self.on_targets.saturating_add(other.on_targets);
    }

    /// JSON form for answers.
    pub fn shown(self) -> Value {
        json!({"files": self.files, "bytes": self.bytes, "on_targets_bytes": self.on_targets})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_with_its_size_and_each_of_its_mirrors() {
        let mut sum = Sum::of(&json!({"bytes": 100, "mirrors": 2}));
        let in_its_stub = Sum::of(&json!({"bytes": 70, "mirrors": 0}));
        assert!(in_its_stub < sum);
        sum.add(in_its_stub);
        assert_eq!(sum.shown(), json!({"files": 2, "bytes": 170, "on_targets_bytes": 200}));
        sum.add(Sum::of(&json!({"bytes": u64::MAX, "mirrors": 3})));
        assert_eq!((sum.files, sum.bytes, sum.on_targets), (3, u64::MAX, u64::MAX), "a size may be any");
    }
}
