//! Answer of `find.run`.

use serde::{Deserialize, Serialize};

/// A found file, sent as progress.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct File {
    /// Path below the mount point.
    pub path: String,
    pub bytes: u64,
    pub uid: u32,
    /// Time of the last use, in seconds since 1970.
    pub used_s: u64,
}

/// Sums of a search.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Search {
    pub files: u64,
    pub bytes: u64,
    /// Names that could not be read.
    pub unread: u64,
}
