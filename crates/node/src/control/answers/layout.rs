//! Answers of `layout.get` and `layout.explain`.

use serde::{Deserialize, Serialize};

/// Layout of one file. A file in its stub has neither mirrors nor a history.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Layout {
    pub path: String,
    pub size: u64,
    pub inline: bool,
    pub mirrors: Vec<Mirror>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Change>>,
}

/// A complete copy.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Mirror {
    /// `in_sync` or `stale`.
    pub state: String,
    pub segments: Vec<Segment>,
    /// Number of segments, where the list may have been cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments_count: Option<usize>,
}

/// A range of a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Segment {
    pub start: u64,
    /// End of the range; `None`: it grows with the file.
    pub end: Option<u64>,
    pub stripe_size: u64,
    pub objects: Vec<Object>,
    /// Number of objects, where the list may have been cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects_count: Option<usize>,
}

/// An object on a target.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Object {
    pub target: String,
    pub target_state: String,
    pub object: String,
    /// `complete` or `partial`.
    pub state: String,
    pub merged: Option<Merged>,
}

/// Place of a file in an object that several files share.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Merged {
    pub slot: u16,
    pub of: u16,
    pub unit: u64,
    /// Number of files that use the object now.
    pub names: Option<u64>,
}

/// A change of the layout.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Change {
    pub at_ms: u64,
    pub why: String,
}

/// Accesses within the window to the segments of a mirror.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Heat {
    /// Index of the mirror that is read.
    pub mirror: usize,
    pub segments: Vec<SegmentHeat>,
}

/// Accesses to a segment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SegmentHeat {
    pub reads: u32,
    pub writes: u32,
    pub tier: String,
    pub moving: bool,
}

/// Sentences about a file, its layout and the reasons.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Explanation {
    pub path: String,
    pub sentences: Vec<String>,
}
